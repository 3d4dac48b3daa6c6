"""Runs turns: one request in, one recorded turn of events out.

The runner serialises the turns of a session, lets a turn go on from an attempt that broke off, starts and ends its
recording, and closes a turn that is left early. A turn whose process died is closed when its session is next opened.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from aish.engine.model.selection import ModelSelector, SelectedModel
from aish.engine.prompt.compaction import Summaries
from aish.engine.prompt.conversation import Conversation, Conversations
from aish.engine.turn.builder import TurnBuilder
from aish.engine.turn.loop import Turn
from aish.engine.turn.recorder import Recorder, Recording
from aish.engine.turn.recovery import read_earlier_attempts
from aish.engine.turn.resume_state import (
    check_effects,
    find_attempts,
    forget_attempts,
    may_be_retried,
    note_attempt,
    use_answers,
)
from aish.errors import AishError, SessionBusy
from aish.planner.run import PlanRun, plan_run
from aish.ports import Ask, CallerRights, Clock, ProcessLiveness, Store, TextSink
from aish.runs.journal import Journal
from aish.runs.ownership import RunKeeper
from aish.types.events import Event
from aish.types.ids import new_id
from aish.types.messages import ToolMessage
from aish.types.records import Document, TurnRecord
from aish.types.requests import EarlierAttempts, TurnRequest

# For the last writes of a turn that is being cancelled; a commit takes milliseconds.
_CLOSING_S = 5.0
_MAX_END_HOOKS = 64  # turns whose hooks still run
_END_HOOKS_S = 30.0
_POLL_S = 0.05  # how often the store is asked for what another process does
_LOCK_KIND = "answering"

_MAX_UNDELIVERED = 10_000  # answers whose clients have gone; their notes expire in the store

OnLeft = Callable[[Sequence[Event]], None]


class TurnRunner:
    """`shared`: other processes may answer in the same sessions."""

    def __init__(
        self,
        *,
        builder: TurnBuilder,
        selector: ModelSelector,
        conversations: Conversations,
        summaries: Summaries,
        recorder: Recorder,
        runs: RunKeeper,
        store: Store,
        clock: Clock,
        liveness: ProcessLiveness,
        shared: bool,
    ) -> None:
        self._builder = builder
        self.selector = selector
        self._conversations = conversations
        self._summaries = summaries
        self._recorder = recorder
        self._runs = runs
        self._store = store
        self._clock = clock
        self._liveness = liveness
        self._me = liveness.me
        self._shared = shared
        self._attempts: dict[str, _Attempt] = {}  # by retry key: the newest attempt under way
        self._end_hooks: set[asyncio.Task[None]] = set()
        self._undelivered: dict[str, tuple[str, tuple[str, ...]]] = {}  # by turn: its retry key, and the attempts
        self._ended: dict[str, asyncio.Future[None]] = {}  # by turn: done when an attempt has ended
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def resume_attempt(self, request: TurnRequest) -> TurnRequest:
        """Adds to the request what an attempt that broke off has done, and uses up the decisions it brings."""
        key, context = request.retry_key, request.context
        if key and context is not None:
            attempt = self._attempts.get(key)
            if attempt is not None and attempt.is_ending:  # it will store what it has done
                await asyncio.wait({attempt.ended}, timeout=_CLOSING_S)
            if (earlier := await self._find_earlier_attempts(key)) is not None:
                check_effects(earlier)
                before = (*context, *request.input, *earlier.messages)
                request = msgspec.structs.replace(request, context=before, input=(), resumed=earlier)
        if request.answers:
            request = await use_answers(self._store, request, self._clock.now_ms())
        return request

    async def _find_earlier_attempts(self, key: str) -> EarlierAttempts | None:
        """What earlier attempts have done.

        Attempts that are ending in another process are waited for. The others are read from the store: their process
        died, could not write their end, or takes too long.
        """
        loop = asyncio.get_running_loop()
        due_s = loop.time() + _CLOSING_S
        while True:
            noted = await find_attempts(self._store, key)
            found = [await self._store.find_turn(turn) for turn in noted if turn not in self._recorder.running]
            left = [turn for turn in found if turn is not None]
            under_way = {turn.id for turn in left if self._is_of_another_process(turn)}
            if not under_way or loop.time() >= due_s:
                break
            await asyncio.sleep(_POLL_S)
        if not left:
            return None
        over = tuple(turn.id for turn in left if turn.id not in under_way)
        return msgspec.structs.replace(await read_earlier_attempts(left, self._store), turns=over)

    def _is_of_another_process(self, turn: TurnRecord) -> bool:
        return turn.owner != self._liveness.me and self._liveness.is_alive(turn.owner)

    async def start(
        self,
        request: TurnRequest,
        selected: SelectedModel,
        session: str,
        ask: Ask | None,
        journal: Journal | None,
        plan: PlanRun | None,
        caller: CallerRights | None,
    ) -> Recording:
        """Builds the turn and begins its recording. In a session, the start of the turn is stored first."""
        if journal is not None and journal.left_by:
            await self._conversations.take_over(session, journal.left_by)
        if session or request.context:
            conversation = await self._conversations.open(session, request, selected.route)
        else:
            conversation = Conversation(bounded=request.fit)
        turn = await self._builder.build(session, request, selected, conversation, ask, journal, plan, caller)
        record = TurnRecord(turn.id, session, 0, selected.route.name, self._clock.now_ms(), (), owner=self._me)
        if not request.kept:
            return self._recorder.begin(turn, record)
        recording = self._recorder.begin(turn, None)
        try:
            given = self._recorder.redact_messages(turn.request.input)
            await self._store.start_turn(msgspec.structs.replace(record, input=given))
        except BaseException:
            await self.end(recording, plan, None)
            raise
        return recording

    async def compact(self, request: TurnRequest, keep: str) -> int:
        """Puts the earlier turns of a session into its summary, all but the last one. Returns how many. Raises what
        asking a model raises."""
        selected = self.selector.find_selected(request) or await self.selector.select(request)
        async with AsyncExitStack() as stack:
            await self.enter_exclusive(stack, request, request.session, None)
            conversation = await self._conversations.preview(request.session, selected.route, everything=True)
            past = conversation.past
            turns = past[:-1] if len(past) > 1 else past
            if turns:
                await self._summaries.extend(
                    request.session,
                    conversation.summary,
                    turns,
                    selected.route,
                    keep=keep,
                    is_searchable=True,
                    payer=request.payer,
                )
            return len(turns)

    async def end(self, recording: Recording, plan: PlanRun | None, on_left: OnLeft | None) -> None:
        """Ends a turn in steps. Each is made although the one before was cancelled: a client that returns needs it."""
        turn = recording.turn
        try:
            if not recording.is_finished:
                await _finish(self._close(recording, on_left))
        finally:
            try:
                if turn.retry_key:
                    await self._note_end(recording)
            finally:
                self._end_attempt(recording)
                if plan is not None:
                    await _finish(plan.end(turn.end))
                self._recorder.end(recording)

    async def _note_end(self, recording: Recording) -> None:
        """Leaves a note of an attempt that broke off, if there is none yet and it made calls."""
        turn = recording.turn
        if not may_be_retried(turn):
            attempts = (*(turn.request.resumed.turns if turn.request.resumed else ()), turn.id)
            if recording.has_attempt_note or len(attempts) > 1:
                self._undelivered[turn.id] = (turn.retry_key, attempts)
                if len(self._undelivered) > _MAX_UNDELIVERED:
                    del self._undelivered[next(iter(self._undelivered))]
        elif not recording.has_attempt_note and any(isinstance(each, ToolMessage) for each in turn.new_messages()):
            await _finish(note_attempt(self._store, turn.retry_key, turn.id, turn.now_ms()))

    async def start_end_hooks(self, turn: Turn) -> None:
        """Runs the hooks after the turn, in the background: no caller waits for them, also not one that stops."""
        if not turn.has_end_hooks:
            return
        if len(self._end_hooks) >= _MAX_END_HOOKS:
            await asyncio.wait(self._end_hooks, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.ensure_future(turn.run_end_hooks())
        self._end_hooks.add(task)
        task.add_done_callback(self._end_hooks.discard)

    async def finish_end_hooks(self) -> None:
        """Waits for the hooks of turns that are over, which are bounded in time."""
        if self._end_hooks:
            await asyncio.wait(self._end_hooks, timeout=_END_HOOKS_S)

    async def forget_attempts(self, turn: str) -> None:
        """The client has the answer of this turn. From now on the same request is a new one."""
        if (found := self._undelivered.pop(turn, None)) is not None:
            key, attempts = found
            await forget_attempts(self._store, key, attempts, self._clock.now_ms())

    async def _close(self, recording: Recording, on_left: OnLeft | None) -> None:
        """Writes what the turn still owes. A store that fails here has failed before, and that failure is reported."""
        with suppress(AishError):
            if owed := recording.close():
                if on_left is not None:
                    on_left(owed)
                await recording.write()

    def begin_attempt(self, recording: Recording) -> None:
        ended = asyncio.get_running_loop().create_future()
        self._attempts[recording.turn.retry_key] = _Attempt(recording, asyncio.current_task(), ended)
        self._ended[recording.turn.id] = ended

    def _end_attempt(self, recording: Recording) -> None:
        key = recording.turn.retry_key
        attempt = self._attempts.get(key)
        if attempt is not None and attempt.recording is recording:
            del self._attempts[key]
        if (ended := self._ended.pop(recording.turn.id, None)) is not None:
            ended.set_result(None)

    def discard(self, recording: Recording) -> None:
        """For a turn that has finished and that no attempt or plan waits for."""
        self._recorder.end(recording)

    async def enter_exclusive(
        self, stack: AsyncExitStack, request: TurnRequest, session: str, journal: Journal | None
    ) -> PlanRun | None:
        """Takes what the turn has to itself until it ends: its session, and the run of its plan."""
        lost_by = journal.left_by if journal else ""
        if session:
            await stack.enter_async_context(self.hold_session(session, request.limits.wall_s, lost_by))
        return await stack.enter_async_context(plan_run(self._runs, request, session)) if request.planner else None

    @asynccontextmanager
    async def hold_session(self, session: str, wait_s: float, lost_by: str = "") -> AsyncIterator[None]:
        """One turn at a time in a session. The next one waits, but not longer than a turn may last."""
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
                await lock_session(self._store, session, self._liveness, wait_s, lost_by)
            yield
        finally:
            if self._shared:
                await _finish(unlock_session(self._store, session, self._liveness))
            lock.release()


class _Attempt(msgspec.Struct, eq=False):
    """A turn whose request may be sent again, and the task that runs it."""

    recording: Recording
    task: asyncio.Task[Any] | None
    ended: asyncio.Future[None]

    @property
    def is_ending(self) -> bool:
        return self.recording.turn.end is not None or (self.task is not None and self.task.cancelling() > 0)


class TurnContext(msgspec.Struct, eq=False):
    """One turn, from the selection of its model to its last write. A class, since `@asynccontextmanager` costs more."""

    _runner: TurnRunner
    _request: TurnRequest
    _ask: Ask | None
    _journal: Journal | None
    _on_left: OnLeft | None
    _text_sink: TextSink | None = None
    _caller: CallerRights | None = None
    _stack: AsyncExitStack | None = None
    _plan: PlanRun | None = None
    _recording: Recording | None = None
    _events: AsyncGenerator[Sequence[Event], None] | None = None

    async def __aenter__(self) -> AsyncGenerator[Sequence[Event], None]:
        runner, request = self._runner, self._request
        selected = runner.selector.find_selected(request) or await runner.selector.select(request)
        if request.retry_key or request.answers:
            request = await runner.resume_attempt(request)
        if request.kept or request.planner:
            recording = await self._start_exclusive(request, selected)
        else:
            recording = await runner.start(request, selected, "", self._ask, self._journal, None, self._caller)
        if recording.turn.retry_key:
            runner.begin_attempt(recording)
        self._recording, self._events = recording, recording.events(self._text_sink)
        return self._events

    async def _start_exclusive(self, request: TurnRequest, selected: SelectedModel) -> Recording:
        session = (request.session or new_id("sess")) if request.kept else ""
        self._stack = AsyncExitStack()
        try:
            self._plan = plan = await self._runner.enter_exclusive(self._stack, request, session, self._journal)
            journal = plan.journal if plan else self._journal
            return await self._runner.start(request, selected, session, self._ask, journal, plan, self._caller)
        except BaseException:
            await self._stack.__aexit__(*sys.exc_info())
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._recording is not None and self._events is not None
        recording = self._recording
        try:
            try:
                await self._events.aclose()
            finally:
                if recording.is_finished and self._plan is None and not recording.turn.retry_key:
                    self._runner.discard(recording)
                else:
                    await self._runner.end(recording, self._plan, self._on_left)
        finally:
            if self._stack is not None:
                await self._stack.__aexit__(kind, exc, trace)
        await self._runner.start_end_hooks(recording.turn)


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Lets the work end although this task is being cancelled, for a bounded time."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=_CLOSING_S)
        raise


async def lock_session(store: Store, session: str, liveness: ProcessLiveness, wait_s: float, lost_by: str = "") -> None:
    """Locks a session against other processes that share the store. The lock of a dead process does not count.

    `lost_by` is a process that has lost the session although it may live. Raises SessionBusy.
    """
    mine = Document(_LOCK_KIND, session, liveness.me.encode())
    loop = asyncio.get_running_loop()
    due_s = loop.time() + wait_s
    while not await store.put_new(mine):
        other = await store.find(_LOCK_KIND, session)
        if other is not None and ((holder := other.body.decode()) == lost_by or not liveness.is_alive(holder)):
            await store.swap(mine, old=other.body)
            if (now := await store.find(_LOCK_KIND, session)) is not None and now.body == mine.body:
                return
        if loop.time() >= due_s:
            raise SessionBusy(f"another aish is still answering in session {session}", hint="wait for it to finish")
        await asyncio.sleep(_POLL_S)


async def unlock_session(store: Store, session: str, liveness: ProcessLiveness) -> None:
    found = await store.find(_LOCK_KIND, session)
    if found is not None and found.body == liveness.me.encode():
        await store.delete(_LOCK_KIND, session)
