"""Runs on the server: `/v1/runs…`. Work towards a goal goes on in the background; a halt waits for a user.

A run that a dead process left behind is taken over, at the start and while the server runs. Only runs that a server
began continue on their own; one that a shell began continues on request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import msgspec

from aish.autonomy.goal_worker import GoalWorker
from aish.autonomy.state import GoalState
from aish.errors import AishError, RunBusy, RunNotFound, StoreError, UsageError
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.metrics.counters import TurnMeter
from aish.frontends.http.server.engine_host import EngineHost
from aish.frontends.http.server.http_errors import (
    HttpProblem,
    bad_field,
    check_mode,
    decode_body,
    read_number,
    uncovered_model,
)
from aish.frontends.http.sessions.approvals import CONFIRMATION
from aish.frontends.long_runs import check_goal, make_goal_state, run_json
from aish.planner.run import PlanBody, resume_request
from aish.ports import Ask
from aish.runs.ownership import OwnedRun
from aish.safety.policy.modes import strictest
from aish.tool_calls.schema.validator import schema_errors
from aish.types.decisions import Danger, Mode
from aish.types.events import Event, ToolResult
from aish.types.ids import new_id
from aish.types.runs import OPEN_STATES, Halt, HaltAnswer, HaltChoice, RunKind, RunRecord

log = logging.getLogger(__name__)

SERVER = "server"
_MAX_BODY_BYTES = 1024 * 1024
_LOOK_S = 10.0
_MAX_AT_ONCE = 16
_MAX_LISTED = 1000


class GoalBody(msgspec.Struct, frozen=True):
    goal: str
    model: str = ""
    tools: tuple[str, ...] | None = None
    system: str = ""
    max_steps: int | None = None
    max_cost: float | None = None
    max_minutes: float | None = None
    mode: str | None = None


class ResumeBody(msgspec.Struct, frozen=True):
    """`confirm` spells out "yes" for a call that is a catastrophe."""

    answer: HaltAnswer | None = None
    confirm: str = ""


_goal_decoder = msgspec.json.Decoder(GoalBody)
_resume_decoder = msgspec.json.Decoder(ResumeBody)


class ServerRuns:
    def __init__(self, host: EngineHost, consent_for: Callable[[Caller], Ask | None]) -> None:
        self._host = host
        self._consent_for = consent_for
        self._working: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ServerRuns:
        self._looking = asyncio.create_task(self._take_over())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Gives up the runs under way: the process that takes them over continues them."""
        tasks = [task for task in (self._looking, *self._working.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def reply_with_runs(self, exchange: Exchange, caller: Caller) -> None:
        limit = read_number("limit", exchange.query.get("limit", "50"), most=_MAX_LISTED)
        found = await self._host.engine.runs.list(limit if caller.admin else _MAX_LISTED)
        data = [_run_object(caller, run_json(run)) for run in found if caller.may_see(run.session)][:limit]
        await exchange.reply(200, msgspec.json.encode({"object": "list", "data": data}))

    async def get(self, exchange: Exchange, caller: Caller, id: str) -> None:
        run = await self._find(caller, id)
        await exchange.reply(200, await self._encode(caller, run))

    async def start(self, exchange: Exchange, caller: Caller) -> None:
        given = decode_body(await exchange.body(_MAX_BODY_BYTES), _goal_decoder)
        engine, config = self._host.engine, self._host.runtime.config
        self._check_room()
        _check(given)
        self._host.check_model(caller, given.model)
        known = [spec.name for spec in engine.tools.specs()]
        tools = (
            caller.filter_tools(known)
            if given.tools is None
            else caller.filter_tools([n for n in known if n in given.tools])
        )
        if not tools:
            raise bad_field("tools", "none of them is there, or none is allowed to this key")
        model = given.model or config.norris.executor or config.model
        if not caller.may_use_model(model):
            raise uncovered_model(model)
        await engine.router.resolve(given.model or config.norris.executor)  # or it is said now that there is none
        body = make_goal_state(
            config,
            model=given.model,
            tools=tools,
            system=given.system,
            max_steps=_least(given.max_steps, config.norris.max_steps),
            max_cost=_least(given.max_cost, config.norris.max_cost),
            max_minutes=_least(given.max_minutes, config.norris.max_minutes),
            where=SERVER,
            may_fall_back=caller.may_use_model(config.routing.fallback),
            owner=caller.owner,
            payer=caller.payer,
            mode=self._read_mode(caller, given.mode),
        )
        session = caller.session(new_id("sess"))
        owning = engine.runs.start(RunKind.NORRIS, check_goal(given.goal), body, session=session)
        run = await self._begin(owning, None)
        await exchange.reply(202, await self._encode(caller, run))

    def _read_mode(self, caller: Caller, given: str | None) -> Mode:
        """As for a turn; without one as far as the key may go."""
        most = self._host.config.max_mode if caller.owner else Mode.AUTO
        return strictest(Mode.AUTO, most) if given is None else check_mode(given, most)

    async def resume(self, exchange: Exchange, caller: Caller, id: str) -> None:
        given = decode_body(await exchange.body(_MAX_BODY_BYTES) or b"{}", _resume_decoder)
        run = await self._find(caller, id)
        if run.state not in OPEN_STATES:
            raise HttpProblem(409, f"the run is over: {run.state}", code="run_over")
        self._check_room()
        engine = self._host.engine
        try:
            if run.kind is RunKind.PLAN:
                await self._begin_plan(run)
            else:
                _check_answer(run, given.answer, given.confirm)
                await self._begin(engine.runs.take_over(id), given.answer)
        except RunBusy as exc:
            raise HttpProblem(409, exc.message, code="run_busy") from exc
        await exchange.reply(202, await self._encode(caller, await engine.runs.find(id)))

    async def abandon(self, exchange: Exchange, caller: Caller, id: str) -> None:
        run = await self._find(caller, id)
        if task := self._working.get(id):
            task.cancel()
            await asyncio.wait({task})
        try:
            await self._host.engine.runs.abandon(run.id)
        except RunBusy as exc:
            raise HttpProblem(409, exc.message, code="run_busy") from exc
        await exchange.reply(200, await self._encode(caller, await self._host.engine.runs.find(id)))

    async def _encode(self, caller: Caller, run: RunRecord) -> bytes:
        steps = await self._host.engine.runs.steps(run.id)
        return msgspec.json.encode(_run_object(caller, run_json(run, steps)))

    async def _find(self, caller: Caller, id: str) -> RunRecord:
        try:
            run = await self._host.engine.runs.find(id)
        except RunNotFound:
            run = None
        if run is None or not caller.may_see(run.session):
            raise HttpProblem(404, f"there is no run {id[:80]}", code="run_not_found")
        return run

    def _check_room(self) -> None:
        if len(self._working) >= _MAX_AT_ONCE:
            raise HttpProblem(503, f"{_MAX_AT_ONCE} runs are under way already", code="overloaded")

    async def _begin(self, owning: AbstractAsyncContextManager[OwnedRun], answer: HaltAnswer | None) -> RunRecord:
        """Returns the record once the run is ours; the work goes on in the background."""
        records: list[RunRecord] = []

        async def work(begun: Callable[[str], None]) -> None:
            engine = self._host.engine
            async with owning as run:
                records.append(run.record)
                begun(run.record.id)

                def halt(why: str) -> None:
                    worker.pause(why)

                watcher = _Watcher(self._host, _owner_of(run.record), halt)
                worker = GoalWorker(engine, run, watcher, self._host.runtime.containment)
                await worker.work(answer)

        await self._in_background(work)
        return records[0]

    async def _begin_plan(self, run: RunRecord) -> None:
        """Continues a plan as a turn of its session. Questions of the gate wait at `/v1/approvals`."""
        body = msgspec.json.decode(run.body, type=PlanBody)
        caller = _owner_of(run)
        meter = TurnMeter(self._host.metrics)

        async def work(begun: Callable[[str], None]) -> None:
            request = resume_request(body, run.id, run.session)
            ask = self._consent_for(caller)
            try:
                async with self._host.engine.turn(request, ask=ask, on_left=meter.count_abandoned) as batches:
                    begun(run.id)
                    async for events in batches:
                        meter.observe(events)
            finally:
                await self._host.keys.save_spending(caller.key)

        await self._in_background(work)

    async def _in_background(self, work: Callable[[Callable[[str], None]], Awaitable[None]]) -> None:
        """Returns when the work has begun; an error before that is raised here."""
        begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def working() -> None:
            with self._host.active_request():
                try:
                    await work(begun.set_result)
                finally:
                    if begun.done():
                        self._working.pop(begun.result(), None)

        task = asyncio.create_task(working())
        waited: set[asyncio.Future[Any]] = {task, begun}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            await task
            raise AssertionError("work begins, or fails")
        if not task.done():
            self._working[begun.result()] = task
        task.add_done_callback(_log_failure)

    async def _take_over(self) -> None:
        """Continues the runs of servers that died."""
        while True:
            with suppress(StoreError):
                for run in await self._host.engine.runs.list_orphaned():
                    if len(self._working) < _MAX_AT_ONCE and _is_servers(run) and run.id not in self._working:
                        await self._take_over_one(run.id)
            await asyncio.sleep(_LOOK_S)

    async def _take_over_one(self, id: str) -> None:
        try:
            await self._begin(self._host.engine.runs.take_over(id), None)
        except (RunBusy, RunNotFound, StoreError) as exc:
            log.info("a run was not taken over: %s", exc.message)


class _Watcher:
    """Without a user: events tell what happens, and a halt stays until it is answered. Each step is booked on the key
    that owns the run; when its budget is used up, the work halts."""

    def __init__(self, host: EngineHost, owner: Caller, halt_work: Callable[[str], None]) -> None:
        self._host = host
        self._owner = owner
        self._halt_work = halt_work

    def notify_user(self, text: str) -> None:
        log.info("%s", text)

    @asynccontextmanager
    async def step(self, number: int, max_steps: int, cost: float) -> AsyncIterator[Callable[[Sequence[Event]], None]]:
        keys, meter = self._host.keys, TurnMeter(self._host.metrics)
        try:
            yield meter.observe
        finally:
            await keys.save_spending(self._owner.key)
        try:
            await keys.check_budget(self._owner)
        except HttpProblem as problem:
            self._halt_work(problem.message)

    def show_command(self, command: str, result: ToolResult) -> None:
        pass

    async def decide(self, halt: Halt) -> HaltAnswer:
        return HaltAnswer(HaltChoice.STAY_HALTED)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        words = error.message if isinstance(error, AishError) else repr(error)
        log.warning("a run stopped: %s", words)


def _is_servers(run: RunRecord) -> bool:
    return run.kind is RunKind.NORRIS and msgspec.json.decode(run.body, type=GoalState).where == SERVER


def _owner_of(run: RunRecord) -> Caller:
    return Caller(run.session.partition("/")[0] if "/" in run.session else "")


def _run_object(caller: Caller, run: dict[str, Any]) -> dict[str, Any]:
    return {"object": "run", **run, "session": run["session"].removeprefix(f"{caller.key}/")}


def _check(given: GoalBody) -> None:
    try:
        check_goal(given.goal)
    except UsageError as exc:
        raise bad_field("goal", exc.message) from exc
    if given.max_steps is not None and given.max_steps < 1:
        raise bad_field("max_steps", "must be at least 1")
    if given.max_cost is not None and given.max_cost < 0:
        raise bad_field("max_cost", "must not be negative")
    if given.max_minutes is not None and given.max_minutes <= 0:
        raise bad_field("max_minutes", "must be more than 0")


def _check_answer(run: RunRecord, answer: HaltAnswer | None, confirm: str) -> None:
    if answer is not None and answer.choice is HaltChoice.EDIT and answer.arguments is None:
        raise bad_field("answer.arguments", "are needed with edit")
    halt = msgspec.json.decode(run.body, type=GoalState).halt
    if halt is not None and answer is None:
        raise bad_field("answer", f"the run is halted and needs one: {halt.reason}")
    requested, arguments = halt and halt.question, answer and answer.arguments
    proceeds = answer is not None and answer.choice in (HaltChoice.PROCEED, HaltChoice.EDIT)
    question = halt.question if halt is not None else None
    is_catastrophe = question is not None and question.danger is Danger.CATASTROPHE
    if question is not None and is_catastrophe and proceeds and confirm != CONFIRMATION:
        raise bad_field("confirm", f'must be "{CONFIRMATION}": {question.reason}')
    if requested and arguments is not None and (errors := schema_errors(requested.schema, arguments)):
        raise bad_field("answer.arguments", f"do not fit {requested.tool}: {'; '.join(errors)}")


def _least(requested: Any, most: Any) -> Any:
    """A request may lower the configured limit, never raise it."""
    if requested is None or most is None:
        return requested if most is None else most
    return min(requested, most)
