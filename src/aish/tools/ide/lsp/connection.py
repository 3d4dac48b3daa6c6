"""A running language server that has shaken hands: requests to it, and the end of it.

Life: started, `initialize`, `initialized`; at the end `shutdown` and `exit`, each with a deadline, and then the ladder
of `wire.process`, which ends the whole group: a server is often a wrapper around the one that does the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from aish.errors import AishError
from aish.tools.ide.lsp.answers import decoded
from aish.tools.ide.lsp.capabilities import PROVIDERS, hello
from aish.tools.ide.lsp.inbox import Inbox
from aish.tools.ide.lsp.positions import ENCODINGS, Encoding
from aish.tools.ide.lsp.spec import ServerSpec
from aish.wire.child_reading import ChildReading
from aish.wire.framing import ContentLengthFraming
from aish.wire.jsonrpc import Peer, RpcError
from aish.wire.process import ChildProcess, ProcessSpec

# Which environment a person has activated: it says where the packages are.
_INHERITED = ("VIRTUAL_ENV", "CONDA_PREFIX")
_CONTENT_MODIFIED = -32801
_SERVER_CANCELLED = -32802
# A server that drops a question because something changed is asked again, but not for ever.
_ATTEMPTS = 4


class Connection:
    def __init__(self, spec: ServerSpec, child: ChildProcess) -> None:
        self.spec = spec
        self.pid = child.pid
        self.encoding: Encoding = "utf-16"
        self._folder = {"uri": spec.root.as_uri(), "name": spec.root.name or "/"}
        self.inbox = Inbox(self._folder, spec.settings, loaded_log=spec.loaded_log)
        self._child = child
        self._capabilities: dict[str, Any] = {}
        self._peer = Peer(
            child.write,
            ContentLengthFraming(spec.limits.max_message_bytes),
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
        deadline_s = loop.time() + (timeout_s or self.spec.limits.answer_timeout_s)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._peer.request(method, params, timeout_s=max(0.001, deadline_s - loop.time()))
            except RpcError as exc:
                if exc.code not in (_CONTENT_MODIFIED, _SERVER_CANCELLED) or attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def notify(self, method: str, params: Any) -> None:
        await self._peer.notify(method, params)

    @property
    def closed(self) -> bool:
        return self._peer.closed

    async def wait_gone(self) -> AishError:
        """Returns why, once the server has gone by itself."""
        return await self._reading.wait_gone()

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
