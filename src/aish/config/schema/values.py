"""The base class of all tables of the schema, and the types of values that several tables use."""

from __future__ import annotations

import re
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=1)]
TopK = Annotated[int, Meta(ge=-1, le=2**31 - 1)]  # -1: vLLM's word for all of them
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
# A title describes the pattern in words.
Url = Annotated[str, Meta(pattern=r"^https?://[^\s/?#]+\S*$", title="a URL such as http://127.0.0.1:8080")]
UrlOrUnset = Annotated[str, Meta(pattern=r"^$|^https?://[^\s/?#]+\S*$", title="a URL such as http://127.0.0.1:8080")]
UrlPattern = Annotated[
    str,
    Meta(
        pattern=r"^https?://(\[[0-9A-Fa-f:.]+\]|[^\s/?#:@\[\]]+)(:(\*|\d{1,5}))?(/[^\s?#]*)?$",
        title="a URL such as https://mcp.example.com/* or http://127.0.0.1:*",
    ),
]
Variable = Annotated[str, Meta(pattern=r"^$|^[A-Za-z_][A-Za-z0-9_]*$", title="the name of a variable")]
MASK = "***"
_LOGIN_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")


class Section(msgspec.Struct, frozen=True):
    """A table of the file."""


class Secret:
    """A value that must not be shown: it prints as `***` everywhere. Only `reveal` returns it."""

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        return self.__value

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        import hmac  # loads OpenSSL, which only comparisons need

        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(_bytes(self), _bytes(other))

    def __hash__(self) -> int:
        return hash((Secret, self.__value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not written anywhere")


def _bytes(secret: Secret) -> bytes:
    return secret.reveal().encode("utf-8", "surrogatepass")


def mask_logins(text: str) -> str:
    """Turns a URL with a name and password into `http://***@host`."""
    return _LOGIN_IN_URL.sub(MASK, text)
