"""Reads and writes files of the workspace, on disk or through the IDE that has them open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from aish.tools.code.backends.mcp import McpBackend
from aish.tools.code.edits.ide_applier import apply_in_ide
from aish.tools.code.edits.port import EditApplier, EditOutcome, FileEdit, Undone
from aish.tools.code.files.source import MAX_SOURCE_BYTES, SourceText, decode
from aish.tools.workspace import TooLong, Workspace

# Read directly: for a file this small a thread costs more than the read.
_SMALL_BYTES = 64 * 1024

FindMcp = Callable[[], McpBackend | None]


class Contents:
    """Reads from the IDE or from disk, and applies edits there."""

    def __init__(self, space: Workspace, disk: EditApplier, find_ide: FindMcp) -> None:
        self._space = space
        self._disk = disk
        self._find_ide = find_ide

    async def load(self, path: str) -> SourceText:
        """Raises ToolError."""
        path = self._space.relative(path)
        return decode(path, await self.read(path))

    async def read(self, path: str, max_bytes: int = MAX_SOURCE_BYTES) -> bytes:
        ide = self._find_ide()
        if ide is not None:
            self._check_inside(path)  # the IDE follows links, wherever they lead
            if (text := await ide.read(self._space.relative(path))) is not None:
                self._check_inside(path)  # again, in case a link was changed meanwhile
                return text.encode()
        try:
            return self._space.read(path, max_bytes=_SMALL_BYTES)
        except TooLong:
            return await asyncio.to_thread(self._space.read, path, max_bytes=max_bytes)

    def _check_inside(self, path: str) -> None:
        if self._space.exists(path):
            self._space.check_readable(path)

    async def apply(self, edits: Sequence[FileEdit], *, title: str) -> EditOutcome:
        """Uses the IDE if it has the files, because a change on disk would overwrite its unsaved text."""
        ide = self._find_ide()
        if ide is None or not ide.offers_files():
            return await self._disk.apply(edits, title=title)
        return await apply_in_ide(self._space, ide, edits)

    async def undo(self, id: str) -> Undone:
        """Undoes a change on disk. Changes made by the IDE are undone there."""
        return await self._disk.undo(id)
