"""Applies edits through an IDE that has the files open, under the same rules as edits on disk.

The IDE opens files by name and follows links. So each path is checked before the IDE is asked, again just before each
write, and after it. If a link appeared in between, nothing more is written and the error says so. The IDE writes one
file at a time; if one fails, the earlier ones are restored, and the error names those that could not be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from aish.errors import ToolError
from aish.tools.code.edits.placement import FilePlacement
from aish.tools.code.edits.port import Conflict, EditOutcome, FileEdit
from aish.tools.code.edits.preparation import belongs_to_git
from aish.tools.code.files.source import content_hash
from aish.tools.workspace import Workspace


class IdeFiles(Protocol):
    async def read(self, path: str) -> str | None: ...

    async def write(self, path: str, content: str) -> None: ...


async def apply_in_ide(space: Workspace, ide: IdeFiles, edits: Sequence[FileEdit]) -> EditOutcome:
    """Raises ToolError if the IDE fails after the first write."""
    before: dict[str, str | None] = {}
    texts: dict[str, str] = {}
    conflicts: list[Conflict] = []
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
            conflicts.append(Conflict(edit.path, reason))
    if conflicts:
        return EditOutcome(conflicts=tuple(conflicts))
    return await _write_all(FilePlacement(space), ide, texts, before)


async def _write_all(
    placement: FilePlacement, ide: IdeFiles, texts: dict[str, str], before: dict[str, str | None]
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


async def _read_current(ide: IdeFiles, edit: FileEdit) -> str | None:
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
    placement: FilePlacement, ide: IdeFiles, written: Sequence[str], before: dict[str, str | None]
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
