"""What is cut of a request that is too large comes to fit in a few tries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aish.engine.prompt.window import cut_largest
from aish.types.messages import AssistantMessage, TextPart, ToolMessage, user


@given(
    chars=st.integers(2_000, 200_000),
    chars_per_token=st.floats(1.0, 5.0),
    room=st.integers(600, 30_000),
    dense_mark=st.booleans(),
)
def test_a_large_result_is_cut_until_it_fits(chars: int, chars_per_token: float, room: int, dense_mark: bool) -> None:  # noqa: FBT001
    """The mark may take more tokens for its length than the text around it."""

    def size(text: str) -> float:
        return len(text) / chars_per_token + (40 if dense_mark and "left out" in text else 0)

    messages = [
        user("what is there?"),
        AssistantMessage("let me see"),
        ToolMessage("c", "look", (TextPart("x" * chars),)),
    ]
    for _ in range(6):
        sizes = [size(message.text) for message in messages]
        if sum(sizes) <= room:
            break
        messages = cut_largest(messages, sizes, sum(sizes) - room)
        assert messages is not None
    assert sum(size(message.text) for message in messages) <= room
    if chars / chars_per_token > 2 * room:  # and no more is cut than has to be
        assert sum(size(message.text) for message in messages) >= 0.5 * room
