"""What is checked in a call without a model must not harm one that is right: tried on all that were written by hand."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from train.whole import Apart, Whole, read_whole

from aish.providers.toolmode.aftercheck import checked
from aish.providers.toolmode.asked import Asked
from aish.types.messages import user
from aish.types.tools import RepairKind

MAX_LEFT_OUT = 0.04  # of the calls: options that the request speaks of in words that no check can know


@pytest.fixture(scope="module")
def whole() -> list[Whole]:
    return read_whole(Apart.of())


def test_a_right_call_stays_as_it_is(whole):
    kinds: Counter[RepairKind] = Counter()
    calls = [(tool.spec, text, given) for tool in whole for text, given in tool.asks]
    for spec, text, given in calls:
        found, repairs = checked(spec, json.dumps(given, ensure_ascii=False), Asked([user(text)]))
        if json.loads(found) != given:
            kinds.update({repair.kind for repair in repairs})
    assert len(calls) > 3000
    assert kinds[RepairKind.UNASKED] < MAX_LEFT_OUT * len(calls)
    assert sum(kinds.values()) - kinds[RepairKind.UNASKED] <= 3
