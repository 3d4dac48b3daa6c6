"""The corruption suite: damaged calls with known truth, through the same steps that a model's answer takes.

The bars: at least 95 % of what is repairable is repaired to exactly the true call, and no wrong call is ever made.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings

from aish.calls.envelope import Written
from aish.calls.mend import BadArguments, mend
from aish.calls.near import find_near
from aish.calls.ready import make_ready
from aish.calls.recognise import Recogniser
from aish.types.tools import Arguments
from support.damage import Damaged, damaged, damaged_calls, judge

LEAST_REPAIRED = 0.95


def written(case: Damaged, rng: random.Random) -> list[tuple[str, str]]:
    """Name and arguments of each call, as they come to be prepared."""
    if case.form == "arguments":
        return [(case.called, case.text)]
    tools = {tool.name: tool for tool in case.tools}
    recogniser = Recogniser({tool.name: tool.schema for tool in case.tools})
    pieces, pos, whole = [], 0, case.finish == "stop"
    while pos < len(case.text):
        step = rng.choice((1, 2, 3, 7, 20, 1000))
        pieces += recogniser.feed(case.text[pos : pos + step])
        pos += step
    pieces += recogniser.finish(whole=whole)
    ready = [make_ready(piece, tools, whole=whole) for piece in pieces if isinstance(piece, Written)]
    return [(call.name, call.arguments) for call in ready]


def executed(case: Damaged, rng: random.Random) -> list[tuple[str, Arguments]]:
    """What would be run: as the dispatcher prepares calls, the last one being cut where the answer was."""
    tools = {tool.name: tool for tool in case.tools}
    calls = written(case, rng)
    run: list[tuple[str, Arguments]] = []
    for name, arguments in calls[:-1] if case.finish == "length" else calls:
        spec = tools.get(find_near(name, tools) or "")
        if spec is None:
            continue
        try:
            mended = mend(arguments, spec)
        except BadArguments:
            continue
        if not mended.errors:
            run.append((spec.name, mended.arguments))
    return run


@pytest.mark.parametrize("seed", [0, 7, 42])
def test_damage_that_can_be_repaired_mostly_is_and_no_wrong_call_is_ever_made(seed: int):
    verdicts: Counter[tuple[bool, str]] = Counter()
    wrong: list[str] = []
    for case in damaged_calls(seed):
        verdict = judge(case, executed(case, random.Random(seed)))
        verdicts[case.repairable, verdict] += 1
        wrong += [case.id] if verdict == "wrong" else []
    repairable = sum(count for (can, _), count in verdicts.items() if can)
    assert wrong == []
    assert repairable > 1000
    assert verdicts[True, "repaired"] / repairable >= LEAST_REPAIRED


@settings(max_examples=300, deadline=None)
@given(damaged())
def test_no_damage_of_any_kind_leads_to_a_wrong_call(case: Damaged):
    assert judge(case, executed(case, random.Random(0))) != "wrong"
