"""Ownership of runs: starts a run, takes one over from a process that died, and releases it at the end.

While a process owns a run it renews the lease. If renewing fails for too long, another process may take the run over;
every write of the old owner then fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec

from aish.errors import RunBusy, RunLost, RunNotFound, StoreError
from aish.ports import Clock, ProcessLiveness, Store, Toolset, Witnessing
from aish.runs.journal import Journal
from aish.types.ids import new_id
from aish.types.runs import OPEN_STATES, RunKind, RunRecord, RunState, StepRecord, StepState
from aish.types.tools import Effect

LEASE_S = 30.0
_RENEW_S = LEASE_S / 3
# A process that lives renews its lease within this time, by any clock.
_WATCH_S = _RENEW_S + 2.0
_LOOK_S = 0.25
_VERIFY_S = 10.0
_CLOSING_S = 5.0


class OwnedRun:
    """A run that this process owns. `recovered` are the effects that were under way when its last process ended, with
    what is known of them now."""

    def __init__(
        self,
        store: Store,
        record: RunRecord,
        journal: Journal,
        redact: Callable[[bytes], bytes],
        recovered: Sequence[StepRecord] = (),
    ) -> None:
        self._store = store
        self._redact = redact
        self.record = record
        self.journal = journal
        self.recovered = tuple(recovered)

    async def save(self, body: bytes, *, state: RunState = RunState.RUNNING, reason: str = "") -> None:
        """Raises RunLost."""
        record = self.record = msgspec.structs.replace(
            self.record, body=self._redact(body), state=state, reason=_redact_text(reason, self._redact)
        )
        if not await self._store.update_run(record, lease_s=LEASE_S):
            raise RunLost(f"the run {record.id} has been taken over by another process")

    async def renew_lease(self) -> None:
        """Renews the lease until the task is cancelled or the run is lost."""
        while True:
            await asyncio.sleep(_RENEW_S)
            with suppress(StoreError):  # the store may be back before the lease ends
                if not await self._store.renew_run(self.record.id, self.record.fence, lease_s=LEASE_S):
                    return

    async def release(self) -> None:
        free = msgspec.structs.replace(self.record, owner="")
        await self._store.update_run(free, lease_s=0)


class RunKeeper:
    """Starts, finds and takes over the runs of one store."""

    def __init__(
        self, store: Store, clock: Clock, owners: ProcessLiveness, tools: Toolset, redact: Callable[[bytes], bytes]
    ) -> None:
        self._store = store
        self._clock = clock
        self._owners = owners
        self._tools = tools
        self._redact = redact

    @asynccontextmanager
    async def start(
        self, kind: RunKind, goal: str, body: bytes, *, session: str | None = None
    ) -> AsyncIterator[OwnedRun]:
        """Starts a run. `session` None creates a session; "" is for a run without one."""
        if session is None:
            session = new_id("sess")  # stored before the first turn, so that a crash in that turn loses nothing
        wanted = RunRecord(
            new_id("run"),
            kind,
            session,
            _redact_text(goal, self._redact),
            RunState.RUNNING,
            self._redact(body),
            owner=self._owners.me,
        )
        created = await self._store.create_run(wanted, lease_s=LEASE_S)
        record = msgspec.structs.replace(created, goal=goal)  # this process works with the goal as it was given
        journal = Journal(self._store, self._clock, record, redact=self._redact)
        async with self._hold_lease(OwnedRun(self._store, record, journal, self._redact)) as run:
            yield run

    @asynccontextmanager
    async def take_over(self, id: str) -> AsyncIterator[OwnedRun]:
        """Takes over a run whose owner has released it or died, and first finds out what became of effects under way.
        Raises RunNotFound, RunBusy."""
        before = await self.find(id)
        if before.state not in OPEN_STATES:
            raise RunNotFound(f"the run {id} is over: {before.state}", hint="begin a new one")
        record = await self._claim(before)
        known = await self._store.list_steps(id)
        recovered = {step.number: await self._recover(step, record) for step in known if step.state is StepState.INTENT}
        steps = [recovered.get(step.number, step) for step in known]
        repeated = [step for step in steps if step.state is StepState.DONE and step.started_ms >= before.updated_ms]
        left_by = before.owner if before.owner != self._owners.me else ""
        journal = Journal(self._store, self._clock, record, steps, repeated, self._redact, left_by)
        async with self._hold_lease(
            OwnedRun(self._store, record, journal, self._redact, list(recovered.values()))
        ) as run:
            yield run

    async def find(self, id: str) -> RunRecord:
        record = await self._store.find_run(id)
        if record is None:
            raise RunNotFound(f"there is no run {id}", hint="`aish runs list` shows them")
        return record

    async def list(self, limit: int = 100) -> Sequence[RunRecord]:
        return await self._store.list_runs(limit=limit)

    async def steps(self, id: str) -> Sequence[StepRecord]:
        return await self._store.list_steps(id)

    async def list_orphaned(self) -> Sequence[RunRecord]:
        """Running runs whose owner has died or lost its lease."""
        running = await self._store.list_runs(limit=1000, states=[RunState.RUNNING])
        now_ms = self._clock.now_ms()
        return [run for run in running if run.lease_ms <= now_ms or not self._owners.is_alive(run.owner)]

    async def abandon(self, id: str) -> None:
        """Ends a run for good. Raises RunNotFound, RunBusy."""
        record = await self.find(id)
        if record.state not in OPEN_STATES:
            return
        claimed = await self._claim(record)
        closed = msgspec.structs.replace(claimed, state=RunState.ABANDONED, reason="given up by the user", owner="")
        await self._store.update_run(closed, lease_s=0)

    async def _claim(self, run: RunRecord) -> RunRecord:
        dead = run.owner if run.owner and not self._owners.is_alive(run.owner) else ""
        if run.owner not in ("", dead, self._owners.me):
            await self._check_silent(run)
        claimed = await self._store.claim_run(run.id, self._owners.me, lease_s=LEASE_S, dead=dead)
        if claimed is None:
            raise _busy(run.id)
        return claimed

    async def _check_silent(self, run: RunRecord) -> None:
        """Watches whether a lease that is over is still renewed: our clock may differ from its owner's. Raises RunBusy.
        A process that is frozen renews nothing."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + _WATCH_S
        while not 0 < run.lease_ms - self._clock.now_ms() <= 3000 * LEASE_S and loop.time() < due_s:
            found = await self._store.find_run(run.id)
            if found is None or (found.lease_ms, found.fence) != (run.lease_ms, run.fence):
                raise _busy(run.id)
            await asyncio.sleep(_LOOK_S)

    async def _recover(self, step: StepRecord, run: RunRecord) -> StepRecord:
        """Finds out what became of an effect whose outcome was not stored, and stores it."""
        happened = False if step.effect == Effect.READ else await self._has_happened(step)
        if happened is None:
            state, outcome = StepState.UNKNOWN, "aish ended while it was under way; it may or may not have been done"
        elif happened:
            state, outcome = StepState.DONE, "it was done: what it changes stands as it should"
        else:
            state, outcome = StepState.FAILED, "it was not done: what it changes stands as before"
        recovered = msgspec.structs.replace(step, state=state, outcome=outcome, finished_ms=self._clock.now_ms())
        if not await self._store.put_step(recovered, fence=run.fence):
            raise RunLost(f"the run {run.id} has been taken over by another process")
        return recovered

    async def _has_happened(self, step: StepRecord) -> bool | None:
        """Asks the tool whether the effect took place. None if it cannot tell."""
        if not step.witness or not isinstance(self._tools, Witnessing):
            return None
        try:
            async with asyncio.timeout(_VERIFY_S):
                return await self._tools.has_happened(step.tool, step.witness)
        except Exception:
            return None  # the user is asked

    @asynccontextmanager
    async def _hold_lease(self, run: OwnedRun) -> AsyncIterator[OwnedRun]:
        """Renews the lease inside, and releases the run afterwards."""
        renewing = asyncio.create_task(run.renew_lease())
        try:
            yield run
        finally:
            renewing.cancel()
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(_CLOSING_S):
                    await run.release()


def _busy(run: str) -> RunBusy:
    return RunBusy(f"another process works on the run {run}", hint="it can be taken over once that one has ended")


def _redact_text(text: str, redact: Callable[[bytes], bytes]) -> str:
    return msgspec.json.decode(redact(msgspec.json.encode(text)), type=str)
