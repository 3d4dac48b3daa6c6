"""The journal of a run: the intent of each effect is stored before it, its outcome after it.

After a crash the journal tells what was done, what was not, and what is uncertain. A call that may already have been
made is in doubt: it is not made again unless the user agrees.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from aish.engine.tools.executor import Outcome
from aish.errors import RunLost
from aish.ports import Clock, Store
from aish.types.runs import RunRecord, StepRecord, StepState
from aish.types.tools import Arguments, Effect, ResultStatus, ToolSpec

# Statuses that do not tell whether the effect took place.
_UNCERTAIN = frozenset({
    ResultStatus.TIMEOUT, ResultStatus.CANCELLED, ResultStatus.TRANSPORT, ResultStatus.SERVER_GONE,
    ResultStatus.INTERRUPTED,
})  # fmt: skip
_MAYBE = "aish ended while this very call was under way: it may have been done already"
_DONE = "this very call was done just before aish ended"


class Journal:
    """The journal of a run that this process owns. `known` are its steps so far. `repeated` are those of them that were
    completed just before the last process ended: the model may ask for them again without knowing it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        run: RunRecord,
        known: Sequence[StepRecord] = (),
        repeated: Sequence[StepRecord] = (),
        redact: Callable[[bytes], bytes] = bytes,
        left_by: str = "",
    ) -> None:
        """`left_by` is the process that owned the run before. It may still exist, but may not write to the session."""
        self.left_by = left_by
        self._store = store
        self._clock = clock
        self._run = run
        self._redact = redact
        self._open: dict[str, StepRecord] = {}
        self._next = max((step.number for step in known), default=0) + 1
        self._doubts = {step.digest: _MAYBE for step in known if step.state is StepState.UNKNOWN}
        self._doubts |= {step.digest: _DONE for step in repeated if step.effect != Effect.READ}
        self._done = {step.key: step for step in known if step.key and step.state is StepState.DONE}
        self._names: dict[str, str] = {}

    def name(self, call: str, key: str) -> None:
        """Records that the call is the step `key` of a plan."""
        self._names[call] = key

    def find_done(self, key: str) -> StepRecord | None:
        """The step of the plan, if it is completed."""
        return self._done.get(key)

    def doubt(self, spec: ToolSpec, arguments: Arguments) -> str:
        """Why this call must not be made without asking, or ""."""
        return self._doubts.get(call_digest(spec.name, arguments), "") if self._doubts else ""

    async def intend(self, call: str, spec: ToolSpec, arguments: Arguments, witness: str) -> None:
        """Stores the intent. Raises RunLost: then the call must not be made."""
        digest = call_digest(spec.name, arguments)
        self._doubts.pop(digest, None)  # the user has been asked
        step = StepRecord(
            self._run.id,
            self._next,
            call,
            spec.name,
            spec.effect.value,
            StepState.INTENT,
            key=self._names.get(call, ""),
            digest=digest,
            arguments=self._redact(msgspec.json.encode(arguments)),
            witness=witness,
            started_ms=self._clock.now_ms(),
        )
        self._next += 1
        self._open[call] = step
        if spec.effect is not Effect.READ:  # a read can be repeated
            await self._put(step)

    async def conclude(self, call: str, outcome: Outcome) -> None:
        step = self._open.pop(call)
        text = self._redact(msgspec.json.encode(outcome.text))
        finished = msgspec.structs.replace(
            step,
            state=_state_after(step, outcome.status),
            status=outcome.status.value,
            outcome=msgspec.json.decode(text, type=str),
            finished_ms=self._clock.now_ms(),
        )
        if finished.state is StepState.UNKNOWN:
            self._doubts[step.digest] = "it was still running when it was given up: it may have been done"
        if finished.key and finished.state is StepState.DONE:
            self._done[finished.key] = finished
        await self._put(finished)

    async def _put(self, step: StepRecord) -> None:
        if not await self._store.put_step(step, fence=self._run.fence):
            raise RunLost(
                f"the run {self._run.id} has been taken over by another process", hint="`aish runs show` tells by whom"
            )


def call_digest(tool: str, arguments: Arguments) -> str:
    """A digest that is equal for equal calls."""
    encoded = msgspec.json.encode([tool, arguments], order="deterministic")
    return hashlib.sha256(encoded).hexdigest()


def _state_after(step: StepRecord, status: ResultStatus) -> StepState:
    if status is ResultStatus.OK:
        return StepState.DONE
    uncertain = status in _UNCERTAIN and step.effect != Effect.READ
    return StepState.UNKNOWN if uncertain else StepState.FAILED
