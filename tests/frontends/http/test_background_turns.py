"""Turns run by tasks of their own: followed from anywhere by anybody, within bounds, ended with the server."""

import asyncio

import pytest

from aish.frontends.http.server.http_errors import HttpProblem
from aish.frontends.http.turns.background_turns import BackgroundTurn, BackgroundTurns, NotBuffered


def event(n):
    return b"data: %d\n\n" % n


async def read(turn, number=0):
    return b"".join([data async for data in turn.follow(number)])


async def test_followers_get_everything_from_where_they_ask_whenever_they_come():
    turn, go = BackgroundTurn("a"), asyncio.Event()

    async def work():
        turn.push(event(0) + event(1) + event(2), 3)
        await go.wait()
        turn.push(event(3))

    async with BackgroundTurns() as turns:
        turns.start(turn, work())
        early = [asyncio.create_task(read(turn, n)) for n in range(4)]
        await asyncio.sleep(0)
        assert turns.find("a") is turn
        go.set()
        whole = b"".join(event(n) for n in range(4))
        assert [await follower for follower in early] == [b"".join(event(n) for n in range(m, 4)) for m in range(4)]
        assert await read(turn) == whole
        assert turns.find("a") is None and turn.ended


async def test_what_is_no_longer_kept_is_made_again():
    asked = []

    async def refill(first, upto):
        asked.append((first, upto))
        return b"".join(event(n) for n in range(first, upto))

    turn = BackgroundTurn("a", buffer_bytes=30, refill=refill)
    for n in range(9):
        turn.push(event(n))
    turn.ended = True
    assert await read(turn, 2) == b"".join(event(n) for n in range(2, 9))
    assert asked == [(2, 6)]


async def test_without_a_way_to_make_it_again_it_is_missed():
    turn = BackgroundTurn("a", buffer_bytes=10)
    for n in range(9):
        turn.push(event(n))
    turn.ended = True
    with pytest.raises(NotBuffered):
        await read(turn)
    assert await read(turn, 8) == event(8)


async def test_memory_stays_within_bounds_however_long_the_turn():
    turn = BackgroundTurn("a", buffer_bytes=1000)
    for n in range(10_000):
        turn.push(event(n))
    assert sum(len(piece.data) for piece in turn._pieces) <= 1000


async def test_a_turn_is_cancelled_and_its_followers_are_let_go():
    turn, ended = BackgroundTurn("a"), asyncio.Event()

    async def work():
        turn.push(event(0))
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with BackgroundTurns() as turns:
        turns.start(turn, work())
        follower = asyncio.create_task(read(turn))
        await asyncio.sleep(0)
        await turn.cancel()
        assert ended.is_set() and await follower == event(0)


async def test_closing_ends_every_turn():
    ended = []

    async def work(n):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(n)

    async with BackgroundTurns() as turns:
        for n in range(3):
            turns.start(BackgroundTurn(str(n)), work(n))
        await asyncio.sleep(0)
    assert sorted(ended) == [0, 1, 2]


async def test_there_is_room_for_so_many():
    async with BackgroundTurns(max_turns=1) as turns:
        turns.start(BackgroundTurn("a"), asyncio.Event().wait())
        with pytest.raises(HttpProblem) as refused:
            turns.start(BackgroundTurn("b"), asyncio.Event().wait())
    assert refused.value.status == 503


async def test_a_defect_in_a_turn_ends_it_and_nothing_else(caplog):
    async def work():
        raise ValueError("oops")

    async with BackgroundTurns() as turns:
        turn = BackgroundTurn("a")
        turns.start(turn, work())
        assert await read(turn) == b""
    assert "defect" in caplog.text
