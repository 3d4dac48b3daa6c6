"""An answer is closed when it is left, and left alone when it has ended."""

from __future__ import annotations

import pytest

from aish.providers.closing import Closing
from aish.types.events import TextDelta


async def said(log: list[str]):
    try:
        yield [TextDelta("one")]
        yield [TextDelta("two")]
        log.append("ended")
    finally:
        log.append("closed")


async def test_one_that_is_read_to_its_end_has_closed_by_itself():
    log: list[str] = []
    async with Closing(said(log)) as batches:
        assert [batch async for batch in batches] == [[TextDelta("one")], [TextDelta("two")]]
        assert log == ["ended", "closed"]
    assert log == ["ended", "closed"]


@pytest.mark.parametrize("left_by", [None, ZeroDivisionError])
async def test_one_that_is_left_is_closed_at_once(left_by):
    log: list[str] = []
    try:
        async with Closing(said(log)) as batches:
            await anext(batches)
            if left_by is not None:
                raise left_by
    except ZeroDivisionError:
        log.append("raised")
    assert log == (["closed"] if left_by is None else ["closed", "raised"])


async def test_one_that_was_never_begun_is_closed_without_being_begun():
    log: list[str] = []
    async with Closing(said(log)) as batches:
        pass
    assert log == []
    with pytest.raises(StopAsyncIteration):
        await anext(batches)
