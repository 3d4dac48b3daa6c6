"""The port of a code backend. An IDE, a language server and the syntax tree implement it.

A backend that cannot answer a question returns the status `unsupported` with advice. ToolError means that something
failed. Backends compute edits and never apply them.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from aish.tools.code.answer import Answer, Fix, Place, Problem, Symbol, SymbolPosition
from aish.tools.code.edits.port import FileEdit
from aish.tools.code.files.source import Source

Edits = tuple[FileEdit, ...]


class FixEdits(msgspec.Struct, frozen=True):
    """The edits of a chosen fix."""

    title: str
    edits: Edits


class CodeBackend(Protocol):
    @property
    def name(self) -> str: ...

    async def hover(self, source: Source, spot: SymbolPosition) -> Answer[str]: ...

    async def definition(self, source: Source, spot: SymbolPosition) -> Answer[tuple[Place, ...]]: ...

    async def references(self, source: Source, spot: SymbolPosition) -> Answer[tuple[Place, ...]]:
        """Includes the declaration. Sorted by file and line."""

    async def outline(self, source: Source) -> Answer[tuple[Symbol, ...]]: ...

    async def symbols(self, query: str, limit: int) -> Answer[tuple[Symbol, ...]]: ...

    async def diagnostics(self, source: Source, wait_s: float) -> Answer[tuple[Problem, ...]]: ...

    async def rename(self, source: Source, spot: SymbolPosition, new_name: str) -> Answer[Edits]: ...

    async def format(self, source: Source) -> Answer[Edits]: ...

    async def fixes(self, source: Source, line: int, end_line: int) -> Answer[tuple[Fix, ...]]: ...

    async def fix(self, source: Source, line: int, end_line: int, key: str) -> Answer[FixEdits | None]:
        """None if no fix with this key is offered, or if that is not known. The status says which."""

    async def aclose(self) -> None: ...
