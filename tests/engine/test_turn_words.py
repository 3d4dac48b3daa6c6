"""Every way in which a turn can end has words."""

import pytest

from aish.engine.turn import _SAYINGS
from aish.types.events import TurnEnd
from aish.types.limits import Limits


@pytest.mark.parametrize("end", list(TurnEnd))
def test_there_are_words_for_every_end(end):
    assert _SAYINGS[end].format(limits=Limits())
