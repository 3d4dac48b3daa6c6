"""The SQL for usage and caps. A reservation takes the lock key of the budget, so it sees all others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from aish.storage.postgres.database import SqlConnection
from aish.storage.store_rules import QUARTER_MS, is_over_cap, quarter_of, reservation_row, usage_row
from aish.types.usage import Category, Reservation, SpendingTotal, SpentRow, UsageRecord

_SUMS = """
    coalesce(sum(greatest(calls, 1)), 0)::bigint, coalesce(sum(prompt_tokens), 0)::bigint,
    coalesce(sum(completion_tokens), 0)::bigint, coalesce(sum(cost), 0.0),
    coalesce(sum(greatest(calls, 1)) FILTER (WHERE cost IS NULL), 0)::bigint,
    coalesce(sum(estimate), 0)::bigint,
    coalesce(sum(prompt_tokens) FILTER (WHERE estimate > 0), 0)::bigint"""
_COUNTED = "expires_ms = 0 AND at_ms >= $1 AND ($2::text IS NULL OR session = $2)"

_RECORD = """
    INSERT INTO usage (id, at_ms, session, model, category, prompt_tokens, completion_tokens, cost, estimate)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT (id) DO UPDATE SET
      at_ms = excluded.at_ms, expires_ms = 0, session = excluded.session, model = excluded.model,
      category = excluded.category, prompt_tokens = excluded.prompt_tokens,
      completion_tokens = excluded.completion_tokens, cost = excluded.cost, estimate = excluded.estimate, calls = 0"""
_EXPIRE = "DELETE FROM usage WHERE expires_ms > 0 AND expires_ms <= $1"
_SO_FAR = """
    SELECT (SELECT coalesce(sum(cost), 0.0) FROM usage WHERE at_ms >= $1),
           (SELECT coalesce(sum(cost), 0.0) FROM usage WHERE session = $2 AND session <> '')"""
_RESERVE = """
    INSERT INTO usage (id, at_ms, expires_ms, session, model, category, cost) VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (id) DO UPDATE SET
      at_ms = excluded.at_ms, expires_ms = excluded.expires_ms, session = excluded.session, model = excluded.model,
      category = excluded.category, prompt_tokens = 0, completion_tokens = 0, cost = excluded.cost, estimate = 0,
      calls = 0"""
_FIRST = """
    SELECT at_ms FROM usage WHERE at_ms > (SELECT coalesce(max(at_ms), -1) FROM usage WHERE calls > 0)
    AND expires_ms = 0 ORDER BY at_ms LIMIT 1"""
_SUM_UP = """
    WITH gone AS (DELETE FROM usage WHERE expires_ms = 0 AND at_ms >= $1 AND at_ms < $2 RETURNING *)
    INSERT INTO usage (id, at_ms, session, model, category, prompt_tokens, completion_tokens, cost, estimate, calls)
    SELECT min(id), max(at_ms), session, model, category, sum(prompt_tokens), sum(completion_tokens), sum(cost),
      sum(estimate), sum(greatest(calls, 1))
    FROM gone GROUP BY session, model, category, cost IS NULL, estimate > 0"""


async def record(connection: SqlConnection, record: UsageRecord) -> None:
    await connection.run(_RECORD, *usage_row(record))


async def reserve(
    connection: SqlConnection,
    wanted: Reservation,
    *,
    day_start_ms: int,
    day_cap: float | None,
    session_cap: float | None,
) -> tuple[float, float] | None:
    """Returns None if the reservation is made; else the dollars of the day and of the session, with reservations,
    that prevent it."""
    await connection.run(_EXPIRE, wanted.at_ms)
    row = await connection.row(_SO_FAR, day_start_ms, wanted.session)
    assert row is not None
    day, session = float(row[0]), float(row[1])
    if is_over_cap(day + wanted.cost, day_cap) or (wanted.session and is_over_cap(session + wanted.cost, session_cap)):
        return day, session
    await connection.run(_RESERVE, *reservation_row(wanted))
    return None


async def release(connection: SqlConnection, id: str) -> None:
    await connection.run("DELETE FROM usage WHERE id = $1 AND expires_ms > 0", id)


async def select_spent(connection: SqlConnection, since_ms: int, session: str | None) -> SpendingTotal:
    row = await connection.row(f"SELECT {_SUMS} FROM usage WHERE {_COUNTED}", since_ms, session)
    assert row is not None
    return SpendingTotal(*row)


async def select_rows(connection: SqlConnection, since_ms: int, session: str | None) -> Sequence[SpentRow]:
    # Days are those of the local time zone, so they are put together here.
    rows = await connection.rows(
        f"SELECT min(at_ms), model, category, {_SUMS} FROM usage WHERE {_COUNTED}"
        f" GROUP BY at_ms / {QUARTER_MS}, model, category",
        since_ms,
        session,
    )
    keyed = sorted(((_day(row[0]), row[1], row[2]), row[3:]) for row in rows)
    groups = [(key, _sum([sums for _, sums in group])) for key, group in groupby(keyed, key=lambda pair: pair[0])]
    return [SpentRow(day, model, Category(category), spent) for (day, model, category), spent in groups]


async def sum_up(connection: SqlConnection, before_ms: int) -> bool:
    """Records without a price, and estimates, are summed up separately."""
    first = await connection.row(_FIRST)
    if first is None or (quarter := quarter_of(first[0]))[1] > before_ms:
        return False
    await connection.run(_SUM_UP, *quarter)
    return True


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d")


def _sum(rows: Sequence[tuple[Any, ...]]) -> SpendingTotal:
    return SpendingTotal(*(sum(column) for column in zip(*rows, strict=True)))
