"""An ASGI application called without a server, so that a test decides what arrives and when the client leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aish.net.lines import SseReader

App = Callable[[Any, Any, Any], Awaitable[None]]
DEADLINE_S = 10.0


@dataclass
class Reply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    ended: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        return [json.loads(event.data) for event in SseReader(1 << 20).feed(self.body)]


class Visit:
    """One request. `leave` is the client closing its connection."""

    def __init__(self, method: str, headers: Sequence[tuple[str, str]], pieces: Sequence[bytes]) -> None:
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers]
        self._scope = {"type": "http", "method": method, "path": "/mcp", "headers": pairs}
        self._pieces = list(pieces)
        self._gone = asyncio.Event()
        self.reply = Reply()
        self.news = asyncio.Event()

    def leave(self) -> None:
        self._gone.set()

    async def run(self, app: App) -> Reply:
        async with asyncio.timeout(DEADLINE_S):
            await app(self._scope, self._receive, self._send)
        return self.reply

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._pieces:
            piece = self._pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self.reply.status = event["status"]
            self.reply.headers = {name.decode(): value.decode() for name, value in event["headers"]}
        else:
            self.reply.body += event.get("body", b"")
            self.reply.ended = not event.get("more_body", False)
        self.news.set()
