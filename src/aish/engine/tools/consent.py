"""Decides whether a prepared call may run: asks the gate, the journal and the request's own rules, and if needed the
user.

A failure anywhere here is a refusal.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from aish.engine.tools.executor import Executor, Preview
from aish.engine.turn.events import EventChannel
from aish.engine.turn.hooks import TurnHooks
from aish.engine.turn.turn_limits import Budget
from aish.errors import AishError
from aish.ports import Ask, Gate
from aish.runs.journal import Journal
from aish.safety.redaction.vault import has_placeholder
from aish.types.decisions import (
    YES_CHOICES,
    Answer,
    Choice,
    Decision,
    EffectRequest,
    Question,
    QuestionKind,
    StepCall,
    Verdict,
)
from aish.types.events import DecisionAsked
from aish.types.globs import Globs
from aish.types.tools import Arguments

ASKED_FOR = "asked for"  # the rule of a question that the request wants
_MAX_OTHERS = 20  # calls that one question lists besides its own
HIDDEN_SECRET = (
    "<secret-…> stands for a secret and is passed on as it is: only tools and programs that the user has named get the "
    "secret itself (safety.secrets_for_tools, safety.secrets_for_programs)"
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

    def demand(self, call: str, reason: str) -> None:
        """The user is asked about this call, also if the gate allows it."""
        self._demanded[call] = reason

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
        self._asked.add(question.call)
        if self._is_covered(question):
            return Answer(Choice.YES)
        verdict = await self._hooks.on_question(question)
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

    def _is_covered(self, question: Question) -> bool:
        """Whether the user has said yes to calls like this one, or to this very one together with another."""
        if not question.like or question.insist:
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
