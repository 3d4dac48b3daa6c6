"""Runs one turn: asks the model, dispatches the tool calls it makes, and asks again until the turn ends.

`Turn.run` is the outline of a turn. It yields batches of events. It waits for the model, for the tools, for the user's
decisions about calls, and for the store, which knows what was spent before. `turn/recorder.py` wraps that stream: it
writes what must be durable before it is passed on. `turn/runner.py` builds a turn, serialises the turns of a session,
and closes a turn that is left early.

`Turn` owns the state of a turn: its events so far (the transcript), what it has spent (the budget) and why it ends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from aish.engine.model.model_caller import ModelCaller
from aish.engine.model.stream_assembly import StepAssembler
from aish.engine.prompt.compaction import compaction_notice
from aish.engine.prompt.history_cache import PastTurn
from aish.engine.prompt.normalise import open_calls
from aish.engine.tools.dispatch import Dispatcher, result_event
from aish.engine.tools.selection import ToolSelection
from aish.engine.turn.events import EventFactory, Transcript
from aish.engine.turn.hooks import TurnHooks
from aish.engine.turn.text_relay import StepTextRelay
from aish.engine.turn.turn_limits import SILENT_ENDS, Budget, describe_end
from aish.planner.run import question_text
from aish.ports import TextSink
from aish.types.chunks import StepEnd
from aish.types.events import Body, Event, Status, StepStarted, ToolResult, TurnEnd, TurnFinished, TurnStarted
from aish.types.messages import AssistantMessage, Message, ToolCall, ToolMessage
from aish.types.requests import TurnRequest
from aish.types.tools import Effect

if TYPE_CHECKING:
    from aish.planner.planner import Planner


class TurnParts(msgspec.Struct, frozen=True):
    """What a turn works with, and what a compaction exchanges: with the first notes a tool that searches joins them."""

    tools: ToolSelection
    past: Sequence[PastTurn]
    model: ModelCaller
    make_dispatcher: Callable[[], Dispatcher]


class Compaction(msgspec.Struct, frozen=True):
    """Folds `turns` earlier turns into notes. `run` returns the new parts of the turn and a notice for the user."""

    turns: int
    run: Callable[[], Awaitable[tuple[TurnParts, str]]]


class Turn(msgspec.Struct, eq=False):
    request: TurnRequest
    _parts: TurnParts
    _notes: Sequence[str]  # lines shown to the user before the first step
    _compaction: Compaction | None
    _planner: Planner | None
    _budget: Budget
    _events: EventFactory
    _transcript: Transcript
    _hooks: TurnHooks
    id: str = ""
    session: str = ""
    end: TurnEnd | None = None  # decided by `_update_end`, or by the caller of `close`
    had_effect: bool = False
    retry_key: str = ""  # the same for a request that is sent again; empty unless the client keeps the conversation
    _step: StepAssembler | None = None  # the newest answer of the model
    _step_was_dispatched: bool = False  # whether the calls of `_step` have been dispatched
    _made_dispatcher: Dispatcher | None = None
    _queued: list[Event] = []  # events that go with the next batch
    _call_ids: set[str] = set()

    def __post_init__(self) -> None:
        self.id, self.session = self._events.turn, self._events.session
        self.retry_key = self.request.retry_key if self.request.context is not None else ""
        self.had_effect = self.request.resumed is not None and self.request.resumed.had_effect
        for message in self.request.input:
            if type(message) is ToolMessage:
                self._call_ids.add(message.tool_call_id)
        for turn in self._parts.past:
            self._call_ids.update(turn.result_ids)
        if self.request.resumed is not None:
            messages = self.request.resumed.messages
            self._call_ids.update(call.id for m in messages if type(m) is AssistantMessage for call in m.tool_calls)

    async def run(
        self, text_sink: TextSink | None, record: Callable[[Event], None]
    ) -> AsyncGenerator[list[Event], None]:
        """Yields all events of the turn, except the text that `text_sink` accepts: `record` gets that."""
        self._queue(TurnStarted(self._model.route.name, self.request.input, self.request.traceparent, self.had_effect))
        for note in self._notes:
            self._queue(Status(note))
        if self._has_work_before_first_step:
            async with aclosing(self._work_before_first_step()) as batches:
                async for events in batches:
                    yield events
        while self._update_end() is None:
            step = self._begin_step()
            yield self._take_queued()
            relay = StepTextRelay(text_sink, record, step, self._events, self._transcript) if text_sink else None
            async with aclosing(self._model.stream(step, relay)) as batches:
                async for events in batches:
                    self._transcript.apply_all(events)
                    yield events
            self._book_step(step)
            if self._model.may_warn:
                self._queued += await self._model.warn_about_spending()
            if self._update_end() is not None:
                break
            if self._queued:
                yield self._take_queued()
            dispatched_events = self._dispatcher.run(
                step.calls, cut=step.cut_calls, is_complete=step.is_complete, choice=self._model.choice
            )
            async with aclosing(self._apply(dispatched_events)) as batches:
                async for events in batches:
                    yield events
            self._step_was_dispatched = True
        yield self._finish()

    def _book_step(self, step: StepAssembler) -> None:
        """Queues the calls of a complete answer, and what it has cost."""
        if self._model.end is None and (calls := step.finish()):
            self._transcript.apply_all(calls)
            self._queued += calls
        # Not `_queue`: the transcript takes no part in usage and notes of spending.
        self._queued += self._model.book_step(step)

    async def _compact(self, compaction: Compaction) -> None:
        """Its time counts, and a turn that is stopped meanwhile keeps its earlier turns."""
        self._parts, note = await compaction.run()
        if note:
            self._queue(Status(note))

    @property
    def _has_work_before_first_step(self) -> bool:
        request = self.request
        return bool(request.answers or request.resumed or self._planner or self._compaction)

    async def _work_before_first_step(self) -> AsyncGenerator[list[Event], None]:
        """Makes room in the window, runs the calls that were decided since the last turn or left by earlier attempts,
        then writes and follows the plan."""
        if self._compaction is not None:
            self._queue(Status(compaction_notice(self._compaction.turns)))
        yield self._take_queued()
        if self._compaction is not None:
            await self._compact(self._compaction)
        newest = (*(self._parts.past[-1].messages if self._parts.past else ()), *self._transcript.messages())
        answers, is_resumed = self.request.answers, self.request.resumed is not None
        if calls := [call for call in open_calls(newest) if is_resumed or call.id in answers]:
            async with aclosing(self._apply(self._dispatcher.run(calls))) as batches:
                async for events in batches:
                    yield events
        if self._planner is not None and self._update_end() is None:
            work = self._planner.work(question_text(self.request), self._events, self._dispatcher, self._budget)
            async with aclosing(self._apply(work)) as batches:
                async for events in batches:
                    yield events
            if self._planner.is_done:
                self._model.forbid_calls()

    async def _apply(self, batches: AsyncGenerator[list[Event], None]) -> AsyncGenerator[list[Event], None]:
        """Folds the events of dispatched calls into the transcript and notes whether one had an effect."""
        async with aclosing(batches):
            async for events in batches:
                self._transcript.apply_all(events)
                for event in events:
                    if type(event.body) is ToolResult and event.body.effect not in (None, Effect.READ):
                        self.had_effect = True
                yield events

    def _update_end(self) -> TurnEnd | None:
        """Sets `end` if the turn ends now.

        The answer: ANSWERED, LENGTH. The call of the model: FAILED, WALL_TIME, COST. The dispatcher: CLIENT_TOOLS,
        APPROVAL, REPEATED, MAX_TOOL_CALLS, CANCELLED (another process took the run over, or the plan was not approved).
        The limits: MAX_STEPS, TOKENS, WALL_TIME, COST. A turn that is left early ends in `close`: CANCELLED, FAILED.
        One whose process died ends in `recovery`: INTERRUPTED.
        """
        step = self._step
        if step is not None and not self._step_was_dispatched:
            if self._model.end is not None:  # the call failed, or was not allowed
                self.end = self._model.end
            elif not step.calls:
                self.end = TurnEnd.LENGTH if step.end is StepEnd.LENGTH else TurnEnd.ANSWERED
        elif step is not None and step.end is StepEnd.LENGTH and self.tools.is_client_tool(step.calls[-1].name):
            self.end = TurnEnd.LENGTH  # the last call was cut: the client has half of it, and cannot run it
        elif self._planner is not None and self._planner.is_refused:
            self.end = TurnEnd.CANCELLED
        else:
            dispatched = self._made_dispatcher.end if self._made_dispatcher is not None else None
            self.end = dispatched or self._budget.find_reached_limit()
        return self.end

    def _begin_step(self) -> StepAssembler:
        self._budget.steps += 1
        self._events.step += 1
        self._queue(StepStarted(self._model.route.name))
        self._step_was_dispatched = False
        tools = self.tools
        self._step = StepAssembler(self._events, self._call_ids, tools.canonical, own_ids=tools.has_clients)
        return self._step

    def _finish(self) -> list[Event]:
        step, end = self._step, self.end or TurnEnd.FAILED
        if end in (TurnEnd.ANSWERED, TurnEnd.LENGTH) and step is not None and not step.has_output:
            self._queue(Status("the model gave an empty answer"))
        detail = "" if end is TurnEnd.ANSWERED else self._describe(end)
        if end not in SILENT_ENDS:
            self._queue(Status(detail))
        self._queue(TurnFinished(end, self._budget.usage, detail))
        return self._take_queued()

    def close(self, end: TurnEnd) -> list[Event]:
        """Ends a turn that is left early. Returns what it still owes: a result for every open call, and its end."""
        self._queued += self._model.book_unfinished()
        self.end = end
        for call in self._transcript.open_calls:
            self._queue(result_event(call, self._dispatcher.closing_outcome(call)), call.id)
        return self._finish()

    @property
    def has_end_hooks(self) -> bool:
        return self._hooks.has("after_turn")

    async def run_end_hooks(self) -> None:
        texts = [message.text for message in self._transcript.new_messages() if type(message) is AssistantMessage]
        await self._hooks.after_turn(texts[-1] if texts else "", self.end or TurnEnd.FAILED)

    def now_ms(self) -> int:
        return self._events.now_ms()

    def free_end_number(self) -> None:
        """Gives the number of the turn's end back, because that event was not passed on."""
        self._events.seq -= 1

    def messages(self) -> tuple[Message, ...]:
        """The valid history that the turn leaves."""
        return self._transcript.history(f"[aish] {self._describe(self.end or TurnEnd.FAILED)}")

    def new_messages(self) -> tuple[Message, ...]:
        """The messages the turn added to its input, including those of the attempts it resumed."""
        before = self.request.resumed.messages if self.request.resumed is not None else ()
        return (*before, *self._transcript.new_messages())

    @property
    def tools(self) -> ToolSelection:
        return self._parts.tools

    @property
    def _model(self) -> ModelCaller:
        return self._parts.model

    @property
    def open_calls(self) -> list[ToolCall]:
        """Calls without a result, the client's own first."""
        return sorted(self._transcript.open_calls, key=lambda call: not self.tools.is_client_tool(call.name))

    @property
    def _dispatcher(self) -> Dispatcher:
        """Made for the first call, since most turns have none."""
        if self._made_dispatcher is None:
            self._made_dispatcher = self._parts.make_dispatcher()
        return self._made_dispatcher

    def _describe(self, end: TurnEnd) -> str:
        return describe_end(end, self._budget.limits, self._model.refusal)

    def _queue(self, body: Body, call: str = "") -> None:
        event = self._events.event(body, call)
        self._transcript.apply(event)
        self._queued.append(event)

    def _take_queued(self) -> list[Event]:
        events, self._queued = self._queued, []
        return events
