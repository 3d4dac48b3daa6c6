"""Reads and writes files of the workspace, on disk or through the IDE that has them open, under the same rules.

The IDE opens files by name and follows links. So each path is checked before the IDE is asked, again just before each
write, and after it. If a link appeared in between, nothing more is written and the error says so. The IDE writes one
file at a time; if one fails, the earlier ones are restored, and the error names those that could not be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from aish.errors import ToolError
from aish.tools.code.backends.mcp import McpBackend
from aish.tools.code.edits.journaled import JournaledApplier
from aish.tools.code.edits.placement import FilePlacement, belongs_to_git
from aish.tools.code.edits.records import EditConflict, EditOutcome, FileEdit, UndoResult
from aish.tools.code.files.source import MAX_SOURCE_BYTES, SourceText, content_hash, decode
from aish.tools.workspace import TooLong, Workspace

# Read directly: for a file this small a thread costs more than the read.
_SMALL_BYTES = 64 * 1024

FindMcp = Callable[[], McpBackend | None]


class Contents:
    """Reads from the IDE or from disk, and applies edits there."""

    def __init__(self, space: Workspace, disk: JournaledApplier, find_ide: FindMcp) -> None:
        self._space = space
        self._disk = disk
        self._find_ide = find_ide

    def holds_secret(self, path: str) -> bool:
        """Whether a file that another one led to is shown only if it is named."""
        return self._space.holds_secret(str(self._space.resolve(path)))

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

    async def undo(self, id: str) -> UndoResult:
        """Undoes a change on disk. Changes made by the IDE are undone there."""
        return await self._disk.undo(id)


async def apply_in_ide(space: Workspace, ide: McpBackend, edits: Sequence[FileEdit]) -> EditOutcome:
    """Raises ToolError if the IDE fails after the first write."""
    before: dict[str, str | None] = {}
    texts: dict[str, str] = {}
    conflicts: list[EditConflict] = []
    for edit in edits:
        try:
            before[edit.path] = text = await _read_current(ide, edit)
            reason = _find_conflict(space, edit, text)
            texts[edit.path] = (edit.content or b"").decode()
        except UnicodeDecodeError:
            reason = "it is not UTF-8"
        except ToolError as exc:
            reason = exc.message
        if reason:
            conflicts.append(EditConflict(edit.path, reason))
    if conflicts:
        return EditOutcome(conflicts=tuple(conflicts))
    return await _write_all(FilePlacement(space), ide, texts, before)


async def _write_all(
    placement: FilePlacement, ide: McpBackend, texts: dict[str, str], before: dict[str, str | None]
) -> EditOutcome:
    written: list[str] = []
    for path, text in texts.items():
        what = "was not written"
        try:
            folder = placement.find_folder(path)
            await ide.write(path, text)
            what = "may be written elsewhere, look there"
            _check_same_folder(placement, path, folder)
        except ToolError as exc:
            failed = await _restore(placement, ide, written, before)
            result = (
                f"; {', '.join(failed)} could not be put back and stay changed" if failed else "; nothing stays changed"
            )
            raise ToolError(f"{path} {what}: {exc.message}{result if written else ''}") from exc
        except asyncio.CancelledError:  # stopping between two files would leave half a change; each call has a deadline
            await _restore(placement, ide, [*written, path], before)
            raise
        written.append(path)
    return EditOutcome(applied=tuple(written))


def _check_same_folder(placement: FilePlacement, path: str, folder: tuple[int, int] | None) -> None:
    """Raises ToolError if the folder is another one now. The file is not restored, because that write could be
    redirected too."""
    if folder is not None and placement.find_folder(path) != folder:
        raise ToolError("its folder became another one while the IDE wrote it")


async def _read_current(ide: McpBackend, edit: FileEdit) -> str | None:
    """Returns the IDE's text. For a new file a failure to read is expected."""
    try:
        return await ide.read(edit.path)
    except ToolError:
        if edit.base is None:
            return None
        raise


def _find_conflict(space: Workspace, edit: FileEdit, text: str | None) -> str:
    """Returns why the edit cannot be made, or "". Raises ToolError if the file may not be replaced."""
    if edit.content is None:
        return "the IDE is not asked to remove files"
    if belongs_to_git(space, edit.path):
        return "git's own files are not for editing; use git"
    on_disk = FilePlacement(space).find(edit.path)
    if edit.base is None:
        return "it is there already" if text is not None or on_disk is not None else ""
    same = text is not None and content_hash(text.encode()) == edit.base
    return "" if same else "it changed in the IDE since it was read"


async def _restore(
    placement: FilePlacement, ide: McpBackend, written: Sequence[str], before: dict[str, str | None]
) -> list[str]:
    """Returns the files that could not be restored: new files, which the IDE cannot remove, and those that fail
    again."""
    failed: list[str] = []
    for path in written:
        text = before[path]
        try:
            if text is None:
                failed.append(path)
            else:
                placement.find_folder(path)
                await ide.write(path, text)
        except ToolError:
            failed.append(path)
    return failed
