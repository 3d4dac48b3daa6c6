"""The revisions of MCP that are served, and what each request must carry in which.

Two eras. Up to 2025-11-25 a client shakes hands (`initialize`). From 2026-07-28 every request stands for itself and
names its revision and the client's capabilities in `params._meta`.
"""

from __future__ import annotations

from typing import Any

from aish.frontends.mcp.requests import Request
from aish.net.jsonrpc_message import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)
# Those that know nothing of structured results: neither promises of them nor that one may be broken.
WORDS_ONLY = HANDSHAKE[:2]

# Of the codes from -32000 to -32019 each implementation makes its own use.
BUSY = -32000
NO_SESSION = -32001
CANCELLED = -32002
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022

_PREFIX = "io.modelcontextprotocol/"
META_VERSION = _PREFIX + "protocolVersion"
META_CAPABILITIES = _PREFIX + "clientCapabilities"
META_SERVER = _PREFIX + "serverInfo"

DISCOVER = "server/discover"
# What the stateless era has no more.
_REMOVED = frozenset({"initialize", "ping"})


def negotiate(wanted: object) -> str:
    """What `initialize` answers: the client's revision where we speak it, else our newest."""
    return wanted if isinstance(wanted, str) and wanted in HANDSHAKE else HANDSHAKE[-1]


def speaks_stateless(method: str, params: dict[str, Any]) -> bool:
    """Whether a request over a transport without headers is of the stateless era."""
    meta = params.get("_meta")
    return method == DISCOVER or (isinstance(meta, dict) and META_VERSION in meta)


def check_envelope(request: Request) -> None:
    """RpcError unless a stateless request carries what it must."""
    missing = [key for key in (META_VERSION, META_CAPABILITIES) if key not in request.meta]
    if missing:
        raise RpcError(INVALID_PARAMS, f"params._meta must carry {' and '.join(missing)}")
    if not isinstance(request.meta[META_VERSION], str) or not isinstance(request.meta[META_CAPABILITIES], dict):
        raise RpcError(INVALID_PARAMS, f"{META_VERSION} must be a string and {META_CAPABILITIES} an object")


def check_version(request: Request) -> None:
    """RpcError unless we speak the revision a stateless request names, and the method is part of it."""
    version = request.meta[META_VERSION]
    if version not in STATELESS:
        raise unsupported(version)
    if request.method in _REMOVED:
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {request.method} is not part of {version}")


def unsupported(version: str) -> RpcError:
    data = {"supported": list(STATELESS), "requested": version[:100]}
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
