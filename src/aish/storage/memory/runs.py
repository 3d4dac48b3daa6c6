"""Runs without a disk. A part of `memory`."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from aish.storage.semantics import already_there, lease_is_over
from aish.types.runs import RunRecord, RunState, StepRecord


class MemoryRuns:
    def __init__(self) -> None:
        self._runs: dict[str, RunRecord] = {}
        self._steps: dict[str, dict[int, StepRecord]] = {}

    def _check_open(self) -> None:
        raise NotImplementedError

    async def create_run(self, run: RunRecord, *, lease_s: float) -> RunRecord:
        self._check_open()
        if run.id in self._runs:
            raise already_there("run", run.id)
        now_ms = _now_ms()
        made = msgspec.structs.replace(
            run, created_ms=now_ms, updated_ms=now_ms, fence=1, lease_ms=now_ms + int(lease_s * 1000)
        )
        self._runs[run.id] = made
        return made

    async def claim_run(self, id: str, owner: str, *, lease_s: float, dead: str = "") -> RunRecord | None:
        self._check_open()
        run, now_ms = self._runs.get(id), _now_ms()
        if run is None or not lease_is_over(run, now_ms, dead):
            return None
        until_ms = now_ms + int(lease_s * 1000)
        self._runs[id] = msgspec.structs.replace(
            run, owner=owner, fence=run.fence + 1, lease_ms=until_ms, updated_ms=now_ms
        )
        return self._runs[id]

    async def update_run(self, run: RunRecord, *, lease_s: float) -> bool:
        self._check_open()
        kept, now_ms = self._runs.get(run.id), _now_ms()
        if kept is None or kept.fence != run.fence:
            return False
        self._runs[run.id] = msgspec.structs.replace(
            kept,
            session=run.session,
            state=run.state,
            body=run.body,
            reason=run.reason,
            owner=run.owner,
            updated_ms=now_ms,
            lease_ms=now_ms + int(lease_s * 1000),
        )
        return True

    async def renew_run(self, id: str, fence: int, *, lease_s: float) -> bool:
        self._check_open()
        kept = self._runs.get(id)
        if kept is None or kept.fence != fence:
            return False
        self._runs[id] = msgspec.structs.replace(kept, lease_ms=_now_ms() + int(lease_s * 1000))
        return True

    async def find_run(self, id: str) -> RunRecord | None:
        self._check_open()
        return self._runs.get(id)

    async def list_runs(self, *, limit: int, states: Sequence[RunState] = ()) -> Sequence[RunRecord]:
        self._check_open()
        found = [run for run in self._runs.values() if not states or run.state in states]
        return sorted(found, key=lambda run: (run.created_ms, run.id), reverse=True)[: max(limit, 0)]

    async def put_step(self, step: StepRecord, *, fence: int) -> bool:
        self._check_open()
        run = self._runs.get(step.run)
        if run is None or run.fence != fence:
            return False
        self._steps.setdefault(step.run, {})[step.number] = step
        return True

    async def list_steps(self, run: str) -> Sequence[StepRecord]:
        self._check_open()
        return [step for _, step in sorted(self._steps.get(run, {}).items())]

    def _delete_runs_of(self, session: str) -> None:
        for id in [run.id for run in self._runs.values() if run.session == session]:
            del self._runs[id]
            self._steps.pop(id, None)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
