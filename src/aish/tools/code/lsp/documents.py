"""Tracks which documents are open in a server, and with which text. Each change sends the whole text as a new version.

Documents are closed when too many are open. Changes of other files are reported with `didChangeWatchedFiles`.
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

from aish.tools.code.files.source import SourceText
from aish.tools.code.lsp.connection import LspConnection

_MAX_EVENTS = 1000  # in one notification


class OpenDocument(msgspec.Struct, frozen=True):
    """`pushes` is the number of pushes that were received before this text was sent."""

    version: int
    hash: str
    pushes: int
    disk: int = 0  # the number of change reports before it


class Documents:
    def __init__(self, connection: LspConnection) -> None:
        self._connection = connection
        self._open: dict[str, OpenDocument] = {}
        self._disk = 0
        self._versions = 0  # counted over all files, so that a reopened file gets a new version
        self._uses: Counter[str] = Counter()
        self._sending = asyncio.Lock()  # notifications about a document are sent in order

    def uri(self, path: str) -> str:
        return file_uri(self._connection.spec.root, path)

    def find(self, path: str) -> OpenDocument | None:
        return self._open.get(path)

    @contextmanager
    def keep_open(self, path: str) -> Iterator[None]:
        """Keeps a document open: questions about a closed document are errors for some servers."""
        self._uses[path] += 1
        try:
            yield
        finally:
            self._uses[path] -= 1
            if not self._uses[path]:
                del self._uses[path]

    async def sync(self, source: SourceText) -> OpenDocument:
        """Sends the text if the server has another one."""
        async with self._sending:
            return await self._sync(source)

    async def touch(self, source: SourceText) -> OpenDocument:
        """Like `sync`, but sends the text again if other files changed since, so that a pushing server checks it
        again."""
        async with self._sending:
            known = await self._sync(source)
            if known.disk == self._disk:
                return known
            again = self._changed_content(source, known)
            self._open[source.path] = known = await self._send("didChange", source, {}, again)
            return known

    def _changed_content(self, source: SourceText, known: OpenDocument) -> dict[str, Any]:
        """Returns the change. clangd must rebuild if included files may have changed, or it answers from the old
        ones."""
        change: dict[str, Any] = {"contentChanges": [{"text": source.text}]}
        return change if known.disk == self._disk else {**change, "forceRebuild": True}

    async def _sync(self, source: SourceText) -> OpenDocument:
        known = self._open.pop(source.path, None)
        if known is None:
            await self._make_room()
            document = {"languageId": self._connection.spec.language_id(source.path), "text": source.text}
            known = await self._send("didOpen", source, document, {})
        elif known.hash != source.hash:
            known = await self._send("didChange", source, {}, self._changed_content(source, known))
        self._open[source.path] = known  # the most recently used is last
        return known

    async def close(self, path: str) -> None:
        async with self._sending:
            await self._close(path)

    async def _close(self, path: str) -> None:
        if self._open.pop(path, None) is not None:
            await self._connection.notify("textDocument/didClose", {"textDocument": {"uri": self.uri(path)}})

    async def send_changes(self, changes: Iterable[tuple[str, int]]) -> None:
        """Reports files that changed on disk: 1 created, 2 changed, 3 removed."""
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

    async def _send(
        self, method: str, source: SourceText, document: dict[str, Any], rest: dict[str, Any]
    ) -> OpenDocument:
        self._versions = version = self._versions + 1
        opened = OpenDocument(version, source.hash, self._connection.incoming.pushes, self._disk)
        identity = {"uri": self.uri(source.path), "version": version, **document}
        await self._connection.notify(f"textDocument/{method}", {"textDocument": identity, **rest})
        return opened

    async def _make_room(self) -> None:
        """Closes documents that no request uses. If all are in use, more stay open for a while."""
        spare = [path for path in self._open if not self._uses[path]]
        for path in spare[: max(0, len(self._open) - self._connection.spec.limits.max_open + 1)]:
            await self._close(path)


def file_uri(root: Path, path: str) -> str:
    return "file://" + urllib.parse.quote(f"{root.as_posix().rstrip('/')}/{path}")
