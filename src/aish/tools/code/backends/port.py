"""The port of a code backend. An IDE, a language server and the syntax tree implement it.

A backend that cannot answer a question returns the status `unsupported` with advice. ToolError means that something
failed. Backends compute edits and never apply them.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from aish.tools.code.answer import CodeAnswer, Diagnostic, Fix, Location, Symbol, SymbolPosition
from aish.tools.code.edits.port import FileEdit
from aish.tools.code.files.source import SourceText

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
