"""Runs turns: a request in, one recorded turn of events out.

Turns of one session are serialised. Every event is recorded as it passes; an intent or outcome of more than a read, and
the end of the turn, are durable before the consumer sees them. A turn left early is closed here; one whose process died
is closed when its session is next opened.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    suppress,
)
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from aish.engine.model.selection import Chooser, Chosen
from aish.engine.prompt.conversation import Conversation, Conversations
from aish.engine.prompt.summary import Summaries
from aish.engine.tools.structured_results import with_structured
from aish.engine.turn.budget import metering
from aish.engine.turn.builder import NOTHING_KNOWN, TurnMaker
from aish.engine.turn.event_factory import Scribe
from aish.engine.turn.loop import Turn
from aish.engine.turn.recorder import Recorder
from aish.engine.turn.recovery import produced_before
from aish.engine.turn.resume_state import find_tried, keep_done, settle_attempt, use_answers, with_more_done
from aish.engine.turn.session_lock import hold_session, leave_session
from aish.errors import AishError, SessionBusy
from aish.planner.run import PlanRun, plan_run
from aish.ports import Ask, Clock, Listener, Owners, Store
from aish.runs.journal import Journal
from aish.runs.ownership import RunKeeper
from aish.safety.redaction.redactor import Redactor
from aish.types.context import ContextRules, ContextView
from aish.types.events import Event, Status, ToolResult, TurnEnd
from aish.types.ids import new_id
from aish.types.limits import Limits
from aish.types.messages import Message, ToolCall
from aish.types.records import TurnRecord
from aish.types.requests import Done, TurnRequest

# For the last writes of a turn that is being cancelled; a commit takes milliseconds.
_CLOSING_S = 5.0
_LOOK_S = 0.05  # how often it is looked for the end of an attempt that another process makes


class Turns:
    def __init__(
        self,
        *,
        maker: TurnMaker,
        chooser: Chooser,
        runs: RunKeeper,
        store: Store,
        clock: Clock,
        owners: Owners,
        redactor: Redactor,
        rules: ContextRules,
        summaries: Summaries,
        write_through: bool,
        shared: bool,
    ) -> None:
        self._maker = maker
        self.chooser = chooser
        self._runs = runs
        self._store = store
        self._clock = clock
        self._owners = owners
        self._me = owners.me
        self._shared = shared
        self._redacted_json, self._redacted_foreign = redactor.line, redactor.json
        self._recorder = Recorder(store, redactor, write_through=write_through)
        self._running: set[str] = set()  # turns under way in this engine
        self._attempts: dict[str, _Attempt] = {}  # by their retry key: those that may be made again
        self._conversations = Conversations(
            store=store,
            clock=clock,
            owners=owners,
            rules=rules,
            summaries=summaries,
            running=self._running,
            redact=redactor.text,
            redact_messages=self._recorder.redacted,
        )
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def turn(
        self,
        request: TurnRequest,
        *,
        ask: Ask | None,
        journal: Journal | None,
        left: Callable[[Sequence[Event]], None] | None,
        listener: Listener | None,
    ) -> AbstractAsyncContextManager[AsyncGenerator[Sequence[Event], None]]:
        """As `Engine.turn`."""
        return TurnContext(self, request, ask, journal, left, listener)

    async def resume_attempt(self, request: TurnRequest) -> TurnRequest:
        """The request, with what an attempt that broke off has done already, and with the answers it waited for."""
        key, context = request.retry_key, request.context
        if key and context is not None:
            attempt = self._attempts.get(key)
            if attempt is not None and attempt.is_ending:  # and will tell what it has done
                await asyncio.wait({attempt.ended}, timeout=_CLOSING_S)
            if (done := await self._done_before(key)) is not None:
                before = (*context, *request.input, *done.messages)
                request = msgspec.structs.replace(request, context=before, input=(), resumed=done)
        if request.answers:
            request = await use_answers(self._store, request, self._clock.now_ms())
        return request

    async def _done_before(self, key: str) -> Done | None:
        """By earlier attempts. Those that end in another process are waited for; what is left is read: of turns whose
        process died, that could not write their end, or that take too long."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + _CLOSING_S
        while True:
            done, noted = await find_tried(self._store, key)
            found = [await self._store.find_turn(turn) for turn in noted if turn not in self._running]
            left = [turn for turn in found if turn is not None]
            under_way = {turn.id for turn in left if turn.owner != self._me and self._owners.is_alive(turn.owner)}
            if not under_way or loop.time() >= due_s:
                break
            await asyncio.sleep(_LOOK_S)
        for turn in left:
            done = with_more_done(done, await produced_before(turn, self._store, self._clock))
        over = [turn.id for turn in left if turn.id not in under_way]
        if over and done is not None:
            await keep_done(self._store, key, done, over, self._redacted_json, self._clock.now_ms())
        return done

    async def hold(
        self, stack: AsyncExitStack, request: TurnRequest, session: str, journal: Journal | None
    ) -> PlanRun | None:
        """What the turn has to itself until it ends: its session, and the run of its plan."""
        left_by = journal.left_by if journal else ""
        if session:
            await stack.enter_async_context(self._alone_in(session, request.limits.wall_s, left_by))
        if not request.planner:
            return None
        return await stack.enter_async_context(plan_run(self._runs, request, session))

    async def start(
        self,
        request: TurnRequest,
        chosen: Chosen,
        session: str,
        ask: Ask | None,
        journal: Journal | None,
        plan: PlanRun | None,
    ) -> Turn:
        if journal is not None and journal.left_by:
            await self._conversations.take_over(session, journal.left_by)
        if session or request.context:
            conversation = await self._conversations.open(session, request, chosen.route)
        else:
            conversation = Conversation(bounded=request.fit)
        background = await self._maker.background(request) if request.memory or request.project else NOTHING_KNOWN
        turn = self._maker.turn(session, request, chosen, conversation, background, ask, journal)
        if plan is not None:
            turn.planner = await self._maker.planner(plan, request, chosen, turn.offer, session)
        record = TurnRecord(turn.id, session, 0, chosen.route.name, self._clock.now_ms(), (), owner=self._me)
        self._running.add(turn.id)
        if not request.kept:
            turn.unrecorded = record
            return turn
        try:
            given = self._recorder.redacted(request.input)
            await self._store.start_turn(msgspec.structs.replace(record, input=given))
        except BaseException:
            await self.end(turn, plan, None)
            raise
        return turn

    async def end(self, turn: Turn, plan: PlanRun | None, left: Callable[[Sequence[Event]], None] | None) -> None:
        """Each step, though the one before it was cancelled: a client that comes back relies on what is held."""
        try:
            if not turn.is_finished:
                await _surely(self._close(turn, left))
        finally:
            try:
                if turn.may_be_retried or turn.resumed is not None or turn.is_noted:
                    await _surely(settle_attempt(self._store, turn, self._redacted_json))
            finally:
                self.end_attempt(turn)
                if plan is not None:
                    await _surely(plan.end(turn.end))
                self.let_go(turn)

    def begin_attempt(self, turn: Turn) -> None:
        turn.ended = ended = asyncio.get_running_loop().create_future()
        self._attempts[turn.retry_key] = _Attempt(turn, asyncio.current_task(), ended)

    def end_attempt(self, turn: Turn) -> None:
        """Of two at once the later one is known; whoever waits for the earlier one is told all the same."""
        attempt = self._attempts.get(turn.retry_key)
        if attempt is not None and attempt.turn is turn:
            del self._attempts[turn.retry_key]
        if turn.ended is not None:
            turn.ended.set_result(None)

    def let_go(self, turn: Turn) -> None:
        """Nothing of it is owed any more."""
        self._recorder.let_go(turn)
        self._running.discard(turn.id)

    async def call_tool(
        self,
        name: str,
        arguments: str,
        *,
        tools: Sequence[str],
        ask: Ask | None,
        on_status: Callable[[str], None],
        journal: Journal | None,
        ask_about: Sequence[str],
        wall_s: float | None,
        owner: str,
    ) -> ToolResult:
        """As `Engine.call_tool`."""
        call = ToolCall(new_id("call"), name, arguments)
        scribe = Scribe("", new_id("turn"), self._clock.now_ns)
        limits = Limits() if wall_s is None else Limits(wall_s=wall_s)
        offer = self._maker.offer(tools, interactive=ask is not None, owner=owner)
        meter = metering(limits, self._clock)
        dispatcher = self._maker.dispatcher(
            scribe, meter, offer, ask, journal=journal, ask_about=ask_about, owner=owner
        )
        call = msgspec.structs.replace(call, name=offer.canonical(name))
        async with aclosing(dispatcher.run([call])) as batches:
            async for events in batches:
                for event in events:
                    if isinstance(event.body, ToolResult):
                        given, spec = dispatcher.find_structured(call), offer.find(call.name)
                        return with_structured(event.body, given, spec, self._redacted_foreign)
                    if isinstance(event.body, Status):
                        on_status(event.body.text)
        raise AssertionError("dispatch gives every call a result")

    @asynccontextmanager
    async def _alone_in(self, session: str, wait_s: float, gone: str) -> AsyncIterator[None]:
        """One turn at a time in a session; the next waits, but not longer than a turn may last."""
        lock = self._locks.setdefault(session, asyncio.Lock())
        try:
            async with asyncio.timeout(wait_s):
                await lock.acquire()
        except TimeoutError:
            raise SessionBusy(
                f"session {session} is still answering another request", hint="wait for it, or start a new session"
            ) from None
        try:
            if self._shared:
                await hold_session(self._store, session, self._owners, wait_s, gone)
            yield
        finally:
            if self._shared:
                await _surely(leave_session(self._store, session, self._owners))
            lock.release()

    def catch_up(self, whole: Collection[str] = ()) -> None:
        """What was said in the turns under way is given to the store now."""
        self._recorder.catch_up(whole)

    async def history(self, session: str) -> tuple[Message, ...]:
        """Everything that was said in a session."""
        return await self._conversations.history(session)

    async def view_context(self, request: TurnRequest) -> ContextView:
        """What the model would be sent for it now."""
        chosen = await self.chooser.choose(request)
        conversation = await self._conversations.preview(request.session, chosen.route)
        return await self._maker.view(request, chosen, conversation)

    def events(self, turn: Turn, listener: Listener | None) -> AsyncGenerator[Sequence[Event], None]:
        heard = listener if turn.is_watched and not self._recorder.write_through else None
        return turn.events(self._recorder.take, self._recorder.write, heard)

    async def _close(self, turn: Turn, left: Callable[[Sequence[Event]], None] | None) -> None:
        """What is still owed, if anything. A store that fails here failed before, and that is what is told."""
        with suppress(AishError):
            turn.settle_spending()
            if owed := turn.close(TurnEnd.FAILED if turn.broken else TurnEnd.CANCELLED):
                turn.unwritten += owed
                if left is not None:
                    left(owed)
                await self._recorder.write(turn)


class _Attempt(msgspec.Struct, eq=False):
    """A turn that may come again, and the task that runs it."""

    turn: Turn
    task: asyncio.Task[Any] | None
    ended: asyncio.Future[None]

    @property
    def is_ending(self) -> bool:
        return self.turn.end is not None or (self.task is not None and self.task.cancelling() > 0)


class TurnContext(msgspec.Struct, eq=False):
    """One turn, from choosing its model to its last write. A class: a generator costs more, for every request."""

    _turns: Turns
    _request: TurnRequest
    _ask: Ask | None
    _journal: Journal | None
    _left: Callable[[Sequence[Event]], None] | None
    _listener: Listener | None = None
    _stack: AsyncExitStack | None = None
    _plan: PlanRun | None = None
    _turn: Turn | None = None
    _events: AsyncGenerator[Sequence[Event], None] | None = None

    async def __aenter__(self) -> AsyncGenerator[Sequence[Event], None]:
        turns, request = self._turns, self._request
        chosen = turns.chooser.find_chosen(request) or await turns.chooser.choose(request)
        if request.retry_key or request.answers:
            request = await turns.resume_attempt(request)
        if request.kept or request.planner:
            self._turn = await self._held(request, chosen)
        else:
            self._turn = await turns.start(request, chosen, "", self._ask, self._journal, None)
        if self._turn.retry_key:
            turns.begin_attempt(self._turn)
        self._events = turns.events(self._turn, self._listener)
        return self._events

    async def _held(self, request: TurnRequest, chosen: Chosen) -> Turn:
        session = (request.session or new_id("sess")) if request.kept else ""
        self._stack = AsyncExitStack()
        try:
            self._plan = plan = await self._turns.hold(self._stack, request, session, self._journal)
            journal = plan.journal if plan else self._journal
            return await self._turns.start(request, chosen, session, self._ask, journal, plan)
        except BaseException:
            await self._stack.__aexit__(*sys.exc_info())
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._turn is not None and self._events is not None
        turn = self._turn
        try:
            try:
                await self._events.aclose()
            finally:
                if turn.is_finished and self._plan is None and not turn.retry_key:
                    self._turns.let_go(turn)
                else:
                    await self._turns.end(turn, self._plan, self._left)
        finally:
            if self._stack is not None:
                await self._stack.__aexit__(kind, exc, trace)


async def _surely(work: Coroutine[Any, Any, None]) -> None:
    """To its end, also while being cancelled, but not for ever."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=_CLOSING_S)
        raise
