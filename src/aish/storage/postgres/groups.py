"""What the writer's queue holds besides events: operations, and what they lock."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from aish.storage.postgres.link import Link
from aish.storage.sqlite.write_group import Append

Run = Callable[[Link], Awaitable[Any]]

# Every reservation sums up what all others came to.
BUDGET = "budget"
ANY = "*"


class Operation:
    """`run` None only waits for what was queued before it. Once queued it runs, whether or not its waiter stays.

    It checks before it writes: an AishError it raises means that it has written nothing. `keys` name what no other
    replica may touch meanwhile. `turn` is the one it makes, ANY if it makes or deletes others: events that were
    appended before it are written before it, those of other turns may be written after.
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


Item = Append | Operation


def lock_numbers(items: Iterable[Item]) -> list[int]:
    """The advisory locks of a group, in the one order that everybody takes them in."""
    keys = {key for item in items if isinstance(item, Operation) for key in item.keys}
    return sorted(_number(key) for key in keys)


def unawaited(items: Iterable[Item]) -> list[Item]:
    return [item for item in items if isinstance(item, Append) or (item.run is not None and item.future is None)]


def bytes_of(items: Iterable[Item]) -> int:
    return sum(len(item.lines) for item in items if isinstance(item, Append))


def _number(key: str) -> int:
    digest = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8, person=b"aish").digest()
    return int.from_bytes(digest, "big", signed=True)
