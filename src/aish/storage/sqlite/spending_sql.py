"""The SQL for usage and caps. One write checks a cap and makes the reservation, so processes can share the cap."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from aish.storage.sqlite.bulk_insert import NULL, BulkInsert
from aish.storage.store_rules import is_over_cap, quarter_of, reservation_row, usage_row
from aish.types.usage import Category, Reservation, SpendingTotal, SpentRow, UsageRecord

_SUMS = (
    "coalesce(sum(max(calls, 1)), 0), coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0),"
    " coalesce(sum(cost), 0.0), coalesce(sum(max(calls, 1) * (cost IS NULL)), 0),"
    " coalesce(sum(estimate), 0), coalesce(sum(prompt_tokens * (estimate > 0)), 0)"
)
_IN_QUARTER = "expires_ms = 0 AND at_ms >= ? AND at_ms < ?"
_DAY = "date(at_ms / 1000, 'unixepoch', 'localtime')"


_INSERT_USAGE = BulkInsert(
    "INSERT OR REPLACE INTO usage (id, at_ms, session, model, category, prompt_tokens, completion_tokens, cost,"
    " estimate)",
    columns=9,
    nullable=8,
)


_INSERT_SUMS = BulkInsert(
    "INSERT INTO usage (id, at_ms, session, model, category, prompt_tokens, completion_tokens, cost, estimate, calls)",
    columns=10,
    nullable=8,
)


def insert_usage(db: sqlite3.Connection, records: Sequence[UsageRecord]) -> None:
    _INSERT_USAGE.insert(db, [_row_of(record) for record in records])


def _row_of(record: UsageRecord) -> Sequence[str | int | float | None]:
    row = usage_row(record)
    return (*row[:7], NULL, *row[8:]) if row[7] is None else row


def reserve(
    db: sqlite3.Connection,
    wanted: Reservation,
    *,
    day_start_ms: int,
    day_cap: float | None,
    session_cap: float | None,
) -> tuple[float, float] | None:
    """Returns None if the reservation is made; else the dollars of the day and of the session, with reservations,
    that prevent it."""
    db.execute("DELETE FROM usage WHERE expires_ms > 0 AND expires_ms <= ?", (wanted.at_ms,))
    day = _cost(db, "at_ms >= ?", day_start_ms)
    session = _cost(db, "session = ?", wanted.session) if wanted.session else 0.0
    if is_over_cap(day + wanted.cost, day_cap) or (wanted.session and is_over_cap(session + wanted.cost, session_cap)):
        return day, session
    db.execute(
        "INSERT OR REPLACE INTO usage (id, at_ms, expires_ms, session, model, category, cost)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        reservation_row(wanted),
    )
    return None


def release(db: sqlite3.Connection, id: str) -> None:
    db.execute("DELETE FROM usage WHERE id = ? AND expires_ms > 0", (id,))


def select_spent(db: sqlite3.Connection, since_ms: int, session: str | None) -> SpendingTotal:
    row = db.execute(
        f"SELECT {_SUMS} FROM usage WHERE expires_ms = 0 AND at_ms >= ? AND (? IS NULL OR session = ?)",
        (since_ms, session, session),
    ).fetchone()
    return SpendingTotal(*row)


def select_rows(db: sqlite3.Connection, since_ms: int, session: str | None) -> Sequence[SpentRow]:
    rows = db.execute(
        f"SELECT {_DAY} AS day, model, category, {_SUMS} FROM usage"
        " WHERE expires_ms = 0 AND at_ms >= ? AND (? IS NULL OR session = ?)"
        " GROUP BY day, model, category ORDER BY day, model, category",
        (since_ms, session, session),
    )
    return [
        SpentRow(day, model, Category(category), SpendingTotal(*sums))
        for day, model, category, *sums in rows.fetchall()
    ]


def sum_up(db: sqlite3.Connection, before_ms: int) -> bool:
    """Records without a price, and estimates, are summed up separately."""
    first = db.execute(
        "SELECT at_ms FROM usage WHERE at_ms > (SELECT coalesce(max(at_ms), -1) FROM usage WHERE calls > 0)"
        " AND expires_ms = 0 ORDER BY at_ms LIMIT 1"
    ).fetchone()
    if first is None or (quarter := quarter_of(first[0]))[1] > before_ms:
        return False
    sums = db.execute(
        "SELECT min(id), max(at_ms), session, model, category, sum(prompt_tokens), sum(completion_tokens), sum(cost),"
        f" sum(estimate), sum(max(calls, 1)) FROM usage WHERE {_IN_QUARTER}"
        " GROUP BY session, model, category, cost IS NULL, estimate > 0",
        quarter,
    ).fetchall()
    db.execute(f"DELETE FROM usage WHERE {_IN_QUARTER}", quarter)
    _INSERT_SUMS.insert(db, sums)
    return True


def _cost(db: sqlite3.Connection, where: str, value: object) -> float:
    return float(db.execute(f"SELECT coalesce(sum(cost), 0.0) FROM usage WHERE {where}", (value,)).fetchone()[0])
