"""Changes on disk, kept for each of several listeners until it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from aish.tools.code.files.watcher import Changes, LookingWatch, Watch, note, watch

_MAX_KEPT = 20_000


class News:
    """A listener that does not ask for long enough hears only that everything may have changed: None, until it
    starts anew."""

    def __init__(self, root: Path, wanted: Callable[[str], bool]) -> None:
        self._root = root
        self._wanted = wanted
        self._watch: Watch = watch(root, wanted)
        self._kept: dict[str, Changes | None] = {}

    def forget(self, listener: str) -> None:
        """It knows everything as of now: it is about to start, and to read what is there."""
        self._collect()
        self._kept[listener] = {}

    def take(self, listener: str) -> Changes | None:
        self._collect()
        taken = self._kept.get(listener, {})
        self._kept[listener] = None if taken is None else {}
        return taken

    async def take_soon(self, listener: str) -> Changes | None:
        """The same, in a thread where files have to be looked at."""
        return await asyncio.to_thread(self.take, listener) if self._watch.is_slow else self.take(listener)

    def tell(self, changes: Changes) -> None:
        """Ours, which nobody needs to watch for."""
        for listener, kept in self._kept.items():
            self._kept[listener] = _with(kept, changes)

    @property
    def complete(self) -> bool:
        return self._watch.complete

    def peek(self, listener: str) -> Changes | None:
        """What it would hear if it asked."""
        self._collect()
        return self._kept.get(listener, {})

    def close(self) -> None:
        self._watch.close()

    def _collect(self) -> None:
        try:
            changes = self._watch.changes()
        except OSError:  # no watches left, and what happened meanwhile nobody saw
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
