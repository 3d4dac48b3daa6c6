"""JSON-RPC 2.0 messages: strict in what is written, lenient in what is read.

Params and results stay raw JSON, so reading a message costs one pass and whoever wants the content decodes it with a
type of their own.
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

MAX_BATCH = 1000  # batches were only ever in one revision of MCP, and small
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_MAX_MESSAGE_CHARS = 500  # of an error's own words: enough to understand it, too little to flood a screen

NO_RAW = msgspec.Raw(b"")
_NULL = msgspec.Raw(b"null")

# An answer has its id right at its start or at its very end: a quote inside a string would be escaped, and a value
# further in would be followed by more than one closing brace. Compiled by `re` when first used: few need them.
_VERSION = rb'"jsonrpc"\s*:\s*"[^"]{0,8}"\s*'
_ID = rb'"id"\s*:\s*("[^"\\]{1,64}"|-?\d{1,18}(?:\.0)?)\s*'
_ANSWER = rb'"(?:result|error)"\s*:'
_ID_FIRST = rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ID + rb",\s*(?:" + _VERSION + rb",\s*)?" + _ANSWER
_ANSWER_FIRST = rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _ANSWER
_ID_LAST = rb",\s*" + _ID + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z"


class RpcError(WireError):
    """The peer answered with a JSON-RPC error, or we want to answer with one."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Message(msgspec.Struct):
    """What came in. Which kind it is shows by what is set; `id` may be of any type."""

    id: Any = None
    method: Any = None
    params: msgspec.Raw = _NULL
    result: msgspec.Raw = NO_RAW
    error: msgspec.Raw = NO_RAW

    @property
    def is_answer(self) -> bool:
        return self.method is None

    def answer(self) -> msgspec.Raw:
        """The result. RpcError if there is an error instead, BadResponse if there is neither."""
        if self.error and self.error != _NULL:
            raise read_error(self.error)
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


def encode_request(id: int, method: str, params: Any = msgspec.UNSET) -> bytes:
    return _encoded(_Request(id=id, method=method, params=params))


def encode_notification(method: str, params: Any = msgspec.UNSET) -> bytes:
    return _encoded(_Notification(method=method, params=params))


def encode_result(id: Any, result: Any) -> bytes:
    return _encoded(_Result(id=id, result=result))


def encode_error(id: Any, error: RpcError) -> bytes:
    body = {"code": error.code, "message": error.message}
    return _encoded(_Failure(id=id, error=body if error.data is None else body | {"data": error.data}))


def _encoded(message: msgspec.Struct) -> bytes:
    try:
        return _encode(message)
    except (TypeError, ValueError, RecursionError) as exc:  # a lone surrogate is a ValueError
        raise UsageError(f"the message cannot be written as JSON: {exc}") from exc


def decode_messages(data: bytes) -> list[Message]:
    """One message, or the members of a batch that are messages. BadResponse for what is no JSON-RPC at all."""
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


def read_error(raw: msgspec.Raw) -> RpcError:
    """Whatever stands where an error object should."""
    try:
        error = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return RpcError(INTERNAL_ERROR, "an error that cannot be read")
    if not isinstance(error, dict):
        return RpcError(INTERNAL_ERROR, str(error)[:_MAX_MESSAGE_CHARS])
    code = integer(error.get("code"))
    text = str(error.get("message", ""))[:_MAX_MESSAGE_CHARS]
    return RpcError(INTERNAL_ERROR if code is None else code, text, error.get("data"))


def integer(value: object) -> int | None:
    """A whole number, however the peer writes it: `4`, `"4"` or `4.0`."""
    if type(value) is int:
        return value
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None


def guess_answered(head: bytes, tail: bytes) -> int | None:
    """Which request an answer belongs to that cannot be decoded, from its two ends; None if that is not certain."""
    found = re.match(_ID_FIRST, head[:END_BYTES])
    if found is None and re.match(_ANSWER_FIRST, head[:END_BYTES]):
        found = re.search(_ID_LAST, tail[-END_BYTES:])
    if found is None:
        return None
    return integer(found.group(1).strip(b'"').removesuffix(b".0").decode())
