"""Which files a server has open, and with which text. Each change is a version; the whole text is sent.

Files are closed when too many are open. A file that no server has open is the disk's: of its changes servers hear
through `watched`.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from aish.tools.code.files.source import Source
from aish.tools.code.lsp.connection import Connection

_MAX_EVENTS = 1000  # in one notification


class Opened(msgspec.Struct, frozen=True):
    """`pushes` is how many pushes had come before this text was sent."""

    version: int
    hash: str
    pushes: int
    disk: int = 0  # how often the disk had changed by then


class Documents:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open: dict[str, Opened] = {}
        self._disk = 0
        self._versions = 0  # counted on over all files: a file that is opened again is not mistaken for its first time
        self._held: Counter[str] = Counter()
        self._telling = asyncio.Lock()  # what is told of a file comes in order, whoever asks

    def uri(self, path: str) -> str:
        return uri_of(self._connection.spec.root, path)

    def find(self, path: str) -> Opened | None:
        return self._open.get(path)

    @contextmanager
    def held(self, path: str) -> Iterator[None]:
        """It stays open meanwhile, once it is: a question about a file that was closed is an error to some servers."""
        self._held[path] += 1
        try:
            yield
        finally:
            self._held[path] -= 1
            if not self._held[path]:
                del self._held[path]

    async def sync(self, source: Source) -> Opened:
        """The server knows exactly this text from here on."""
        async with self._telling:
            return await self._sync(source)

    async def touch(self, source: Source) -> Opened:
        """The same, and the text is sent anew if other files changed since: who only pushes looks at it again."""
        async with self._telling:
            known = await self._sync(source)
            if known.disk == self._disk:
                return known
            again = self._change(source, known)
            self._open[source.path] = known = await self._tell("didChange", source, {}, again)
            return known

    def _change(self, source: Source, known: Opened) -> dict[str, Any]:
        """clangd is told when files that this one includes may be others now: it would first answer by the old ones."""
        change: dict[str, Any] = {"contentChanges": [{"text": source.text}]}
        return change if known.disk == self._disk else {**change, "forceRebuild": True}

    async def _sync(self, source: Source) -> Opened:
        known = self._open.pop(source.path, None)
        if known is None:
            await self._make_room()
            document = {"languageId": self._connection.spec.language_id(source.path), "text": source.text}
            known = await self._tell("didOpen", source, document, {})
        elif known.hash != source.hash:
            known = await self._tell("didChange", source, {}, self._change(source, known))
        self._open[source.path] = known  # last: the one used last
        return known

    async def close(self, path: str) -> None:
        async with self._telling:
            await self._close(path)

    async def _close(self, path: str) -> None:
        if self._open.pop(path, None) is not None:
            await self._connection.notify("textDocument/didClose", {"textDocument": {"uri": self.uri(path)}})

    async def tell_changes(self, changes: Iterable[tuple[str, int]]) -> None:
        """Files that changed on disk: 1 made, 2 changed, 3 removed."""
        events = []
        for path, kind in changes:
            if self._connection.spec.wants(path):
                events.append({"uri": self.uri(path), "type": kind})
            if kind == 3:
                await self.close(path)
        for start in range(0, len(events), _MAX_EVENTS):
            self._disk += 1
            batch = {"changes": events[start : start + _MAX_EVENTS]}
            await self._connection.notify("workspace/didChangeWatchedFiles", batch)

    async def _tell(self, method: str, source: Source, document: dict[str, Any], rest: dict[str, Any]) -> Opened:
        self._versions = version = self._versions + 1
        opened = Opened(version, source.hash, self._connection.inbox.pushes, self._disk)
        identity = {"uri": self.uri(source.path), "version": version, **document}
        await self._connection.notify(f"textDocument/{method}", {"textDocument": identity, **rest})
        return opened

    async def _make_room(self) -> None:
        """Of those that nobody asks about; where all are asked about, more are open for a while."""
        spare = [path for path in self._open if not self._held[path]]
        for path in spare[: max(0, len(self._open) - self._connection.spec.limits.max_open + 1)]:
            await self._close(path)


def uri_of(root: Path, path: str) -> str:
    return "file://" + urllib.parse.quote(f"{root.as_posix().rstrip('/')}/{path}")
