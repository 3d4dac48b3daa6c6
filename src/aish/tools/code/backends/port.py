"""What the tools ask of whoever understands the code. Three answer: an IDE, a language server, a syntax tree.

A question that a backend cannot answer is answered too: with the status `unsupported` and what to do about it.
ToolError is for what went wrong. Edits are computed, never applied here.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from aish.tools.code.answer import Answer, Fix, Place, Problem, Spot, Symbol
from aish.tools.code.edits.port import FileEdit
from aish.tools.code.files.source import Source

Edits = tuple[FileEdit, ...]


class Fixed(msgspec.Struct, frozen=True):
    """What one of the fixes comes to."""

    title: str
    edits: Edits


class CodeBackend(Protocol):
    @property
    def name(self) -> str: ...

    async def hover(self, source: Source, spot: Spot) -> Answer[str]: ...

    async def definition(self, source: Source, spot: Spot) -> Answer[tuple[Place, ...]]: ...

    async def references(self, source: Source, spot: Spot) -> Answer[tuple[Place, ...]]:
        """With the declaration, sorted by file and line."""

    async def outline(self, source: Source) -> Answer[tuple[Symbol, ...]]: ...

    async def symbols(self, query: str, limit: int) -> Answer[tuple[Symbol, ...]]: ...

    async def diagnostics(self, source: Source, wait_s: float) -> Answer[tuple[Problem, ...]]: ...

    async def rename(self, source: Source, spot: Spot, new_name: str) -> Answer[Edits]: ...

    async def format(self, source: Source) -> Answer[Edits]: ...

    async def fixes(self, source: Source, line: int, end_line: int) -> Answer[tuple[Fix, ...]]: ...

    async def fix(self, source: Source, line: int, end_line: int, key: str) -> Answer[Fixed | None]:
        """None where nothing with this key is offered, or where that is not known (the status says which)."""

    async def aclose(self) -> None: ...
