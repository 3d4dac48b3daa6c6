"""A server behind a URL: Streamable HTTP, a POST for each request, answered with JSON or with an event stream.

What the server has to say by itself comes on the streams that answer requests, and where it announces changes on one
more: a listening GET stream if it gave us a session, in the stateless era a subscription. A stream that breaks off
after an event with an id is resumed from there. Leaving tells the server to forget the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec

from aish.errors import AishError, BadResponse, ConnectionLost, WireError, WireTimeout
from aish.net.background_tasks import Errands
from aish.net.http.client import HttpClient, Response, Timeouts
from aish.net.jsonrpc_message import Message, RpcError, encode_error, encode_notification, encode_request, encode_result
from aish.safety.urls import fault_of, find_allowed
from aish.tools.mcp.errors import HttpFailure, SessionGone
from aish.tools.mcp.transport.base import SUBSCRIBE, Inbox
from aish.tools.mcp.transport.headers import standard_headers
from aish.tools.mcp.transport.reply import Reply, Resumable, failure
from aish.tools.mcp.types import ServerSpec

_CONNECT_S = 10.0
_NOTIFY_S = 10.0
_GOODBYE_S = 2.0
# A listening stream silent for five minutes may be dead without our knowing: it is opened anew.
_LISTENING = Timeouts(_CONNECT_S, first_byte_s=300, idle_s=300)
_MIN_PAUSE_S, _MAX_PAUSE_S = 1.0, 60.0
_MAX_RESUMES = 10  # in a row without anything new
_MAX_REDIRECTS = 3
_MAX_SESSION_ID_CHARS = 1024

Headers = list[tuple[str, str]]
Pause = Callable[[float], Awaitable[object]]
Listen = Callable[[], Awaitable[None]]


class HttpTransport:
    """`pause` is how it waits between attempts."""

    def __init__(self, spec: ServerSpec, inbox: Inbox, http: HttpClient, *, pause: Pause = asyncio.sleep) -> None:
        self._spec = spec
        self._inbox = inbox
        self._http = http
        self._pause = pause
        self._url = spec.url
        self._version = ""
        self._stateless = False
        self._session_id = ""
        self._last_id = 0
        self._slots = asyncio.Semaphore(spec.max_in_flight)
        self._errands = Errands(timeout_s=_NOTIFY_S)
        self._listening: asyncio.Task[None] | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls, spec: ServerSpec, inbox: Inbox, http: HttpClient, *, pause: Pause = asyncio.sleep
    ) -> AsyncIterator[HttpTransport]:
        transport = cls(spec, inbox, http, pause=pause)
        try:
            yield transport
        finally:
            await transport._close()

    # What the session asks for.

    async def request(
        self, method: str, params: dict[str, Any], *, timeout_s: float, headers: Sequence[tuple[str, str]] = ()
    ) -> msgspec.Raw:
        self._last_id = id = self._last_id + 1
        body = encode_request(id, method, params)
        about = [*headers, *(standard_headers(self._version, method, params) if self._stateless else ())]
        try:
            async with asyncio.timeout(timeout_s), self._slots:
                return await self._exchange(id, method, body, about, timeout_s)
        except TimeoutError as exc:
            raise WireTimeout(f"{method} was not answered within {timeout_s:g} s", phase="request") from exc

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        if self._stateless:
            return  # there are none in this era: leaving a request is cancelling it
        await self._post(encode_notification(method, params))

    def speak(self, version: str, *, stateless: bool) -> None:
        self._version = version
        self._stateless = stateless

    def listen(self) -> None:
        if self._session_id:
            stream = Resumable(self._spec.max_message_bytes, self._take)
            self._keep_listening(stream, lambda: self._listen(stream), greeting=0)

    def subscribe(self, params: dict[str, Any]) -> None:
        self._last_id = id = self._last_id + 1
        stream = Reply(id, self._spec.max_message_bytes, self._take)
        body = encode_request(id, SUBSCRIBE, params)
        about = list(standard_headers(self._version, SUBSCRIBE, params))
        self._keep_listening(stream, lambda: self._subscribe(stream, body, about), greeting=1)

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

    async def _exchange(self, id: int, method: str, body: bytes, about: Headers, timeout_s: float) -> msgspec.Raw:
        reply = Reply(id, self._spec.max_message_bytes, self._take)
        try:
            async with self._open("POST", about, body, _within(timeout_s)) as response:
                if method == "initialize":
                    self._keep_session(response)
                try:
                    answer = await reply.read(response)
                except ConnectionLost:
                    if not reply.event_id:
                        raise
                    answer = None
            return (answer or await self._resume(reply, timeout_s)).answer()
        except asyncio.CancelledError:
            if not self._stateless and method != "initialize":
                params = {"requestId": id, "reason": "nobody waits for it any more"}
                self._errands.run(lambda: self._post(encode_notification("notifications/cancelled", params)))
            raise

    async def _resume(self, reply: Reply, timeout_s: float) -> Message:
        """The rest of a stream that ended too early. The caller's deadline bounds it all."""
        for _ in range(_MAX_RESUMES):
            seen = reply.event_id
            if not seen:
                break
            await self._pause(reply.retry_s(_MIN_PAUSE_S, _MAX_PAUSE_S))
            with suppress(ConnectionLost):
                async with self._open("GET", [("Last-Event-ID", seen)], b"", _within(timeout_s)) as response:
                    answer = await reply.read(response)
                    if answer is not None:
                        return answer
        raise BadResponse("the event stream ended without an answer")

    async def _post(self, body: bytes) -> None:
        async with self._open("POST", [], body, _within(_NOTIFY_S)) as response:
            # Some answer a notification with a body all the same. Read, it leaves the connection usable.
            with suppress(WireError):
                await response.read(64 * 1024)

    @asynccontextmanager
    async def _open(self, method: str, about: Headers, body: bytes, timeouts: Timeouts) -> AsyncIterator[Response]:
        """An answer with a status of success; HttpFailure for any other."""
        for _ in range(_MAX_REDIRECTS):
            headers, session_id = self._headers(about, with_body=bool(body)), self._session_id
            async with self._http.request(method, self._url, headers=headers, body=body, timeouts=timeouts) as response:
                if 200 <= response.status < 300:
                    yield response
                    return
                if response.status not in (307, 308):
                    raise await self._failure(response, session_id)
                self._url = self._redirected(response)
        raise HttpFailure("it redirects again and again", status=308)

    async def _failure(self, response: Response, session_id: str) -> WireError:
        """`session_id` is what the request was sent with; another request may have found it gone already."""
        error = await failure(response, rpc_errors=self._stateless)
        if session_id and isinstance(error, HttpFailure) and error.status == 404:
            return SessionGone(error.message, status=404, body=error.body)
        return error

    def _redirected(self, response: Response) -> str:
        """Only within the same origin: the token is for nobody else."""
        target = urljoin(self._url, response.headers.get("location"))
        here, there = urlsplit(self._url), urlsplit(target)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise HttpFailure("it redirects to another origin, which is not followed", status=response.status)
        if self._spec.only and (fault_of(target) or find_allowed(target, self._spec.only) is None):
            raise HttpFailure("it redirects to where nobody is allowed to go", status=response.status)
        return target

    def _headers(self, about: Headers, *, with_body: bool) -> Headers:
        headers = [("Accept", "application/json, text/event-stream" if with_body else "text/event-stream")]
        if with_body:
            headers.append(("Content-Type", "application/json"))
        if self._spec.token:
            headers.append(("Authorization", f"Bearer {self._spec.token}"))
        if self._session_id:
            headers.append(("Mcp-Session-Id", self._session_id))
        if self._version and not self._stateless:
            headers.append(("MCP-Protocol-Version", self._version))
        return [*headers, *self._spec.headers.items(), *about]

    def _keep_session(self, response: Response) -> None:
        session_id = response.headers.get("mcp-session-id")
        if len(session_id) <= _MAX_SESSION_ID_CHARS and session_id.isascii() and session_id.isprintable():
            self._session_id = session_id

    # What the server starts.

    def _take(self, message: Message) -> None:
        if message.id is None:
            self._inbox.notification(message.method, message.params)
        elif not self._stateless:
            self._errands.run(lambda: self._serve(message))

    async def _serve(self, message: Message) -> None:
        try:
            result = await self._inbox.request(message.method, message.params)
        except RpcError as exc:
            await self._post(encode_error(message.id, exc))
        else:
            await self._post(encode_result(message.id, result))

    def _keep_listening(self, stream: Resumable, listen: Listen, *, greeting: int) -> None:
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._listen_again(stream, listen, greeting))

    async def _listen_again(self, stream: Resumable, listen: Listen, greeting: int) -> None:
        """Until it makes no sense. A stream that says something is opened again soon, one that does not ever later.
        `greeting` is how many messages it begins with, which say nothing."""
        pause_s = _MIN_PAUSE_S
        while True:
            heard = stream.heard
            try:
                await listen()
            except RpcError:
                return  # it does not have what it announces
            except HttpFailure as exc:
                if exc.status < 500 and exc.status != 429:
                    return
            except WireError:
                pass
            pause_s = _MIN_PAUSE_S if stream.heard > heard + greeting else min(2 * pause_s, _MAX_PAUSE_S)
            await self._pause(max(pause_s, stream.retry_s(_MIN_PAUSE_S, _MAX_PAUSE_S)))

    async def _listen(self, stream: Resumable) -> None:
        about = [("Last-Event-ID", stream.event_id)] if stream.event_id else []
        async with self._open("GET", about, b"", _LISTENING) as response:
            await stream.drain(response)

    async def _subscribe(self, stream: Reply, body: bytes, about: Headers) -> None:
        """Such a stream does not go on where it broke off: what has changed since is found by listing again."""
        again = stream.heard > 0
        async with self._open("POST", about, body, _LISTENING) as response:
            if again:
                self._inbox.changed("tools")
            if (end := await stream.read(response)) is not None:
                end.answer()

    # The end.

    async def _close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})
        await self._errands.aclose()
        if self._session_id:
            headers = self._headers([], with_body=False)
            with suppress(WireError):  # it may not know how to forget, or be gone itself
                async with self._http.request("DELETE", self._url, headers=headers, timeouts=_within(_GOODBYE_S)):
                    pass


def _within(timeout_s: float) -> Timeouts:
    """A little more than the request's own deadline, so that it is the one that ends it and the server is told."""
    longer_s = timeout_s + 1
    return Timeouts(min(_CONNECT_S, timeout_s), first_byte_s=longer_s, idle_s=longer_s, total_s=longer_s)
