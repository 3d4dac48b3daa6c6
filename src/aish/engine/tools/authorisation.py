"""Decides whether a prepared call may run: asks the limits of the turn, the hooks, the gate, the journal and the rules
of the request, and if needed the user. Every refusal of a call is made here.

A failure anywhere here is a refusal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import msgspec

from aish.engine.tools.executor import Executor, Outcome, Preview, aish_says
from aish.engine.turn.events import EventChannel
from aish.engine.turn.hooks import TurnHooks
from aish.engine.turn.turn_limits import Budget
from aish.errors import AishError
from aish.ports import Ask, Gate
from aish.runs.journal import Journal
from aish.safety.redaction.vault import has_placeholder
from aish.tool_calls.schema.validator import schema_errors
from aish.types.decisions import (
    PROVED_RULE,
    UNASKED_RULES,
    YES_CHOICES,
    Answer,
    Choice,
    Decision,
    EffectRequest,
    Mode,
    Question,
    QuestionKind,
    StepCall,
    Verdict,
)
from aish.types.events import DecisionAsked, DecisionMade, Status, TurnEnd
from aish.types.globs import Globs
from aish.types.messages import TextPart, ToolCall
from aish.types.tools import Arguments, Effect, Repair, ResultStatus, ToolSpec

ASKED_FOR = "asked for"  # the rule of a question that the request wants
_MAX_OTHERS = 20  # calls that one question lists besides its own
HIDDEN_SECRET = (
    "<secret-…> stands for a secret and is passed on as it is: only tools and programs that the user has named get the "
    "secret itself (safety.secrets_for_tools, safety.secrets_for_programs)"
)


class PreparedCall(msgspec.Struct, frozen=True):
    """`spec` has the effect that this call can have."""

    call: ToolCall
    spec: ToolSpec
    arguments: Arguments
    repairs: tuple[Repair, ...] = ()
    edited: bool = False  # by the user who allowed it
    hooked: bool = False  # a hook has changed the arguments
    is_proved: bool = False  # the gate allowed it because it is proved harmless
    is_unasked: bool = False  # the mode allowed it


class Authoriser:
    """Authorises the calls of one turn. `stop` is why the turn must end after these calls, if a limit was reached;
    `later` are calls whose decision comes after the turn."""

    def __init__(
        self,
        consent: Consent,
        hooks: TurnHooks,
        budget: Budget,
        channel: EventChannel,
        *,
        owner: str,
        turn: str,
        session: str,
        mode: Mode | None,
    ) -> None:
        self.stop: TurnEnd | None = None
        self.later = consent.later
        self._consent = consent
        self._hooks = hooks
        self._budget = budget
        self._channel = channel
        self._owner, self._turn, self._session, self._mode = owner, turn, session, mode
        self._repeats: dict[tuple[str, bytes], int] = {}

    def expect(self, step: Sequence[PreparedCall]) -> None:
        """The calls of one step, in order, before the first is authorised."""
        self._consent.expect([self._request_of(item) for item in step])

    async def authorise(self, item: PreparedCall) -> PreparedCall | Outcome:
        """The call as it may run, or the refusal as its outcome."""
        return self._refuse_over_limit() or await self._refuse_repeated(item) or await self._ask_gate(item)

    def note_rejected(self, call: ToolCall) -> None:
        """Counts a call that could not be prepared. A model that repeats it nevertheless ends the turn."""
        if self._count(call.name, call.arguments.encode("utf-8", "replace")) >= self._budget.limits.repeat_limit:
            self.stop = TurnEnd.REPEATED

    def stop_turn(self, end: TurnEnd) -> None:
        self.stop = end

    def forget_repeats(self, changed: PreparedCall) -> None:
        """After a change, the same call as before is not a repetition: tests run again after an edit. The change itself
        still counts."""
        key = changed.spec.name, _encode_arguments(changed)
        self._repeats = {key: self._repeats.get(key, 0)}

    def _count(self, name: str, arguments: bytes) -> int:
        """How often this same call has been made."""
        count = self._repeats[name, arguments] = self._repeats.get((name, arguments), 0) + 1
        return count

    def _refuse_over_limit(self) -> Outcome | None:
        if self.stop is None and self._budget.take_tool_call():
            return None
        self.stop = self.stop or TurnEnd.MAX_TOOL_CALLS
        return aish_says(ResultStatus.LIMIT, "not run: the turn has reached a limit and ends here.")

    async def _refuse_repeated(self, item: PreparedCall) -> Outcome | None:
        """Asks about a call that is repeated too often. Without a user, the turn stops here."""
        count = self._count(item.spec.name, _encode_arguments(item))
        if count < self._budget.limits.repeat_limit:
            return None
        reason = f"the model makes this same call for the {count}. time in this turn"
        question = Question(item.call.id, QuestionKind.REPEAT, item.spec.name, item.spec.effect, item.arguments, reason)
        if (await self._consent.ask(question)).choice in YES_CHOICES:
            return None
        self.stop = TurnEnd.REPEATED
        return aish_says(ResultStatus.REPEATED, "not run: the same call was made too often in this turn.")

    async def _ask_gate(self, item: PreparedCall) -> PreparedCall | Outcome:
        """Runs the hooks, then asks the gate about the call as they have left it."""
        if self._hooks.has("before_tool"):
            hooked = await self._run_hooks(item)
            if isinstance(hooked, Outcome):
                return hooked
            item = hooked
        decision = await self._consent.decide(self._request_of(item))
        if item.call.id in self._consent.later:
            return aish_says(ResultStatus.REFUSED, "it waits for a decision.")
        if impossible := self._consent.impossible.get(item.call.id):
            return Outcome(ResultStatus.TOOL_ERROR, (TextPart(impossible),))
        await self._report_decision(DecisionMade(decision, item.spec.effect), item.call.id)
        if decision.verdict is not Verdict.ALLOW:
            return aish_says(ResultStatus.REFUSED, f"refused: {decision.reason or decision.rule}")
        if decision.arguments is None:
            is_proved, is_unasked = decision.rule == PROVED_RULE, decision.rule.startswith(UNASKED_RULES)
            return msgspec.structs.replace(item, is_proved=is_proved, is_unasked=is_unasked)
        if errors := schema_errors(item.spec.schema, decision.arguments):
            return aish_says(
                ResultStatus.SCHEMA, f"the arguments as the user changed them do not fit: {'; '.join(errors)}"
            )
        spec = item.spec.with_effect_of(decision.arguments)
        return msgspec.structs.replace(item, spec=spec, arguments=decision.arguments, edited=True)

    async def _run_hooks(self, item: PreparedCall) -> PreparedCall | Outcome:
        verdict = await self._hooks.before_tool(item.spec, item.arguments)
        for notice in verdict.notices:
            self._channel.send_progress(Status(notice), item.call.id)
        if verdict.refusal is not None:
            refusal = Decision(Verdict.DENY, "a hook", verdict.refusal)
            await self._report_decision(DecisionMade(refusal, item.spec.effect), item.call.id)
            return aish_says(ResultStatus.REFUSED, f"refused by a hook: {verdict.refusal}")
        if verdict.question is not None:
            self._consent.demand(item.call.id, verdict.question)
        if verdict.arguments is None:
            return item
        if errors := schema_errors(item.spec.schema, verdict.arguments):
            return aish_says(
                ResultStatus.SCHEMA, f"the arguments as a hook changed them do not fit: {'; '.join(errors)}"
            )
        self._consent.forget_step_answer(item.call.id)
        spec = item.spec.with_effect_of(verdict.arguments)
        return msgspec.structs.replace(item, spec=spec, arguments=verdict.arguments, hooked=True)

    async def _report_decision(self, decided: DecisionMade, call: str) -> None:
        """An effect waits until its decision is recorded; a read or a refusal has nothing to wait for."""
        if decided.effect is not Effect.READ and decided.decision.verdict is Verdict.ALLOW:
            await self._channel.send(decided, call)
        else:
            self._channel.send_nowait(decided, call)

    def _request_of(self, item: PreparedCall) -> EffectRequest:
        return EffectRequest(
            item.call.id, item.spec.for_gate(), item.arguments, self._owner, self._turn, self._session, self._mode
        )


class Consent:
    """The decisions of one turn. `later` are calls whose decision comes after the turn."""

    def __init__(
        self,
        *,
        gate: Gate,
        ask: Ask | None,
        ask_about: Sequence[str],
        journal: Journal | None,
        executor: Executor,
        budget: Budget,
        channel: EventChannel,
        hooks: TurnHooks,
    ) -> None:
        self._hooks = hooks
        self._demanded: dict[str, str] = {}  # calls that a hook wants to be asked about, and why
        self.later: set[str] = set()
        self._gate = gate
        self._ask = ask
        self._ask_about = Globs(ask_about)
        self._journal = journal
        self._executor = executor
        self._budget = budget
        self._channel = channel
        self.impossible: dict[str, str] = {}  # calls that would fail whatever the user says, and why
        self._asked: set[str] = set()
        self._for_turn: set[str] = set()
        self._for_step: set[tuple[str, str]] = set()  # calls that an answer about another call covers, and their kind
        self._expected: Sequence[EffectRequest] = ()
        self._relaying = asyncio.Lock()

    def demand(self, call: str, reason: str) -> None:
        """The user is asked about this call, also if the gate allows it."""
        self._demanded[call] = reason

    def forget_step_answer(self, call: str) -> None:
        """A yes for the step was for this call as it was shown, and a hook has changed it."""
        self._for_step = {(covered, kind) for covered, kind in self._for_step if covered != call}

    def expect(self, step: Sequence[EffectRequest]) -> None:
        """The calls of one step, in order, before the first is decided: those of one kind are asked about together."""
        self._expected = step
        self._for_step.clear()

    async def decide(self, effect: EffectRequest) -> Decision:
        """An error inside the gate is a refusal, and so is an answer that is not clearly a yes."""
        try:
            decision = await self._gate.authorise(effect, self.ask if self._ask else None)
            decision = await self._check_journal(effect, decision)
            if decision.verdict is Verdict.ALLOW and effect.call not in self._asked:
                decision = await self._ask_if_requested(effect, decision)
            if decision.verdict is Verdict.ASK:
                return Decision(
                    Verdict.DENY, decision.rule, "it needs the user's consent, and there was no user to ask"
                )
        except Exception as exc:
            why = exc.message if isinstance(exc, AishError) else type(exc).__name__
            return Decision(Verdict.DENY, "gate failure", f"the gate failed ({why}), so nothing was run")
        return decision

    async def _check_journal(self, effect: EffectRequest, decision: Decision) -> Decision:
        """Asks before an effect that an earlier process may have had already."""
        if self._journal is None or decision.verdict is not Verdict.ALLOW:
            return decision
        arguments = decision.arguments or effect.arguments
        doubt = self._journal.doubt(effect.tool, arguments)
        if not doubt:
            return decision
        question = Question(
            effect.call, QuestionKind.EFFECT, effect.tool.name, effect.tool.effect, arguments, doubt, insist=True,
            schema=effect.tool.schema, turn=effect.turn,
        )  # fmt: skip
        answer = await self.ask(question)
        if answer.choice in YES_CHOICES:
            return decision
        if answer.choice is Choice.EDIT and answer.arguments is not None:
            return await self._authorise_edited(effect, answer.arguments)
        return Decision(Verdict.DENY, "the journal", f"{doubt}. {answer.note}".strip())

    async def _ask_if_requested(self, effect: EffectRequest, allowed: Decision) -> Decision:
        """Asks about calls that the gate allows, where the request or a hook wants to be asked."""
        demanded = self._demanded.get(effect.call)
        if effect.tool.name not in self._ask_about and demanded is None:
            return allowed
        reason = "it was asked for that every such call be approved" if demanded is None else f"a hook asks: {demanded}"
        question = Question(
            effect.call, QuestionKind.EFFECT, effect.tool.name, effect.tool.effect, effect.arguments, reason,
            rule=ASKED_FOR, schema=effect.tool.schema, turn=effect.turn,
        )  # fmt: skip
        answer = await self.ask(question)
        if answer.choice in YES_CHOICES:
            return allowed
        if answer.choice is Choice.EDIT and answer.arguments is not None:
            return await self._authorise_edited(effect, answer.arguments)
        return Decision(Verdict.DENY, "the request", answer.note or "it was not approved")

    async def _authorise_edited(self, effect: EffectRequest, arguments: Arguments) -> Decision:
        """Allows arguments that the user wrote, unless the gate denies them."""
        decision = await self._gate.authorise(msgspec.structs.replace(effect, arguments=arguments), _agree)
        if decision.verdict is not Verdict.ALLOW:
            return decision
        return Decision(Verdict.ALLOW, "the user", "edited", arguments)

    async def ask(self, question: Question) -> Answer:
        """Anything but a clear yes is a no. A decision that comes later is noted in `later`."""
        if self._ask is None:
            return Answer(Choice.NO)
        if self._is_covered(question):
            self._asked.add(question.call)
            return Answer(Choice.YES)
        if question.kind is QuestionKind.EFFECT:
            self._asked.add(question.call)
            question = self._with_demand(question)
        if self._hooks.has("on_question"):
            verdict = await self._hooks.on_question(question)
            for notice in verdict.notices:
                self._channel.send_progress(Status(notice), question.call)
            if verdict.refusal is not None:
                return Answer(Choice.NO, f"a hook refused it: {verdict.refusal}")
        prepared = await self._with_preview(question)
        if prepared is None:
            return Answer(Choice.NO, "it cannot be done")
        question = await self._with_others(prepared)
        await self._channel.send(DecisionAsked(msgspec.structs.replace(question, schema={}, turn="")), question.call)
        try:
            with self._budget.pause():  # the user's time to think is not the turn's
                answer = await self._ask(question)
        except Exception as exc:
            return Answer(Choice.NO, f"asking failed: {type(exc).__name__}")
        if answer.choice is Choice.LATER:
            self.later.add(question.call)
            return Answer(Choice.NO, "it is decided later")
        if answer.choice in (Choice.TURN, Choice.SESSION) and question.like:
            self._for_turn.add(question.like)
        elif answer.choice is Choice.STEP:
            self._for_step.update((other.call, question.like) for other in question.others)
        return answer

    def _with_demand(self, question: Question) -> Question:
        """The question with the reason of a hook that wants it to be asked."""
        demanded = self._demanded.get(question.call)
        reason = f"a hook asks: {demanded}"
        if demanded is None or question.reason == reason:
            return question
        return msgspec.structs.replace(question, reason=f"{question.reason}; {reason}")

    @property
    def is_relaying(self) -> bool:
        """Whether the user is being asked for a turn that a call has started."""
        return self._relaying.locked()

    def relay_for(self, call: str) -> Ask | None:
        """What puts the questions of a turn that this call starts to the user; None if there is none."""
        return None if self._ask is None else partial(self._relay, self._ask, call)

    async def _relay(self, ask: Ask, call: str, question: Question) -> Answer:
        """One question at a time, which the events of this turn show, too."""
        async with self._relaying:
            await self._channel.send(DecisionAsked(msgspec.structs.replace(question, schema={}, turn="")), call)
            with self._budget.pause():
                return await ask(question)

    def _is_covered(self, question: Question) -> bool:
        """Whether the user has said yes to calls like this one, or to this very one together with another."""
        if not question.like or question.insist or question.call in self._demanded:
            return False
        return question.like in self._for_turn or (question.call, question.like) in self._for_step

    async def _with_preview(self, question: Question) -> Question | None:
        """None if the call cannot be done: there is nothing to ask then, and `impossible` says why."""
        if question.kind is not QuestionKind.EFFECT:
            return question
        if has_placeholder(question.arguments):
            question = msgspec.structs.replace(question, reasons=(*question.reasons, HIDDEN_SECRET))
        preview = await self._preview(question.call, question.tool, question.arguments)
        if preview.error:
            self.impossible[question.call] = preview.error
            return None
        return msgspec.structs.replace(question, preview=preview.text) if preview.text else question

    async def _preview(self, call: str, tool: str, arguments: Arguments) -> Preview:
        return await self._executor.preview(tool, arguments, call=call, deadline_s=self._budget.remaining_s)

    async def _with_others(self, question: Question) -> Question:
        """Adds the later calls of the step that are of the same kind. A file that an earlier call changes ends the
        list: what a later call would do to it is not known yet."""
        if not question.like or question.insist:
            return question
        others: list[StepCall] = []
        paths = _paths_in(question.arguments)
        for effect in self._following(question.call):
            if await self._gate.find_like(effect) != question.like:
                continue
            if not paths.isdisjoint(named := _paths_in(effect.arguments)):
                break
            preview = await self._preview(effect.call, effect.tool.name, effect.arguments)
            if not preview.error:
                others.append(StepCall(effect.call, effect.tool.name, effect.arguments, preview.text))
                paths |= named
        return msgspec.structs.replace(question, others=tuple(others)) if others else question

    def _following(self, call: str) -> Sequence[EffectRequest]:
        calls = [effect.call for effect in self._expected]
        return self._expected[calls.index(call) + 1 :][:_MAX_OTHERS] if call in calls else ()


def _paths_in(value: object, name: str = "") -> set[str]:
    """The files that the arguments of an edit name."""
    if isinstance(value, dict):
        return set().union(*(_paths_in(item, key) for key, item in value.items()))
    if isinstance(value, list):
        return set().union(*(_paths_in(item, name) for item in value))
    return {value} if isinstance(value, str) and name == "path" else set()


async def _agree(question: Question) -> Answer:
    return Answer(Choice.YES)


def _encode_arguments(item: PreparedCall) -> bytes:
    return msgspec.json.encode(item.arguments, order="deterministic")
