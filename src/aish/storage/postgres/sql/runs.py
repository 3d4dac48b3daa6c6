"""The SQL for runs and their steps. Leases are told by the database's clock: replicas need not agree on the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aish.storage.postgres.link import Link
from aish.storage.semantics import already_there, lease_is_over
from aish.types.runs import RunKind, RunRecord, RunState, StepRecord, StepState

_RUN = "id, kind, session, goal, state, body, reason, created_ms, updated_ms, owner, fence, lease_ms"
_STEP = (
    "run, number, call, tool, effect, state, key, digest, arguments, witness, status, outcome, started_ms, finished_ms"
)
# The time of the statement, not of its transaction: that may have waited for its locks.
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_INSERT = f"""
    INSERT INTO runs ({_RUN})
    SELECT $1, $2, $3, $4, $5, $6, $7, now_ms, now_ms, $8, 1, now_ms + $9 FROM (SELECT {_NOW} AS now_ms) AS clock
    ON CONFLICT (id) DO NOTHING RETURNING {_RUN}"""
_CLAIM = f"""
    UPDATE runs SET owner = $2, fence = fence + 1, lease_ms = $3::bigint + $4::bigint, updated_ms = $3
    WHERE id = $1 RETURNING {_RUN}"""
_UPDATE = f"""
    UPDATE runs SET session = $3, state = $4, body = $5, reason = $6, owner = $7, updated_ms = {_NOW},
      lease_ms = {_NOW} + $8
    WHERE id = $1 AND fence = $2"""
# The run is held while its step is written: nobody takes it over in between.
_PUT_STEP = f"""
    WITH held AS (SELECT id FROM runs WHERE id = $1 AND fence = $15 FOR SHARE)
    INSERT INTO steps ({_STEP}) SELECT held.id, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14 FROM held
    ON CONFLICT (run, number) DO UPDATE SET
      call = excluded.call, tool = excluded.tool, effect = excluded.effect, state = excluded.state, key = excluded.key,
      digest = excluded.digest, arguments = excluded.arguments, witness = excluded.witness, status = excluded.status,
      outcome = excluded.outcome, started_ms = excluded.started_ms, finished_ms = excluded.finished_ms"""


def key_of(run: str) -> str:
    return f"run/{run}"


async def insert(link: Link, run: RunRecord, lease_s: float) -> RunRecord:
    given = (run.id, run.kind.value, run.session, run.goal, run.state.value, run.body, run.reason, run.owner)
    row = await link.row(_INSERT, *given, _ms(lease_s))
    if row is None:
        raise already_there("run", run.id)
    return _run(row)


async def claim(link: Link, id: str, owner: str, lease_s: float, dead: str) -> RunRecord | None:
    """`dead` is an owner that is known to be gone, whatever its lease says."""
    row = await link.row(f"SELECT {_NOW}, {_RUN} FROM runs WHERE id = $1 FOR UPDATE", id)
    if row is None or not lease_is_over(_run(row[1:]), row[0], dead):
        return None
    taken = await link.row(_CLAIM, id, owner, row[0], _ms(lease_s))
    return _run(taken) if taken else None


async def update(link: Link, run: RunRecord, lease_s: float) -> bool:
    given = (run.id, run.fence, run.session, run.state.value, run.body, run.reason, run.owner)
    return await link.run(_UPDATE, *given, _ms(lease_s)) > 0


async def renew(link: Link, id: str, fence: int, lease_s: float) -> bool:
    sql = f"UPDATE runs SET lease_ms = {_NOW} + $3 WHERE id = $1 AND fence = $2"
    return await link.run(sql, id, fence, _ms(lease_s)) > 0


async def put_step(link: Link, step: StepRecord, fence: int) -> bool:
    given = (
        step.run, step.number, step.call, step.tool, step.effect, step.state.value, step.key, step.digest,
        step.arguments, step.witness, step.status, step.outcome, step.started_ms, step.finished_ms,
    )  # fmt: skip
    return await link.run(_PUT_STEP, *given, fence) > 0


async def select_one(link: Link, id: str) -> RunRecord | None:
    row = await link.row(f"SELECT {_RUN} FROM runs WHERE id = $1", id)
    return _run(row) if row else None


async def select_newest(link: Link, limit: int, states: Sequence[RunState]) -> Sequence[RunRecord]:
    rows = await link.rows(
        f"SELECT {_RUN} FROM runs WHERE cardinality($1::text[]) = 0 OR state = ANY($1::text[])"
        " ORDER BY created_ms DESC, id DESC LIMIT $2",
        [state.value for state in states],
        max(limit, 0),
    )
    return [_run(row) for row in rows]


async def select_steps(link: Link, run: str) -> Sequence[StepRecord]:
    return [_step(*row) for row in await link.rows(f"SELECT {_STEP} FROM steps WHERE run = $1 ORDER BY number", run)]


async def delete_of_session(link: Link, session: str) -> None:
    gone = [row[0] for row in await link.rows("DELETE FROM runs WHERE session = $1 RETURNING id", session)]
    if gone:
        await link.run("DELETE FROM steps WHERE run = ANY($1::text[])", gone)


def _step(run: str, number: int, call: str, tool: str, effect: str, state: str, *rest: Any) -> StepRecord:
    return StepRecord(run, number, call, tool, effect, StepState(state), *rest)


def _run(row: Sequence[Any]) -> RunRecord:
    id, kind, session, goal, state, *rest = row
    return RunRecord(id, RunKind(kind), session, goal, RunState(state), *rest)


def _ms(lease_s: float) -> int:
    return int(lease_s * 1000)
