"""The corruption suite: damaged calls with known truth, through the same steps that a model's answer takes.

The bars: at least 95 % of what is repairable is repaired to exactly the true call, and no wrong call is ever made.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings

from support.damage import Damaged, damaged, damaged_calls, judge
from support.mending import executed

LEAST_REPAIRED = 0.95


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
