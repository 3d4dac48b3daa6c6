"""What a backend answers: the thing asked for, who says so, and how much to believe it. Frozen data."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T", covariant=True)
U = TypeVar("U")


class Status(StrEnum):
    FRESH = "fresh"  # about the files as they are
    STALE = "stale"  # about an older text
    PENDING = "pending"  # not known yet; ask again
    PARTIAL = "partial"  # there may be more
    UNSUPPORTED = "unsupported"  # nobody here can tell


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """`note` says why it is not fresh, or what to do about it."""

    value: T
    backend: str
    status: Status = Status.FRESH
    note: str = ""

    def with_value(self, value: U) -> Answer[U]:
        """Another thing, believed as much."""
        return Answer(value, self.backend, self.status, self.note)


class Spot(msgspec.Struct, frozen=True):
    """A symbol in a text: line from 1, column from 0 in characters."""

    path: str
    line: int
    column: int
    symbol: str


class Place(msgspec.Struct, frozen=True, order=True):
    """Lines from 1. `outside` the workspace nothing was read: a name and no text."""

    path: str
    line: int
    end_line: int = 0
    text: str = ""
    outside: bool = False


class Symbol(msgspec.Struct, frozen=True):
    name: str
    kind: str
    path: str
    line: int
    end_line: int
    text: str = ""  # the line that declares it
    container: str = ""
    depth: int = 0


class Problem(msgspec.Struct, frozen=True):
    path: str
    line: int
    severity: str
    message: str
    source: str = ""
    code: str = ""


class Fix(msgspec.Struct, frozen=True):
    """Something a server offers to do. `key` names it as long as the file is the same."""

    key: str
    title: str
    kind: str = ""
    preferred: bool = False
