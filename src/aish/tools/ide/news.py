"""Changes on disk, kept for each of several listeners until it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from aish.tools.ide.watching import Changes, LookingWatch, Watch, note, watch

_MAX_KEPT = 20_000


class News:
    def __init__(self, root: Path, wanted: Callable[[str], bool]) -> None:
        self._root = root
        self._wanted = wanted
        self._watch: Watch = watch(root, wanted)
        self._kept: dict[str, Changes] = {}

    def forget(self, listener: str) -> None:
        """It knows everything as of now: it has just started, and read what is there."""
        self._collect()
        self._kept[listener] = {}

    def take(self, listener: str) -> Changes:
        self._collect()
        taken, self._kept[listener] = self._kept.get(listener, {}), {}
        return taken

    async def take_soon(self, listener: str) -> Changes:
        """The same, in a thread where files have to be looked at."""
        return await asyncio.to_thread(self.take, listener) if self._watch.is_slow else self.take(listener)

    def tell(self, changes: Changes) -> None:
        """Ours, which nobody needs to watch for."""
        for kept in self._kept.values():
            for path, kind in changes.items():
                note(kept, path, kind)

    @property
    def complete(self) -> bool:
        return self._watch.complete

    def peek(self, listener: str) -> Changes:
        """What it would hear if it asked."""
        self._collect()
        return self._kept.get(listener, {})

    def close(self) -> None:
        self._watch.close()

    def _collect(self) -> None:
        try:
            changes = self._watch.changes()
        except OSError:  # no watches left
            self._watch.close()
            self._watch = LookingWatch(self._root, self._wanted)
            return
        for kept in self._kept.values() if changes else ():
            for path, kind in changes.items():
                note(kept, path, kind)
            while len(kept) > _MAX_KEPT:
                del kept[next(iter(kept))]
