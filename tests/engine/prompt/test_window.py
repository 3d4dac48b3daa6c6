"""What is cut of a request that is too large comes to fit in a few tries. Turns leave the window in large steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aish.engine.prompt.window import cut_largest, first_turn_of, first_turn_within
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


Sizes = st.lists(st.floats(1, 400), min_size=1, max_size=80)


@given(sizes=Sizes, room=st.floats(50, 1000))
def test_what_goes_along_fits_and_the_current_turn_always_goes(sizes: list[float], room: float) -> None:
    first = first_turn_within(sizes, room)
    assert first < len(sizes)
    assert sum(sizes[first:]) <= room * (1 + 1e-9) or first == len(sizes) - 1


@given(sizes=Sizes, room=st.floats(50, 1000))
def test_a_longer_conversation_leaves_out_the_same_turns_until_it_is_full(sizes: list[float], room: float) -> None:
    steps = [first_turn_within(sizes[: count + 1], room) for count in range(len(sizes))]
    assert steps == sorted(steps)
    for before, after, count in zip(steps, steps[1:], range(2, len(sizes) + 1), strict=False):
        if after > before:  # only because it was full
            assert sum(sizes[before:count]) > room * (1 - 1e-9)


@given(size=st.integers(1, 20), room=st.integers(100, 1000))
def test_a_step_frees_half_of_the_room(size: int, room: int) -> None:
    steps = [first_turn_within([float(size)] * count, float(room)) for count in range(1, 400)]
    assert len(set(steps)) <= 2 + 400 * size / (room / 2 - size)


@given(max_turns=st.integers(1, 50))
def test_at_most_so_many_turns_go_along_and_they_leave_in_steps(max_turns: int) -> None:
    kept = [count - first_turn_of(count, max_turns) for count in range(300)]
    assert max(kept) == max_turns
    assert min(kept[max_turns:]) >= max(1, max_turns // 2)
    assert len({first_turn_of(count, max_turns) for count in range(300)}) <= 2 + 300 / (max_turns - max_turns // 2)
