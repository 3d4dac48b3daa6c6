"""Makes the model calls of a turn: composes the prompt, has the ledger admit the call, streams the answer and books it.

A failure before the model has said anything may be recovered: by another rendering of the conversation, or by the
fallback model. Any other failure ends the turn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from aish.engine.model.ledger import AdmittedCall, Ledger
from aish.engine.model.router import Route, Router
from aish.engine.model.selection import ModelSelector, SelectedModel
from aish.engine.model.stream_assembly import StepAssembler, is_repetitive, repetition_chars
from aish.engine.prompt.compaction import Summaries, compaction_notice
from aish.engine.prompt.composer import ComposedPrompt, Composer, SystemParts
from aish.engine.prompt.conversation import Conversation
from aish.engine.prompt.history_cache import PastTurn
from aish.engine.prompt.normalise import has_late_system, is_late_system_rejection, is_tool_role_rejection
from aish.engine.prompt.prefix_breaks import SentPrompts
from aish.engine.prompt.token_counts import (
    BYTES_PER_TOKEN,
    TokenCounter,
    byte_length,
    encode_counted_tools,
    max_tokens_of,
)
from aish.engine.prompt.window import DEFAULT_ANSWER_TOKENS, budget_for
from aish.engine.turn.events import EventFactory, Transcript
from aish.engine.turn.turn_limits import Budget
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
from aish.ports import TextRelay
from aish.types.chunks import StepEnd
from aish.types.context import ContextRules, ContextView
from aish.types.events import Event, Failed, Status, TurnEnd, UsageReported
from aish.types.messages import Message, ToolMessage
from aish.types.requests import Sampling, StepRequest, ToolChoice, TurnRequest
from aish.types.tools import HISTORY_SEARCH, ToolSpec
from aish.types.usage import Category, Usage

_NO_SAMPLING = Sampling()
_NO_RULES = ContextRules()
_MAX_COUNTERS = 200


class TokenCounters:
    """The token counter of each model that is asked. Bounded, since a server's clients may name any model."""

    def __init__(self) -> None:
        self._counters: dict[str, TokenCounter] = {}

    def get(self, route: Route) -> TokenCounter:
        counter = self._counters.get(route.name)
        if counter is None:
            if len(self._counters) >= _MAX_COUNTERS:
                self._counters.clear()
            counter = self._counters[route.name] = TokenCounter(route.provider, route.info.id)
        return counter


class ModelCallDeps(msgspec.Struct, frozen=True):
    """What all turns of an engine share for their model calls."""

    router: Router
    selector: ModelSelector
    ledger: Ledger
    summaries: Summaries
    rules: ContextRules
    counters: TokenCounters
    sent_prompts: SentPrompts


class ModelCaller:
    """Makes the model calls of one turn, one for each step."""

    def __init__(
        self,
        deps: ModelCallDeps,
        selected: SelectedModel,
        request: TurnRequest,
        conversation: Conversation,
        system: SystemParts,
        tools: tuple[ToolSpec, ...],
        transcript: Transcript,
        budget: Budget,
        events: EventFactory,
    ) -> None:
        self.end: TurnEnd | None = None  # why the turn cannot go on after a call, if it cannot
        self.refusal = ""  # the same in words, where the reason alone does not say it
        self._deps = deps
        self._request = request
        self._conversation = conversation
        self._system = system
        self._tools = tools
        self._transcript = transcript
        self._budget = budget
        self._events = events
        # Whether a cap or a limit of the turn bounds what a call may cost.
        self._is_bounded = deps.ledger.is_limited(request.payer) or request.limits.max_cost is not None
        self.may_warn = deps.ledger.has_warning and bool(events.session)
        self._fell_back = selected.fell_back
        self._calls_forbidden = False
        self._admitted: AdmittedCall | None = None
        self._call_count = 0
        self._counted_at_scale = 1.0  # the scale of the estimate of the call that was admitted
        self._sent: StepRequest | None = None
        self._left_out = 0
        self._prefix_lost = ""
        self._use_route(selected.route)

    async def stream(self, step: StepAssembler, relay: TextRelay | None) -> AsyncGenerator[list[Event], None]:
        """Streams one answer as events. Sets `end` if the turn cannot go on. Text that `relay` accepts is in no event
        here."""
        self.refusal = ""  # of an earlier step
        step.check_at_chars = loop_chars = self._loop_chars
        try:
            composed, self._left_out = self._composer.compose_uncounted(self._transcript.messages()), 0
            if composed is None or composed.left_out:
                composed = composed or await self._composer.compose_counted(self._transcript.messages())
                if turns := self._find_unfolded_turns(composed):
                    yield [self._events.event(Status(compaction_notice(len(turns))))]
                composed, notes = await self._compose(composed, turns)
                if notes:
                    yield [self._events.event(Status(note)) for note in notes]
            request, call = self._step_request(composed.messages), self._next_call(composed)
            if self._is_bounded:
                request, call = await self._admit(request, call, composed.tokens)
            self._sent, self._admitted = request, call
            if self._events.session:
                self._prefix_lost = self._deps.sent_prompts.find_break(self._events.session, request)
            async with self.route.provider.stream(request, relay) as batches:
                async for batch in batches:
                    if events := step.feed(batch):
                        yield events
                    if step.must_be_checked() and (step.is_full or self._is_repetitive(loop_chars)):
                        step.end = StepEnd.LENGTH
                        break
        except BudgetExceeded as exc:
            drop_traceback(exc)
            self.end, self.refusal = TurnEnd.COST, f"{exc.message}; {exc.hint}"
        except ContextOverflow as exc:
            self.end = TurnEnd.FAILED
            yield [self._events.event(failure_event(exc))]
        except ProviderError as exc:
            async with aclosing(self._recover(step, relay, exc)) as recovered:
                async for events in recovered:
                    yield events

    def _is_repetitive(self, chars: int) -> bool:
        if not is_repetitive(self._transcript.newest_text(chars), chars):
            return False
        self.refusal = "the answer was cut: it said the same over and over"
        return True

    def book_step(self, step: StepAssembler) -> list[Event]:
        """Books what the call of this step cost. Returns the event that reports it, if it cost anything."""
        return self._book(step.usage, has_output=step.has_output)

    def book_unfinished(self) -> list[Event]:
        """Books a call that was left early, if there is one. Returns the event that reports it."""
        return self._book(None, has_output=bool(self._transcript.step_text))

    def _book(self, reported: Usage | None, *, has_output: bool) -> list[Event]:
        call, self._admitted = self._admitted, None
        if call is None:
            return []
        if reported is None and not has_output:
            self._deps.ledger.drop(call)
            return []
        if reported is None or (has_output and not reported.total_tokens):
            cost = reported.cost if reported else None
            usage = msgspec.structs.replace(self._guess(call), cost=cost)
        else:
            usage = reported
        usage = self._deps.ledger.book(call, usage)
        if call.estimate and reported is not None:
            self._counter.learn(call.estimate, reported.prompt_tokens, self._counted_at_scale)
        self._budget.spend(usage)
        report = UsageReported(
            self.route.name, usage, self._request.category, call.estimate, self._left_out, self._prefix_lost
        )
        return [self._events.event(report)]

    async def warn_about_spending(self) -> list[Event]:
        warning = await self._deps.ledger.warning(self._events.session)
        return [self._events.event(Status(warning))] if warning else []

    def forbid_calls(self) -> None:
        """From now on the model may only answer: its plan is done."""
        self._calls_forbidden = True

    @property
    def choice(self) -> ToolChoice:
        """A demand to call a tool holds for the first step only, or the turn would never end."""
        if self._calls_forbidden:
            return ToolChoice("none")
        choice = self._request.tool_choice
        return choice if self._budget.steps == 1 or choice.mode == "none" else ToolChoice()

    async def view(self) -> ContextView:
        return await self._composer.view(self._request.input)

    async def find_overdue_turns(self) -> Sequence[PastTurn]:
        """The turns to compact before this turn begins."""
        return await self._composer.find_overdue_turns(self._request.input) if self._summarizes else ()

    def _use_route(self, route: Route) -> None:
        deps, request = self._deps, self._request
        self.route = route
        self._loop_chars = repetition_chars(is_weak=route.info.is_weak)
        self._counter = deps.counters.get(route)
        self._sampling = (
            route.sampling if request.sampling == _NO_SAMPLING else merge_sampling(route.sampling, request.sampling)
        )
        # A conversation that the client keeps is sent as it is.
        rules, bounded = deps.rules, self._conversation.bounded
        self._composer = Composer(
            self._system,
            route,
            deps.router,
            self._counter,
            rules if bounded else _NO_RULES,
            self._conversation.past,
            self._tools,
            request.tool_mode or route.tool_mode,
            budget=budget_for(route.info.context_size, rules, self._sampling.max_tokens) if bounded else None,
            always_count=self._is_bounded,
        )

    def _find_unfolded_turns(self, composed: ComposedPrompt) -> list[PastTurn]:
        """The turns that no longer fit and are not in the rolling summary yet."""
        upto = self._conversation.summary.upto
        return [turn for turn in composed.left_out if turn.number > upto] if self._summarizes else []

    async def _compose(
        self, composed: ComposedPrompt, unfolded: Sequence[PastTurn]
    ) -> tuple[ComposedPrompt, list[str]]:
        """Folds turns that do not fit, and composes the prompt again. Also returns notes for the user."""
        ledger = self._deps.ledger
        notes = [note] if ledger.has_cap and (note := ledger.is_capless(self.route.name)) else []
        if composed.left_out and self._summarizes:
            notes += await self._fold(unfolded) if unfolded else ()
            composed = await self._composer.compose(self._transcript.messages())
        self._left_out = len(composed.left_out)
        if composed.cut:
            notes.append(f"cut what was too large for the window of {self.route.name}")
        return composed, notes

    @property
    def _summarizes(self) -> bool:
        rules = self._deps.rules
        if not rules.summarize or (self.route.info.is_weak and not rules.summary_model):
            return False  # the smallest models write no notes that are worth reading
        own = bool(self._events.session) and self._request.context is None
        return own and not self._request.is_autonomous

    async def _fold(self, turns: Sequence[PastTurn]) -> list[str]:
        """Adds turns that no longer fit to the rolling summary. If that fails, the turn goes on without."""
        summaries, before = self._deps.summaries, self._conversation.summary
        try:
            summary = await summaries.extend(
                self._events.session,
                before,
                turns,
                self.route,
                payer=self._request.payer,
                find_remaining_s=lambda: self._budget.remaining_s,
            )
        except AishError as exc:
            return [note] if (note := summaries.failure_notice(exc)) else []
        self._conversation = msgspec.structs.replace(self._conversation, summary=summary)
        notes = summary.notes(offers_search=any(tool.name == HISTORY_SEARCH for tool in self._tools))
        self._composer.system = msgspec.structs.replace(self._composer.system, summary=notes)
        return []

    def _next_call(self, composed: ComposedPrompt) -> AdmittedCall:
        self._call_count += 1
        self._counted_at_scale = self._counter.scale
        return AdmittedCall(
            f"use_{self._events.turn.removeprefix('turn_')}_{self._call_count}",
            self._request.charged_to or self._events.session,
            self.route.name,
            self._request.category,
            composed.tokens or 0,
            self._request.payer,
        )

    async def _admit(
        self, request: StepRequest, call: AdmittedCall, prompt_tokens: int | None
    ) -> tuple[StepRequest, AdmittedCall]:
        wanted = self._sampling.max_tokens or DEFAULT_ANSWER_TOKENS
        limit = self._budget.limits.max_cost
        max_tokens = wanted if limit is None else self._affordable(limit, prompt_tokens, wanted)
        ledger = self._deps.ledger
        if ledger.is_limited(call.payer):
            call = await ledger.admit(call, answer_tokens=max_tokens, deadline_s=request.deadline_s)
            max_tokens = call.answer_tokens
        is_reserved = call.is_reserved or call.of_key is not None
        if max_tokens < wanted or (is_reserved and not self._sampling.max_tokens):
            # The answer must not cost more than was reserved for it.
            bounded = msgspec.structs.replace(request.sampling, max_tokens=max_tokens)
            request = msgspec.structs.replace(request, sampling=bounded)
        return request, call

    def _affordable(self, limit: float, prompt_tokens: int | None, wanted: int) -> int:
        """How many of the wanted answer tokens the turn can still pay for."""
        left = limit - (self._budget.usage.cost or 0.0) - (self._budget.children.cost or 0.0)
        return self._deps.ledger.affordable(self.route.name, left, prompt_tokens or 0, wanted)

    def _step_request(self, messages: tuple[Message, ...]) -> StepRequest:
        request = self._request
        return StepRequest(
            model=self.route.info.id,
            messages=messages,
            tools=self._tools,
            tool_choice=self.choice,
            parallel_calls=request.parallel_calls,
            tool_mode=request.tool_mode or self.route.tool_mode,
            repair=request.repair,
            sampling=self._sampling,
            deadline_s=self._budget.remaining_s,
            session=self._events.session or self._events.turn,
            stream=request.stream or self.route.info.is_weak,  # a weak model is watched for repetition
            traceparent=request.traceparent,
            is_side_call=request.category is Category.DELEGATE,
        )

    async def _recover(
        self, step: StepAssembler, relay: TextRelay | None, error: ProviderError
    ) -> AsyncGenerator[list[Event], None]:
        """Calls again in another way where that may help; else the turn ends with the failure."""
        drop_traceback(error)
        if self._is_out_of_time(error):
            self.end = TurnEnd.WALL_TIME
            return
        if not isinstance(error, ProviderBusy):
            self._deps.router.forget(self.route)
        note = "" if step.has_output else await self._find_another_way(error)
        if not note:
            self.end = TurnEnd.FAILED
            yield [self._events.event(failure_event(error))]
            return
        self._book(None, has_output=False)
        yield [self._events.event(Status(note))]
        async with aclosing(self.stream(step, relay)) as batches:
            async for events in batches:
                yield events

    def _is_out_of_time(self, error: ProviderError) -> bool:
        """Whether the turn's time is up. The provider's clock may say so a little before the budget's does."""
        if isinstance(error, ProviderTimeout) and error.is_deadline:
            return True
        return error.retry and self._budget.remaining_s <= 0

    async def _find_another_way(self, error: ProviderError) -> str:
        """Prepares another rendering or another model. Returns what to tell the user, "" if nothing is left to try."""
        router, route = self._deps.router, self.route
        sent = self._sent.messages if self._sent else ()
        if is_late_system_rejection(error) and has_late_system(sent) and not router.rejects_late_system(route):
            router.remember_early_system(route)
            return f"{route.name} takes system messages at the beginning only; sending later ones as text"
        has_results = any(isinstance(message, ToolMessage) for message in sent)
        if is_tool_role_rejection(error) and has_results and not router.rejects_tool_role(route):
            router.remember_strict(route)
            return f"{route.name} rejects tool messages; sending results as text instead"
        if self._fell_back or not self._request.may_fall_back:
            return ""
        self._fell_back = True
        try:
            fallback = await self._deps.selector.fall_back(error, route.name)
        except AishError as second:
            error.message += f"; and the fallback fails, too: {second.message}"
            return ""
        if fallback is None:
            return ""
        self._use_route(fallback.route)
        return fallback.notes[0]

    def _guess(self, call: AdmittedCall) -> Usage:
        """The usage where the backend does not report it."""
        prompt_tokens = call.estimate or self._prompt_bytes() // BYTES_PER_TOKEN
        answer_tokens = byte_length(self._transcript.step_text) // BYTES_PER_TOKEN
        return Usage(prompt_tokens, answer_tokens, estimated=True)

    def _prompt_bytes(self) -> int:
        """About how large the prompt was that was sent."""
        sent: Sequence[Message] = self._sent.messages if self._sent else ()
        return sum(map(max_tokens_of, sent)) + len(encode_counted_tools(self._tools))


def merge_sampling(preset: Sampling, request: Sampling) -> Sampling:
    """The options of the request; where it has none, those of the preset."""
    given = {name: getattr(request, name) for name in Sampling.__struct_fields__}
    if preset.knobs is not None and request.knobs is not None:
        knobs = {name: value for name, value in msgspec.structs.asdict(request.knobs).items() if value is not None}
        given["knobs"] = msgspec.structs.replace(preset.knobs, **knobs)
    return msgspec.structs.replace(preset, **{n: v for n, v in given.items() if v != getattr(_NO_SAMPLING, n)})


def failure_event(error: AishError) -> Failed:
    drop_traceback(error)
    status = error.status if isinstance(error, ProviderRejected) else 400 if isinstance(error, ContextOverflow) else 0
    return Failed(type(error).__name__, error.message, error.hint, retry=error.retry, status=status)
