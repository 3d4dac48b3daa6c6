"""Parses requests of clients, and says what each supported revision of MCP requires of them.

There are two eras. Up to 2025-11-25 a client begins with a handshake (`initialize`). From 2026-07-28 on requests are
stateless: each names its revision and the client's capabilities in `params._meta`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from aish.errors import BadResponse
from aish.net.jsonrpc_message import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Message,
    RpcError,
    decode_messages,
)

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


class Request(msgspec.Struct, frozen=True):
    """A parsed request. `params` is an object with any content."""

    id: str | int
    method: str
    params: dict[str, Any]
    stateless: bool = False
    structured: bool = True  # its revision has structured results

    @property
    def meta(self) -> dict[str, Any]:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def progress_token(self) -> str | int | None:
        token = self.meta.get("progressToken")
        return token if isinstance(token, str) or type(token) is int else None


def read_rpc_messages(body: bytes) -> list[Message]:
    """Raises RpcError for input that is no JSON or no message."""
    try:
        messages = decode_messages(body.strip())
    except BadResponse:
        raise _invalid_body(body) from None
    if not messages:
        raise RpcError(INVALID_REQUEST, "Invalid Request")
    return messages


def _invalid_body(body: bytes) -> RpcError:
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return RpcError(PARSE_ERROR, "Parse error")
    return RpcError(INVALID_REQUEST, "Invalid Request")


def read_request(
    message: Message, *, stateless: Callable[[str, dict[str, Any]], bool], structured: bool = True
) -> Request:
    """Raises RpcError if the message is no request. Stateless requests always have structured results."""
    if not isinstance(message.id, str | int) or isinstance(message.id, bool) or not isinstance(message.method, str):
        raise RpcError(INVALID_REQUEST, "Invalid Request")
    params = read_params(message)
    is_stateless = stateless(message.method, params)
    return Request(message.id, message.method, params, is_stateless, structured or is_stateless)


def read_params(message: Message) -> dict[str, Any]:
    try:
        params = msgspec.json.decode(message.params)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        raise RpcError(INVALID_PARAMS, "Invalid params") from None
    if params is not None and not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "params must be an object")
    return params or {}


def cancelled_request(message: Message) -> str | int | None:
    """The id of the request that a notification cancels; None for other notifications."""
    if message.method != "notifications/cancelled":
        return None
    try:
        id = read_params(message).get("requestId")
    except RpcError:
        return None
    return id if isinstance(id, str) or type(id) is int else None


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
        raise unsupported_version(version)
    if request.method in _REMOVED:
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {request.method} is not part of {version}")


def unsupported_version(version: str) -> RpcError:
    data = {"supported": list(STATELESS), "requested": version[:100]}
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
