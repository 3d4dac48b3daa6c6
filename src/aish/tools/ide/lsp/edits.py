"""A server's edit of the workspace as edits of files: both shapes it comes in, every range checked against our text.

Nothing here writes. A URI outside the workspace, a range that is not in the text, two edits that overlap: the whole
edit is refused, and the reason says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from aish.errors import BadResponse, ToolError
from aish.tools.ide.edits.port import FileEdit
from aish.tools.ide.lsp.positions import Encoding, Range, TextMap
from aish.tools.ide.source import Source
from aish.types.tools import ResultStatus

MAX_FILES = 5000
_OPERATIONS = frozenset({"create", "rename", "delete"})

Load = Callable[[str], Source]  # by URI or path; raises ToolError


class TextEdit(msgspec.Struct, frozen=True):
    range: Range
    newText: str


def file_edits(
    edit: object, load: Load, encoding: Encoding, *, replaces: Callable[[str], bool] = lambda old: True
) -> tuple[FileEdit, ...]:
    """`replaces` says whether a text may be replaced at all. Raises ToolError."""
    made: dict[str, FileEdit] = {}
    for uri, edits in _by_file(edit):
        source = load(uri)
        if source.path in made:
            raise _refused(f"the edit names {source.path} twice")
        if len(made) >= MAX_FILES:
            raise _refused(f"the edit touches more than {MAX_FILES} files")
        text = apply_edits(source, edits, encoding, replaces)
        if text != source.text:
            made[source.path] = FileEdit(source.path, source.hash, source.encoded(text))
    return tuple(made.values())


def _by_file(edit: object) -> Iterator[tuple[str, Sequence[TextEdit]]]:
    if not isinstance(edit, Mapping):
        raise _refused("the edit is none")
    changes = edit.get("documentChanges")
    if isinstance(changes, list):  # the newer shape; where both are given this one counts
        merged: dict[str, list[TextEdit]] = {}
        for change in changes:
            uri, edits = _document_change(change)
            merged.setdefault(uri, []).extend(edits)
        yield from merged.items()
        return
    table = edit.get("changes")
    for uri, edits in table.items() if isinstance(table, Mapping) else ():
        yield str(uri), _text_edits(edits)


def _document_change(change: object) -> tuple[str, Sequence[TextEdit]]:
    if not isinstance(change, Mapping) or change.get("kind") in _OPERATIONS:
        kind = change.get("kind") if isinstance(change, Mapping) else "?"
        raise _refused(f"the edit wants to {kind} files, which is not done here")
    document = change.get("textDocument")
    return str(document.get("uri", "")) if isinstance(document, Mapping) else "", _text_edits(change.get("edits"))


def _text_edits(edits: object) -> Sequence[TextEdit]:
    try:
        return msgspec.convert(edits, list[TextEdit])
    except msgspec.ValidationError as exc:
        raise _refused(f"the edit cannot be read: {exc}") from exc


def apply_edits(
    source: Source, edits: Sequence[TextEdit], encoding: Encoding, replaces: Callable[[str], bool] = lambda old: True
) -> str:
    """The new text. Edits may touch but not overlap; of several at one place the order is kept."""
    text, mapped = source.text, TextMap(source.lines, encoding)
    try:
        spans = sorted(((*mapped.span(edit.range), edit.newText) for edit in edits), key=lambda span: span[:2])
    except BadResponse as exc:
        raise _refused(f"an edit of {source.path} does not fit its text: {exc.message}") from exc
    pieces: list[str] = []
    at = 0
    for start, end, new in spans:
        if start < at:
            raise _refused(f"two edits of {source.path} overlap")
        if not replaces(text[start:end]):
            raise _refused(f"an edit would replace '{text[start:end][:60]}' in {source.path}, which is something else")
        pieces += (text[at:start], _with_ends(new, source.line_end))
        at = end
    return "".join([*pieces, text[at:]])


def _with_ends(new: str, end: str) -> str:
    """In a file that ends its lines with CRLF, new lines do so too."""
    return new if end == "\n" or "\n" not in new else new.replace("\r\n", "\n").replace("\n", end)


def _refused(text: str) -> ToolError:
    return ToolError(f"the server's edit was refused: {text}", status=ResultStatus.FAILED)
