from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aish.engine.model.stream_assembly import MAX_CALLS, NAMELESS, StepAssembler
from aish.engine.turn.events import EventFactory
from aish.types.chunks import CallFragment
from aish.types.events import ArgumentsDelta, Status, ToolCallReady, ToolCallStarted
from aish.types.tools import wire_name
from support.engines import TickingClock, bodies


def assemble(*fragments: CallFragment, used: set[str] | None = None):
    assembler = StepAssembler(
        EventFactory("s", "t", TickingClock().now_ns), used if used is not None else set(), wire_name
    )
    events = [event for fragment in fragments for event in assembler.feed([fragment])]
    return assembler, [*events, *assembler.finish()]


def test_interleaved_fragments_of_two_calls_are_put_together_by_index():
    assembler, _ = assemble(
        CallFragment(0, "a", "one", ""),
        CallFragment(1, "b", "two", '{"y"'),
        CallFragment(0, "", "", '{"x": '),
        CallFragment(1, "", "", ": 2}"),
        CallFragment(0, "", "", "1}"),
    )
    assert [(c.id, c.name, c.arguments) for c in assembler.calls] == [
        ("a", "one", '{"x": 1}'),
        ("b", "two", '{"y": 2}'),
    ]


def test_a_missing_index_means_one_call_and_is_noted_once():
    assembler, events = assemble(
        CallFragment(None, "a", "one", '{"x"'), CallFragment(None, "", "", ": 1}"), CallFragment(None, "", "", "")
    )
    assert [(c.name, c.arguments) for c in assembler.calls] == [("one", '{"x": 1}')]
    assert len(bodies(events, Status)) == 1


def test_without_an_index_a_new_id_begins_the_next_call():
    assembler, _ = assemble(CallFragment(None, "a", "one", "{}"), CallFragment(None, "b", "two", "{}"))
    assert [c.name for c in assembler.calls] == ["one", "two"]


def test_without_index_and_id_a_new_name_after_arguments_begins_the_next_call():
    assembler, _ = assemble(CallFragment(None, "", "one", "{}"), CallFragment(None, "", "two", "{}"))
    assert [c.name for c in assembler.calls] == ["one", "two"]


def test_a_missing_id_is_made_and_a_repeated_one_is_replaced():
    assembler, _ = assemble(CallFragment(0, "", "one"), CallFragment(1, "call_0", "two"), used={"call_0"})
    ids = [c.id for c in assembler.calls]
    assert all(id.startswith("call_") for id in ids) and len({*ids, "call_0"}) == 3


def test_arguments_that_come_before_the_name_are_told_after_the_call_has_started():
    _, events = assemble(CallFragment(0, "a", "", '{"x"'), CallFragment(0, "", "one", ": 1}"))
    kinds = [type(event.body) for event in events]
    assert kinds == [ToolCallStarted, ArgumentsDelta, ArgumentsDelta, ToolCallReady]


def test_a_name_that_never_comes_is_given_a_stand_in():
    assembler, events = assemble(CallFragment(0, "a", "", "{}"))
    assert assembler.calls[0].name == NAMELESS
    assert isinstance(events[0].body, ToolCallStarted)


def test_a_name_repeated_in_every_fragment_is_one_call():
    assembler, _ = assemble(CallFragment(0, "a", "one", "{"), CallFragment(0, "a", "one", "}"))
    assert [(c.name, c.arguments) for c in assembler.calls] == [("one", "{}")]


def test_endless_new_calls_are_bounded():
    assembler, _ = assemble(*(CallFragment(n, f"id{n}", "one", "{}") for n in range(MAX_CALLS * 2)))
    assert len(assembler.calls) == MAX_CALLS


def test_endless_arguments_are_bounded(monkeypatch):
    monkeypatch.setattr("aish.engine.model.stream_assembly.MAX_ARGUMENTS_CHARS", 10)
    assembler, _ = assemble(CallFragment(0, "a", "one", ""), *(CallFragment(0, "", "", "xxxx") for _ in range(9)))
    assert len(assembler.calls[0].arguments) <= 10


@given(
    st.lists(
        st.builds(
            CallFragment,
            st.one_of(st.none(), st.integers(-1, 3)),
            st.sampled_from(["", "a", "b"]),
            st.sampled_from(["", "one", "two"]),
            st.text(max_size=3),
        ),
        max_size=12,
    )
)
def test_any_fragments_give_calls_with_unique_ids_that_started_before_they_were_ready(fragments):
    assembler, events = assemble(*fragments)
    ids = [c.id for c in assembler.calls]
    assert len(ids) == len(set(ids))
    started = [event.call for event in events if isinstance(event.body, ToolCallStarted)]
    assert sorted(started) == sorted(ids)
    for made in assembler.calls:
        deltas = [e.body.text for e in events if e.call == made.id and isinstance(e.body, ArgumentsDelta)]
        assert "".join(deltas) == made.arguments
