"""JSON-RPC 2.0 messages: encodes strictly, decodes leniently.

Params and results stay raw JSON: reading a message takes one pass, and the consumer decodes the content with its own
type.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from aish.errors import BadResponse, UsageError, WireError
from aish.net.framing import END_BYTES

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

MAX_BATCH = 1000  # only one revision of MCP has batches, and they are small
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_MAX_MESSAGE_CHARS = 500  # of an error message of the peer

NO_RAW = msgspec.Raw(b"")
_NULL = msgspec.Raw(b"null")

# Find the id of a response at its very start or end. A quote inside a string would be escaped, and a value further
# inside would be followed by more than one closing brace. `re` compiles them on first use.
_VERSION = rb'"jsonrpc"\s*:\s*"[^"]{0,8}"\s*'
_ID = rb'"id"\s*:\s*("[^"\\]{1,64}"|-?\d{1,18}(?:\.0)?)\s*'
_ANSWER = rb'"(?:result|error)"\s*:'
_ID_FIRST = rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb",\s*(?:" + _VERSION + rb",\s*)?" + _ANSWER
_ANSWER_FIRST = rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ANSWER
_ID_LAST = rb",\s*" + _ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z"


class RpcError(WireError):
    """A JSON-RPC error: of the peer's response, or for our own."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Message(msgspec.Struct):
    """A received message. Its kind follows from the fields that are set; `id` may be of any type."""

    id: Any = None
    method: Any = None
    params: msgspec.Raw = _NULL
    result: msgspec.Raw = NO_RAW
    error: msgspec.Raw = NO_RAW

    @property
    def is_response(self) -> bool:
        return self.method is None

    def get_result(self) -> msgspec.Raw:
        """The result. Raises RpcError if there is an error instead, BadResponse if there is neither."""
        if self.error and self.error != _NULL:
            raise _parse_error(self.error)
        if not self.result:
            raise BadResponse("the answer has neither a result nor an error")
        return self.result


class _Request(msgspec.Struct, kw_only=True):
    jsonrpc: str = "2.0"
    id: int
    method: str
    params: Any = msgspec.UNSET


class _Notification(msgspec.Struct, kw_only=True):
    jsonrpc: str = "2.0"
    method: str
    params: Any = msgspec.UNSET


class _Result(msgspec.Struct, kw_only=True):
    jsonrpc: str = "2.0"
    id: Any
    result: Any


class _Failure(msgspec.Struct, kw_only=True):
    jsonrpc: str = "2.0"
    id: Any
    error: dict[str, Any]


_decode = msgspec.json.Decoder(Message).decode
_decode_batch = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


def encode_rpc_request(id: int, method: str, params: Any = msgspec.UNSET) -> bytes:
    return _encode_message(_Request(id=id, method=method, params=params))


def encode_notification(method: str, params: Any = msgspec.UNSET) -> bytes:
    return _encode_message(_Notification(method=method, params=params))


def encode_result(id: Any, result: Any) -> bytes:
    return _encode_message(_Result(id=id, result=result))


def encode_error(id: Any, error: RpcError) -> bytes:
    body = {"code": error.code, "message": error.message}
    return _encode_message(_Failure(id=id, error=body if error.data is None else body | {"data": error.data}))


def _encode_message(message: msgspec.Struct) -> bytes:
    try:
        return _encode(message)
    except (TypeError, ValueError, RecursionError) as exc:  # a lone surrogate is a ValueError
        raise UsageError(f"the message cannot be written as JSON: {exc}") from exc


def decode_messages(data: bytes) -> list[Message]:
    """One message, or the valid members of a batch. Raises BadResponse for input that is no JSON-RPC at all."""
    try:
        if data[:1] != b"[":
            return [_decode(data)]
        members = _decode_batch(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
        raise BadResponse(f"not a JSON-RPC message: {exc}") from exc
    if not 0 < len(members) <= MAX_BATCH:
        raise BadResponse(f"a batch of {len(members)} messages")
    messages = []
    for member in members:
        try:
            messages.append(_decode(member))
        except (msgspec.DecodeError, RecursionError):
            continue
    return messages


def _parse_error(raw: msgspec.Raw) -> RpcError:
    """The error of a response, whatever its form."""
    try:
        error = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return RpcError(INTERNAL_ERROR, "an error that cannot be read")
    if not isinstance(error, dict):
        return RpcError(INTERNAL_ERROR, str(error)[:_MAX_MESSAGE_CHARS])
    code = parse_integer(error.get("code"))
    text = str(error.get("message", ""))[:_MAX_MESSAGE_CHARS]
    return RpcError(INTERNAL_ERROR if code is None else code, text, error.get("data"))


def parse_integer(value: object) -> int | None:
    """A whole number in any notation: `4`, `"4"` or `4.0`. None for anything else."""
    if type(value) is int:
        return value
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None


def guess_request_id(head: bytes, tail: bytes) -> int | None:
    """The id of a response that cannot be decoded, read from its two ends; None if it is not certain."""
    found = re.match(_ID_FIRST, head[:END_BYTES])
    if found is None and re.match(_ANSWER_FIRST, head[:END_BYTES]):
        found = re.search(_ID_LAST, tail[-END_BYTES:])
    if found is None:
        return None
    return parse_integer(found.group(1).strip(b'"').removesuffix(b".0").decode())
