"""The SQL for the feed: the events of all turns in the order in which they were committed.

The cursor is the rowid. Writers take turns, so rows appear in the order of their rowids. The newest row is emptied
instead of deleted: otherwise SQLite would reuse its number, and readers that have seen it would miss the new row.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Sequence

from aish.types.records import FeedRow

_POLL_S = 0.2  # reading the end takes a tenth of a millisecond


def select_rows(db: sqlite3.Connection, after: int, limit: int) -> list[FeedRow]:
    rows = db.execute(
        "SELECT events.rowid, turns.session, events.turn, first_seq, body FROM events JOIN turns ON turns.id = turn"
        " WHERE events.rowid > ? ORDER BY events.rowid LIMIT ?",
        (after, max(limit, 0)),
    )
    return [FeedRow(*row) for row in rows.fetchall()]


def select_end(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT coalesce(max(rowid), 0) FROM events").fetchone()[0])


def delete_events(db: sqlite3.Connection, turns: str, values: Sequence[object]) -> None:
    """Deletes the events of the turns that the query `turns` finds."""
    newest = select_end(db)
    db.execute(f"DELETE FROM events WHERE turn IN ({turns}) AND rowid < ?", (*values, newest))
    db.execute("DELETE FROM events WHERE turn = '' AND rowid < ?", (newest,))
    db.execute(
        f"UPDATE events SET turn = '', first_seq = 0, last_seq = 0, body = x'' WHERE turn IN ({turns})", tuple(values)
    )


class CommitSignal:
    """Wakes tasks that wait for the next commit of this process. The writer's thread calls `tell`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    def tell(self) -> None:
        if not self._waiting:
            return
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for event, loop in waiting.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    def join(self) -> asyncio.Event:
        """Returns an event that is set at the next commit. Call `leave` afterwards."""
        event = asyncio.Event()
        with self._lock:
            self._waiting[event] = asyncio.get_running_loop()
        return event

    def leave(self, event: asyncio.Event) -> None:
        with self._lock:
            self._waiting.pop(event, None)

    async def wait_past(self, after: int, timeout_s: float, read_end: Callable[[], Awaitable[int]]) -> bool:
        """Returns whether the feed goes past `after` in that time. Also polls, because other processes write, too."""
        due_s = time.monotonic() + timeout_s
        while True:
            written = self.join()
            try:
                left_s = due_s - time.monotonic()
                if await read_end() > after:
                    return True
                if left_s <= 0:
                    return False
                async with asyncio.timeout(min(left_s, _POLL_S)):
                    await written.wait()
            except TimeoutError:
                continue
            finally:
                self.leave(written)
