"""How a turn asks its model: composes what it sees, has the ledger admit the call, streams the answer, and books it.

A failure before the model has said anything may be mended: by another rendering of the conversation, or by the model to
fall back on. Anything else ends the turn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from aish.engine.model.ledger import Admitted, Ledger
from aish.engine.model.router import Route, Router
from aish.engine.model.selection import Chooser, Chosen
from aish.engine.model.stream_assembly import Assembler
from aish.engine.prompt.composer import Composed, Composer
from aish.engine.prompt.conversation import Conversation
from aish.engine.prompt.summary import Summaries
from aish.engine.prompt.system_message import SystemParts
from aish.engine.prompt.template_compat import has_late_system, is_rejected_shape, is_rejected_system
from aish.engine.prompt.token_counts import BYTES_PER_TOKEN, TokenCounter, byte_length, most_tokens, told_of
from aish.engine.prompt.window import DEFAULT_ROOM, budget_for
from aish.engine.turn.budget import Meter
from aish.engine.turn.event_factory import Scribe
from aish.engine.turn.repetition import LONG_LOOP_CHARS, LOOK_CHARS, LOOP_CHARS, goes_round
from aish.engine.turn.transcript import Transcript
from aish.errors import (
    AishError,
    BudgetExceeded,
    ContextOverflow,
    ProviderBusy,
    ProviderError,
    ProviderRejected,
    ProviderTimeout,
    drop_traceback,
)
from aish.ports import Words
from aish.types.chunks import StepEnd
from aish.types.context import ContextRules, ContextView
from aish.types.events import Body, Event, Failed, Status, TurnEnd, UsageReported
from aish.types.messages import Message, ToolMessage
from aish.types.requests import Sampling, StepRequest, ToolChoice, TurnRequest
from aish.types.tools import ToolSpec
from aish.types.usage import Usage

_UNSAID = Sampling()
_NO_RULES = ContextRules()
_MAX_COUNTERS = 200


class Counters:
    """One for each model that is asked; a server's clients may name any."""

    def __init__(self) -> None:
        self._counters: dict[str, TokenCounter] = {}

    def of(self, route: Route) -> TokenCounter:
        counter = self._counters.get(route.name)
        if counter is None:
            if len(self._counters) >= _MAX_COUNTERS:
                self._counters.clear()
            counter = self._counters[route.name] = TokenCounter(route.provider, route.info.id)
        return counter


class ModelCallDeps(msgspec.Struct, frozen=True):
    """What all turns of an engine ask with."""

    router: Router
    chooser: Chooser
    ledger: Ledger
    summaries: Summaries
    rules: ContextRules
    counters: Counters


class Asking:
    def __init__(
        self,
        means: ModelCallDeps,
        chosen: Chosen,
        request: TurnRequest,
        conversation: Conversation,
        system: SystemParts,
        tools: tuple[ToolSpec, ...],
        transcript: Transcript,
        meter: Meter,
        scribe: Scribe,
    ) -> None:
        self.end: TurnEnd | None = None
        self.refusal = ""
        self.only_answers = False  # no more calls: what was planned has been done
        self._means = means
        self._fell_back = chosen.fell_back
        self._asked = request
        self._conversation = conversation
        self._system = system
        self._tools = tools
        self._transcript = transcript
        self._meter = meter
        self._scribe = scribe
        self._call: Admitted | None = None
        self._calls = 0
        self._sent: StepRequest | None = None
        self._left_out = 0
        self._prepare_for(chosen.route)

    async def ask(self, assembler: Assembler, words: Words | None) -> AsyncGenerator[list[Event], None]:
        """One answer, as the assembler's events. `end` is set if the turn cannot go on. What is said to `words` is in
        none of them."""
        apply_all = self._transcript.apply_all
        assembler.look_at = loop_chars = LOOP_CHARS if self.route.info.is_weak else LONG_LOOP_CHARS
        try:
            composed, self._left_out = self._composer.find_whole(self._transcript.messages()), 0
            if composed is None or composed.left_out:
                composed, notes = await self._compose(composed)
                if notes:
                    yield [self._emit(Status(note)) for note in notes]
            request, call = self._request(composed.messages), self._next_call(composed)
            if self._is_bounded:
                request, call = await self._admitted(request, call, composed.tokens)
            self._sent, self._call = request, call
            async with self.route.provider.stream(request, words) as batches:
                async for batch in batches:
                    if events := assembler.feed(batch):
                        apply_all(events)
                        yield events
                    if assembler.text_chars >= assembler.look_at:
                        assembler.look_at = assembler.text_chars + max(LOOK_CHARS, assembler.text_chars // 50)
                        if assembler.is_full or self._goes_round(loop_chars):
                            assembler.end = StepEnd.LENGTH
                            break
            if events := assembler.finish():
                apply_all(events)
                yield events
        except BudgetExceeded as exc:
            drop_traceback(exc)
            self.end, self.refusal = TurnEnd.COST, f"{exc.message}; {exc.hint}"
        except ContextOverflow as exc:
            self.end = TurnEnd.FAILED
            yield [self._emit(failed(exc))]
        except ProviderError as exc:
            async with aclosing(self._recover(assembler, words, exc)) as recovered:
                async for events in recovered:
                    yield events

    def _goes_round(self, chars: int) -> bool:
        if not goes_round(self._transcript.newest_text(chars), chars):
            return False
        self.refusal = "the answer was cut: it said the same over and over"
        return True

    def book(self, reported: Usage | None, *, said_anything: bool) -> Event | None:
        """Settles the call that was made. The event to tell of it, None if it cost nothing."""
        call, self._call = self._call, None
        if call is None:
            return None
        if reported is None and not said_anything:
            self._means.ledger.drop(call)
            return None
        if reported is None or (said_anything and not reported.total_tokens):
            cost = reported.cost if reported else None
            usage = msgspec.structs.replace(self._guess(call), cost=cost)
        else:
            usage = reported
        usage = self._means.ledger.settle(call, usage)
        if call.estimate and reported is not None:
            self._counter.learn(call.estimate, reported.prompt_tokens)
        self._meter.spend(usage)
        told = UsageReported(self.route.name, usage, self._asked.category, call.estimate, self._left_out)
        return self._scribe.event(told)

    @property
    def choice(self) -> ToolChoice:
        """A demand to call is met by the first step; made again, the turn would never end."""
        if self.only_answers:
            return ToolChoice("none")
        asked = self._asked.tool_choice
        return asked if self._meter.steps == 1 or asked.mode == "none" else ToolChoice()

    async def warnings(self) -> list[Event]:
        said = await self._means.ledger.warning(self._scribe.session)
        return [self._emit(Status(said))] if said else []

    async def view(self) -> ContextView:
        return await self._composer.view(self._asked.input)

    def _prepare_for(self, route: Route) -> None:
        means, asked = self._means, self._asked
        self.route = route
        self._counter = means.counters.of(route)
        self._sampling = route.sampling if asked.sampling == _UNSAID else merged(route.sampling, asked.sampling)
        # What is the asker's own goes along as it is.
        rules, bounded = means.rules, self._conversation.bounded
        self._composer = Composer(
            self._system,
            route,
            means.router,
            self._counter,
            rules if bounded else _NO_RULES,
            self._conversation.past,
            self._tools,
            asked.tool_mode or route.tool_mode,
            budget=budget_for(route.info.context_size, rules, self._sampling.max_tokens) if bounded else None,
            always_count=means.ledger.has_cap or asked.limits.max_cost is not None,
        )

    async def _compose(self, whole: Composed | None) -> tuple[Composed, list[str]]:
        """What is sent, of `whole` where nothing had to be counted, and what the user should know of it."""
        ledger = self._means.ledger
        notes = [note] if ledger.has_cap and (note := ledger.is_capless(self.route.name)) else []
        composed = whole or await self._composer.compose_counted(self._transcript.messages())
        if composed.left_out and self._summarizes:
            notes += await self._fold(composed)
            composed = await self._composer.compose(self._transcript.messages())
        self._left_out = len(composed.left_out)
        if composed.cut:
            notes.append(f"cut what was too large for the window of {self.route.name}")
        return composed, notes

    @property
    def _summarizes(self) -> bool:
        own = bool(self._scribe.session) and self._asked.context is None
        return self._means.rules.summarize and own and not self._asked.is_autonomous

    async def _fold(self, composed: Composed) -> list[str]:
        """What has just fallen out of the window goes into the summary. If that fails the turn goes on without."""
        before = self._conversation.summary
        turns = [turn for turn in composed.left_out if turn.number > before.upto]
        if not turns:
            return []
        try:
            summary = await self._means.summaries.fold(self._scribe.session, before, turns, self.route)
        except AishError as exc:
            return [note] if (note := self._means.summaries.failure(exc)) else []
        self._conversation = msgspec.structs.replace(self._conversation, summary=summary)
        self._composer.system = msgspec.structs.replace(self._composer.system, summary=summary.text)
        return []

    def _next_call(self, composed: Composed) -> Admitted:
        self._calls += 1
        return Admitted(
            f"use_{self._scribe.turn.removeprefix('turn_')}_{self._calls}",
            self._asked.charged_to or self._scribe.session,
            self.route.name,
            self._asked.category,
            composed.tokens or 0,
        )

    @property
    def _is_bounded(self) -> bool:
        """Whether there is a limit to what a call may cost."""
        return self._means.ledger.has_cap or self._meter.limits.max_cost is not None

    async def _admitted(
        self, request: StepRequest, call: Admitted, prompt_tokens: int | None
    ) -> tuple[StepRequest, Admitted]:
        wanted = self._sampling.max_tokens or DEFAULT_ROOM
        limit = self._meter.limits.max_cost
        most = wanted if limit is None else self._affordable(limit, prompt_tokens, wanted)
        ledger = self._means.ledger
        if ledger.has_cap:
            call = await ledger.admit(call, answer_tokens=most, deadline_s=request.deadline_s)
        if most < wanted or (call.reserved and not self._sampling.max_tokens):
            # What was set aside has to be the most it can come to.
            bounded = msgspec.structs.replace(request.sampling, max_tokens=most)
            request = msgspec.structs.replace(request, sampling=bounded)
        return request, call

    def _affordable(self, limit: float, prompt_tokens: int | None, wanted: int) -> int:
        """Of the answer that is wanted, what the turn may still spend."""
        left = limit - (self._meter.usage.cost or 0.0)
        return self._means.ledger.affordable(self.route.name, left, prompt_tokens or 0, wanted)

    def _request(self, messages: tuple[Message, ...]) -> StepRequest:
        asked = self._asked
        return StepRequest(
            model=self.route.info.id,
            messages=messages,
            tools=self._tools,
            tool_choice=self.choice,
            parallel_calls=asked.parallel_calls,
            tool_mode=asked.tool_mode or self.route.tool_mode,
            repair=asked.repair,
            sampling=self._sampling,
            deadline_s=self._meter.remaining_s,
            session=self._scribe.session or self._scribe.turn,
            stream=asked.stream or self.route.info.is_weak,  # or nobody sees that it goes round and round
            traceparent=asked.traceparent,
        )

    async def _recover(
        self, assembler: Assembler, words: Words | None, error: ProviderError
    ) -> AsyncGenerator[list[Event], None]:
        drop_traceback(error)
        if self._is_out_of_time(error):
            self.end = TurnEnd.WALL_TIME
            return
        if not isinstance(error, ProviderBusy):
            self._means.router.forget(self.route)
        note = ""
        if not assembler.said_anything:
            error, note = await self._another_way(error)
        if not note:
            self.end = TurnEnd.FAILED
            yield [self._emit(failed(error))]
            return
        self.book(None, said_anything=False)
        yield [self._emit(Status(note))]
        async with aclosing(self.ask(assembler, words)) as batches:
            async for events in batches:
                yield events

    def _is_out_of_time(self, error: ProviderError) -> bool:
        """Who kept the deadline says so: it has a clock of its own, which may be a little ahead of the meter's. Once
        the time is up by that, too, nothing is left of it to ask again."""
        if isinstance(error, ProviderTimeout) and error.is_deadline:
            return True
        return error.retry and self._meter.remaining_s <= 0

    async def _another_way(self, error: ProviderError) -> tuple[ProviderError, str]:
        """What is tried now, in words; "" if nothing is left to try."""
        if self._may_move_system(error):
            self._means.router.remember_early_system(self.route)
            return error, f"{self.route.name} takes system messages at the beginning only; sending later ones as text"
        if self._may_render_strictly(error):
            self._means.router.remember_strict(self.route)
            return error, f"{self.route.name} rejects tool messages; sending results as text instead"
        if self._fell_back or not self._asked.may_fall_back:
            return error, ""
        self._fell_back = True
        try:
            chosen = await self._means.chooser.fall_back(error, self.route.name)
        except AishError as second:
            error.message += f"; and the fallback fails, too: {second.message}"
            return error, ""
        if chosen is None:
            return error, ""
        self._prepare_for(chosen.route)
        return error, chosen.notes[0]

    def _may_move_system(self, error: ProviderError) -> bool:
        if self._means.router.rejects_late_system(self.route) or not is_rejected_system(error):
            return False
        return self._sent is not None and has_late_system(self._sent.messages)

    def _may_render_strictly(self, error: ProviderError) -> bool:
        if self._means.router.rejects_tool_role(self.route) or not is_rejected_shape(error):
            return False
        sent = self._sent.messages if self._sent else ()
        return any(isinstance(message, ToolMessage) for message in sent)

    def _guess(self, call: Admitted) -> Usage:
        """Where the backend says nothing of what it used."""
        sent: Sequence[Message] = self._sent.messages if self._sent else ()
        size = sum(most_tokens(message) for message in sent) + len(told_of(self._tools))
        prompt = call.estimate or size // BYTES_PER_TOKEN
        said = byte_length(self._transcript.step_text) // BYTES_PER_TOKEN
        return Usage(prompt, said, estimated=True)

    def _emit(self, body: Body) -> Event:
        event = self._scribe.event(body)
        self._transcript.apply(event)
        return event


def merged(preset: Sampling, request: Sampling) -> Sampling:
    """The request's word counts, then the preset's."""
    given = {name: getattr(request, name) for name in Sampling.__struct_fields__}
    if preset.knobs is not None and request.knobs is not None:
        said = {name: value for name, value in msgspec.structs.asdict(request.knobs).items() if value is not None}
        given["knobs"] = msgspec.structs.replace(preset.knobs, **said)
    return msgspec.structs.replace(preset, **{n: v for n, v in given.items() if v != getattr(_UNSAID, n)})


def failed(error: AishError) -> Failed:
    drop_traceback(error)
    status = error.status if isinstance(error, ProviderRejected) else 400 if isinstance(error, ContextOverflow) else 0
    return Failed(type(error).__name__, error.message, error.hint, retry=error.retry, status=status)
