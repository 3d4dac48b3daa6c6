"""Reads HTTP responses: one JSON document, or an event stream that may break off and be resumed.

Lenient: the content type is a hint, the body decides. A response with another id is an error at once, because no other
would follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import msgspec

from aish.errors import BadResponse, WireError
from aish.net.http.client import Response
from aish.net.jsonrpc_message import Message, decode_messages, guess_request_id, parse_integer
from aish.net.lines import SseEvent, SseReader
from aish.tools.mcp.errors import HttpFailure

_MAX_ERROR_BYTES = 64 * 1024
_SHOWN_CHARS = 300
_END_S = 0.02  # cheaper than a new connection, and short if the server keeps the stream open
_SSE_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")

Take = Callable[[Message], None]


class ResumableStream:
    """An event stream over several connections: tracks the last event and the retry time."""

    def __init__(self, max_bytes: int, take: Take) -> None:
        self.event_id = ""
        self.received = 0  # messages
        self._max_bytes = max_bytes
        self._handle = take
        self._retry_s: float | None = None

    def retry_s(self, default_s: float, max_s: float) -> float:
        """Returns how long to wait before reconnecting: the server's value, within limits."""
        return default_s if self._retry_s is None else min(self._retry_s, max_s)

    async def read_all(self, response: Response) -> None:
        reader = SseReader(self._max_bytes)
        async for piece in response:
            for event in reader.feed(piece):
                for message in self._messages(event):
                    self._deliver(message)

    def _messages(self, event: SseEvent) -> list[Message]:
        """Returns no messages for events without one: an id only, a ping, garbage."""
        self.event_id = event.id or self.event_id
        if event.retry is not None:
            self._retry_s = event.retry / 1000
        if not event.data.strip() or event.event != "message":
            return []
        try:
            return decode_messages(event.data.strip())
        except BadResponse as exc:
            self._handle_undecodable(event.data, exc)
            return []

    def _handle_undecodable(self, data: bytes, exc: BadResponse) -> None:
        """Ignores undecodable data."""

    def _deliver(self, message: Message) -> None:
        if not message.is_response and isinstance(message.method, str):
            self.received += 1
            self._handle(message)


class HttpReply(ResumableStream):
    """The response to one request."""

    def __init__(self, id: int, max_bytes: int, take: Take) -> None:
        super().__init__(max_bytes, take)
        self._id = id

    async def read(self, response: Response) -> Message | None:
        """Returns None if the stream ended before the response."""
        if "text/event-stream" in response.headers.get("content-type").lower():
            return await self._read_stream(response)
        body = (await response.read(self._max_bytes)).strip()
        if body.startswith(_SSE_STARTS):
            return self._from_events(SseReader(self._max_bytes).feed(body + b"\n\n"))
        if not body:
            raise BadResponse(f"the request was not answered: {response.status} with an empty body")
        return self._from_document(body)

    async def _read_stream(self, response: Response) -> Message | None:
        reader = SseReader(self._max_bytes)
        async for piece in response:
            answer = self._from_events(reader.feed(piece))
            if answer is not None:
                await _wait_for_end(response)
                return answer
        return self._from_events(reader.finish())

    def _from_events(self, events: list[SseEvent]) -> Message | None:
        for event in events:
            answer = self._answer_among(self._messages(event))
            if answer is not None:
                return answer
        return None

    def _from_document(self, body: bytes) -> Message:
        answer = self._answer_among(decode_messages(body))
        if answer is None:
            raise BadResponse("the request was not answered: the body holds no answer")
        return answer

    def _answer_among(self, messages: list[Message]) -> Message | None:
        others = []
        for message in messages:
            if not message.is_response:
                self._deliver(message)
            elif parse_integer(message.id) == self._id or (message.id is None and message.error):
                return message
            elif message.result or message.error:
                others.append(str(message.id)[:40])
        if others:
            raise BadResponse(f"answered with the id {others[0]!r} where {self._id} was asked for")
        return None

    def _handle_undecodable(self, data: bytes, exc: BadResponse) -> None:
        if guess_request_id(data, data) == self._id:
            raise exc


async def _wait_for_end(response: Response) -> None:
    """Servers end the stream right after the response; then the connection can be reused."""
    with suppress(TimeoutError, WireError):
        async with asyncio.timeout(_END_S):
            async for _ in response:
                pass


async def read_failure(response: Response, *, rpc_errors: bool) -> WireError:
    """Returns the error for a status without success. In the stateless era a JSON-RPC error in the body is
    preferred."""
    body = await _read_limited(response)
    if rpc_errors and (error := _find_rpc_error(body)) is not None:
        return error
    text = _error_text(body)
    summary = f"answered {response.status} {response.reason}".rstrip()
    return HttpFailure(
        f"{summary}: {text}" if text else summary,
        status=response.status,
        body=body.decode("utf-8", "replace"),
        challenge=response.headers.get("www-authenticate"),
    )


def _find_rpc_error(body: bytes) -> WireError | None:
    try:
        decode_messages(body.strip())[0].get_result()
    except BadResponse:
        return None
    except WireError as exc:
        return exc
    except IndexError:
        return None
    return None


def _error_text(body: bytes) -> str:
    """Extracts the message for the user."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        text = " ".join(body[: 4 * _SHOWN_CHARS].decode("utf-8", "replace").split())
        return "an HTML page" if text.startswith("<") else text[:_SHOWN_CHARS]
    for _ in range(3):
        if isinstance(value, dict):
            value = value.get("error_description") or value.get("message") or value.get("error") or value.get("detail")
    return str(value)[:_SHOWN_CHARS] if value else ""


async def _read_limited(response: Response) -> bytes:
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in response:
            pieces.append(piece)
            size += len(piece)
            if size >= _MAX_ERROR_BYTES:
                break
    except WireError:
        pass  # the status is the error; a truncated explanation is better than none
    return b"".join(pieces)[:_MAX_ERROR_BYTES]
