"""Resolves the edits of a model (exact text or lines, for a revision) into edits of files.

All edits of one file refer to the text as it was read, so their order does not matter and they must not overlap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from aish.errors import ToolError
from aish.tools.code.edits.records import FileEdit
from aish.tools.code.files.source import SourceText
from aish.tools.workspace import Workspace
from aish.types.tools import ResultStatus

_NEW = "new"
_SHORTEST_REVISION = 8
_SHOWN_CHARS = 80
_SHOWN_PLACES = 8
# A line number may be off by this much after other edits.
_NEAR_LINES = 3

_Span = tuple[int, int, str]
_Match = tuple[int, int]  # offset and line
_Load = Callable[[str], Awaitable[SourceText]]


async def resolve_model_edits(space: Workspace, load: _Load, edits: Sequence[Mapping[str, Any]]) -> list[FileEdit]:
    """Raises ToolError with advice for the model."""
    by_path: dict[str, list[Mapping[str, Any]]] = {}
    for edit in edits:
        by_path.setdefault(space.relative(str(edit["path"])), []).append(edit)
    return [await _file_edit(load, path, group) for path, group in by_path.items()]


async def _file_edit(load: _Load, path: str, edits: Sequence[Mapping[str, Any]]) -> FileEdit:
    if any(edit["revision"] == _NEW for edit in edits):
        if len(edits) > 1:
            raise _bad_arguments(f"a new file is one edit, and {path} has {len(edits)}")
        return FileEdit(path, None, str(edits[0]["new"]).encode())
    source = await load(path)
    for edit in edits:
        _check_revision(source, str(edit["revision"]))
    spans = sorted(_resolve(source, edit) for edit in edits)
    return FileEdit(source.path, source.hash, source.encode(_apply(source, spans)))


def _check_revision(source: SourceText, revision: str) -> None:
    if len(revision) >= _SHORTEST_REVISION and source.hash.startswith(revision.lower()):
        return
    text = f"{source.path} is at revision {source.revision}, not {revision}: it changed since; read it again"
    raise ToolError(text, status=ResultStatus.FAILED)


def _resolve(source: SourceText, edit: Mapping[str, Any]) -> _Span:
    new, old = str(edit["new"]), str(edit.get("old", ""))
    if "start_line" in edit:
        first = int(edit["start_line"])
        last = int(edit.get("end_line", first))
        return (
            _resolve_lines(source, first, last, new)
            if not old
            else _resolve_within(source, old, new, range(first, last + 1))
        )
    if not old:
        raise _bad_arguments(f"an edit of {source.path} names neither `old` text nor `start_line`")
    line = edit.get("line")
    return _resolve_near(source, old, new, line if isinstance(line, int) else None)


def _resolve_lines(source: SourceText, start: int, end: int, new: str) -> _Span:
    count = len(source.lines)
    if not 1 <= start <= end <= max(count, 1):
        raise _bad_arguments(f"{source.path} has lines 1 to {count}, not {start} to {end}")
    before = sum(map(len, source.lines[: start - 1]))
    replaced = "".join(source.lines[start - 1 : end])
    # The last line keeps its line end, even if the model left it out.
    if new and not new.endswith("\n") and replaced.endswith(("\n", "\r")):
        new += "\n"
    return before, before + len(replaced), source.with_line_ends(new)


def _resolve_within(source: SourceText, old: str, new: str, lines: range) -> _Span:
    """Finds the only occurrence in these lines."""
    old, found = _find_all(source, old)
    return _only_match(source, old, new, [match for match in found if match[1] in lines], found)


def _resolve_near(source: SourceText, old: str, new: str, line: int | None) -> _Span:
    """Finds the only occurrence; of several, the one in that line or the only one near it."""
    old, found = _find_all(source, old)
    if len(found) <= 1 or line is None:
        return _only_match(source, old, new, found, found)
    in_line = [match for match in found if match[1] == line]
    return _only_match(
        source, old, new, in_line or [match for match in found if abs(match[1] - line) <= _NEAR_LINES], found
    )


def _only_match(source: SourceText, old: str, new: str, matching: Sequence[_Match], found: Sequence[_Match]) -> _Span:
    if not found:
        raise _bad_arguments(
            f"{source.path} does not hold '{old[:_SHOWN_CHARS]}'; copy the text exactly, without line numbers"
        )
    if len(matching) != 1:
        lines = ", ".join(str(line) for _, line in found[:_SHOWN_PLACES]) + (
            ", …" if len(found) > _SHOWN_PLACES else ""
        )
        times = f"{len(found)} times" if len(found) > 1 else "once"
        raise _bad_arguments(
            f"{source.path} holds '{old[:_SHOWN_CHARS]}' {times}, in line {lines}; give more of it, or its `line`"
        )
    start = matching[0][0]
    return start, start + len(old), source.with_line_ends(new)


def _find_all(source: SourceText, old: str) -> tuple[str, list[_Match]]:
    """Returns all occurrences, and the text with the file's line ends, because models write `\\n`."""
    old = old if old in source.text else source.with_line_ends(old)
    starts = [0, *accumulate(map(len, source.lines))]
    found: list[_Match] = []
    at = source.text.find(old)
    while at >= 0:
        found.append((at, bisect_right(starts, at)))
        at = source.text.find(old, at + len(old))
    return old, found


def _apply(source: SourceText, spans: Sequence[_Span]) -> str:
    pieces, at = [], 0
    for start, end, new in spans:
        if start < at:
            raise _bad_arguments(f"two edits of {source.path} overlap; make one of them")
        pieces += [source.text[at:start], new]
        at = end
    return "".join([*pieces, source.text[at:]])


def _bad_arguments(text: str) -> ToolError:
    return ToolError(text, status=ResultStatus.BAD_ARGUMENTS)
