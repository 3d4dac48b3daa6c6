"""One user request and all it causes: ask the model, run what it calls, ask again, until it answers or a limit is hit.

`events()` is the loop. It ends by itself with TurnFinished. If its consumer leaves early, `close()` gives the events
that were still owed, so that history stays valid: a result for every call, and the end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from aish.engine.assemble import Assembler
from aish.engine.dispatch import Dispatcher, result_event
from aish.engine.meter import Meter
from aish.engine.offer import Offer
from aish.engine.route import Route, Router
from aish.engine.scribe import Scribe
from aish.engine.strict import is_rejected_shape, render_strict
from aish.engine.transcript import Transcript
from aish.errors import AishError, ProviderError, ProviderTimeout
from aish.types.chunks import StepEnd
from aish.types.events import (
    Body,
    Event,
    Failed,
    Status,
    StepStarted,
    TurnEnd,
    TurnFinished,
    TurnStarted,
    UsageReported,
)
from aish.types.messages import Message, SystemMessage, ToolMessage
from aish.types.requests import Sampling, StepRequest
from aish.types.usage import Usage

_SAYINGS = {
    TurnEnd.MAX_STEPS: "stopped after {limits.max_steps} steps, the limit for one turn",
    TurnEnd.MAX_TOOL_CALLS: "stopped after {limits.max_tool_calls} tool calls, the limit for one turn",
    TurnEnd.WALL_TIME: "stopped after {limits.wall_s:g} s, the time limit for one turn",
    TurnEnd.TOKENS: "stopped at the limit of {limits.max_tokens} tokens for one turn",
    TurnEnd.COST: "stopped at the limit of ${limits.max_cost} for one turn",
    TurnEnd.REPEATED: "stopped because the model kept making the same call",
    TurnEnd.LENGTH: "the answer was cut at the model's token limit",
    TurnEnd.CANCELLED: "stopped by the user",
    TurnEnd.INTERRUPTED: "interrupted",
    TurnEnd.FAILED: "the turn failed",
    TurnEnd.ANSWERED: "the model gave no answer",
}


class Turn:
    def __init__(
        self,
        *,
        router: Router,
        route: Route,
        system: str,
        history: tuple[Message, ...],
        input: tuple[Message, ...],
        sampling: Sampling,
        offer: Offer,
        dispatcher: Dispatcher,
        meter: Meter,
        scribe: Scribe,
    ) -> None:
        self._router = router
        self._route = route
        self._system = system
        self._history = history
        self._input = input
        self._sampling = sampling
        self._offer = offer
        self._dispatcher = dispatcher
        self._meter = meter
        self._scribe = scribe
        self._transcript = Transcript()
        self._call_ids = {message.tool_call_id for message in history if isinstance(message, ToolMessage)}
        self._finished = False
        self.broken = False
        self.end: TurnEnd | None = None

    @property
    def id(self) -> str:
        return self._scribe.turn

    @property
    def session(self) -> str:
        return self._scribe.session

    def messages(self) -> tuple[Message, ...]:
        """The valid history a finished turn leaves."""
        return self._transcript.history(f"[aish] {self._saying()}")

    async def events(self) -> AsyncGenerator[Event, None]:
        yield self._emit(TurnStarted(self._route.name, self._input))
        while self.end is None:
            limit = self._meter.reached()
            if limit is not None:
                self.end = limit
                break
            async with aclosing(self._step()) as events:
                async for event in events:
                    yield event
        for event in self._last_words():
            yield event

    def close(self, end: TurnEnd) -> list[Event]:
        """What is still owed when the turn is left early. Empty if it had finished."""
        if self._finished:
            return []
        self.end = end
        owed = [
            self._emit(result_event(call, self._dispatcher.closing_outcome(call)), call.id)
            for call in self._transcript.open_calls
        ]
        return [*owed, *self._last_words()]

    async def _step(self) -> AsyncGenerator[Event, None]:
        """One model call and the tool calls it asks for."""
        self._meter.steps += 1
        self._scribe.step = self._meter.steps
        yield self._emit(StepStarted(self._route.name))
        assembler = Assembler(self._scribe, self._call_ids, self._offer.canonical)
        async with aclosing(self._ask_model(assembler)) as events:
            async for event in events:
                yield event
        if assembler.usage or assembler.said_anything:
            yield self._report_usage(assembler)
        if self.end is not None:
            return
        if not assembler.calls:
            self.end = TurnEnd.LENGTH if assembler.end is StepEnd.LENGTH else TurnEnd.ANSWERED
            if not assembler.said_anything:
                yield self._emit(Status("the model gave an empty answer"))
            return
        cut = assembler.calls[-1].id if assembler.end is StepEnd.LENGTH else ""
        async with aclosing(self._dispatcher.run(assembler.calls, cut=cut)) as events:
            async for event in events:
                self._transcript.apply(event)
                yield event
        self.end = self._dispatcher.stop

    async def _ask_model(self, assembler: Assembler) -> AsyncGenerator[Event, None]:
        """Stream the answer. A failure ends the turn, unless another rendering of the same request may work."""
        try:
            async with self._route.provider.stream(self._request()) as chunks:
                async for chunk in chunks:
                    for event in assembler.feed(chunk):
                        self._transcript.apply(event)
                        yield event
                    if assembler.is_full:
                        assembler.end = StepEnd.LENGTH
                        break
            for event in assembler.finish():
                self._transcript.apply(event)
                yield event
        except ProviderError as exc:
            async with aclosing(self._recover(assembler, exc)) as events:
                async for event in events:
                    yield event

    async def _recover(self, assembler: Assembler, error: ProviderError) -> AsyncGenerator[Event, None]:
        if not assembler.said_anything and self._may_render_strictly(error):
            self._router.remember_strict(self._route)
            yield self._emit(Status(f"{self._route.name} rejects tool messages; sending results as text instead"))
            async with aclosing(self._ask_model(assembler)) as events:
                async for event in events:
                    yield event
        elif isinstance(error, ProviderTimeout) and self._meter.remaining_s <= 0:
            self.end = TurnEnd.WALL_TIME
        else:
            self.end = TurnEnd.FAILED
            yield self._emit(failed(error))

    def _may_render_strictly(self, error: ProviderError) -> bool:
        if self._router.rejects_tool_role(self._route) or not is_rejected_shape(error):
            return False
        return any(isinstance(message, ToolMessage) for message in self._conversation())

    def _conversation(self) -> tuple[Message, ...]:
        return (*self._history, *self._transcript.messages())

    def _request(self) -> StepRequest:
        conversation = self._conversation()
        if self._router.rejects_tool_role(self._route):
            conversation = render_strict(conversation)
        system = (SystemMessage(self._system),) if self._system else ()
        return StepRequest(
            model=self._route.info.id,
            messages=(*system, *conversation),
            tools=self._offer.specs,
            sampling=self._sampling,
            deadline_s=self._meter.remaining_s,
            session=self.session,
        )

    def _report_usage(self, assembler: Assembler) -> Event:
        usage = assembler.usage or self._estimate()
        self._meter.spend(usage)
        return self._emit(UsageReported(self._route.name, usage))

    def _estimate(self) -> Usage:
        """Four characters a token, where the backend says nothing."""
        said = len(self._transcript.step_text)
        whole = sum(len(getattr(message, "text", "")) for message in self._conversation()) + len(self._system)
        return Usage((whole - said) // 4, said // 4, estimated=True)

    def _last_words(self) -> list[Event]:
        end = self.end or TurnEnd.FAILED
        words: list[Event] = []
        if end not in (TurnEnd.ANSWERED, TurnEnd.FAILED, TurnEnd.CANCELLED):
            words.append(self._emit(Status(self._saying())))
        detail = "" if end is TurnEnd.ANSWERED else self._saying()
        words.append(self._emit(TurnFinished(end, self._meter.usage, detail)))
        return words

    def finished(self) -> None:
        """Its end is recorded: nothing is owed any more."""
        self._finished = True

    def _saying(self) -> str:
        return _SAYINGS.get(self.end or TurnEnd.FAILED, "").format(limits=self._meter.limits)

    def _emit(self, body: Body, call: str = "") -> Event:
        event = self._scribe.event(body, call)
        self._transcript.apply(event)
        return event


def failed(error: AishError) -> Failed:
    return Failed(type(error).__name__, error.message, error.hint, retry=error.retry)
