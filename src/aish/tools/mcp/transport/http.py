"""Streamable HTTP: each request is a POST, answered with JSON or with an event stream.

Messages that the server sends by itself arrive on those streams and, if it announces changes, on one more: a GET stream
if there is a session, a subscription in the stateless era. A stream that breaks off after an event with an id is
resumed from there. Closing deletes the session on the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec

from aish.errors import AishError, BadResponse, ConnectionLost, WireError, WireTimeout
from aish.net.background_tasks import BackgroundTasks
from aish.net.http.client import HttpClient, Response, Timeouts
from aish.net.jsonrpc_message import (
    Message,
    RpcError,
    encode_error,
    encode_notification,
    encode_result,
    encode_rpc_request,
)
from aish.safety.allowed_urls import find_allowed, find_url_fault
from aish.tools.mcp.errors import HttpFailure, SessionGone
from aish.tools.mcp.transport.headers import standard_headers
from aish.tools.mcp.transport.incoming_messages import SUBSCRIBE, IncomingMessages
from aish.tools.mcp.transport.reply import HttpReply, ResumableStream, read_failure
from aish.tools.mcp.types import ServerSpec

_CONNECT_S = 10.0
_NOTIFY_S = 10.0
_DELETE_S = 2.0
# A listening stream that is silent for five minutes may be dead, so it is opened again.
_LISTENING = Timeouts(_CONNECT_S, first_byte_s=300, idle_s=300)
_MIN_PAUSE_S, _MAX_PAUSE_S = 1.0, 60.0
_MAX_RESUMES = 10  # in a row without progress
_MAX_REDIRECTS = 3
_MAX_SESSION_ID_CHARS = 1024

Headers = list[tuple[str, str]]
Pause = Callable[[float], Awaitable[object]]
Listen = Callable[[], Awaitable[None]]


class HttpTransport:
    """`pause` waits between attempts."""

    def __init__(
        self, spec: ServerSpec, incoming: IncomingMessages, http: HttpClient, *, pause: Pause = asyncio.sleep
    ) -> None:
        self._spec = spec
        self._incoming = incoming
        self._http = http
        self._pause = pause
        self._url = spec.url
        self._version = ""
        self._stateless = False
        self._session_id = ""
        self._last_id = 0
        self._slots = asyncio.Semaphore(spec.max_in_flight)
        self._background = BackgroundTasks(timeout_s=_NOTIFY_S)
        self._listening: asyncio.Task[None] | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, spec: ServerSpec, incoming: IncomingMessages, http: HttpClient, *, pause: Pause = asyncio.sleep
    ) -> AsyncIterator[HttpTransport]:
        transport = cls(spec, incoming, http, pause=pause)
        try:
            yield transport
        finally:
            await transport._close()

    # Requests of the session.

    async def request(
        self, method: str, params: dict[str, Any], *, timeout_s: float, headers: Sequence[tuple[str, str]] = ()
    ) -> msgspec.Raw:
        self._last_id = id = self._last_id + 1
        body = encode_rpc_request(id, method, params)
        extra = [*headers, *(standard_headers(self._version, method, params) if self._stateless else ())]
        try:
            async with asyncio.timeout(timeout_s), self._slots:
                return await self._exchange(id, method, body, extra, timeout_s)
        except TimeoutError as exc:
            raise WireTimeout(f"{method} was not answered within {timeout_s:g} s", phase="request") from exc

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        if self._stateless:
            return  # this era has no notifications: closing the connection cancels the request
        await self._post(encode_notification(method, params))

    def set_version(self, version: str, *, stateless: bool) -> None:
        self._version = version
        self._stateless = stateless

    def listen(self) -> None:
        if self._session_id:
            stream = ResumableStream(self._spec.max_message_bytes, self._handle)
            self._start_listening(stream, lambda: self._read_listening_stream(stream), greeting=0)

    def subscribe(self, params: dict[str, Any]) -> None:
        self._last_id = id = self._last_id + 1
        stream = HttpReply(id, self._spec.max_message_bytes, self._handle)
        body = encode_rpc_request(id, SUBSCRIBE, params)
        extra = list(standard_headers(self._version, SUBSCRIBE, params))
        self._start_listening(stream, lambda: self._subscribe(stream, body, extra), greeting=1)

    def forget_session(self) -> None:
        self._session_id = ""
        self._version = ""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None

    def stderr_tail(self) -> str:
        return ""

    async def wait_closed(self) -> AishError:
        never: asyncio.Future[AishError] = asyncio.get_running_loop().create_future()
        return await never

    # One request.

    async def _exchange(self, id: int, method: str, body: bytes, extra: Headers, timeout_s: float) -> msgspec.Raw:
        reply = HttpReply(id, self._spec.max_message_bytes, self._handle)
        try:
            async with self._open("POST", extra, body, _timeouts(timeout_s)) as response:
                if method == "initialize":
                    self._store_session(response)
                try:
                    answer = await reply.read(response)
                except ConnectionLost:
                    if not reply.event_id:
                        raise
                    answer = None
            return (answer or await self._resume(reply, timeout_s)).get_result()
        except asyncio.CancelledError:
            if not self._stateless and method != "initialize":
                params = {"requestId": id, "reason": "the caller no longer waits"}
                self._background.run(lambda: self._post(encode_notification("notifications/cancelled", params)))
            raise

    async def _resume(self, reply: HttpReply, timeout_s: float) -> Message:
        """Reads the rest of a stream that ended too early. The caller's deadline bounds it all."""
        for _ in range(_MAX_RESUMES):
            seen = reply.event_id
            if not seen:
                break
            await self._pause(reply.retry_s(_MIN_PAUSE_S, _MAX_PAUSE_S))
            with suppress(ConnectionLost):
                async with self._open("GET", [("Last-Event-ID", seen)], b"", _timeouts(timeout_s)) as response:
                    answer = await reply.read(response)
                    if answer is not None:
                        return answer
        raise BadResponse("the event stream ended without an answer")

    async def _post(self, body: bytes) -> None:
        async with self._open("POST", [], body, _timeouts(_NOTIFY_S)) as response:
            # Some servers answer a notification with a body. Reading it keeps the connection usable.
            with suppress(WireError):
                await response.read(64 * 1024)

    @asynccontextmanager
    async def _open(self, method: str, extra: Headers, body: bytes, timeouts: Timeouts) -> AsyncIterator[Response]:
        """Yields a successful response; raises HttpFailure for any other."""
        for _ in range(_MAX_REDIRECTS):
            headers, session_id = self._headers(extra, with_body=bool(body)), self._session_id
            async with self._http.request(method, self._url, headers=headers, body=body, timeouts=timeouts) as response:
                if 200 <= response.status < 300:
                    yield response
                    return
                if response.status not in (307, 308):
                    raise await self._failure(response, session_id)
                self._url = self._redirect_target(response)
        raise HttpFailure("it redirects again and again", status=308)

    async def _failure(self, response: Response, session_id: str) -> WireError:
        """`session_id` is the one that the request was sent with; another request may have renewed it meanwhile."""
        error = await read_failure(response, rpc_errors=self._stateless)
        if session_id and isinstance(error, HttpFailure) and error.status == 404:
            return SessionGone(error.message, status=404, body=error.body)
        return error

    def _redirect_target(self, response: Response) -> str:
        """Follows redirects only within the same origin, because they would get the token."""
        target = urljoin(self._url, response.headers.get("location"))
        here, there = urlsplit(self._url), urlsplit(target)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise HttpFailure("it redirects to another origin, which is not followed", status=response.status)
        if self._spec.only and (find_url_fault(target) or find_allowed(target, self._spec.only) is None):
            raise HttpFailure("it redirects to an address that is not allowed", status=response.status)
        return target

    def _headers(self, extra: Headers, *, with_body: bool) -> Headers:
        headers = [("Accept", "application/json, text/event-stream" if with_body else "text/event-stream")]
        if with_body:
            headers.append(("Content-Type", "application/json"))
        if self._spec.token:
            headers.append(("Authorization", f"Bearer {self._spec.token}"))
        if self._session_id:
            headers.append(("Mcp-Session-Id", self._session_id))
        if self._version and not self._stateless:
            headers.append(("MCP-Protocol-Version", self._version))
        return [*headers, *self._spec.headers.items(), *extra]

    def _store_session(self, response: Response) -> None:
        session_id = response.headers.get("mcp-session-id")
        if len(session_id) <= _MAX_SESSION_ID_CHARS and session_id.isascii() and session_id.isprintable():
            self._session_id = session_id

    # Messages of the server.

    def _handle(self, message: Message) -> None:
        if message.id is None:
            self._incoming.notification(message.method, message.params)
        elif not self._stateless:
            self._background.run(lambda: self._answer_request(message))

    async def _answer_request(self, message: Message) -> None:
        try:
            result = await self._incoming.request(message.method, message.params)
        except RpcError as exc:
            await self._post(encode_error(message.id, exc))
        else:
            await self._post(encode_result(message.id, result))

    def _start_listening(self, stream: ResumableStream, listen: Listen, *, greeting: int) -> None:
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._keep_listening(stream, listen, greeting))

    async def _keep_listening(self, stream: ResumableStream, listen: Listen, greeting: int) -> None:
        """Reopens a stream until that is pointless: soon if it delivered messages, otherwise ever later. `greeting`
        is the number of messages at its start that do not count."""
        pause_s = _MIN_PAUSE_S
        while True:
            received = stream.received
            try:
                await listen()
            except RpcError:
                return  # the server does not support what it announces
            except HttpFailure as exc:
                if exc.status < 500 and exc.status != 429:
                    return
            except WireError:
                pass
            pause_s = _MIN_PAUSE_S if stream.received > received + greeting else min(2 * pause_s, _MAX_PAUSE_S)
            await self._pause(max(pause_s, stream.retry_s(_MIN_PAUSE_S, _MAX_PAUSE_S)))

    async def _read_listening_stream(self, stream: ResumableStream) -> None:
        extra = [("Last-Event-ID", stream.event_id)] if stream.event_id else []
        async with self._open("GET", extra, b"", _LISTENING) as response:
            await stream.read_all(response)

    async def _subscribe(self, stream: HttpReply, body: bytes, extra: Headers) -> None:
        """A subscription cannot be resumed. Missed changes are found by listing again."""
        again = stream.received > 0
        async with self._open("POST", extra, body, _LISTENING) as response:
            if again:
                self._incoming.report_change("tools")
            if (end := await stream.read(response)) is not None:
                end.get_result()

    # Closing.

    async def _close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        await self._background.aclose()
        if self._session_id:
            headers = self._headers([], with_body=False)
            with suppress(WireError):  # it may not support this, or be gone
                async with self._http.request("DELETE", self._url, headers=headers, timeouts=_timeouts(_DELETE_S)):
                    pass


def _timeouts(timeout_s: float) -> Timeouts:
    """Slightly longer than the request's own deadline, so that the latter expires first and the server is informed."""
    longer_s = timeout_s + 1
    return Timeouts(min(_CONNECT_S, timeout_s), first_byte_s=longer_s, idle_s=longer_s, total_s=longer_s)
