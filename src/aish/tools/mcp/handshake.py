"""The handshake of MCP: protocol revisions, and what a server says about itself. Pure.

Handshake era (2024-11-05 to 2025-11-25): `initialize` once. Stateless era (2026-07-28): `server/discover` once, and
every request names the client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

import aish
from aish.errors import BadResponse
from aish.tools.mcp.text import clean
from aish.tools.mcp.types import ServerFacts

OFFERED = "2025-11-25"
HANDSHAKE = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", OFFERED})
STATELESS = "2026-07-28"
UNSUPPORTED_VERSION = -32022

CLIENT = {"name": "aish", "version": aish.__version__}
_PREFIX = "io.modelcontextprotocol/"
# The `_meta` of every request in the stateless era.
STAMP: dict[str, Any] = {
    f"{_PREFIX}protocolVersion": STATELESS,
    f"{_PREFIX}clientInfo": CLIENT,
    f"{_PREFIX}clientCapabilities": {},
}
_INSTRUCTIONS_CHARS = 8192

Result = TypeVar("Result")


class Hello(msgspec.Struct):
    """The result of `initialize` or `server/discover`."""

    protocolVersion: Any = None
    supportedVersions: Any = None
    capabilities: Any = None
    serverInfo: Any = None
    instructions: Any = None
    meta: Any = msgspec.field(name="_meta", default=None)


def decode_result(raw: msgspec.Raw, result: type[Result]) -> Result:
    try:
        return msgspec.json.decode(raw, type=result)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
        if bytes(raw).strip() == b"[]":  # an empty Lua table
            return msgspec.json.decode(b"{}", type=result)
        raise BadResponse(f"the result cannot be read: {exc}") from exc


def read_facts(hello: Hello, version: str) -> ServerFacts:
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


def supports_stateless(data: object) -> bool:
    """Reads the data of an error about an unsupported version."""
    return isinstance(data, dict) and isinstance(data.get("supported"), list) and STATELESS in data["supported"]


def is_version(text: object) -> bool:
    return isinstance(text, str) and len(text) == 10 and text.isascii() and text.isprintable()
