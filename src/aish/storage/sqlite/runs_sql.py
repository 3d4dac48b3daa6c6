"""The SQL for runs and their steps. The store sets the times of leases, so that all its users agree on them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from aish.storage.store_rules import (
    RUN_COLUMNS,
    STEP_COLUMNS,
    already_there,
    clock_ms,
    lease_is_over,
    run_of,
    step_of,
    step_row,
)
from aish.types.runs import RunRecord, RunState, StepRecord


def insert(db: sqlite3.Connection, run: RunRecord, lease_s: float) -> RunRecord:
    now_ms = clock_ms()
    made = (run.id, run.kind, run.session, run.goal, run.state, run.body, run.reason, now_ms, now_ms, run.owner, 1)
    try:
        db.execute(f"INSERT INTO runs ({RUN_COLUMNS}) VALUES ({_marks(12)})", (*made, now_ms + int(lease_s * 1000)))
    except sqlite3.IntegrityError:
        raise already_there("run", run.id) from None
    found = select_one(db, run.id)
    assert found is not None
    return found


def claim(db: sqlite3.Connection, id: str, owner: str, lease_s: float, dead: str) -> RunRecord | None:
    """`dead` is an owner that is known to be gone, whatever its lease says."""
    run, now_ms = select_one(db, id), clock_ms()
    if run is None or not lease_is_over(run, now_ms, dead):
        return None
    db.execute(
        "UPDATE runs SET owner = ?, fence = fence + 1, lease_ms = ?, updated_ms = ? WHERE id = ?",
        (owner, now_ms + int(lease_s * 1000), now_ms, id),
    )
    return select_one(db, id)


def update(db: sqlite3.Connection, run: RunRecord, lease_s: float) -> bool:
    now_ms = clock_ms()
    changed = db.execute(
        "UPDATE runs SET session = ?, state = ?, body = ?, reason = ?, owner = ?, updated_ms = ?, lease_ms = ?"
        " WHERE id = ? AND fence = ?",
        (
            run.session, run.state, run.body, run.reason, run.owner, now_ms, now_ms + int(lease_s * 1000), run.id,
            run.fence,
        ),
    )  # fmt: skip
    return changed.rowcount > 0


def renew(db: sqlite3.Connection, id: str, fence: int, lease_s: float) -> bool:
    until_ms = clock_ms() + int(lease_s * 1000)
    return db.execute("UPDATE runs SET lease_ms = ? WHERE id = ? AND fence = ?", (until_ms, id, fence)).rowcount > 0


def put_step(db: sqlite3.Connection, step: StepRecord, fence: int) -> bool:
    if db.execute("SELECT 1 FROM runs WHERE id = ? AND fence = ?", (step.run, fence)).fetchone() is None:
        return False
    db.execute(f"INSERT OR REPLACE INTO steps ({STEP_COLUMNS}) VALUES ({_marks(14)})", step_row(step))
    return True


def select_one(db: sqlite3.Connection, id: str) -> RunRecord | None:
    row = db.execute(f"SELECT {RUN_COLUMNS} FROM runs WHERE id = ?", (id,)).fetchone()
    return run_of(row) if row else None


def select_newest(db: sqlite3.Connection, limit: int, states: Sequence[RunState]) -> Sequence[RunRecord]:
    where = f"WHERE state IN ({_marks(len(states))})" if states else ""
    rows = db.execute(
        f"SELECT {RUN_COLUMNS} FROM runs {where} ORDER BY created_ms DESC, id DESC LIMIT ?", (*states, max(limit, 0))
    )
    return [run_of(row) for row in rows.fetchall()]


def select_steps(db: sqlite3.Connection, run: str) -> Sequence[StepRecord]:
    rows = db.execute(f"SELECT {STEP_COLUMNS} FROM steps WHERE run = ? ORDER BY number", (run,)).fetchall()
    return [step_of(row) for row in rows]


def delete_of_session(db: sqlite3.Connection, session: str) -> None:
    db.execute("DELETE FROM steps WHERE run IN (SELECT id FROM runs WHERE session = ?)", (session,))
    db.execute("DELETE FROM runs WHERE session = ?", (session,))


def _marks(count: int) -> str:
    return ", ".join("?" * count)
