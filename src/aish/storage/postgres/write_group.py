"""What the writer's queue contains besides events: operations with their locks, and the transaction that is under
way."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from aish.errors import AishError
from aish.storage.postgres.sql_connection import SqlConnection
from aish.storage.sqlite.write_group import Append

Run = Callable[[SqlConnection], Awaitable[Any]]

# Every reservation reads all others, so they all take this lock.
BUDGET = "budget"
ANY = "*"


class WriteOperation:
    """`run` None only waits for what was queued before. A queued operation runs, even if its waiter is gone.

    It checks before it writes: after an AishError it has written nothing. `keys` name what no other replica may change
    meanwhile. `turn` is the turn that it makes, ANY if it makes or deletes others: events of that turn that were
    appended before are written before it, those of other turns may be written after it.
    """

    __slots__ = ("durable", "future", "keys", "run", "turn")

    def __init__(
        self,
        run: Run | None,
        *,
        durable: bool,
        keys: Sequence[str] = (),
        turn: str = "",
        future: asyncio.Future[Any] | None = None,
    ) -> None:
        self.run = run
        self.durable = durable
        self.keys = keys
        self.turn = turn
        self.future = future


Item = Append | WriteOperation


def lock_numbers(items: Iterable[Item]) -> list[int]:
    """The advisory locks of a group, in the one order that all replicas take them in."""
    keys = {key for item in items if isinstance(item, WriteOperation) for key in item.keys}
    return sorted(_number(key) for key in keys)


def unawaited(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if isinstance(item, Append) or (item.run is not None and item.future is None)]


def bytes_of(items: Iterable[Item]) -> int:
    return sum(len(item.lines) for item in items if isinstance(item, Append))


def _number(key: str) -> int:
    digest = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8, person=b"aish").digest()
    return int.from_bytes(digest, "big", signed=True)


Outcome = tuple[WriteOperation, Any, AishError | None]


class PendingTransaction:
    """A transaction under way. `items` are all that it writes, `group` are the items that it was made for."""

    __slots__ = ("backend", "group", "items", "number", "outcomes")

    def __init__(self, number: int, backend: tuple[int, str], items: list[Item], group: list[Item]) -> None:
        self.number = number
        self.backend = backend
        self.items = items
        self.group = group
        self.outcomes: list[Outcome] = []
