"""The supported revisions of MCP, and what each requires of a request.

There are two eras. Up to 2025-11-25 a client begins with a handshake (`initialize`). From 2026-07-28 on requests are
stateless: each names its revision and the client's capabilities in `params._meta`.
"""

from __future__ import annotations

from typing import Any

from aish.frontends.mcp.requests import Request
from aish.net.jsonrpc_message import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS = ("2026-07-28",)
# Revisions without structured results.
TEXT_ONLY = HANDSHAKE[:2]

# Codes from -32000 to -32019 are defined by each implementation.
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
# Methods that the stateless era has removed.
_REMOVED = frozenset({"initialize", "ping"})


def negotiate(wanted: object) -> str:
    """The revision that `initialize` answers: the client's if it is supported, otherwise our newest."""
    return wanted if isinstance(wanted, str) and wanted in HANDSHAKE else HANDSHAKE[-1]


def speaks_stateless(method: str, params: dict[str, Any]) -> bool:
    """Whether a request without headers belongs to the stateless era."""
    meta = params.get("_meta")
    return method == DISCOVER or (isinstance(meta, dict) and META_VERSION in meta)


def check_envelope(request: Request) -> None:
    """Raises RpcError if a stateless request lacks a required field of `_meta`."""
    missing = [key for key in (META_VERSION, META_CAPABILITIES) if key not in request.meta]
    if missing:
        raise RpcError(INVALID_PARAMS, f"params._meta must carry {' and '.join(missing)}")
    if not isinstance(request.meta[META_VERSION], str) or not isinstance(request.meta[META_CAPABILITIES], dict):
        raise RpcError(INVALID_PARAMS, f"{META_VERSION} must be a string and {META_CAPABILITIES} an object")


def check_version(request: Request) -> None:
    """Raises RpcError unless the revision of a stateless request is supported and has the method."""
    version = request.meta[META_VERSION]
    if version not in STATELESS:
        raise unsupported(version)
    if request.method in _REMOVED:
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {request.method} is not part of {version}")


def unsupported(version: str) -> RpcError:
    data = {"supported": list(STATELESS), "requested": version[:100]}
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
