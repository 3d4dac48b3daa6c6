"""The run behind a plan: what is kept of it, so that another process can go on with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from aish.errors import UsageError
from aish.runs.ownership import OwnedRun, RunKeeper
from aish.safety.redaction.redactor import MARK
from aish.types.events import LIMIT_ENDS, TurnEnd
from aish.types.messages import UserMessage, user
from aish.types.plans import Plan, Planning
from aish.types.requests import TurnRequest
from aish.types.runs import RunKind, RunState

_MAX_GOAL = 2000


class PlanBody(msgspec.Struct, frozen=True, omit_defaults=True):
    question: str
    model: str = ""
    tools: tuple[str, ...] = ()
    planning: Planning = Planning()
    plan: Plan | None = None
    may_fall_back: bool = True
    owner: str = ""


class PlanRun:
    def __init__(self, run: OwnedRun, body: PlanBody) -> None:
        self._run = run
        self._body = body
        self.journal = run.journal

    async def save(self, plan: Plan) -> None:
        self._body = msgspec.structs.replace(self._body, plan=plan)
        await self._run.save(msgspec.json.encode(self._body))

    async def end(self, end: TurnEnd | None) -> None:
        reason = "" if end is TurnEnd.ANSWERED else f"its turn ended: {end or 'it failed'}"
        await self._run.save(msgspec.json.encode(self._body), state=_state_after(end), reason=reason)


@asynccontextmanager
async def plan_run(keeper: RunKeeper, request: TurnRequest, session: str) -> AsyncIterator[PlanRun]:
    """A new run, or the one that is gone on with."""
    planning = request.planner or Planning()
    body = PlanBody(
        question_of(request),
        request.model,
        request.tools,
        planning,
        may_fall_back=request.may_fall_back,
        owner=request.owner,
    )
    goal = body.question[:_MAX_GOAL]
    owning = (
        keeper.taken(request.run)
        if request.run
        else keeper.begun(RunKind.PLAN, goal, msgspec.json.encode(body), session=session)
    )
    async with owning as run:
        if request.run:
            body = msgspec.json.decode(run.record.body, type=PlanBody)
        yield PlanRun(run, body)


def question_of(request: TurnRequest) -> str:
    """What is asked now."""
    return "\n\n".join(message.text for message in request.input if isinstance(message, UserMessage))


def resumed(body: PlanBody, run: str, session: str) -> TurnRequest:
    """The request that goes on with a plan. Raises UsageError where a secret of it was not kept."""
    plan = body.plan
    if plan is not None and MARK in msgspec.json.encode(plan).decode():
        raise UsageError(
            "the plan held a secret, and secrets are not kept: it cannot be gone on with as it was",
            hint="ask again; `aish runs abandon` gives this one up",
        )
    steps = max(body.planning.max_steps, len(plan.steps) if plan else 0)
    planning = msgspec.structs.replace(body.planning, plan=plan, max_steps=steps)
    return TurnRequest(
        (user(body.question),),
        model=body.model,
        session=session,
        may_be_new=True,
        tools=body.tools,
        may_fall_back=body.may_fall_back,
        planner=planning,
        run=run,
        owner=body.owner,
    )


def _state_after(end: TurnEnd | None) -> RunState:
    if end is TurnEnd.ANSWERED:
        return RunState.FINISHED
    if end in LIMIT_ENDS or end is TurnEnd.LENGTH:
        return RunState.STOPPED
    return RunState.HALTED
