"""Changes on disk, collected for each listener until it takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from aish.tools.code.files.inotify import InotifyWatch
from aish.tools.code.files.watcher import Changes, FileWatch, PollingWatch, add_change

_MAX_COLLECTED = 20_000


def watch_files(root: Path, wanted: Callable[[str], bool]) -> FileWatch:
    """Watches files whose name is `wanted`."""
    try:
        return InotifyWatch(root, wanted)
    except OSError:
        return PollingWatch(root, wanted)


class ChangeFeed:
    """Listeners that wait too long get None: everything may have changed. They must then start anew."""

    def __init__(self, root: Path, wanted: Callable[[str], bool]) -> None:
        self._root = root
        self._wanted = wanted
        self._watch: FileWatch = watch_files(root, wanted)
        self._collected: dict[str, Changes | None] = {}

    def reset(self, listener: str) -> None:
        """Drops the collected changes of a listener that is about to read everything."""
        self._collect()
        self._collected[listener] = {}

    def take(self, listener: str) -> Changes | None:
        self._collect()
        taken = self._collected.get(listener, {})
        self._collected[listener] = None if taken is None else {}
        return taken

    async def take_async(self, listener: str) -> Changes | None:
        """Takes changes, in a thread if every file must be checked."""
        return await asyncio.to_thread(self.take, listener) if self._watch.is_slow else self.take(listener)

    def add(self, changes: Changes) -> None:
        """Adds our own changes, for systems without a watcher."""
        for listener, collected in self._collected.items():
            self._collected[listener] = _merge(collected, changes)

    @property
    def complete(self) -> bool:
        return self._watch.complete

    def peek(self, listener: str) -> Changes | None:
        """Returns the collected changes without taking them."""
        self._collect()
        return self._collected.get(listener, {})

    def close(self) -> None:
        self._watch.close()

    def _collect(self) -> None:
        try:
            changes = self._watch.changes()
        except OSError:  # no watches left; changes since the last call are unknown
            self._watch.close()
            self._watch = PollingWatch(self._root, self._wanted)
            changes = None
        if changes is None:
            self._collected = dict.fromkeys(self._collected)
        elif changes:
            self.add(changes)


def _merge(collected: Changes | None, changes: Changes) -> Changes | None:
    if collected is None:
        return None
    for path, kind in changes.items():
        add_change(collected, path, kind)
    return collected if len(collected) <= _MAX_COLLECTED else None
