"""Follows a plan: reads that do not wait for each other run together, writes alone and in order, all through the one
dispatch. A step that fails may have the rest planned anew; what is done stays done.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import msgspec

from aish.engine.turn.budget import Meter
from aish.errors import AishError
from aish.planner.references import BadReference, fill_in, references
from aish.planner.writer import PlanWriter
from aish.runs.journal import Journal
from aish.types.events import (
    ArgumentsDelta,
    Body,
    Event,
    PlanAccepted,
    PlanRejected,
    PlanStepFinished,
    PlanStepStarted,
    Status,
    ToolCallReady,
    ToolCallStarted,
    ToolResult,
    UsageReported,
)
from aish.types.ids import new_id
from aish.types.messages import TextPart, ToolCall, text_of
from aish.types.plans import Plan, Planning, PlanStep
from aish.types.tools import Effect, ResultStatus, ToolSpec

_MAX_TROUBLE = 500


@dataclass(frozen=True)
class StepRunner:
    """What the turn lends its planner: its voice, its dispatch and its meter."""

    emit: Callable[[Body, str], Event]
    run: Callable[[Sequence[ToolCall]], AsyncGenerator[list[Event], None]]
    next_step: Callable[[], None]
    is_over: Callable[[], bool]
    meter: Meter


Save = Callable[[Plan], Awaitable[None]]


class Planner:
    """`is_done`: every step has been done, and what remains is to answer."""

    def __init__(
        self, writer: PlanWriter, planning: Planning, tools: Mapping[str, ToolSpec], journal: Journal | None, save: Save
    ) -> None:
        self._writer = writer
        self._planning = planning
        self._tools = tools
        self._journal = journal
        self._save = save
        self._done: list[PlanStep] = []
        self._results: dict[str, str] = {}
        self._failed: list[Plan] = []  # what was left of plans that did not work
        self._trouble = ""
        self.is_done = False

    async def work(self, question: str, floor: StepRunner) -> AsyncGenerator[list[Event], None]:
        """Ends with a plan done, or without: then the plain loop goes on from where it came to."""
        plan = self._planning.plan
        for left in range(self._planning.max_replans, -1, -1):
            if plan is None or self._failed:
                async with aclosing(self._write(question, floor)) as batches:
                    async for events in batches:
                        yield events
                plan = self._writer.written
            elif errors := self._writer.check(plan, results={}, calls_left=_calls_left(floor.meter)):
                yield [floor.emit(PlanRejected(tuple(errors)), "")]
                plan = None
            else:
                yield [floor.emit(PlanAccepted(msgspec.to_builtins(plan)), "")]
            if plan is None:
                return
            await self._save(Plan((*self._done, *plan.steps)))
            async with aclosing(self._follow(plan, floor)) as batches:
                async for events in batches:
                    yield events
            if self.is_done or floor.is_over():
                return
            self._failed.append(Plan(tuple(step for step in plan.steps if step.id not in self._results)))
            after = "planning the rest anew" if left else "going on without a plan"
            yield [floor.emit(Status(f"the plan failed: {self._trouble}; {after}"), "")]

    async def _write(self, question: str, floor: StepRunner) -> AsyncGenerator[list[Event], None]:
        meter = floor.meter
        writing = self._writer.write(
            question,
            results=self._results,
            failed=self._failed,
            trouble=self._trouble,
            calls_left=_calls_left(meter),
            deadline_s=meter.remaining_s,
        )
        try:
            async with aclosing(writing) as bodies:
                async for body in bodies:
                    if isinstance(body, UsageReported):
                        meter.spend(body.usage)
                    yield [floor.emit(body, "")]
        except AishError as exc:
            yield [floor.emit(Status(f"no plan could be had: {exc.message}; working without one"), "")]

    async def _follow(self, plan: Plan, floor: StepRunner) -> AsyncGenerator[list[Event], None]:
        self._trouble = ""
        waiting = list(plan.steps)
        while waiting and not self._trouble and not floor.is_over():
            wave = self._wave(waiting)
            waiting = [step for step in waiting if step not in wave]
            async with aclosing(self._run(wave, floor)) as batches:
                async for events in batches:
                    yield events
        self.is_done = not waiting and not self._trouble and not floor.is_over()

    def _wave(self, waiting: Sequence[PlanStep]) -> list[PlanStep]:
        """The next that may run together: a write alone; reads up to the next write, if what they need is there."""
        if self._tools[waiting[0].tool].effect is not Effect.READ:
            return [waiting[0]]
        wave: list[PlanStep] = []
        for step in waiting:
            if self._tools[step.tool].effect is not Effect.READ:
                break
            if all(other in self._results for other in (*step.needs, *references(step.args))):
                wave.append(step)
        return wave

    async def _run(self, wave: Sequence[PlanStep], floor: StepRunner) -> AsyncGenerator[list[Event], None]:
        floor.next_step()
        calls: dict[str, PlanStep] = {}
        ready: list[ToolCall] = []
        for index, step in enumerate(wave):
            try:
                call = ToolCall(new_id("call"), step.tool, _encoded(fill_in(step.args, self._results)))
            except BadReference as exc:
                self._fail(step, str(exc))
                yield [floor.emit(PlanStepFinished(step.id, ResultStatus.BAD_ARGUMENTS), "")]
                continue
            yield _announced(step, call, index, floor)
            if (replayed := self._replayed(step, call, floor)) is not None:
                yield replayed
                continue
            calls[call.id] = step
            ready.append(call)
            if self._journal is not None:
                self._journal.name(call.id, step.id)
        if not ready:
            return
        async with aclosing(floor.run(ready)) as batches:
            async for events in batches:
                ended = [self._finished(event, calls, floor) for event in events if isinstance(event.body, ToolResult)]
                yield [*events, *ended]

    def _replayed(self, step: PlanStep, call: ToolCall, floor: StepRunner) -> list[Event] | None:
        """A step that was done before the run was taken over is told again, not done again."""
        kept = self._journal.done(step.id) if self._journal else None
        if kept is None or kept.tool != step.tool:
            return None
        self._results[step.id] = kept.outcome
        self._done.append(step)
        result = ToolResult(step.tool, ResultStatus.OK, (TextPart(kept.outcome),), Effect(kept.effect))
        finished = PlanStepFinished(step.id, ResultStatus.OK)
        return [floor.emit(result, call.id), floor.emit(finished, call.id)]

    def _finished(self, event: Event, calls: Mapping[str, PlanStep], floor: StepRunner) -> Event:
        assert isinstance(event.body, ToolResult)
        step, result = calls[event.call], event.body
        if result.status is ResultStatus.OK:
            self._results[step.id] = text_of(result.parts)
            self._done.append(step)
        else:
            self._fail(step, text_of(result.parts))
        return floor.emit(PlanStepFinished(step.id, result.status), event.call)

    def _fail(self, step: PlanStep, why: str) -> None:
        self._trouble = self._trouble or f"step {step.id} ({step.tool}): {' '.join(why.split())[:_MAX_TROUBLE]}"


def _announced(step: PlanStep, call: ToolCall, index: int, floor: StepRunner) -> list[Event]:
    return [
        floor.emit(PlanStepStarted(step.id, step.tool), call.id),
        floor.emit(ToolCallStarted(index, call.name), call.id),
        floor.emit(ArgumentsDelta(call.arguments), call.id),
        floor.emit(ToolCallReady(call.name, call.arguments), call.id),
    ]


def _encoded(arguments: object) -> str:
    return msgspec.json.encode(arguments).decode()


def _calls_left(meter: Meter) -> int:
    return max(0, meter.limits.max_tool_calls - meter.tool_calls)
