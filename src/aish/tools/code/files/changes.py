"""Changes on disk, collected for each listener until it takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from aish.tools.code.files.watcher import Changes, LookingWatch, Watch, note, watch

_MAX_KEPT = 20_000


class News:
    """Listeners that wait too long get None: everything may have changed. They must then start anew."""

    def __init__(self, root: Path, wanted: Callable[[str], bool]) -> None:
        self._root = root
        self._wanted = wanted
        self._watch: Watch = watch(root, wanted)
        self._kept: dict[str, Changes | None] = {}

    def forget(self, listener: str) -> None:
        """Drops the collected changes of a listener that is about to read everything."""
        self._collect()
        self._kept[listener] = {}

    def take(self, listener: str) -> Changes | None:
        self._collect()
        taken = self._kept.get(listener, {})
        self._kept[listener] = None if taken is None else {}
        return taken

    async def take_soon(self, listener: str) -> Changes | None:
        """Takes changes, in a thread if every file must be checked."""
        return await asyncio.to_thread(self.take, listener) if self._watch.is_slow else self.take(listener)

    def tell(self, changes: Changes) -> None:
        """Adds our own changes, for systems without a watcher."""
        for listener, kept in self._kept.items():
            self._kept[listener] = _with(kept, changes)

    @property
    def complete(self) -> bool:
        return self._watch.complete

    def peek(self, listener: str) -> Changes | None:
        """Returns the collected changes without taking them."""
        self._collect()
        return self._kept.get(listener, {})

    def close(self) -> None:
        self._watch.close()

    def _collect(self) -> None:
        try:
            changes = self._watch.changes()
        except OSError:  # no watches left; changes since the last call are unknown
            self._watch.close()
            self._watch = LookingWatch(self._root, self._wanted)
            changes = None
        if changes is None:
            self._kept = dict.fromkeys(self._kept)
        elif changes:
            self.tell(changes)


def _with(kept: Changes | None, changes: Changes) -> Changes | None:
    if kept is None:
        return None
    for path, kind in changes.items():
        note(kept, path, kind)
    return kept if len(kept) <= _MAX_KEPT else None
