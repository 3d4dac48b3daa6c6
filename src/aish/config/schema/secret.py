"""A value that must not be shown: it prints as `***` everywhere. Only `reveal` returns it."""

from __future__ import annotations

import re
from typing import Any, NoReturn

MASK = "***"
_LOGIN_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")


class Secret:
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
