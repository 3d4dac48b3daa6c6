"""Converts a server's workspace edit into file edits: both shapes, and every range checked against our text.

Nothing is written. An edit is refused as a whole if a URI is outside the workspace, a range is not in the text, or two
edits overlap. Files can also be created, moved and removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from aish.errors import BadResponse, ToolError
from aish.tools.code.edits.records import FileEdit
from aish.tools.code.files.source import SourceText
from aish.tools.code.lsp.results import Encoding, Range, TextMap
from aish.types.tools import ResultStatus

MAX_FILES = 5000


class SourceFiles(Protocol):
    """Files by the server's URIs. All methods raise ToolError for files outside the workspace."""

    def path(self, uri: str) -> str: ...

    def exists(self, uri: str) -> bool: ...

    def get(self, uri: str) -> SourceText: ...


class SingleFile:
    """One file under any URI, whose text may not be on disk yet."""

    def __init__(self, source: SourceText) -> None:
        self._source = source

    def path(self, uri: str) -> str:
        return self._source.path

    def exists(self, uri: str) -> bool:
        return True

    def get(self, uri: str) -> SourceText:
        return self._source


class TextEdit(msgspec.Struct, frozen=True):
    range: Range
    newText: str


def file_edits(
    edit: object, files: SourceFiles, encoding: Encoding, *, replaces: Callable[[str], bool] = lambda old: True
) -> tuple[FileEdit, ...]:
    """`replaces` decides whether a text may be replaced. Raises ToolError."""
    changing = _WorkspaceEdit(files, encoding, replaces)
    for kind, uri, value in _parse_steps(edit):
        match kind:
            case "create":
                changing.create(uri, value)
            case "rename":
                changing.move(uri, str(value.get("newUri", "")))
            case "delete":
                changing.remove(uri)
            case _:
                changing.edit(uri, value)
    return changing.edits()


class _WorkspaceEdit:
    """The files of an edit as they are after each step."""

    def __init__(self, files: SourceFiles, encoding: Encoding, replaces: Callable[[str], bool]) -> None:
        self._files = files
        self._encoding = encoding
        self._replaces = replaces
        self._before: dict[str, SourceText | None] = {}  # None for a file that did not exist
        self._after: dict[str, SourceText | None] = {}

    def edit(self, uri: str, edits: Sequence[TextEdit]) -> None:
        source = self._current(uri)
        if source is None:
            raise _refuse(f"it changes {self._files.path(uri)}, which does not exist")
        self._replace(source.path, source, apply_edits(source, edits, self._encoding, self._replaces))

    def create(self, uri: str, options: Mapping[str, Any]) -> None:
        if self._current(uri) is None:
            path = self._files.path(uri)
            self._after[path] = SourceText(path, b"", "")
        elif options.get("options") != {"ignoreIfExists": True}:
            raise _refuse(f"it makes {self._files.path(uri)}, which is there already")

    def move(self, uri: str, new_uri: str) -> None:
        source = self._current(uri)
        if source is None or self._current(new_uri) is not None:
            raise _refuse(f"it moves {self._files.path(uri)} to {self._files.path(new_uri)}, which cannot be done")
        self._after[self._files.path(new_uri)] = SourceText(self._files.path(new_uri), source.data, source.text)
        self._after[source.path] = None

    def remove(self, uri: str) -> None:
        if self._current(uri) is None:
            raise _refuse(f"it removes {self._files.path(uri)}, which does not exist")
        self._after[self._files.path(uri)] = None

    def edits(self) -> tuple[FileEdit, ...]:
        """Returns the files that differ from before."""
        edits = [self._file_edit(path) for path in self._after]
        return tuple(edit for edit in edits if edit is not None)

    def _file_edit(self, path: str) -> FileEdit | None:
        before, after = self._before.get(path), self._after[path]
        if (before.data if before else None) == (after.data if after else None):
            return None
        return FileEdit(path, before.hash if before else None, after.data if after else None)

    def _current(self, uri: str) -> SourceText | None:
        path = self._files.path(uri)
        if path not in self._after:
            if len(self._after) >= MAX_FILES:
                raise _refuse(f"it touches more than {MAX_FILES} files")
            self._before[path] = self._after[path] = self._files.get(uri) if self._files.exists(uri) else None
        return self._after[path]

    def _replace(self, path: str, source: SourceText, text: str) -> None:
        self._after[path] = SourceText(path, source.encode(text), text)


def _parse_steps(edit: object) -> Iterator[tuple[str, str, Any]]:
    """Yields kind, URI and value of each step. Text edits of one file are joined, in the order of the edit."""
    if not isinstance(edit, Mapping):
        raise _refuse("it is none")
    changes = edit.get("documentChanges")
    if isinstance(changes, list):  # the newer shape; it wins if both are given
        yield from _join_edits([_parse_step(change) for change in changes])
        return
    by_uri = edit.get("changes")
    for uri, edits in by_uri.items() if isinstance(by_uri, Mapping) else ():
        yield "edit", str(uri), _text_edits(edits)


def _parse_step(change: object) -> tuple[str, str, Any]:
    if not isinstance(change, Mapping):
        raise _refuse("it cannot be read")
    kind = change.get("kind")
    if kind in ("create", "delete"):
        return kind, str(change.get("uri", "")), change
    if kind == "rename":
        return kind, str(change.get("oldUri", "")), change
    document = change.get("textDocument")
    uri = str(document.get("uri", "")) if isinstance(document, Mapping) else ""
    return "edit", uri, _text_edits(change.get("edits"))


def _join_edits(steps: Sequence[tuple[str, str, Any]]) -> list[tuple[str, str, Any]]:
    """Joins consecutive edits of one file, because they refer to the same text."""
    result: list[tuple[str, str, Any]] = []
    for kind, uri, value in steps:
        if kind == "edit" and result and result[-1][:2] == (kind, uri):
            result[-1] = (kind, uri, [*result[-1][2], *value])
        else:
            result.append((kind, uri, value))
    return result


def _text_edits(edits: object) -> Sequence[TextEdit]:
    try:
        return msgspec.convert(edits, list[TextEdit])
    except msgspec.ValidationError as exc:
        raise _refuse(f"it cannot be read: {exc}") from exc


def apply_edits(
    source: SourceText,
    edits: Sequence[TextEdit],
    encoding: Encoding,
    replaces: Callable[[str], bool] = lambda old: True,
) -> str:
    """Returns the new text. Edits may touch but not overlap; the order of several at one position is kept."""
    text, mapped = source.text, TextMap(source.lines, encoding)
    try:
        spans = sorted(((*mapped.span(edit.range), edit.newText) for edit in edits), key=lambda span: span[:2])
    except BadResponse as exc:
        raise _refuse(f"an edit of {source.path} does not fit its text: {exc.message}") from exc
    pieces: list[str] = []
    at = 0
    for start, end, new in spans:
        if start < at:
            raise _refuse(f"two edits of {source.path} overlap")
        if not replaces(text[start:end]):
            raise _refuse(f"an edit would replace '{text[start:end][:60]}' in {source.path}, which is something else")
        pieces += (text[at:start], source.with_line_ends(new))
        at = end
    return "".join([*pieces, text[at:]])


def _refuse(text: str) -> ToolError:
    return ToolError(f"the server's edit was refused: {text}", status=ResultStatus.FAILED)
