"""What is written of a turn holds no key, however the pieces of the turn lie beside each other."""

import pytest

from aish.engine.turn.events import record_from_events
from aish.types.events import ReasoningDelta, TextDelta
from aish.types.messages import TextPart, UserMessage
from support.engines import Bench

KEY = "sk-proj-abcdEFGH1234567890abcdEFGH1234567890"
SAID = {
    "after a thought": [ReasoningDelta("done"), TextDelta(KEY)],
    "in a thought": [TextDelta("so"), ReasoningDelta(KEY), TextDelta("done")],
    "after a line end": [TextDelta("the key:\n" + KEY)],
    "after a control character": [TextDelta("\x1b" + KEY)],
}
EITHER_WAY = pytest.mark.parametrize("stream", [True, False])


async def written(bench: Bench, **fields) -> str:
    events = await bench.run(kept=False, context=(), **fields)
    recorded = await bench.recorded(events)
    record = record_from_events(recorded.splitlines(), await bench.store.find_turn(events[-1].turn))
    assert record.messages
    return recorded.decode() + repr(record)


@EITHER_WAY
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
async def test_a_key_that_a_model_says_is_not_written(said, stream):
    assert KEY not in await written(Bench(said), stream=stream)


@EITHER_WAY
async def test_a_key_in_a_part_of_a_question_is_not_written(stream):
    asked = UserMessage((TextPart("my key is"), TextPart(KEY)))
    assert KEY not in await written(Bench([TextDelta("thanks")]), input=(asked,), stream=stream)
