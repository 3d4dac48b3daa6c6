"""Runs in the SQLite file. A part of `sqlite`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import TypeVar

from aish.storage.sqlite import runs_sql
from aish.types.runs import RunRecord, RunState, StepRecord

T = TypeVar("T")


class SqliteRuns:
    async def _write(self, run: Callable[[sqlite3.Connection], T], *, wait: bool = True) -> T | None:
        raise NotImplementedError

    async def _read(self, run: Callable[[sqlite3.Connection], T]) -> T:
        raise NotImplementedError

    async def create_run(self, run: RunRecord, *, lease_s: float) -> RunRecord:
        made = await self._write(lambda db: runs_sql.insert(db, run, lease_s))
        assert made is not None
        return made

    async def claim_run(self, id: str, owner: str, *, lease_s: float, dead: str = "") -> RunRecord | None:
        return await self._write(lambda db: runs_sql.claim(db, id, owner, lease_s, dead))

    async def update_run(self, run: RunRecord, *, lease_s: float) -> bool:
        return bool(await self._write(lambda db: runs_sql.update(db, run, lease_s)))

    async def renew_run(self, id: str, fence: int, *, lease_s: float) -> bool:
        return bool(await self._write(lambda db: runs_sql.renew(db, id, fence, lease_s)))

    async def find_run(self, id: str) -> RunRecord | None:
        return await self._read(lambda db: runs_sql.select_one(db, id))

    async def list_runs(self, *, limit: int, states: Sequence[RunState] = ()) -> Sequence[RunRecord]:
        return await self._read(lambda db: runs_sql.select_newest(db, limit, states))

    async def put_step(self, step: StepRecord, *, fence: int) -> bool:
        return bool(await self._write(lambda db: runs_sql.put_step(db, step, fence)))

    async def list_steps(self, run: str) -> Sequence[StepRecord]:
        return await self._read(lambda db: runs_sql.select_steps(db, run))
