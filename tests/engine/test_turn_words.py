"""Every way in which a turn can end has words."""

import pytest

from aish.engine.turn.loop import _SAYINGS, _with_limits
from aish.types.events import TurnEnd
from aish.types.limits import Limits


@pytest.mark.parametrize("end", list(TurnEnd))
def test_there_are_words_for_every_end(end):
    assert _with_limits(_SAYINGS[end], Limits())


@pytest.mark.parametrize(("end", "what"), [(TurnEnd.MAX_STEPS, "step"), (TurnEnd.MAX_TOOL_CALLS, "tool call")])
def test_one_is_counted_as_one(end, what):
    assert _with_limits(_SAYINGS[end], Limits(max_steps=1, max_tool_calls=1)).startswith(f"stopped after 1 {what},")
    assert _with_limits(_SAYINGS[end], Limits(max_steps=2, max_tool_calls=2)).startswith(f"stopped after 2 {what}s,")
