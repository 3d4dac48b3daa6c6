"""The edits a model asks for, as edits of files: exact text or lines replaced, against the revision it has read.

All edits of one file are about the text as it was read, so their order does not matter and they may not overlap.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aish.errors import ToolError
from aish.tools.ide.edits.port import FileEdit
from aish.tools.ide.source import Source
from aish.tools.workspace import Workspace
from aish.types.tools import ResultStatus

NEW = "new"
_SHORTEST_REVISION = 8
_SHOWN_CHARS = 80

Span = tuple[int, int, str]
Load = Callable[[str], Awaitable[Source]]


async def model_edits(space: Workspace, load: Load, edits: Sequence[Mapping[str, Any]]) -> list[FileEdit]:
    """Raises ToolError that says what to do instead."""
    by_path: dict[str, list[Mapping[str, Any]]] = {}
    for edit in edits:
        by_path.setdefault(space.relative(str(edit["path"])), []).append(edit)
    return [await _file_edit(load, path, group) for path, group in by_path.items()]


async def _file_edit(load: Load, path: str, edits: Sequence[Mapping[str, Any]]) -> FileEdit:
    if any(edit["revision"] == NEW for edit in edits):
        if len(edits) > 1:
            raise _wrong(f"a new file is one edit, and {path} has {len(edits)}")
        return FileEdit(path, None, str(edits[0]["new"]).encode())
    source = await load(path)
    for edit in edits:
        _check_revision(source, str(edit["revision"]))
    spans = sorted(_span(source, edit) for edit in edits)
    return FileEdit(source.path, source.hash, source.encoded(_replaced(source, spans)))


def _check_revision(source: Source, revision: str) -> None:
    if len(revision) >= _SHORTEST_REVISION and source.hash.startswith(revision.lower()):
        return
    text = f"{source.path} is at revision {source.revision}, not {revision}: it changed since; read it again"
    raise ToolError(text, status=ResultStatus.FAILED)


def _span(source: Source, edit: Mapping[str, Any]) -> Span:
    new = str(edit["new"])
    if "start_line" in edit:
        return _line_span(source, int(edit["start_line"]), int(edit.get("end_line", edit["start_line"])), new)
    old = str(edit.get("old", ""))
    if not old:
        raise _wrong(f"an edit of {source.path} names neither `old` text nor `start_line`")
    return _text_span(source, old, new, edit.get("line"))


def _line_span(source: Source, start: int, end: int, new: str) -> Span:
    count = len(source.lines)
    if not 1 <= start <= end <= max(count, 1):
        raise _wrong(f"{source.path} has lines 1 to {count}, not {start} to {end}")
    before = sum(map(len, source.lines[: start - 1]))
    replaced = "".join(source.lines[start - 1 : end])
    # The last line keeps its end, also where the model left it out.
    if new and not new.endswith("\n") and replaced.endswith(("\n", "\r")):
        new += "\n"
    return before, before + len(replaced), _with_ends(source, new)


def _text_span(source: Source, old: str, new: str, line: object) -> Span:
    """A model writes `\\n`; the file may end its lines otherwise."""
    old = old if old in source.text else _with_ends(source, old)
    found = _occurrences(source.text, old)
    if not found:
        raise _wrong(f"{source.path} does not hold '{old[:_SHOWN_CHARS]}'; copy the text exactly, without line numbers")
    if len(found) > 1:
        if not isinstance(line, int):
            raise _wrong(f"{source.path} holds '{old[:_SHOWN_CHARS]}' {len(found)} times; give more of it, or `line`")
        at = sum(map(len, source.lines[: line - 1]))
        found.sort(key=lambda start: abs(start - at))
    return found[0], found[0] + len(old), _with_ends(source, new)


def _occurrences(text: str, old: str) -> list[int]:
    found: list[int] = []
    at = text.find(old)
    while at >= 0 and len(found) < 1000:
        found.append(at)
        at = text.find(old, at + 1)
    return found


def _replaced(source: Source, spans: Sequence[Span]) -> str:
    pieces, at = [], 0
    for start, end, new in spans:
        if start < at:
            raise _wrong(f"two edits of {source.path} overlap; make one of them")
        pieces += [source.text[at:start], new]
        at = end
    return "".join([*pieces, source.text[at:]])


def _with_ends(source: Source, text: str) -> str:
    end = source.line_end
    return text if end == "\n" else text.replace("\r\n", "\n").replace("\n", end)


def _wrong(text: str) -> ToolError:
    return ToolError(text, status=ResultStatus.BAD_ARGUMENTS)
