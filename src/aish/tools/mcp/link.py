"""Speaks MCP over a transport: the handshake, the two eras of the protocol, and requests with typed results.

Handshake era (2024-11-05 to 2025-11-25): `initialize` once. Over HTTP the server may forget us (404): then we shake
hands again, once, and ask again. Stateless era (2026-07-28): `server/discover` once, and every request says who asks.
All failures are McpErrors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

import aish
from aish.errors import AishError, BadResponse
from aish.net.jsonrpc_message import RpcError
from aish.tools.mcp.errors import Faults, SessionGone
from aish.tools.mcp.text import clean
from aish.tools.mcp.transport.base import Inbox, Transport
from aish.tools.mcp.types import Phase, ServerFacts, ServerSpec

OFFERED = "2025-11-25"
HANDSHAKE = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", OFFERED})
STATELESS = "2026-07-28"
UNSUPPORTED_VERSION = -32022

_PREFIX = "io.modelcontextprotocol/"
_INSTRUCTIONS_CHARS = 8192
_CLIENT = {"name": "aish", "version": aish.__version__}

Result = TypeVar("Result")


class _Hello(msgspec.Struct):
    """The result of `initialize` or `server/discover`, whatever is in it."""

    protocolVersion: Any = None
    supportedVersions: Any = None
    capabilities: Any = None
    serverInfo: Any = None
    instructions: Any = None
    meta: Any = msgspec.field(name="_meta", default=None)


class Link:
    def __init__(
        self, spec: ServerSpec, transport: Transport, inbox: Inbox, faults: Faults, *, stateless: bool
    ) -> None:
        self.stateless = stateless
        self.facts = ServerFacts("")
        self.faults = faults
        self.inbox = inbox
        self._spec = spec
        self._transport = transport
        self._greeting = asyncio.Lock()
        self._greeted = 0

    async def greet(self) -> None:
        with self.faults.translated("initialize"):
            await (self._discover() if self.stateless else self._shake_hands())
        self._greeted += 1

    async def ask(
        self,
        phase: Phase,
        method: str,
        params: dict[str, Any],
        result: type[Result],
        *,
        timeout_s: float,
        what: str = "",
        headers: Sequence[tuple[str, str]] = (),
    ) -> Result:
        """`what` names in errors what it is about."""
        try:
            return _decoded(await self._send(method, params, timeout_s, headers), result)
        except AishError as exc:
            raise self.faults.translate(phase, exc, what) from None

    async def _send(
        self, method: str, params: dict[str, Any], timeout_s: float, headers: Sequence[tuple[str, str]] = ()
    ) -> msgspec.Raw:
        if self.stateless:
            return await self._send_stamped(method, params, timeout_s, headers)
        greeted = self._greeted
        try:
            return await self._transport.request(method, params, timeout_s=timeout_s)
        except SessionGone:
            await self._greet_again(greeted)
        answer = await self._transport.request(method, params, timeout_s=timeout_s)
        if method != "tools/list":
            self.inbox.changed("tools")  # it was most likely restarted, perhaps with others
        return answer

    async def _greet_again(self, greeted: int) -> None:
        """One of those who find the session gone renews it for all."""
        async with self._greeting:
            if self._greeted == greeted:
                self._transport.forget_session()
                await self.greet()

    async def _send_stamped(
        self, method: str, params: dict[str, Any], timeout_s: float, headers: Sequence[tuple[str, str]]
    ) -> msgspec.Raw:
        stamped = params | {"_meta": _STAMP | params.get("_meta", {})}
        try:
            return await self._transport.request(method, stamped, timeout_s=timeout_s, headers=headers)
        except RpcError as exc:
            # A server in the middle of an update may refuse the very version it then names as supported.
            if exc.code != UNSUPPORTED_VERSION or not _supports(exc.data):
                raise
        return await self._transport.request(method, stamped, timeout_s=timeout_s, headers=headers)

    async def _shake_hands(self) -> None:
        params = {"protocolVersion": OFFERED, "capabilities": {}, "clientInfo": _CLIENT}
        raw = await self._transport.request("initialize", params, timeout_s=self._spec.start_timeout_s)
        hello = _decoded(raw, _Hello)
        version = hello.protocolVersion if _is_date(hello.protocolVersion) else ""
        if version not in HANDSHAKE:
            self._warn_mismatch(OFFERED, hello.protocolVersion)
        self.facts = _facts(hello, version or OFFERED)
        self._transport.speak(self.facts.protocol_version, stateless=False)
        await self._transport.notify("notifications/initialized", {})
        if self.facts.announces_changes():
            self._transport.listen()

    async def _discover(self) -> None:
        self._transport.speak(STATELESS, stateless=True)
        hello = _decoded(await self._send_stamped("server/discover", {}, self._spec.start_timeout_s, ()), _Hello)
        supported = hello.supportedVersions
        if not isinstance(supported, list) or STATELESS not in supported:
            self._warn_mismatch(STATELESS, supported)
        self.facts = _facts(hello, STATELESS)
        if self.facts.announces("tools"):
            self._transport.subscribe({"notifications": {"toolsListChanged": True}, "_meta": _STAMP})

    def _warn_mismatch(self, sent: str, got: object) -> None:
        shown = clean(str(got), 40)
        self.inbox.warn(f"protocol version mismatch (sent {sent}, got {shown}); proceeding")


_STAMP: dict[str, Any] = {
    f"{_PREFIX}protocolVersion": STATELESS,
    f"{_PREFIX}clientInfo": _CLIENT,
    f"{_PREFIX}clientCapabilities": {},
}


def _decoded(raw: msgspec.Raw, result: type[Result]) -> Result:
    try:
        return msgspec.json.decode(raw, type=result)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
        if bytes(raw).strip() == b"[]":  # an empty table of Lua
            return msgspec.json.decode(b"{}", type=result)
        raise BadResponse(f"the result cannot be read: {exc}") from exc


def _facts(hello: _Hello, version: str) -> ServerFacts:
    info = hello.serverInfo
    if not isinstance(info, dict) and isinstance(hello.meta, dict):
        info = hello.meta.get(f"{_PREFIX}serverInfo")
    info = info if isinstance(info, Mapping) else {}
    return ServerFacts(
        version,
        name=clean(str(info.get("name", "")), 100),
        version=clean(str(info.get("version", "")), 100),
        instructions=clean(hello.instructions, _INSTRUCTIONS_CHARS) if isinstance(hello.instructions, str) else "",
        capabilities=hello.capabilities if isinstance(hello.capabilities, dict) else {},
    )


def _supports(data: object) -> bool:
    return isinstance(data, dict) and isinstance(data.get("supported"), list) and STATELESS in data["supported"]


def _is_date(version: object) -> bool:
    return isinstance(version, str) and len(version) == 10 and version.isascii() and version.isprintable()
