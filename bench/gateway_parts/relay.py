"""A relay that does nothing else, of the parts that aish is made of: uvicorn, our HTTP client, each chunk decoded, the
bytes passed on as they came. What a gateway in Python costs at the least: no keys, no turns, no store, no limits.

    python relay.py UPSTREAM_URL PORT
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvicorn

from aish.net.http.client import HttpClient, Response
from aish.net.lines import SseReader
from aish.providers.openai.response import decode_chunk

HEADERS = (("content-type", "application/json"),)
MAX_EVENT_BYTES = 1 << 20

Event = dict[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]


class Asked(msgspec.Struct):
    stream: bool = False


class Relay:
    def __init__(self, url: str) -> None:
        self._url = f"{url}/chat/completions"
        self._client = HttpClient()
        self._decode = msgspec.json.Decoder(Asked).decode

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        body = await whole_body(receive)
        client = self._client
        async with client.request("POST", self._url, headers=HEADERS, body=body) as response:
            if self._decode(body).stream:
                await stream(response, receive, send)
            else:
                answer = await response.read()
                decode_chunk(answer)
                await begin(send, [(b"content-length", b"%d" % len(answer)), (b"content-type", b"application/json")])
                await send({"type": "http.response.body", "body": answer})


async def whole_body(receive: Receive) -> bytes:
    pieces: list[bytes] = []
    while True:
        event = await receive()
        pieces.append(event.get("body", b""))
        if not event.get("more_body"):
            return b"".join(pieces)


async def stream(response: Response, receive: Receive, send: Send) -> None:
    watching = asyncio.create_task(cancel_when_gone(receive, asyncio.current_task()))
    reader = SseReader(MAX_EVENT_BYTES)
    await begin(send, [(b"content-type", b"text/event-stream")])
    try:
        async for piece in response:
            for data in reader.feed_data(piece):
                if data != b"[DONE]":
                    decode_chunk(data)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except asyncio.CancelledError:
        return
    finally:
        watching.cancel()


async def cancel_when_gone(receive: Receive, task: asyncio.Task[Any] | None) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    if task is not None:
        task.cancel()


async def begin(send: Send, headers: list[tuple[bytes, bytes]]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": headers})


if __name__ == "__main__":
    uvicorn.run(
        Relay(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), lifespan="off", log_level="error", access_log=False
    )
