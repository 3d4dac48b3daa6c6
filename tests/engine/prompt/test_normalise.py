"""Conversations from elsewhere, put in order: every call has exactly one result, right after it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aish.engine.prompt.normalise import NO_RESULT, open_calls, pair_results
from aish.types.messages import AssistantMessage, Message, SystemMessage, TextPart, ToolCall, ToolMessage, user

ids = st.sampled_from(["a", "b", "c"])
calls = st.lists(st.builds(ToolCall, ids, st.just("look"), st.just("{}")), max_size=3).map(tuple)
messages = st.one_of(
    st.just(user("hi")),
    st.just(SystemMessage("be brief")),
    st.builds(AssistantMessage, st.just("so"), calls),
    st.builds(lambda id, text: ToolMessage(id, "look", (TextPart(text),)), ids, st.sampled_from("xyz")),
)


def calls_and_results(conversation: tuple[Message, ...]) -> None:
    """Fails unless each call is followed by its result, in order, and no result stands elsewhere."""
    due: list[str] = []
    for message in conversation:
        if isinstance(message, ToolMessage):
            assert due, "a result that nobody asked for"
            assert due.pop(0) == message.tool_call_id
        else:
            assert not due, "calls without a result"
            due = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
    assert not due


@given(st.lists(messages, max_size=8))
def test_every_call_has_one_result_right_after_it(conversation):
    settled = pair_results(conversation)
    calls_and_results(settled)
    said = [message for message in conversation if not isinstance(message, ToolMessage)]
    assert [message for message in settled if not isinstance(message, ToolMessage)] == said


@given(st.lists(messages, max_size=8))
def test_what_is_in_order_stays_the_very_same(conversation):
    once = pair_results(conversation)
    again = pair_results(once)
    assert all(one is other for one, other in zip(once, again, strict=True))


def test_results_that_are_late_or_missing():
    both = AssistantMessage("", (ToolCall("a", "look", "{}"), ToolCall("b", "hear", "{}")))
    late = ToolMessage("b", "", (TextPart("sound"),))
    assert pair_results([both, user("well?"), late]) == (
        both,
        ToolMessage("a", "look", (TextPart(NO_RESULT),)),
        ToolMessage("b", "hear", (TextPart("sound"),)),
        user("well?"),
    )


def test_calls_without_a_result_are_open_until_something_else_is_said():
    first, second = ToolCall("a", "look", "{}"), ToolCall("b", "hear", "{}")
    result = ToolMessage("a", "look", (TextPart("seen"),))
    assert open_calls([AssistantMessage("", (first, second)), result]) == [second]
    assert open_calls([AssistantMessage("", (first,)), user("never mind")]) == []
