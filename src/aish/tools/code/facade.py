"""The twelve `ide` tools of one workspace. Owns the workspace, the language servers and the applier.

Created at the first call of a tool, because most conversations never use one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from aish.errors import ToolError
from aish.tools.code.backends.mcp import IdeSession, McpBackend
from aish.tools.code.backends.selection import Backends
from aish.tools.code.backends.tree import TreeBackend
from aish.tools.code.contents import Contents
from aish.tools.code.edit_tools import EditTools
from aish.tools.code.edits.journaled import JournaledApplier
from aish.tools.code.edits.records import UndoEntry
from aish.tools.code.files.watcher import PACKAGE_FOLDERS
from aish.tools.code.languages import ServerChoice, ServerLimits
from aish.tools.code.query_tools import QueryTools
from aish.tools.code.read_tools import read_file, search_files
from aish.tools.workspace import IsSecret, Workspace, is_never_secret
from aish.types.tools import Arguments, ToolSpec

Tool = Callable[[Arguments], Awaitable[str]]


class IdeSettings(msgspec.Struct, frozen=True):
    choice: ServerChoice = ServerChoice()
    limits: ServerLimits = ServerLimits()
    max_servers: int = 4
    diagnostics_wait_s: float = 10.0
    format_on_edit: bool = False
    hard_links: bool = False
    hides: tuple[Path, ...] = ()  # files and folders that no tool opens
    is_secret: IsSecret = is_never_secret  # such files are opened only by name


FindServer = Callable[[], "tuple[str, Sequence[ToolSpec], IdeSession] | None"]


class Ide:
    """`state` is the folder of the undo log. `find_server` returns the MCP server that currently is an IDE."""

    def __init__(
        self,
        root: Path,
        settings: IdeSettings,
        *,
        state: Path,
        find_server: FindServer = lambda: None,
    ) -> None:
        self.space = Workspace(
            root,
            packages=PACKAGE_FOLDERS,
            hard_links=settings.hard_links,
            hides=settings.hides,
            is_secret=settings.is_secret,
        )
        self._find_server = find_server
        self.backends = Backends(
            self.space, settings.choice, settings.limits, max_servers=settings.max_servers, find_ide=self._find_ide
        )
        self._search_path = settings.choice.search_path
        self._applier = JournaledApplier(self.space, state)
        contents = Contents(self.space, self._applier, lambda: self._find_ide(TreeBackend(self.space)))
        self._understanding = QueryTools(contents, self.backends, diagnostics_wait_s=settings.diagnostics_wait_s)
        self._changing = EditTools(
            self.space, contents, self.backends, self._understanding, format_on_edit=settings.format_on_edit
        )
        self._opening = asyncio.Lock()
        self._is_open = False
        self._recovery_note = ""  # what recovery did; shown once, at the next call
        reads, writes = self._understanding, self._changing
        self._tools: dict[str, Tool] = {
            "read_file": lambda arguments: read_file(self.space, contents, arguments),
            "search": lambda arguments: search_files(self.space, arguments, search_path=self._search_path),
            "outline": reads.outline,
            "symbols": reads.symbols,
            "hover": reads.hover,
            "definition": reads.definition,
            "references": reads.references,
            "diagnostics": lambda arguments: reads.diagnostics(arguments, writes.edited),
        }

    async def serve(self, name: str, arguments: Arguments, on_status: Callable[[str], None], *, call: str = "") -> str:
        """Runs a tool and returns its text. Raises ToolError."""
        await self._open()
        if note := self._recovery_note:
            self._recovery_note = ""
            on_status(note)
        if name in self._tools:
            return await self._tools[name](arguments)
        return await self._changing.change(name, arguments, call)

    async def preview(self, name: str, arguments: Arguments, call: str) -> str:
        """Returns the diff of a call; "" if it changes nothing. Raises ToolError."""
        await self._open()
        return await self._changing.preview(name, arguments, call)

    async def compute_witness(self, name: str, arguments: Arguments) -> str:
        await self._open()
        return await self._changing.compute_witness(name, arguments)

    async def has_happened(self, witness: str) -> bool | None:
        await self._open()  # finishes or rolls back an interrupted change first
        return await self._changing.has_happened(witness)

    async def undo(self, id: str = "") -> str:
        """Undoes the last edit, or the given one; describes it. Raises ToolError."""
        return await self._changing.undo(id)

    async def list_undoable(self) -> Sequence[UndoEntry]:
        """Returns the edits that can be undone, newest first."""
        return await self._applier.list_undoable()

    async def _open(self) -> None:
        """Recovers an interrupted change before files are read.

        If that fails, files can still be read; every edit tries again and fails.
        """
        async with self._opening:
            if self._is_open:
                return
            try:
                self._recovery_note = await self._applier.recover()
            except ToolError as exc:
                self._recovery_note = exc.message
            self._is_open = True

    def _find_ide(self, tree: TreeBackend) -> McpBackend | None:
        found = self._find_server()
        return McpBackend(*found, self.space, tree) if found is not None else None

    async def aclose(self) -> None:
        await self.backends.servers.aclose()
        self.space.close()
