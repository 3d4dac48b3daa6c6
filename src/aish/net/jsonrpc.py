"""One end of a JSON-RPC connection over a byte stream, with newline framing (MCP) or content-length framing (LSP).

    peer = Peer(child.write, NewlineFraming(), title="files")
    reading = asyncio.create_task(peer.read(child.stdout))
    answer = await peer.request("tools/list", {}, timeout_s=30)     # raw JSON; decode it with a type of your own

The owner runs `read` in a task. When the stream ends, the owner calls `close` with the reason; from then on every
pending or new request fails with it. No input makes memory grow without bound, and every wait has a deadline: input
that is no JSON-RPC is counted and skipped, responses without a request are counted, and a message that is too long
fails its request if its id can be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import msgspec

from aish.errors import AishError, BadResponse, ConnectionLost, TooLarge, WireTimeout
from aish.net.background_tasks import BackgroundTasks
from aish.net.framing import Framing, Oversize
from aish.net.jsonrpc_message import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Message,
    RpcError,
    decode_messages,
    encode_error,
    encode_notification,
    encode_result,
    encode_rpc_request,
    guess_request_id,
    parse_integer,
)

__all__ = ["Handler", "Peer", "RpcError", "SkippedInput"]

_MAX_INCOMING = 16  # requests of the other side handled at once; more are refused
_BACKGROUND_TIMEOUT_S = 5.0  # for messages that nothing waits for: responses, and notices of cancelled requests

Send = Callable[[bytes], Awaitable[None]]
MakeCancelNotice = Callable[[int, str], "tuple[str, Any] | None"]


class Handler(Protocol):
    """Handles requests and notifications of the other side."""

    async def request(self, method: str, params: msgspec.Raw) -> Any:
        """Returns the result or raises RpcError. Must be quick: few requests are handled at once."""

    def notification(self, method: str, params: msgspec.Raw) -> None: ...


class RefusingHandler:
    """Refuses every request with -32601 and ignores notifications."""

    async def request(self, method: str, params: msgspec.Raw) -> Any:
        raise RpcError(METHOD_NOT_FOUND, "Method not found")

    def notification(self, method: str, params: msgspec.Raw) -> None:
        return None


class SkippedInput(msgspec.Struct):
    """Counts input that was read and could not be used."""

    garbage: int = 0  # not JSON-RPC at all
    strays: int = 0  # responses without a request, or late ones
    oversize: int = 0

    def __str__(self) -> str:
        counts = ((self.garbage, "no JSON-RPC"), (self.strays, "answers to no request"), (self.oversize, "too long"))
        return ", ".join(f"{count} {what}" for count, what in counts if count)


class Peer:
    """`send` writes one framed message, completely or not at all. `cancel_notice` makes the notification that tells the
    other side that a request was cancelled: a method and params, or None to send nothing."""

    def __init__(
        self,
        send: Send,
        framing: Framing,
        *,
        title: str,
        handler: Handler | None = None,
        cancel_notice: MakeCancelNotice | None = None,
        max_in_flight: int = 64,
        max_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self.skipped = SkippedInput()
        self._send = send
        self._framing = framing
        self._title = title
        self._handler: Handler = handler or RefusingHandler()
        self._cancel_notice = cancel_notice
        self._slots = asyncio.Semaphore(max_in_flight)
        self._max_bytes = max_bytes
        self._last_id = 0
        self._pending: dict[int, asyncio.Future[Message]] = {}
        self._incoming = 0
        self._background = BackgroundTasks(timeout_s=_BACKGROUND_TIMEOUT_S)
        self._reason: Callable[[], AishError] | None = None

    # Requests to the other side.

    async def request(self, method: str, params: Any = msgspec.UNSET, *, timeout_s: float) -> msgspec.Raw:
        """Returns the result. Raises RpcError, or another WireError or ProcessError. The timeout includes waiting for a
        free slot."""
        try:
            async with asyncio.timeout(timeout_s), self._slots:
                return await self._exchange(method, params)
        except TimeoutError as exc:
            raise WireTimeout(self._timeout_message(method, timeout_s), phase="request") from exc

    async def notify(
        self, method: str, params: Any = msgspec.UNSET, *, timeout_s: float = _BACKGROUND_TIMEOUT_S
    ) -> None:
        self._check_open()
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(self._frame(encode_notification(method, params)))
        except TimeoutError as exc:
            raise WireTimeout(f"{self._title} did not take {method} within {timeout_s:g} s", phase="write") from exc

    def open(self, method: str, params: Any = msgspec.UNSET) -> None:
        """Sends a request that opens something, such as a subscription. Its response comes at the end and is
        ignored."""
        self._last_id += 1
        self._send_in_background(encode_rpc_request(self._last_id, method, params))

    async def _exchange(self, method: str, params: Any) -> msgspec.Raw:
        self._check_open()
        self._last_id = id = self._last_id + 1
        data = self._frame(encode_rpc_request(id, method, params))
        response: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._pending[id] = response
        sent = False
        try:
            await self._send(data)
            sent = True
            return (await response).get_result()
        except asyncio.CancelledError:
            if sent:
                self._notify_cancelled(id, method)
            raise
        finally:
            del self._pending[id]
            if response.done() and not response.cancelled():
                response.exception()  # it may have failed during sending; mark its exception as seen

    def _notify_cancelled(self, id: int, method: str) -> None:
        notice = self._cancel_notice(id, method) if self._cancel_notice is not None else None
        if notice is not None:
            self._send_in_background(encode_notification(*notice))

    def _frame(self, body: bytes) -> bytes:
        if len(body) > self._max_bytes:
            raise TooLarge(f"the message to {self._title} is larger than {self._max_bytes} bytes")
        return self._framing.frame(body)

    def _timeout_message(self, method: str, timeout_s: float) -> str:
        text = f"{method} was not answered within {timeout_s:g} s"
        skipped = str(self.skipped)
        return f"{text} (of what came instead: {skipped})" if skipped else text

    # Messages of the other side.

    async def read(self, source: AsyncIterator[bytes]) -> None:
        """Reads until the stream ends. The caller then closes the peer with the reason."""
        async for piece in source:
            self.feed(piece)

    def feed(self, data: bytes) -> None:
        """Handles one piece, for a caller that reads in a callback."""
        for body in self._framing.feed(data):
            self._take(body)

    def _take(self, body: bytes | Oversize) -> None:
        if isinstance(body, Oversize):
            self.skipped.oversize += 1
            error = TooLarge(f"{self._title} sent a message of {body.size} bytes, which is too large")
            self._fail_request(guess_request_id(body.head, body.tail), error)
            return
        try:
            messages = decode_messages(body)
        except BadResponse as exc:
            self.skipped.garbage += 1
            self._fail_request(guess_request_id(body, body), exc)
            return
        for message in messages:
            self._dispatch(message)

    def _dispatch(self, message: Message) -> None:
        if message.is_response:
            self._resolve(message)
        elif not isinstance(message.method, str):
            self.skipped.garbage += 1
        elif message.id is None:
            self._handler.notification(message.method, message.params)
        elif isinstance(message.id, int | str | float):
            self._serve(message)
        else:
            self.skipped.garbage += 1

    def _resolve(self, message: Message) -> None:
        id = parse_integer(message.id)
        if message.id is None and message.error and len(self._pending) == 1:
            id = next(iter(self._pending))  # an error without an id can only belong to the single pending request
        waiting = self._pending.get(id) if id is not None else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
        elif message.result or message.error:
            self.skipped.strays += 1
        else:
            self.skipped.garbage += 1

    def _fail_request(self, id: int | None, error: AishError) -> None:
        waiting = self._pending.get(id) if id is not None else None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)

    def _serve(self, message: Message) -> None:
        if self._incoming >= _MAX_INCOMING:
            self._send_in_background(encode_error(message.id, RpcError(INTERNAL_ERROR, "too many requests at once")))
            return
        self._incoming += 1
        if not self._background.run(lambda: self._handle(message)):
            self._incoming -= 1

    async def _handle(self, message: Message) -> None:
        try:
            result = await self._handler.request(message.method, message.params)
            data = encode_result(message.id, result)
        except RpcError as exc:
            data = encode_error(message.id, exc)
        except AishError:
            data = encode_error(message.id, RpcError(INTERNAL_ERROR, "Internal error"))
        finally:
            self._incoming -= 1
        await self._send(self._frame(data))

    def _send_in_background(self, data: bytes) -> None:
        self._background.run(lambda: self._send(self._frame(data)))

    # The end.

    @property
    def closed(self) -> bool:
        return self._reason is not None

    def close(self, reason: Callable[[], AishError] | None = None) -> None:
        """Fails pending and all later requests with what `reason` makes. The first reason stays."""
        if self._reason is not None:
            return
        self._reason = reason or (lambda: ConnectionLost(f"{self._title} is closed"))
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(self._reason())
        self._background.cancel()

    async def aclose(self) -> None:
        self.close()
        await self._background.aclose()

    def _check_open(self) -> None:
        if self._reason is not None:
            raise self._reason()
