"""Every way in which a turn can end has a description."""

import pytest

from aish.engine.turn.turn_limits import describe_end
from aish.types.events import TurnEnd
from aish.types.requests import TurnLimits


@pytest.mark.parametrize("end", list(TurnEnd))
def test_every_end_has_a_description(end):
    assert describe_end(end, TurnLimits())


@pytest.mark.parametrize(("end", "unit"), [(TurnEnd.MAX_STEPS, "step"), (TurnEnd.MAX_TOOL_CALLS, "tool call")])
def test_one_is_counted_as_one(end, unit):
    assert describe_end(end, TurnLimits(max_steps=1, max_tool_calls=1)).startswith(f"stopped after 1 {unit},")
    assert describe_end(end, TurnLimits(max_steps=2, max_tool_calls=2)).startswith(f"stopped after 2 {unit}s,")
