"""The SQL for runs and their steps. Leases use the database's clock, so the clocks of replicas may differ."""

from __future__ import annotations

from collections.abc import Sequence

from aish.storage.postgres.database import SqlConnection
from aish.storage.store_rules import RUN_COLUMNS, STEP_COLUMNS, already_there, lease_is_over, run_of, step_of, step_row
from aish.types.runs import RunRecord, RunState, StepRecord

# The time of the statement, since its transaction may have waited for locks.
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_INSERT = f"""
    INSERT INTO runs ({RUN_COLUMNS})
    SELECT $1, $2, $3, $4, $5, $6, $7, now_ms, now_ms, $8, 1, now_ms + $9 FROM (SELECT {_NOW} AS now_ms) AS clock
    ON CONFLICT (id) DO NOTHING RETURNING {RUN_COLUMNS}"""
_CLAIM = f"""
    UPDATE runs SET owner = $2, fence = fence + 1, lease_ms = $3::bigint + $4::bigint, updated_ms = $3
    WHERE id = $1 RETURNING {RUN_COLUMNS}"""
_UPDATE = f"""
    UPDATE runs SET session = $3, state = $4, body = $5, reason = $6, owner = $7, updated_ms = {_NOW},
      lease_ms = {_NOW} + $8
    WHERE id = $1 AND fence = $2"""
# Locks the run while its step is written, so that it is not taken over in between.
_PUT_STEP = f"""
    WITH held AS (SELECT id FROM runs WHERE id = $1 AND fence = $15 FOR SHARE)
    INSERT INTO steps ({STEP_COLUMNS}) SELECT held.id, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14 FROM held
    ON CONFLICT (run, number) DO UPDATE SET
      call = excluded.call, tool = excluded.tool, effect = excluded.effect, state = excluded.state, key = excluded.key,
      digest = excluded.digest, arguments = excluded.arguments, witness = excluded.witness, status = excluded.status,
      outcome = excluded.outcome, started_ms = excluded.started_ms, finished_ms = excluded.finished_ms"""


def key_of(run: str) -> str:
    return f"run/{run}"


async def insert(connection: SqlConnection, run: RunRecord, lease_s: float) -> RunRecord:
    given = (run.id, run.kind.value, run.session, run.goal, run.state.value, run.body, run.reason, run.owner)
    row = await connection.row(_INSERT, *given, _ms(lease_s))
    if row is None:
        raise already_there("run", run.id)
    return run_of(row)


async def claim(connection: SqlConnection, id: str, owner: str, lease_s: float, dead: str) -> RunRecord | None:
    """`dead` is an owner that is known to be gone, whatever its lease says."""
    row = await connection.row(f"SELECT {_NOW}, {RUN_COLUMNS} FROM runs WHERE id = $1 FOR UPDATE", id)
    if row is None or not lease_is_over(run_of(row[1:]), row[0], dead):
        return None
    taken = await connection.row(_CLAIM, id, owner, row[0], _ms(lease_s))
    return run_of(taken) if taken else None


async def update(connection: SqlConnection, run: RunRecord, lease_s: float) -> bool:
    given = (run.id, run.fence, run.session, run.state.value, run.body, run.reason, run.owner)
    return await connection.run(_UPDATE, *given, _ms(lease_s)) > 0


async def renew(connection: SqlConnection, id: str, fence: int, lease_s: float) -> bool:
    sql = f"UPDATE runs SET lease_ms = {_NOW} + $3 WHERE id = $1 AND fence = $2"
    return await connection.run(sql, id, fence, _ms(lease_s)) > 0


async def put_step(connection: SqlConnection, step: StepRecord, fence: int) -> bool:
    return await connection.run(_PUT_STEP, *step_row(step), fence) > 0


async def select_one(connection: SqlConnection, id: str) -> RunRecord | None:
    row = await connection.row(f"SELECT {RUN_COLUMNS} FROM runs WHERE id = $1", id)
    return run_of(row) if row else None


async def select_newest(connection: SqlConnection, limit: int, states: Sequence[RunState]) -> Sequence[RunRecord]:
    rows = await connection.rows(
        f"SELECT {RUN_COLUMNS} FROM runs WHERE cardinality($1::text[]) = 0 OR state = ANY($1::text[])"
        " ORDER BY created_ms DESC, id DESC LIMIT $2",
        [state.value for state in states],
        max(limit, 0),
    )
    return [run_of(row) for row in rows]


async def select_steps(connection: SqlConnection, run: str) -> Sequence[StepRecord]:
    return [
        step_of(row)
        for row in await connection.rows(f"SELECT {STEP_COLUMNS} FROM steps WHERE run = $1 ORDER BY number", run)
    ]


async def delete_of_session(connection: SqlConnection, session: str) -> None:
    deleted = [row[0] for row in await connection.rows("DELETE FROM runs WHERE session = $1 RETURNING id", session)]
    if deleted:
        await connection.run("DELETE FROM steps WHERE run = ANY($1::text[])", deleted)


def _ms(lease_s: float) -> int:
    return int(lease_s * 1000)
