"""What a client reads does not depend on how the events came together, nor on whether it reads a stream or a whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aish.frontends.http.openai.chat.encoder import ChatReplyBuilder, ChatStreamEncoder
from aish.net.lines import SseReader
from aish.types.events import Body, Event, ReasoningDelta, StepStarted, TextDelta, TurnEnd, TurnFinished, UsageReported
from aish.types.usage import Usage

WORDS = st.sampled_from(["", "\n", "one\ntwo", '"', "\\n", "\u2028", "é"]) | st.text()
BODIES = st.lists(
    WORDS.map(TextDelta)
    | WORDS.map(ReasoningDelta)
    | st.sampled_from([StepStarted("m"), UsageReported("m", Usage(1, 2))])
)
FINISHED = TurnFinished(TurnEnd.ANSWERED, Usage(1, 2), "")


def events_of(bodies: Sequence[Body]) -> list[Event]:
    return [Event("s", "t", seq, 0, body) for seq, body in enumerate([*bodies, FINISHED], 1)]


def stream() -> ChatStreamEncoder:
    return ChatStreamEncoder(id="c", model="a\nmodel", created=1, clients=(), usage=False, trace=False)


def whole(events: Sequence[Event]) -> dict[str, Any]:
    made = ChatReplyBuilder(id="c", model="a\nmodel", created=1, clients=(), trace=False)
    made.feed(events)
    message: dict[str, Any] = json.loads(made.body())["choices"][0]["message"]
    return message


def said(data: bytes) -> list[str]:
    """In each of the chunks that hold a text."""
    chunks = [json.loads(event.data) for event in SseReader(1 << 20).feed(data) if event.data != b"[DONE]"]
    return [delta["content"] for chunk in chunks if "content" in (delta := chunk["choices"][0]["delta"])]


@given(BODIES, st.integers(0, 20))
def test_events_that_come_together_are_encoded_as_each_alone(bodies: list[Body], index: int) -> None:
    events = events_of(bodies)
    one, two, each = stream(), stream(), stream()
    together = one.encode(events)
    assert two.encode(events[:index]) + two.encode(events[index:]) == together
    assert b"".join(each.encode([event]) for event in events) == together


@given(BODIES)
def test_a_stream_says_what_the_whole_does_a_chunk_for_each_piece(bodies: list[Body]) -> None:
    events = events_of(bodies)
    texts = said(stream().encode(events))
    assert len(texts) == sum(isinstance(body, TextDelta) for body in bodies)
    assert "".join(texts) == whole(events)["content"]
