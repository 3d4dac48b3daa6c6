"""One end of a JSON-RPC conversation over a byte stream, for newline framing (MCP) and content-length framing (LSP).

    peer = Peer(child.write, NewlineFraming(), title="files")
    reading = asyncio.create_task(peer.read(child.stdout))
    answer = await peer.request("tools/list", {}, timeout_s=30)     # raw JSON; decode it with a type of your own

Life story: the owner runs `read` in a task; when the stream ends it calls `close` with the reason, and from then on
every request, pending or new, fails with it at once. Whatever the other side sends, nothing here grows without bound
and nothing waits without a deadline: lines that are no JSON-RPC are counted and skipped, answers to no question are
counted, a message too long fails its request by name where its id can be told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import msgspec

from aish.errors import AishError, BadResponse, ConnectionLost, TooLarge, WireTimeout
from aish.net.background_tasks import Errands
from aish.net.framing import Framing, Oversize
from aish.net.jsonrpc_message import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Message,
    RpcError,
    decode_messages,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    guess_answered,
    integer,
)

__all__ = ["Handler", "Peer", "RpcError", "Skipped"]

_MAX_INCOMING = 16  # requests of the other side being answered at once; more are refused
_ERRAND_TIMEOUT_S = 5.0  # for what nobody waits for: answers, and news of a cancelled request

Send = Callable[[bytes], Awaitable[None]]
Cancelled = Callable[[int, str], "tuple[str, Any] | None"]


class Handler(Protocol):
    """What to do with what the other side starts."""

    async def request(self, method: str, params: msgspec.Raw) -> Any:
        """The result, or RpcError. Soon: few are answered at once."""

    def notification(self, method: str, params: msgspec.Raw) -> None: ...


class Refusal:
    """Answers every request with -32601 and hears no notification."""

    async def request(self, method: str, params: msgspec.Raw) -> Any:
        raise RpcError(METHOD_NOT_FOUND, "Method not found")

    def notification(self, method: str, params: msgspec.Raw) -> None:
        return None


class Skipped(msgspec.Struct):
    """What was read and could not be used."""

    garbage: int = 0  # not JSON-RPC at all
    strays: int = 0  # answers to no question, or late ones
    oversize: int = 0

    def __str__(self) -> str:
        counts = ((self.garbage, "no JSON-RPC"), (self.strays, "answers to no request"), (self.oversize, "too long"))
        return ", ".join(f"{count} {what}" for count, what in counts if count)


class Peer:
    """`send` writes one framed message, whole or not at all. `cancelled` says how to tell the other side that nobody
    waits for a request any more: a method and params, or None for nothing."""

    def __init__(
        self,
        send: Send,
        framing: Framing,
        *,
        title: str,
        handler: Handler | None = None,
        cancelled: Cancelled | None = None,
        max_in_flight: int = 64,
        max_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self.skipped = Skipped()
        self._send = send
        self._framing = framing
        self._title = title
        self._handler: Handler = handler or Refusal()
        self._cancelled = cancelled
        self._slots = asyncio.Semaphore(max_in_flight)
        self._max_bytes = max_bytes
        self._last_id = 0
        self._pending: dict[int, asyncio.Future[Message]] = {}
        self._incoming = 0
        self._errands = Errands(timeout_s=_ERRAND_TIMEOUT_S)
        self._reason: Callable[[], AishError] | None = None

    # What we start.

    async def request(self, method: str, params: Any = msgspec.UNSET, *, timeout_s: float) -> msgspec.Raw:
        """The result. RpcError, or another WireError or ProcessError; waiting for a free slot counts as waiting."""
        try:
            async with asyncio.timeout(timeout_s), self._slots:
                return await self._exchange(method, params)
        except TimeoutError as exc:
            raise WireTimeout(self._late(method, timeout_s), phase="request") from exc

    async def notify(self, method: str, params: Any = msgspec.UNSET, *, timeout_s: float = _ERRAND_TIMEOUT_S) -> None:
        self._check_open()
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(self._framed(encode_notification(method, params)))
        except TimeoutError as exc:
            raise WireTimeout(f"{self._title} did not take {method} within {timeout_s:g} s", phase="write") from exc

    def open(self, method: str, params: Any = msgspec.UNSET) -> None:
        """A request that opens something: it is answered at its end, if ever, and nobody waits for that."""
        self._last_id += 1
        self._say(encode_request(self._last_id, method, params))

    async def _exchange(self, method: str, params: Any) -> msgspec.Raw:
        self._check_open()
        self._last_id = id = self._last_id + 1
        data = self._framed(encode_request(id, method, params))
        answered: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._pending[id] = answered
        sent = False
        try:
            await self._send(data)
            sent = True
            return (await answered).answer()
        except asyncio.CancelledError:
            if sent:
                self._tell_cancelled(id, method)
            raise
        finally:
            del self._pending[id]
            if answered.done() and not answered.cancelled():
                answered.exception()  # it may have failed while we were still sending

    def _tell_cancelled(self, id: int, method: str) -> None:
        news = self._cancelled(id, method) if self._cancelled is not None else None
        if news is not None:
            self._say(encode_notification(*news))

    def _framed(self, body: bytes) -> bytes:
        if len(body) > self._max_bytes:
            raise TooLarge(f"the message to {self._title} is larger than {self._max_bytes} bytes")
        return self._framing.frame(body)

    def _late(self, method: str, timeout_s: float) -> str:
        text = f"{method} was not answered within {timeout_s:g} s"
        skipped = str(self.skipped)
        return f"{text} (of what came instead: {skipped})" if skipped else text

    # What the other side sends.

    async def read(self, source: AsyncIterator[bytes]) -> None:
        """Until the stream ends. Does not close the peer: whoever calls knows better why it ended."""
        async for piece in source:
            self.feed(piece)

    def feed(self, data: bytes) -> None:
        """The same for one piece, where whoever reads has no use for a task."""
        for body in self._framing.feed(data):
            self._take(body)

    def _take(self, body: bytes | Oversize) -> None:
        if isinstance(body, Oversize):
            self.skipped.oversize += 1
            error = TooLarge(f"{self._title} sent a message of {body.size} bytes, which is too large")
            self._fail(guess_answered(body.head, body.tail), error)
            return
        try:
            messages = decode_messages(body)
        except BadResponse as exc:
            self.skipped.garbage += 1
            self._fail(guess_answered(body, body), exc)
            return
        for message in messages:
            self._dispatch(message)

    def _dispatch(self, message: Message) -> None:
        if message.is_answer:
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
        id = integer(message.id)
        if message.id is None and message.error and len(self._pending) == 1:
            id = next(iter(self._pending))  # "I could not even read your id" can only mean this one
        waiting = self._pending.get(id) if id is not None else None
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
        elif message.result or message.error:
            self.skipped.strays += 1
        else:
            self.skipped.garbage += 1

    def _fail(self, id: int | None, error: AishError) -> None:
        waiting = self._pending.get(id) if id is not None else None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)

    def _serve(self, message: Message) -> None:
        if self._incoming >= _MAX_INCOMING:
            self._say(encode_error(message.id, RpcError(INTERNAL_ERROR, "too many requests at once")))
            return
        self._incoming += 1
        if not self._errands.run(lambda: self._handle(message)):
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
        await self._send(self._framed(data))

    def _say(self, data: bytes) -> None:
        self._errands.run(lambda: self._send(self._framed(data)))

    # The end.

    @property
    def closed(self) -> bool:
        return self._reason is not None

    def close(self, reason: Callable[[], AishError] | None = None) -> None:
        """Everything pending, and every request from now on, fails with what `reason` makes. The first reason stays."""
        if self._reason is not None:
            return
        self._reason = reason or (lambda: ConnectionLost(f"{self._title} is closed"))
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(self._reason())
        self._errands.cancel()

    async def aclose(self) -> None:
        self.close()
        await self._errands.aclose()

    def _check_open(self) -> None:
        if self._reason is not None:
            raise self._reason()
