"""A server as a child process: newline-delimited JSON on stdin and stdout, diagnostics on stderr.

`process` owns the child: its environment is small, its stderr is always drained, and on exit it is ended with all its
children, first politely. If it exits by itself, every request fails at once with its exit code.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import msgspec

from aish.errors import AishError, ProcessError, WireTimeout
from aish.net.framing import NewlineFraming
from aish.net.jsonrpc import Peer
from aish.process.child import ChildProcess, ProcessSpec
from aish.process.child_jsonrpc import EXIT_WAIT_S, ChildPeerReader
from aish.tools.mcp.text import Sanitiser
from aish.tools.mcp.transport.incoming_messages import SUBSCRIBE, IncomingMessages
from aish.tools.mcp.types import ServerSpec

_KILLED = -9  # SIGKILL, which Windows does not define
_STDERR_LINE_CHARS = 2000  # redacted as a whole; less is shown


class StdioTransport:
    def __init__(self, spec: ServerSpec, child: ChildProcess, incoming: IncomingMessages) -> None:
        self._child = child
        self._peer = Peer(
            self._write,
            NewlineFraming(spec.max_message_bytes),
            title=spec.name,
            handler=incoming,
            cancel_notice=_cancel_notification,
            max_in_flight=spec.max_in_flight,
        )
        self._reading = ChildPeerReader(child, self._peer)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, spec: ServerSpec, incoming: IncomingMessages, sanitiser: Sanitiser
    ) -> AsyncIterator[StdioTransport]:
        """Raises SpawnFailed and WireTimeout."""
        async with _start_child(spec, sanitiser) as child:
            transport = cls(spec, child, incoming)
            async with transport._reading.running():
                yield transport
        if child.returncode == _KILLED:
            incoming.warn("shutdown: it did not leave when told to, and was killed")

    async def request(
        self, method: str, params: dict[str, Any], *, timeout_s: float, headers: Sequence[tuple[str, str]] = ()
    ) -> msgspec.Raw:
        return await self._peer.request(method, params, timeout_s=timeout_s)

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        await self._peer.notify(method, params)

    def set_version(self, version: str, *, stateless: bool) -> None:
        """The wire format is the same for all revisions."""

    def listen(self) -> None:
        """All messages arrive on the one stream."""

    def subscribe(self, params: dict[str, Any]) -> None:
        self._peer.open(SUBSCRIBE, params)

    def forget_session(self) -> None:
        """The process is the session."""

    def stderr_tail(self) -> str:
        return self._child.stderr_tail()

    async def wait_closed(self) -> AishError:
        return await self._reading.wait_closed()

    async def _write(self, data: bytes) -> None:
        try:
            await self._child.write(data)
        except ProcessError:
            # Its exit code and the rest of its stderr may need another moment.
            with suppress(TimeoutError):
                async with asyncio.timeout(2 * EXIT_WAIT_S):
                    raise await self.wait_closed() from None
            raise


@asynccontextmanager
async def _start_child(spec: ServerSpec, sanitiser: Sanitiser) -> AsyncIterator[ChildProcess]:
    process = ProcessSpec(
        argv=spec.command,
        name=spec.name,
        env=spec.env,
        inherit=spec.inherit,
        cwd=spec.cwd,
        redact=lambda line: sanitiser.show(line, _STDERR_LINE_CHARS),
        close_wait_s=spec.close_wait_s,
        term_wait_s=spec.close_wait_s,
    )
    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(spec.start_timeout_s):
                child = await stack.enter_async_context(ChildProcess.start(process))
        except TimeoutError as exc:
            raise WireTimeout(f"did not start within {spec.start_timeout_s:g} s", phase="spawn") from exc
        yield child


def _cancel_notification(id: int, method: str) -> tuple[str, dict[str, Any]] | None:
    """Returns the cancel notification. The handshake cannot be cancelled."""
    if method == "initialize":
        return None
    return "notifications/cancelled", {"requestId": id, "reason": "the caller no longer waits"}
