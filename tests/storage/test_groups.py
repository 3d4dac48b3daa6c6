"""What one transaction writes: few statements, in the order in which they were asked for, none of them large."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aish.storage.sqlite.write_group import Inserts, Joined, Operation, together
from aish.storage.write_queue import ROW_BYTES, Append, join_appends


def insert(db: object, records: object) -> None:
    raise AssertionError("nothing is written here")


def grouped(*items: Append | Operation) -> list[Append | Joined]:
    return [*together(join_appends(items), insert)]


def append(turn: str, number: int, size: int = 10) -> Append:
    return Append(turn, number, number, b"x" * (size - 1) + b"\n")


def test_what_several_turns_say_is_inserted_as_one():
    one, two = append("a", 1), append("b", 1)
    assert grouped(one, two) == [Inserts(insert, [one, two])]


def test_nothing_that_is_said_moves_past_what_is_done():
    done = Operation(lambda db: None, durable=False, awaited=False)
    before, after = append("a", 1), append("a", 2)
    assert grouped(before, done, after) == [before, done, after]


@given(st.lists(st.integers(1, 3 * ROW_BYTES), max_size=12))
def test_what_is_inserted_as_one_is_small_and_nothing_is_missing(sizes: list[int]):
    appends = [append(f"turn_{place}", 1, size) for place, size in enumerate(sizes)]
    records = [one.records if isinstance(one, Inserts) else [one] for one in grouped(*appends)]
    assert [each for some in records for each in some] == appends
    assert all(sum(each.size for each in some[:-1]) <= ROW_BYTES for some in records)
