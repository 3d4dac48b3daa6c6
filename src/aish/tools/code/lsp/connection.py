"""A running language server that has shaken hands: requests to it, and the end of it.

Life: started, `initialize`, `initialized`; at the end `shutdown` and `exit`, each with a deadline, and then the ladder
of `process`, which ends the whole group: a server is often a wrapper around the one that does the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from aish.errors import AishError, ConnectionLost, WireTimeout
from aish.net.framing import ContentLengthFraming, Oversize
from aish.net.jsonrpc import Peer, RpcError
from aish.process.child import ChildProcess, ProcessSpec
from aish.process.child_peer import ChildReading
from aish.tools.code.lsp.answers import decoded
from aish.tools.code.lsp.capabilities import PROVIDERS, hello
from aish.tools.code.lsp.inbox import Inbox
from aish.tools.code.lsp.positions import ENCODINGS, Encoding
from aish.tools.code.lsp.spec import ServerSpec

# Which environment a person has activated: it says where the packages are.
_INHERITED = ("VIRTUAL_ENV", "CONDA_PREFIX")
_CONTENT_MODIFIED = -32801
_SERVER_CANCELLED = -32802
# A server that drops a question because something changed is asked again, but not for ever.
_ATTEMPTS = 4


class _Counted(ContentLengthFraming):
    """Counts what comes, to tell a server that is slow from one that cannot be understood any more."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self.bytes = 0
        self.messages = 0

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        messages = super().feed(data)
        self.bytes += len(data)
        self.messages += len(messages)
        return messages


class Heard(msgspec.Struct, frozen=True):
    """What a server had sent by some time."""

    bytes: int
    messages: int  # that could be read
    noise: int  # pieces that were none


class Connection:
    def __init__(self, spec: ServerSpec, child: ChildProcess) -> None:
        self.spec = spec
        self.pid = child.pid
        self.encoding: Encoding = "utf-16"
        self._folder = {"uri": spec.root.as_uri(), "name": spec.root.name or "/"}
        self.inbox = Inbox(self._folder, spec.settings, loaded_log=spec.loaded_log)
        self._child = child
        self._capabilities: dict[str, Any] = {}
        self._framing = _Counted(spec.limits.max_message_bytes)
        self._lost: asyncio.Future[AishError] = asyncio.get_running_loop().create_future()
        self._peer = Peer(
            child.write,
            self._framing,
            title=spec.name,
            handler=self.inbox,
            cancelled=lambda id, method: None if method == "initialize" else ("$/cancelRequest", {"id": id}),
        )
        self._reading = ChildReading(child, self._peer)

    @classmethod
    @asynccontextmanager
    async def open(cls, spec: ServerSpec) -> AsyncIterator[Connection]:
        """Raises SpawnFailed, WireTimeout, RpcError and ProcessExited."""
        async with ChildProcess.start(_process(spec)) as child:
            connection = cls(spec, child)
            async with connection._reading.running():
                await connection._shake_hands()
                yield connection
                await connection._say_goodbye()

    def can(self, method: str) -> bool:
        """By the handshake, or by a registration since."""
        return bool(self._capabilities.get(PROVIDERS.get(method, ""))) or self.inbox.has_registered(method)

    async def request(self, method: str, params: Any, *, timeout_s: float | None = None) -> msgspec.Raw:
        """Raises RpcError, WireTimeout, and what `wait_gone` gives."""
        loop = asyncio.get_running_loop()
        limit_s = timeout_s or self.spec.limits.answer_timeout_s
        deadline_s = loop.time() + limit_s
        for attempt in range(1, _ATTEMPTS + 1):
            before = self._heard()
            try:
                # Rounded, because it is told: "within 10 s".
                left_s = limit_s if attempt == 1 else round(max(0.01, deadline_s - loop.time()), 2)
                return await self._peer.request(method, params, timeout_s=left_s)
            except RpcError as exc:
                if exc.code not in (_CONTENT_MODIFIED, _SERVER_CANCELLED) or attempt == _ATTEMPTS:
                    raise
            except WireTimeout:
                self._judge(before, timed_out=True)
                raise
            except asyncio.CancelledError:
                self._judge(before, timed_out=False)
                raise
        raise AssertionError("the last attempt returns or raises")

    def _heard(self) -> Heard:
        garbage = self._peer.skipped.garbage
        return Heard(self._framing.bytes, self._framing.messages - garbage, self._framing.garbage + garbage)

    def _judge(self, before: Heard, *, timed_out: bool) -> None:
        """A question is left unanswered. Where bytes came and not one message in them, the two of us have lost each
        other in the stream: nothing that follows can be understood, and only another server helps."""
        now = self._heard()
        if now.messages > before.messages or (
            now.noise == before.noise and not (timed_out and now.bytes > before.bytes)
        ):
            return
        if not self._lost.done():
            self._lost.set_result(ConnectionLost(f"{self.spec.name} sends what is no message of the protocol"))
        self._peer.close(self._lost.result)

    async def notify(self, method: str, params: Any) -> None:
        await self._peer.notify(method, params)

    @property
    def closed(self) -> bool:
        return self._peer.closed

    async def wait_gone(self) -> AishError:
        """Returns why, once the server has gone by itself, or can no longer be understood."""
        gone = asyncio.ensure_future(self._reading.wait_gone())
        try:
            await asyncio.wait({gone, self._lost}, return_when=asyncio.FIRST_COMPLETED)
            return self._lost.result() if self._lost.done() else gone.result()
        finally:
            gone.cancel()

    def stderr_tail(self) -> str:
        return self._child.stderr_tail()

    async def _shake_hands(self) -> None:
        limit_s = self.spec.limits.start_timeout_s
        raw = await self._peer.request("initialize", hello(self._folder, self.spec.options), timeout_s=limit_s)
        answer = decoded(raw, dict[str, Any])
        capabilities = answer.get("capabilities")
        self._capabilities = capabilities if isinstance(capabilities, dict) else {}
        # clangd says it in a field of its own, beside the others.
        chosen = self._capabilities.get("positionEncoding") or answer.get("offsetEncoding")
        self.encoding = next((known for known in ENCODINGS if known == chosen), "utf-16")
        await self._peer.notify("initialized", {})

    async def _say_goodbye(self) -> None:
        with suppress(AishError):
            # Without params: there are servers that take null for an error.
            await self._peer.request("shutdown", timeout_s=self.spec.limits.close_wait_s)
            await self._peer.notify("exit", timeout_s=self.spec.limits.close_wait_s)


def _process(spec: ServerSpec) -> ProcessSpec:
    return ProcessSpec(
        argv=spec.command,
        name=spec.name,
        env=spec.env,
        inherit=_INHERITED,
        cwd=spec.root,
        close_wait_s=spec.limits.close_wait_s,
        term_wait_s=spec.limits.close_wait_s,
    )
