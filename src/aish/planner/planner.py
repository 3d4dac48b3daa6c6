"""Runs a plan. Independent reads run together; writes run alone and in order; all go through the one dispatch.

If a step fails, the rest may be planned again; completed steps stay completed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

import msgspec

from aish.engine.tools.dispatch import Dispatcher
from aish.engine.turn.events import EventFactory
from aish.engine.turn.turn_limits import Budget
from aish.errors import AishError
from aish.planner.references import BadReference, fill_in, references
from aish.planner.writer import PlanWriter
from aish.ports import Ask
from aish.runs.journal import Journal
from aish.types.decisions import YES_CHOICES, Choice, Question, QuestionKind
from aish.types.events import (
    ArgumentsDelta,
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
from aish.types.runs import Plan, Planning, PlanStep
from aish.types.tools import Effect, ResultStatus, ToolSpec

_MAX_ERROR_LINES = 10
_MAX_LINE_CHARS = 240


class StepRunner:
    """The parts of a turn that its planner uses: its events, its dispatcher and its budget."""

    def __init__(self, factory: EventFactory, dispatcher: Dispatcher, budget: Budget) -> None:
        self.emit = factory.event
        self.run = dispatcher.run
        self.budget = budget
        self._factory = factory
        self._dispatcher = dispatcher

    def next_step(self) -> None:
        self._factory.step += 1

    def is_over(self) -> bool:
        return self._dispatcher.end is not None or self.budget.remaining_s <= 0


Save = Callable[[Plan], Awaitable[None]]


class Planner:
    """`is_done`: every step is completed, and only the answer is left."""

    def __init__(
        self,
        writer: PlanWriter,
        planning: Planning,
        tools: Mapping[str, ToolSpec],
        journal: Journal | None,
        save: Save,
        ask: Ask | None = None,
    ) -> None:
        """`ask` puts each plan to the user before it is followed, if the planning says so."""
        self._ask = ask if planning.confirm else None
        self._writer = writer
        self._planning = planning
        self._tools = tools
        self._journal = journal
        self._save = save
        self._completed: list[PlanStep] = []
        self._results: dict[str, str] = {}
        self._failed: list[Plan] = []  # the remaining steps of plans that failed
        self._error = ""
        self.is_done = False
        self.is_refused = False

    async def work(
        self, question: str, factory: EventFactory, dispatcher: Dispatcher, budget: Budget
    ) -> AsyncGenerator[list[Event], None]:
        """Writes and runs plans until one is completed, or gives up: then the plain loop continues from there."""
        runner = StepRunner(factory, dispatcher, budget)
        plan = self._planning.plan
        for left in range(self._planning.max_replans, -1, -1):
            if plan is None or self._failed:
                async with aclosing(self._write(question, runner)) as batches:
                    async for events in batches:
                        yield events
                plan = self._writer.written
            elif errors := self._writer.check(plan, results={}, calls_left=_calls_left(runner.budget)):
                yield [runner.emit(PlanRejected(tuple(errors)), "")]
                plan = None
            else:
                yield [runner.emit(PlanAccepted(msgspec.to_builtins(plan)), "")]
            if plan is None:
                return
            plan = await self._confirm(plan, runner.budget)
            if plan is None:
                self.is_refused = True
                yield [runner.emit(Status("the plan was not approved, and nothing of it was done"), "")]
                return
            await self._save(Plan((*self._completed, *plan.steps)))
            async with aclosing(self._follow(plan, runner)) as batches:
                async for events in batches:
                    yield events
            if self.is_done or runner.is_over():
                return
            self._failed.append(Plan(tuple(step for step in plan.steps if step.id not in self._results)))
            after = "planning the rest anew" if left else "going on without a plan"
            yield [runner.emit(Status(f"the plan failed: {self._error}; {after}"), "")]

    async def _confirm(self, plan: Plan, budget: Budget) -> Plan | None:
        """The plan as the user approves it; None if not. A plan that the user has changed must hold like a new one."""
        if self._ask is None:
            return plan
        while True:
            shown = msgspec.to_builtins(plan)
            question = Question(new_id("call"), QuestionKind.PLAN, "plan", "plan", shown, "the plan is written")
            with budget.pause():
                answer = await self._ask(question)
            if answer.choice is not Choice.EDIT:
                return plan if answer.choice in YES_CHOICES else None
            try:
                plan = msgspec.convert(answer.arguments, Plan)
            except msgspec.ValidationError:
                return None
            if not self._writer.check(plan, results=self._results, calls_left=_calls_left(budget)):
                return plan

    async def _write(self, question: str, runner: StepRunner) -> AsyncGenerator[list[Event], None]:
        budget = runner.budget
        writing = self._writer.write(
            question,
            results=self._results,
            failed=self._failed,
            error=self._error,
            calls_left=_calls_left(budget),
            deadline_s=budget.remaining_s,
        )
        try:
            async with aclosing(writing) as bodies:
                async for body in bodies:
                    if isinstance(body, UsageReported):
                        budget.spend(body.usage)
                    yield [runner.emit(body, "")]
        except AishError as exc:
            yield [runner.emit(Status(f"no plan could be had: {exc.message}; working without one"), "")]

    async def _follow(self, plan: Plan, runner: StepRunner) -> AsyncGenerator[list[Event], None]:
        self._error = ""
        waiting = list(plan.steps)
        while waiting and not self._error and not runner.is_over():
            wave = self._next_wave(waiting)
            waiting = [step for step in waiting if step not in wave]
            async with aclosing(self._run(wave, runner)) as batches:
                async for events in batches:
                    yield events
        self.is_done = not waiting and not self._error and not runner.is_over()

    def _next_wave(self, waiting: Sequence[PlanStep]) -> list[PlanStep]:
        """The steps that run together next: one write, or the reads up to the next write whose inputs are available."""
        if self._tools[waiting[0].tool].effect is not Effect.READ:
            return [waiting[0]]
        wave: list[PlanStep] = []
        for step in waiting:
            if self._tools[step.tool].effect is not Effect.READ:
                break
            if all(other in self._results for other in (*step.needs, *references(step.args))):
                wave.append(step)
        return wave

    async def _run(self, wave: Sequence[PlanStep], runner: StepRunner) -> AsyncGenerator[list[Event], None]:
        runner.next_step()
        calls: dict[str, PlanStep] = {}
        ready: list[ToolCall] = []
        for index, step in enumerate(wave):
            try:
                arguments = msgspec.json.encode(fill_in(step.args, self._results)).decode()
                call = ToolCall(new_id("call"), step.tool, arguments)
            except BadReference as exc:
                self._fail(step, str(exc))
                yield [runner.emit(PlanStepFinished(step.id, ResultStatus.BAD_ARGUMENTS), "")]
                continue
            yield _announce(step, call, index, runner)
            if (replayed := self._replay(step, call, runner)) is not None:
                yield replayed
                continue
            calls[call.id] = step
            ready.append(call)
            if self._journal is not None:
                self._journal.name(call.id, step.id)
        if not ready:
            return
        async with aclosing(runner.run(ready)) as batches:
            async for events in batches:
                ended = [self._finish(event, calls, runner) for event in events if isinstance(event.body, ToolResult)]
                yield [*events, *ended]

    def _replay(self, step: PlanStep, call: ToolCall, runner: StepRunner) -> list[Event] | None:
        """The events of a step that was completed before the run was taken over; None if it has to be run."""
        recorded = self._journal.find_done(step.id) if self._journal else None
        if recorded is None or recorded.tool != step.tool:
            return None
        self._results[step.id] = recorded.outcome
        self._completed.append(step)
        result = ToolResult(step.tool, ResultStatus.OK, (TextPart(recorded.outcome),), Effect(recorded.effect))
        finished = PlanStepFinished(step.id, ResultStatus.OK)
        return [runner.emit(result, call.id), runner.emit(finished, call.id)]

    def _finish(self, event: Event, calls: Mapping[str, PlanStep], runner: StepRunner) -> Event:
        assert isinstance(event.body, ToolResult)
        step, result = calls[event.call], event.body
        if result.status is ResultStatus.OK:
            self._results[step.id] = text_of(result.parts)
            self._completed.append(step)
        else:
            self._fail(step, text_of(result.parts))
        return runner.emit(PlanStepFinished(step.id, result.status), event.call)

    def _fail(self, step: PlanStep, why: str) -> None:
        self._error = self._error or f"step {step.id} ({step.tool}):\n{_cut_error(why)}"


def _cut_error(text: str) -> str:
    """The last lines, where errors stand, each cut to what fits a few rows of a terminal."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    left_out = ["  …"] if len(lines) > _MAX_ERROR_LINES else []
    return "\n".join([*left_out, *(f"  {line[:_MAX_LINE_CHARS]}" for line in lines[-_MAX_ERROR_LINES:])])


def _announce(step: PlanStep, call: ToolCall, index: int, runner: StepRunner) -> list[Event]:
    return [
        runner.emit(PlanStepStarted(step.id, step.tool), call.id),
        runner.emit(ToolCallStarted(index, call.name), call.id),
        runner.emit(ArgumentsDelta(call.arguments), call.id),
        runner.emit(ToolCallReady(call.name, call.arguments), call.id),
    ]


def _calls_left(budget: Budget) -> int:
    return max(0, budget.limits.max_tool_calls - budget.tool_calls)
