"""The feed without a disk. A part of `memory`."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence

from aish.types.records import FeedRow, TurnRecord


class MemoryFeed:
    def __init__(self, turns: Mapping[str, TurnRecord]) -> None:
        self._turns_fed = turns
        self._rows: list[FeedRow] = []
        self._end = 0
        self._news = asyncio.Event()

    def _check_open(self) -> None:
        raise NotImplementedError

    async def read_feed(self, after: int, limit: int) -> Sequence[FeedRow]:
        self._check_open()
        start = bisect_right(self._rows, after, key=lambda row: row.cursor)
        return self._rows[start : start + max(limit, 0)]

    async def feed_end(self) -> int:
        self._check_open()
        return self._end

    async def wait_feed(self, after: int, timeout_s: float) -> bool:
        self._check_open()
        news = self._news
        if self._end <= after and timeout_s > 0:
            try:
                async with asyncio.timeout(timeout_s):
                    await news.wait()
            except TimeoutError:
                pass
        return self._end > after

    def _feed(self, turn: str, first_seq: int, lines: bytes) -> None:
        self._end += 1
        self._rows.append(FeedRow(self._end, self._turns_fed[turn].session, turn, first_seq, lines))
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _unfeed(self, turns: Collection[str]) -> None:
        self._rows = [row for row in self._rows if row.turn not in turns]
