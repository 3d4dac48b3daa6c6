from __future__ import annotations

import pytest

from aish.safety.effects import EffectGate
from aish.types.decisions import Answer, Choice, EffectRequest, Verdict
from aish.types.tools import Effect, ToolSpec


def tool(effect: Effect, name: str = "t__x") -> ToolSpec:
    return ToolSpec(name, "", {}, effect, "t")


async def decide(gate: EffectGate, effect: Effect, ask=None, name: str = "t__x"):
    return await gate.authorise(EffectRequest("c", tool(effect, name), {}), ask)


async def yes(question):
    return Answer(Choice.YES)


@pytest.mark.parametrize("effect", list(Effect))
async def test_by_default_only_reads_pass_unasked(effect):
    decision = await decide(EffectGate(), effect)
    assert (decision.verdict is Verdict.ALLOW) == (effect is Effect.READ)


async def test_deny_beats_auto_approval_and_the_person():
    gate = EffectGate(auto_approve=["t__*"], deny=["t__x"])
    assert (await decide(gate, Effect.READ, yes)).verdict is Verdict.DENY
    assert not gate.offers(tool(Effect.READ), interactive=True)


async def test_auto_approval_needs_no_person_and_may_be_written_with_a_dot():
    gate = EffectGate(auto_approve=["t.*"])
    assert (await decide(gate, Effect.EXEC)).verdict is Verdict.ALLOW
    assert (await decide(gate, Effect.EXEC, name="other__x")).verdict is Verdict.DENY


async def test_an_effect_without_a_verdict_is_denied():
    assert (await decide(EffectGate({}), Effect.READ, yes)).verdict is Verdict.DENY


@pytest.mark.parametrize(("interactive", "offered"), [(True, True), (False, False)])
def test_a_tool_that_would_be_asked_about_is_offered_only_where_someone_can_answer(interactive, offered):
    assert EffectGate().offers(tool(Effect.WRITE), interactive=interactive) is offered


async def test_a_decision_names_its_rule():
    assert (await decide(EffectGate(), Effect.READ)).rule == "gate.read"
    assert (await decide(EffectGate(deny=["t__x"]), Effect.READ)).rule == "gate.deny t__x"
