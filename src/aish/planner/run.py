"""The durable run behind a plan: its stored state, and the request that resumes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from aish.errors import UsageError
from aish.runs.ownership import OwnedRun, RunKeeper
from aish.safety.redaction.redactor import MARK
from aish.types.decisions import Mode
from aish.types.events import LIMIT_ENDS, TurnEnd
from aish.types.messages import TextPart, UserMessage, user
from aish.types.requests import TurnRequest
from aish.types.runs import Plan, Planning, RunKind, RunState
from aish.types.usage import KeyBudget

_MAX_GOAL = 2000


class PlanBody(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that is needed to resume a plan. It is stored as JSON, so the names of its fields do not change."""

    question: str
    model: str = ""
    tools: tuple[str, ...] = ()
    planning: Planning = Planning()
    plan: Plan | None = None
    may_fall_back: bool = True
    owner: str = ""
    payer: KeyBudget | None = None
    mode: Mode | None = None


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
    """Starts a run for the request, or takes over the one that it resumes."""
    if request.run:
        async with keeper.take_over(request.run) as run:
            yield PlanRun(run, msgspec.json.decode(run.record.body, type=PlanBody))
        return
    body = PlanBody(
        question_text(request),
        request.model,
        request.tools,
        request.planner or Planning(),
        may_fall_back=request.may_fall_back,
        owner=request.owner,
        payer=request.payer,
        mode=request.mode,
    )
    async with keeper.start(
        RunKind.PLAN, _goal_of(request)[:_MAX_GOAL], msgspec.json.encode(body), session=session
    ) as run:
        yield PlanRun(run, body)


def _goal_of(request: TurnRequest) -> str:
    """What the user has typed: the first text. What a frontend sends along follows it."""
    for message in request.input:
        if isinstance(message, UserMessage):
            return next((part.text for part in message.parts if isinstance(part, TextPart) and part.text.strip()), "")
    return question_text(request)


def question_text(request: TurnRequest) -> str:
    """The text of the user's new messages."""
    return "\n\n".join(message.text for message in request.input if isinstance(message, UserMessage))


def resume_request(body: PlanBody, run: str, session: str) -> TurnRequest:
    """The request that resumes a plan. Raises UsageError if a secret was removed from the plan when it was stored."""
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
        payer=body.payer,
        mode=body.mode,
    )


def _state_after(end: TurnEnd | None) -> RunState:
    if end is TurnEnd.ANSWERED:
        return RunState.FINISHED
    if end in LIMIT_ENDS or end is TurnEnd.LENGTH:
        return RunState.STOPPED
    return RunState.HALTED
