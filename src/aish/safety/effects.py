"""A gate that decides by a tool's effect and name: allow, ask or deny.

Deny beats everything, then auto-approval by name, then the verdict for the effect. Without a person, ask means deny,
and what would be denied is not shown to the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from aish.ports import Ask
from aish.types.decisions import Choice, Decision, EffectRequest, Question, QuestionKind, Verdict
from aish.types.tools import Effect, ToolSpec

CAREFUL: Mapping[Effect, Verdict] = {
    Effect.READ: Verdict.ALLOW,
    Effect.WRITE: Verdict.ASK,
    Effect.EXEC: Verdict.ASK,
    Effect.NETWORK: Verdict.ASK,
}


class EffectGate:
    def __init__(
        self,
        verdicts: Mapping[Effect, Verdict] = CAREFUL,
        *,
        auto_approve: Sequence[str] = (),
        deny: Sequence[str] = (),
    ) -> None:
        self._verdicts = dict(verdicts)
        self._auto_approve = tuple(auto_approve)
        self._deny = tuple(deny)

    def offers(self, tool: ToolSpec, *, interactive: bool) -> bool:
        verdict = self._judge(tool).verdict
        return verdict is Verdict.ALLOW or (verdict is Verdict.ASK and interactive)

    async def authorise(self, effect: EffectRequest, ask: Ask | None) -> Decision:
        decision = self._judge(effect.tool)
        if decision.verdict is not Verdict.ASK:
            return decision
        if ask is None:
            return Decision(Verdict.DENY, decision.rule, f"{decision.reason}, and nobody was there to ask")
        question = Question(
            effect.call, QuestionKind.EFFECT, effect.tool.name, effect.tool.effect, effect.arguments, decision.reason
        )
        answer = await ask(question)
        if answer.choice is Choice.NO:
            return Decision(Verdict.DENY, "the user", answer.note or "the user said no")
        return Decision(Verdict.ALLOW, "the user")

    def _judge(self, tool: ToolSpec) -> Decision:
        for glob in self._deny:
            if _names(glob, tool.name):
                return Decision(Verdict.DENY, f"gate.deny {glob}", f"{tool.name} is denied by gate.deny")
        for glob in self._auto_approve:
            if _names(glob, tool.name):
                return Decision(Verdict.ALLOW, f"gate.auto_approve {glob}")
        verdict = self._verdicts.get(tool.effect, Verdict.DENY)
        return Decision(verdict, f"gate.{tool.effect}", f"{tool.name} can {_PHRASES[tool.effect]}")


_PHRASES = {
    Effect.READ: "read",
    Effect.WRITE: "change files",
    Effect.EXEC: "run programs",
    Effect.NETWORK: "reach the network",
}


def _names(glob: str, name: str) -> bool:
    return fnmatchcase(name, glob) or fnmatchcase(name, glob.replace(".", "__", 1))
