"""Parses what a client sent into requests, or into the error to answer with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from aish.errors import BadResponse
from aish.net.jsonrpc_message import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, Message, RpcError, decode_messages


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


def read_messages(body: bytes) -> list[Message]:
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
