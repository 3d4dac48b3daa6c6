"""The simplest applier: checks every hash, then replaces file by file. A crash in the middle leaves a mixed tree."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aish.errors import ToolError
from aish.tools.ide.edits.port import Conflict, FileEdit, Outcome
from aish.tools.ide.source import content_hash
from aish.tools.workspace import Workspace


class InPlace:
    def __init__(self, space: Workspace) -> None:
        self._space = space

    async def apply(self, edits: Sequence[FileEdit], *, title: str) -> Outcome:
        return await asyncio.to_thread(self._apply, edits)

    async def aclose(self) -> None:
        """Nothing is held."""

    def _apply(self, edits: Sequence[FileEdit]) -> Outcome:
        conflicts = [conflict for edit in edits if (conflict := self._conflict(edit)) is not None]
        if conflicts:
            return Outcome(conflicts=tuple(conflicts))
        for edit in edits:
            if edit.content is not None:
                self._space.write(edit.path, edit.content)
        return Outcome(applied=tuple(edit.path for edit in edits))

    def _conflict(self, edit: FileEdit) -> Conflict | None:
        if edit.content is None:
            return Conflict(edit.path, "files cannot be removed here")
        try:
            self._space.check_writable(edit.path)
            held: str | None = content_hash(self._space.read(edit.path))
        except ToolError as exc:
            if "does not exist" not in exc.message:
                return Conflict(edit.path, exc.message)
            held = None
        if held == edit.base:
            return None
        return Conflict(edit.path, "it changed since it was read" if held else "it is gone")
