"""A word that comes alone is told as in a batch, whatever was told before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.frontends.http.anthropic.encoder import MessagesStreamEncoder
from aish.frontends.http.openai.chat.encoder import ChatStreamEncoder
from aish.frontends.http.openai.responses.encoder import ResponseEncoder
from aish.frontends.http.openai.responses.objects import EncoderSetup
from aish.frontends.http.turns.delivery import TurnEncoder
from aish.types.events import (
    ArgumentsDelta,
    Body,
    Event,
    ReasoningDelta,
    StepStarted,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
)

CLIENTS = ("theirs",)
ENCODERS: dict[str, Callable[[], TurnEncoder | ResponseEncoder]] = {
    "chat": lambda: ChatStreamEncoder("c", "m", 1, CLIENTS, usage=False, trace=False),
    "messages": lambda: MessagesStreamEncoder(id="c", model="m", clients=CLIENTS, show_ours=True),
    "responses": lambda: ResponseEncoder(EncoderSetup("resp_1", "{}", "{}")),
}
OTHERS: tuple[tuple[Body, str], ...] = (
    (StepStarted("m"), ""),
    (ReasoningDelta("hm"), ""),
    (ToolCallStarted(0, "theirs"), "call_1"),
    (ArgumentsDelta('{"a":'), "call_1"),
    (ArgumentsDelta("1}"), "call_1"),
    (ToolCallReady("theirs", '{"a":1}'), "call_1"),
    (ToolCallStarted(1, "ours__tool"), "call_2"),
    (ToolCallReady("ours__tool", "{}"), "call_2"),
)
SAID = st.lists(st.text(min_size=1).map(lambda text: (TextDelta(text), "")) | st.sampled_from(OTHERS), max_size=12)


@pytest.mark.parametrize("api", ENCODERS)
@given(SAID)
def test_a_word_that_comes_alone_is_told_as_in_a_batch(api: str, said: Sequence[tuple[Body, str]]):
    by_batch, by_word = ENCODERS[api](), ENCODERS[api]()
    for seq, (body, call) in enumerate(said, 1):
        event = Event("s", "t", seq, 0, body, 1, call)
        alone = by_word.word(body.text) if isinstance(body, TextDelta) else by_word.encode([event])
        assert alone == by_batch.encode([event])
        assert by_word.heartbeat == by_batch.heartbeat
