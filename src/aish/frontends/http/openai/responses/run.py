"""Makes one response: runs its turns, encodes its stream, and stores the result before the client gets the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

import msgspec

from aish.engine.turn.events import Transcript
from aish.errors import AishError, drop_traceback
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.metrics.counters import TurnMeter
from aish.frontends.http.openai.responses.encoder import ResponseEncoder
from aish.frontends.http.openai.responses.replay import without_turn_end
from aish.frontends.http.openai.responses.store import ResponseStore, StoredResponse
from aish.frontends.http.openai.responses.turn_requests import ResponsePlan, response_consent
from aish.frontends.http.server.http_errors import HttpProblem, problem_of
from aish.frontends.http.server.reply_stream import ReplyStream
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.delivery import TraceSummary
from aish.ports import TextSink
from aish.types.events import Event, ToolResult, TurnStarted
from aish.types.messages import Message, ToolMessage
from aish.types.requests import TurnRequest

Link = Callable[[Caller, ResponsePlan], Awaitable[None]]
_LINKED = ("completed", "incomplete")


class ResponseRun:
    """`link` is called with a response that was stored, before its end is sent: a conversation continues from it.
    `begun` is called with its first turn."""

    def __init__(
        self,
        service: Service,
        response_store: ResponseStore,
        caller: Caller,
        plan: ResponsePlan,
        link: Link,
        *,
        has_begun: Callable[[], bool],
        begun: Callable[[str], None] = lambda turn: None,
    ) -> None:
        self.plan = plan
        self.stream = ResponseEncoder(plan.setup)
        self.turns: list[str] = []
        self.last = b""  # the end of the stream, once it is known
        self._keeping: asyncio.Task[None] | None = None
        self._engine = service.engine
        self._keys = service.keys
        self._meter = TurnMeter(service.metrics)
        self._response_store = response_store
        self._caller = caller
        self._link = link
        self._ask = response_consent(service, caller, plan.setup.late, plan.agreed)
        self._has_begun = has_begun
        self._begun = begun
        self._transcript = Transcript()
        self.summary = TraceSummary() if plan.body.trace else None

    async def pieces(self, reply_stream: ReplyStream | None = None) -> AsyncGenerator[bytes, None]:
        """Yields the stream after its opening. Failures before the first piece are raised as HttpProblem.
        `reply_stream` is that of the client that waits."""
        plan = self.plan
        try:
            turns = (
                self._turn(plan.request, reply_stream) if plan.first is None else self._both(plan.first, reply_stream)
            )
            try:
                async with aclosing(turns) as batches:
                    async for events in batches:
                        if data := self._feed(events):
                            yield data
            except asyncio.CancelledError as exc:
                if reply_stream is not None:
                    reply_stream.check_shut_down(exc)
                raise
            self.last = self.stream.finish()
        except (AishError, HttpProblem) as exc:
            drop_traceback(exc)
            self.last = self.stream.fail(exc if isinstance(exc, HttpProblem) else problem_of(exc))
        finally:
            await self._keys.save_spending(self._caller.key)
        if self.stream.failed is not None and not self._has_begun():
            raise self.stream.failed
        try:
            await self.keep()
        except AishError as exc:  # a response that could not be stored must not end as if it had been
            drop_traceback(exc)
            self.last = self.stream.fail_instead(problem_of(exc))
            if self.stream.failed is not None and not self._has_begun():
                raise self.stream.failed from None
        yield self.last

    async def forget_attempts(self) -> None:
        """The client has the response, or finds it stored: the same request is a new one."""
        for turn in self.turns:
            await self._engine.forget_attempts(turn)

    async def keep(self) -> None:
        """Stores the response as it stands, if it is to be stored at all; once, and to the end even if the waiting task
        is cancelled."""
        if self.plan.body.is_kept:
            if self._keeping is None:
                self._keeping = asyncio.create_task(self._keep())
            await asyncio.shield(self._keeping)

    async def _keep(self) -> None:
        plan = self.plan
        stored = self.document(messages=(*plan.given, *self._transcript.new_messages()))
        size = await self._response_store.put(plan.id, self._caller.key, stored)
        self._response_store.remember(plan.id, (*plan.history, *stored.messages), size)
        if self.stream.status in _LINKED:
            await self._link(self._caller, plan)

    async def tell_others(self) -> None:
        """Stores which turns it takes, for other processes that stream it."""
        await self._response_store.put(self.plan.id, self._caller.key, self.document(), wait=False)

    def document(self, messages: tuple[Message, ...] | None = None) -> StoredResponse:
        """`messages` None: it is not complete, only the input is known."""
        plan, background = self.plan, bool(self.plan.body.background)
        return StoredResponse(
            status=self.stream.status,
            response=msgspec.Raw(self.stream.snapshot()),
            input=plan.items,
            messages=plan.given if messages is None else messages,
            previous=plan.previous,
            conversation=plan.body.conversation_id,
            listed=plan.listed,
            runner=self._response_store.me if background else "",
            setup=plan.setup if background else None,
            turns=tuple(self.turns) if background else (),
        )

    async def _both(self, first: TurnRequest, text_sink: TextSink | None) -> AsyncGenerator[Sequence[Event], None]:
        """Yields the events of approved calls, then those of the model, which sees their results."""
        request = self.plan.request
        results: list[Message] = []
        async with aclosing(self._turn(first, None)) as batches:
            async for events in batches:
                if events := without_turn_end(events):
                    results += _results(events)
                    yield events
        if request.context is not None:
            request = msgspec.structs.replace(request, context=(*request.context, *results))
        async with aclosing(self._turn(request, text_sink)) as batches:
            async for events in batches:
                yield events

    async def _turn(self, request: TurnRequest, text_sink: TextSink | None) -> AsyncGenerator[Sequence[Event], None]:
        async with self._engine.turn(request, ask=self._ask, on_left=self._leave, text_sink=text_sink) as batches:
            async for events in batches:
                self._note(events)
                yield events

    def _leave(self, events: Sequence[Event]) -> None:
        self._note(events)
        self._meter.count_abandoned(events)

    def _note(self, events: Sequence[Event]) -> None:
        if isinstance(events[0].body, TurnStarted):
            self.turns.append(events[0].turn)
            if len(self.turns) == 1:
                self._begun(events[0].turn)

    def _feed(self, events: Sequence[Event]) -> bytes:
        self._meter.observe(events)
        if self.summary is not None:
            self.summary.observe(events)
        if self.plan.body.is_kept:
            for event in events:
                if not isinstance(event.body, TurnStarted):
                    self._transcript.apply(self.plan.setup.as_known(event))
        return self.stream.encode(events)

    def encode_word(self, text: str) -> bytes:
        if self.plan.body.is_kept:
            self._transcript.add_text(text)
        return self.stream.word(text)


def _results(events: Sequence[Event]) -> list[Message]:
    found = [(event.call, event.body) for event in events if isinstance(event.body, ToolResult)]
    return [ToolMessage(call, result.name, result.parts) for call, result in found]
