"""Autonomous work for programs: the watcher of `autonomy` that asks a function instead of a person."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aish.autonomy.goal_worker import GoalWorker
from aish.autonomy.state import Show
from aish.engine.engine import Engine
from aish.frontends.long_runs import check_goal, make_goal_state
from aish.frontends.runtime import Runtime
from aish.library.approval import Approve, make_ask
from aish.library.replies import GoalReport
from aish.types.decisions import YES_CHOICES, Choice
from aish.types.events import Event, ToolResult
from aish.types.runs import Halt, HaltAnswer, HaltChoice, RunKind


async def work_towards(
    runtime: Runtime,
    engine: Engine,
    goal: str,
    *,
    model: str,
    tools: tuple[str, ...],
    approve: Approve | None,
    max_steps: int | None,
    max_cost: float | None,
    max_minutes: float | None,
) -> GoalReport:
    body = make_goal_state(
        runtime.config, model=model, tools=tools, max_steps=max_steps, max_cost=max_cost, max_minutes=max_minutes
    )
    watcher = _Watcher(approve)
    async with engine.runs.start(RunKind.NORRIS, check_goal(goal), body) as run:
        state = await GoalWorker(engine, run, watcher, runtime.containment).work(None)
        id = run.record.id
    record = await engine.runs.find(id)
    return GoalReport(state, id, record.reason, tuple(watcher.notices))


class _Watcher:
    def __init__(self, approve: Approve | None) -> None:
        self.notices: list[str] = []
        self._ask = make_ask(approve)

    def notify_user(self, text: str) -> None:
        self.notices.append(text)

    @asynccontextmanager
    async def step(self, number: int, max_steps: int, cost: float) -> AsyncIterator[Show]:
        def ignore(events: Sequence[Event]) -> None:
            pass

        yield ignore

    def show_command(self, command: str, result: ToolResult) -> None:
        self.notices.append(f"$ {command}")

    async def decide(self, halt: Halt) -> HaltAnswer:
        """Only an effect in doubt can be approved; any other halt stays for a person."""
        if self._ask is None or halt.question is None:
            return HaltAnswer(HaltChoice.STAY_HALTED)
        answer = await self._ask(halt.question)
        if answer.choice in YES_CHOICES:
            return HaltAnswer(HaltChoice.PROCEED)
        if answer.choice is Choice.EDIT:
            return HaltAnswer(HaltChoice.EDIT, arguments=answer.arguments)
        return HaltAnswer(HaltChoice.SKIP, note=answer.note)
