"""Compares edits with the files on disk: the result is a list of changes or of conflicts. Writes nothing."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from pathlib import PurePosixPath

from aish.errors import ToolError
from aish.tools.code.edits.placement import FilePlacement, FileState
from aish.tools.code.edits.port import Conflict, FileEdit
from aish.tools.code.edits.records import FileChange
from aish.tools.code.edits.undo_log import MAX_KEPT_BYTES
from aish.tools.code.files.source import content_hash
from aish.tools.workspace import Workspace

_NEW_MODE = 0o644
# Git's own files can make git run programs. They are never edited.
_NOT_CODE = ".git"


class PreparedChange:
    """`modes` are for files that are restored. `since` completes the message of a conflict."""

    def __init__(
        self,
        space: Workspace,
        placement: FilePlacement,
        edits: Sequence[FileEdit],
        modes: dict[str, int] | None = None,
        *,
        since: str = "since it was read",
    ) -> None:
        self.id = f"{time.time_ns() // 1000:013x}{secrets.token_hex(2)}"  # ids sort by time
        self.paths = tuple(edit.path for edit in edits)
        self.conflicts: list[Conflict] = []
        self.changes: list[FileChange] = []
        self.contents: list[bytes | None] = []
        self._space = space
        self._placement = placement
        self._modes = modes or {}
        self._since = since
        self._paths_by_file: dict[tuple[int, int] | str, str] = {}
        self._removed: dict[str, FileState] = {}
        self._left_bytes = MAX_KEPT_BYTES
        # Removals come first, so that a moved file keeps its mode.
        for edit in sorted(edits, key=lambda edit: edit.content is not None):
            try:
                reason = self._add(edit)
            except ToolError as exc:
                reason = exc.message
            if reason:
                self.conflicts.append(Conflict(edit.path, reason))

    def missing_folders(self) -> list[str]:
        """Returns the folders that new files need, outermost first."""
        created = [PurePosixPath(change.path) for change in self.changes if change.old is None]
        parents = {parent for path in created for parent in path.parents[:-1]}
        return [str(path) for path in sorted(parents) if not self._space.exists(str(path))]

    def _add(self, edit: FileEdit) -> str:
        """Adds an edit. Returns the conflict, or ""."""
        path = self._space.relative(edit.path)
        if belongs_to_git(self._space, path):
            return "git's own files are not for editing; use git"
        current = self._placement.find(path)
        if reason := _find_conflict(edit, current, self._since) or self._find_duplicate(path, current):
            return reason
        self._left_bytes -= len(current.content) if current else 0
        if self._left_bytes < 0:
            return f"the files of one change may have {MAX_KEPT_BYTES} bytes together; make smaller ones"
        if current is None or current.content != edit.content:
            self._change(path, current, edit.content)
        return ""

    def _change(self, path: str, current: FileState | None, content: bytes | None) -> None:
        new = content_hash(content) if content is not None else None
        if current is not None and new is None:
            self._removed[current.hash] = current
        like = current or self._removed.get(new or "")
        mode = like.mode if like else self._modes.get(path, _NEW_MODE)
        stage = f".aish-{self.id}-{len(self.changes)}"
        before = current.content if current else None
        owner = like.owner if like else None
        self.changes.append(FileChange(path, current.hash if current else None, new, stage, mode, before, owner))
        self.contents.append(content)

    def _find_duplicate(self, path: str, current: FileState | None) -> str:
        """Detects a file that is edited under two names, for example through a link to a folder."""
        key = current.identity if current else path
        if key not in self._paths_by_file:
            self._paths_by_file[key] = path
            return ""
        other = self._paths_by_file[key]
        return "it is edited twice in one change" if other == path else f"it is the same file as {other}"


def belongs_to_git(space: Workspace, path: str) -> bool:
    """Checks the name and the target of links."""
    return any(part.lower() == _NOT_CODE for part in (*PurePosixPath(path).parts, *space.resolved(path).parts))


def _find_conflict(edit: FileEdit, current: FileState | None, since: str) -> str:
    if (current.hash if current else None) == edit.base:
        return ""
    if current is None:
        return "it is gone"
    return f"it changed {since}" if edit.base is not None else "it is there already"
