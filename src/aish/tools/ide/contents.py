"""What files hold for those who ask about them: on disk, or in the IDE that owns the workspace, saved or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from aish.tools.ide.backends.mcp import McpBackend
from aish.tools.ide.edits.port import Conflict, EditApplier, FileEdit, Outcome, Undone
from aish.tools.ide.source import MAX_SOURCE_BYTES, Source, content_hash, decode
from aish.tools.workspace import TooLong, Workspace

# Read at once: for a file this small a thread takes longer than the read.
_SMALL_BYTES = 64 * 1024

FindMcp = Callable[[], McpBackend | None]


class Contents:
    """The reading side; and the writing side where the IDE has the files."""

    def __init__(self, space: Workspace, disk: EditApplier, find_ide: FindMcp) -> None:
        self._space = space
        self._disk = disk
        self._find_ide = find_ide

    async def load(self, path: str) -> Source:
        """Raises ToolError."""
        path = self._space.relative(path)
        return decode(path, await self.read(path))

    async def read(self, path: str, max_bytes: int = MAX_SOURCE_BYTES) -> bytes:
        ide = self._find_ide()
        text = await ide.read(self._space.relative(path)) if ide is not None else None
        if text is not None:
            return text.encode()
        try:
            return self._space.read(path, max_bytes=_SMALL_BYTES)
        except TooLong:
            return await asyncio.to_thread(self._space.read, path, max_bytes=max_bytes)

    async def apply(self, edits: Sequence[FileEdit], *, title: str) -> Outcome:
        """Through the IDE where it has the files: behind its back, what it has not saved would be lost."""
        ide = self._find_ide()
        if ide is None or not ide.offers_files():
            return await self._disk.apply(edits, title=title)
        conflicts = [conflict for edit in edits if (conflict := await self._conflict(ide, edit)) is not None]
        if conflicts:
            return Outcome(conflicts=tuple(conflicts))
        for edit in edits:
            assert edit.content is not None
            await ide.write(edit.path, edit.content.decode())
        return Outcome(applied=tuple(edit.path for edit in edits))

    async def undo(self, id: str) -> Undone:
        """Of what was changed on disk. What the IDE has changed, it can undo itself."""
        return await self._disk.undo(id)

    async def _conflict(self, ide: McpBackend, edit: FileEdit) -> Conflict | None:
        if edit.content is None:
            return Conflict(edit.path, "the IDE is not asked to remove files")
        if edit.base is None:
            return None
        held = await ide.read(edit.path)
        same = held is not None and content_hash(held.encode()) == edit.base
        return None if same else Conflict(edit.path, "it changed in the IDE since it was read")
