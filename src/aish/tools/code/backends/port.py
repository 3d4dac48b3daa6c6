"""The port of a code backend, and its answers. An IDE, a language server and the syntax tree implement it.

A backend that cannot answer a question returns the status `unsupported` with advice. ToolError means that something
failed. Backends compute edits and never apply them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec

from aish.tools.code.edits.records import FileEdit
from aish.tools.code.files.source import SourceText

T = TypeVar("T", covariant=True)
U = TypeVar("U")


class AnswerStatus(StrEnum):
    FRESH = "fresh"  # about the files as they are now
    STALE = "stale"  # about an older text
    PENDING = "pending"  # not known yet; ask again
    PARTIAL = "partial"  # there may be more
    UNSUPPORTED = "unsupported"  # no backend supports this here


class CodeAnswer(msgspec.Struct, Generic[T], frozen=True):
    """`note` says why the answer is not fresh, or what the caller can do."""

    value: T
    backend: str
    status: AnswerStatus = AnswerStatus.FRESH
    note: str = ""

    def with_value(self, value: U) -> CodeAnswer[U]:
        """Returns another value with the same backend, status and note."""
        return CodeAnswer(value, self.backend, self.status, self.note)


class SymbolPosition(msgspec.Struct, frozen=True):
    """A symbol in a text: line from 1, column from 0 in characters."""

    path: str
    line: int
    column: int
    symbol: str


class Location(msgspec.Struct, frozen=True, order=True):
    """Lines count from 1. Files `outside` the workspace are not read, so `text` is empty."""

    path: str
    line: int
    end_line: int = 0
    text: str = ""
    outside: bool = False


class Symbol(msgspec.Struct, frozen=True):
    name: str
    kind: str
    path: str
    line: int
    end_line: int
    text: str = ""  # the line that declares it
    container: str = ""
    depth: int = 0


class Diagnostic(msgspec.Struct, frozen=True):
    path: str
    line: int
    severity: str
    message: str
    source: str = ""
    code: str = ""


class Fix(msgspec.Struct, frozen=True):
    """A fix that a server offers. `key` identifies it as long as the file does not change."""

    key: str
    title: str
    kind: str = ""
    preferred: bool = False


Edits = tuple[FileEdit, ...]


class FixEdits(msgspec.Struct, frozen=True):
    """The edits of a chosen fix."""

    title: str
    edits: Edits


class CodeBackend(Protocol):
    @property
    def name(self) -> str: ...

    async def hover(self, source: SourceText, spot: SymbolPosition) -> CodeAnswer[str]: ...

    async def definition(self, source: SourceText, spot: SymbolPosition) -> CodeAnswer[tuple[Location, ...]]: ...

    async def references(self, source: SourceText, spot: SymbolPosition) -> CodeAnswer[tuple[Location, ...]]:
        """Includes the declaration. Sorted by file and line."""

    async def outline(self, source: SourceText) -> CodeAnswer[tuple[Symbol, ...]]: ...

    async def symbols(self, query: str, limit: int) -> CodeAnswer[tuple[Symbol, ...]]: ...

    async def diagnostics(self, source: SourceText, wait_s: float) -> CodeAnswer[tuple[Diagnostic, ...]]: ...

    async def rename(self, source: SourceText, spot: SymbolPosition, new_name: str) -> CodeAnswer[Edits]: ...

    async def format(self, source: SourceText) -> CodeAnswer[Edits]: ...

    async def fixes(self, source: SourceText, line: int, end_line: int) -> CodeAnswer[tuple[Fix, ...]]: ...

    async def fix(self, source: SourceText, line: int, end_line: int, key: str) -> CodeAnswer[FixEdits | None]:
        """None if no fix with this key is offered, or if that is not known. The status says which."""
