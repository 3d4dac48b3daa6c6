"""One user request and all it causes: ask the model, run what it calls, ask again, until it answers or a limit is hit.

`events()` is the loop, in batches of what came together. It ends by itself with TurnFinished. If its consumer leaves
early, `close()` gives the events that were still owed, so that history stays valid: a result for every call, and the
end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING

from aish.engine.model.call import Asking
from aish.engine.model.stream_assembly import Assembler
from aish.engine.prompt.history_cache import PastTurn
from aish.engine.prompt.result_pairing import open_calls
from aish.engine.tools.dispatch import Dispatcher, result_event
from aish.engine.tools.selection import Offer
from aish.engine.turn.budget import Meter
from aish.engine.turn.event_factory import Scribe
from aish.engine.turn.resume_state import BROKE_OFF
from aish.engine.turn.transcript import NO_ANSWER, Transcript
from aish.planner.run import question_text
from aish.ports import Listener
from aish.types.chunks import StepEnd
from aish.types.events import (
    Body,
    Event,
    Status,
    StepStarted,
    TextDelta,
    ToolResult,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from aish.types.limits import Limits
from aish.types.messages import Message, ToolCall, ToolMessage
from aish.types.records import TurnRecord
from aish.types.requests import TurnRequest
from aish.types.tools import Effect

if TYPE_CHECKING:
    from aish.planner.executor import Planner, StepRunner

_SAYINGS = {
    TurnEnd.MAX_STEPS: "stopped after {steps}, the limit for one turn",
    TurnEnd.MAX_TOOL_CALLS: "stopped after {tool_calls}, the limit for one turn",
    TurnEnd.WALL_TIME: "stopped after {limits.wall_s:g} s, the time limit for one turn",
    TurnEnd.TOKENS: "stopped at the limit of {limits.max_tokens} tokens for one turn",
    TurnEnd.COST: "stopped at the limit of ${limits.max_cost} for one turn",
    TurnEnd.REPEATED: "stopped because the model kept making the same call",
    TurnEnd.LENGTH: "the answer was cut at the model's token limit",
    TurnEnd.CANCELLED: "stopped by the user",
    TurnEnd.INTERRUPTED: "interrupted",
    TurnEnd.FAILED: "the turn failed",
    TurnEnd.ANSWERED: NO_ANSWER,
    TurnEnd.CLIENT_TOOLS: "waiting for the results of calls that the asker runs",
    TurnEnd.APPROVAL: "waiting for a decision",
}


_ANSWERED, _CUT = TurnEnd.ANSWERED, StepEnd.LENGTH  # as nearly always: an enum takes its time to name a member
_SILENT_ENDS = (TurnEnd.ANSWERED, TurnEnd.FAILED, TurnEnd.CANCELLED, TurnEnd.CLIENT_TOOLS, TurnEnd.APPROVAL)


Keep = Callable[["Turn", list[Event]], bool]
Write = Callable[["Turn"], Awaitable[None]]


class Turn:
    end: TurnEnd | None = None
    broken = False
    planner: Planner | None = None
    ended: asyncio.Future[None] | None = None  # where somebody may wait for it
    unrecorded: TurnRecord | None = None  # the recorder's, where nothing of it is written yet
    is_finished = False  # and its end recorded: nothing is owed any more
    is_noted = False  # for whoever asks the same again, see `resume_state`

    def __init__(
        self,
        asking: Asking,
        transcript: Transcript,
        notes: Sequence[str],
        past: Sequence[PastTurn],
        request: TurnRequest,
        offer: Offer,
        dispatcher: Callable[[], Dispatcher],
        meter: Meter,
        scribe: Scribe,
    ) -> None:
        self.id = scribe.turn
        self.session = scribe.session
        self._notes = notes
        self._past = past
        self._asked = request
        self.offer = offer
        self._make_dispatcher = dispatcher
        self._meter = meter
        self._scribe = scribe
        self._transcript = transcript
        self._asking = asking
        self._call_ids: set[str] = set()
        for message in request.input:
            if type(message) is ToolMessage:
                self._call_ids.add(message.tool_call_id)
        for turn in past:
            self._call_ids |= turn.result_ids
        self._owed: list[Event] = []
        self.unwritten: list[Event] = []
        self.is_watched = request.stream  # somebody sees its events as they come
        # Whether the conversation is the asker's to keep, so that it knows only what it was shown.
        self.asker_remembers = request.context is not None
        self.retry_key = request.retry_key if self.asker_remembers else ""
        self.resumed = request.resumed
        self.had_effect = request.resumed is not None and request.resumed.had_effect

    @cached_property
    def _dispatcher(self) -> Dispatcher:
        """Made for the first call: most turns have none."""
        return self._make_dispatcher()

    @property
    def left_calls(self) -> list[ToolCall]:
        """Calls that have no result yet, the asker's own first: those it knows."""
        return sorted(self._transcript.open_calls, key=lambda call: not self.offer.is_clients(call.name))

    @property
    def may_be_retried(self) -> bool:
        """Whether its asker may ask the very same again, as clients do on their own where an answer broke off."""
        return bool(self.retry_key) and self.end in BROKE_OFF

    def now_ms(self) -> int:
        return self._scribe.now_ms()

    def messages(self) -> tuple[Message, ...]:
        """The valid history a finished turn leaves."""
        return self._transcript.history(f"[aish] {self._saying()}")

    def produced(self) -> tuple[Message, ...]:
        """What it added to its input, after what it went on from."""
        before = self.resumed.messages if self.resumed is not None else ()
        return (*before, *self._transcript.produced())

    async def events(
        self, keep: Keep, write: Write, listener: Listener | None = None
    ) -> AsyncGenerator[list[Event], None]:
        """Each batch is given to `keep` before it is told, and `write` waited for where that says so. `listener` hears
        words that need not be waited for."""
        try:
            asked = self._asked
            started = TurnStarted(self._asking.route.name, asked.input, asked.traceparent, self.had_effect)
            self._owed = [self._emit(started)]
            for note in self._notes:
                self._owed.append(self._emit(Status(note)))
            if self._asked.answers or self.planner is not None:
                async with aclosing(self._before_asking()) as batches:
                    async for events in batches:
                        if keep(self, events):
                            await write(self)
                        yield events
            while self.end is None:
                self.end = self._meter.reached()
                if self.end is not None:
                    break
                self._owed.append(self._begin_step())
                if self.is_watched:
                    events = self._take_owed()
                    if keep(self, events):
                        await write(self)
                    yield events
                assembler = Assembler(
                    self._scribe, self._call_ids, self.offer.canonical, own_ids=self.offer.has_clients
                )
                words = (
                    None
                    if listener is None
                    else _Straight(listener, self, keep, assembler, self._scribe, self._transcript)
                )
                batches = self._asking.ask(assembler, words)
                try:
                    async for events in batches:
                        if self.is_watched:
                            if keep(self, events):
                                await write(self)
                            yield events
                        else:
                            self._owed += events
                except BaseException:
                    await batches.aclose()
                    raise
                if self._book(assembler) and self.session:
                    self._owed += await self._asking.warnings()
                if self._is_over(assembler):
                    break
                async with aclosing(self._run_calls(assembler)) as batches:
                    async for events in batches:
                        if keep(self, events):
                            await write(self)
                        yield events
            events = [*self._take_owed(), *self._last_words()]
            if keep(self, events):
                await write(self)
            yield events
        except Exception:
            self.broken = True  # by a defect or the store, not by whoever reads its batches
            raise

    async def _before_asking(self) -> AsyncGenerator[list[Event], None]:
        """What an earlier turn left to be decided, and what a plan does."""
        answers = self._asked.answers
        if answers and (decided := [call for call in open_calls(self._newest()) if call.id in answers]):
            yield self._take_owed()
            async with aclosing(self._dispatched(self._dispatcher.run(decided))) as batches:
                async for events in batches:
                    yield events
        if self.planner is not None and self.end is None:
            yield self._take_owed()
            async with aclosing(self.planner.work(question_text(self._asked), self._floor())) as batches:
                async for events in batches:
                    yield events
            self._asking.only_answers = self.planner.is_done

    def _floor(self) -> StepRunner:
        from aish.planner.executor import StepRunner

        def next_step() -> None:
            self._scribe.step += 1

        return StepRunner(
            emit=self._emit,
            run=lambda calls: self._dispatched(self._dispatcher.run(calls)),
            next_step=next_step,
            is_over=lambda: self.end is not None or self._meter.remaining_s <= 0,
            meter=self._meter,
        )

    def _take_owed(self) -> list[Event]:
        """What was not worth a batch of its own; all of a step that nobody watches."""
        owed, self._owed = self._owed, []
        return owed

    def close(self, end: TurnEnd) -> list[Event]:
        """What is still owed when the turn is left early. Empty if it had finished."""
        if self.is_finished:
            return []
        if self.unwritten and type(self.unwritten[-1].body) is TurnFinished:  # an end that nobody has heard of
            self.unwritten.pop()
            self._scribe.seq -= 1
        self.end = end
        owed = [
            self._emit(result_event(call, self._dispatcher.closing_outcome(call)), call.id)
            for call in self._transcript.open_calls
        ]
        return [*self._take_owed(), *owed, *self._last_words()]

    def _begin_step(self) -> Event:
        self._meter.steps += 1
        self._scribe.step += 1
        return self._emit(StepStarted(self._asking.route.name))

    def _is_over(self, assembler: Assembler) -> bool:
        """Whether the turn ends with what the model has said, and how: with a failure, or because it calls nothing."""
        self.end = self._asking.end
        if self.end is None and not assembler.calls:
            self.end = TurnEnd.LENGTH if assembler.end is _CUT else _ANSWERED
            if not assembler.said_anything:
                self._owed.append(self._emit(Status("the model gave an empty answer")))
        return self.end is not None

    async def _run_calls(self, assembler: Assembler) -> AsyncGenerator[list[Event], None]:
        yield self._take_owed()
        run = self._dispatcher.run(
            assembler.calls, cut=assembler.cut_calls, whole=assembler.is_whole, choice=self._asking.choice
        )
        async with aclosing(self._dispatched(run)) as batches:
            async for events in batches:
                yield events
        cut = assembler.calls[-1] if assembler.end is StepEnd.LENGTH else None
        if cut is not None and self.offer.is_clients(cut.name):
            self.end = TurnEnd.LENGTH  # the asker has seen half of a call: nothing can be made of it

    def _book(self, assembler: Assembler) -> bool:
        spent = self._asking.book(assembler.usage, said_anything=assembler.said_anything)
        if spent is not None:
            self._owed.append(spent)
        return spent is not None

    def settle_spending(self) -> None:
        """Of a call that was left in the middle."""
        spent = self._asking.book(None, said_anything=bool(self._transcript.step_text))
        if spent is not None:
            self._owed.append(spent)

    def _newest(self) -> tuple[Message, ...]:
        """What was said last: enough to see which calls are open."""
        before = self._past[-1].messages if self._past else ()
        return (*before, *self._transcript.messages())

    async def _dispatched(self, run: AsyncGenerator[list[Event], None]) -> AsyncGenerator[list[Event], None]:
        async with aclosing(run) as batches:
            async for events in batches:
                for event in events:
                    self._transcript.apply(event)
                    if type(event.body) is ToolResult and event.body.effect not in (None, Effect.READ):
                        self.had_effect = True
                yield events
        self.end = self._dispatcher.end

    def _last_words(self) -> list[Event]:
        end = self.end or TurnEnd.FAILED
        words: list[Event] = []
        if end not in _SILENT_ENDS:
            words.append(self._emit(Status(self._saying())))
        detail = "" if end is _ANSWERED else self._saying()
        words.append(self._scribe.event(TurnFinished(end, self._meter.usage, detail)))
        return words

    def _saying(self) -> str:
        said = _SAYINGS[self.end or TurnEnd.FAILED]
        return self._asking.refusal or (_with_limits(said, self._meter.limits) if "{" in said else said)

    def _emit(self, body: Body, call: str = "") -> Event:
        event = self._scribe.event(body, call)
        self._transcript.apply(event)
        return event


class _Straight:
    """Words on their way from the wire to whoever listens, past the loop: the same is made of them as of a batch. The
    first of a step comes in one, and so does what has to be looked at.

    Written for few calls: it is run for every word of every model, and mostly after a pause, when nothing of it is at
    hand."""

    def __init__(
        self,
        listener: Listener,
        turn: Turn,
        keep: Keep,
        assembler: Assembler,
        scribe: Scribe,
        transcript: Transcript,
    ) -> None:
        self._is_heard, self._hear = listener.is_ready, listener.hear
        self._turn = turn
        self._keep = keep
        self._assembler = assembler
        self._event = scribe.event
        self._fold = transcript.say

    def is_ready(self) -> bool:
        return 0 < self._assembler.text_chars < self._assembler.look_at and self._is_heard()

    def say(self, text: str) -> bool:
        assembler, turn = self._assembler, self._turn
        if not 0 < assembler.text_chars < assembler.look_at or not self._hear(text):
            return False
        assembler.text_chars += len(text)
        event = self._event(TextDelta(text))
        self._fold(text)
        if turn.unwritten:  # then it is known that there is something to write
            turn.unwritten.append(event)
        else:
            self._keep(turn, [event])
        return True


def _with_limits(said: str, limits: Limits) -> str:
    steps, calls = _counted(limits.max_steps, "step"), _counted(limits.max_tool_calls, "tool call")
    return said.format(limits=limits, steps=steps, tool_calls=calls)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
