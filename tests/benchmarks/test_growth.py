"""What grows worse than its size is named, and what was only disturbed is not."""

from __future__ import annotations

from bench.growth_parts import Subject
from bench.parts.growth import MOST, TRIES, measured

SIZES = (10, 100, 1000)


def subject(cost) -> Subject:
    return Subject("things", SIZES, "all of them", cost, "somewhere.py")


def test_what_is_worse_than_its_size_is_tried_again_and_named():
    asked: list[int] = []

    def squared(size: int) -> float:
        asked.append(size)
        return float(size * size)

    row = measured(subject(squared))
    assert row.ours is not None and row.ours > 1.9
    assert row.notes == {"things": "worse than its size: look at somewhere.py"}
    assert asked == list(SIZES) * TRIES


def test_what_was_disturbed_once_is_as_it_is_when_nobody_disturbs():
    asked: list[int] = []

    def disturbed(size: int) -> float:
        asked.append(size)
        return float(size * (3 if len(asked) == len(SIZES) else 1))

    row = measured(subject(disturbed))
    assert row.ours is not None and row.ours <= MOST
    assert not row.notes and asked == list(SIZES) * 2
