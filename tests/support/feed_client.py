"""A listener of `/v1/events`: in this process through the ASGI application, or over a socket of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from support.eventually import eventually
from support.http_face import Face


class TurnSummary(NamedTuple):
    id: str
    kind: str
    data: Any


def read_feed(body: bytes) -> list[TurnSummary]:
    """Whole blocks only."""
    heard = []
    for block in body.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            heard.append(TurnSummary(fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return heard


class Listening:
    """`body` grows while it listens; `ended` is the server's doing."""

    def __init__(self) -> None:
        self.body = bytearray()
        self.ended = False

    @property
    def heard(self) -> list[TurnSummary]:
        return read_feed(bytes(self.body))

    @property
    def events(self) -> list[dict[str, Any]]:
        return [one.data for one in self.heard if one.kind == "event"]

    @property
    def approvals(self) -> list[dict[str, Any]]:
        return [one.data for one in self.heard if one.kind == "approval"]

    def finished(self, turns: int = 1) -> bool:
        return sum(event["body"]["type"] == "turn_finished" for event in self.events) >= turns


@asynccontextmanager
async def listening(http: Face, query: str = "", **headers: str) -> AsyncIterator[Listening]:
    """From the moment it is entered, what is written is heard."""
    visit = http.visit("GET", f"/v1/events?{query}", **headers)
    found = Listening()

    async def send(event: Any) -> None:
        if event["type"] == "http.response.start":
            assert event["status"] == 200, event
        found.body += event.get("body", b"")

    task = asyncio.create_task(http.app(visit._scope, visit._receive, send))
    try:
        await eventually(lambda: found.body or task.done())
        assert not task.done(), "the feed ended at once"
        yield found
    finally:
        visit.leave()
        async with asyncio.timeout(10):
            await task


@asynccontextmanager
async def listening_at(port: int, query: str = "", **headers: str) -> AsyncIterator[Listening]:
    """The same with a real connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    writer.write(f"GET /v1/events?{query} HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n".encode())
    found = Listening()
    async with asyncio.timeout(10):
        head = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0], head

    async def read() -> None:
        while (size := int((await reader.readline()) or b"0", 16)) > 0:
            found.body += await reader.readexactly(size)
            await reader.readline()
        found.ended = True

    task = asyncio.create_task(read())
    try:
        await eventually(lambda: found.body)
        yield found
    finally:
        task.cancel()
        writer.close()
        with contextlib.suppress(asyncio.CancelledError, OSError, asyncio.IncompleteReadError):
            await task
