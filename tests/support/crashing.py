"""Processes that write turns, are killed, and what must be there afterwards: all they were told is written."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from aish.ports import Store
from aish.types.events import TurnEnd
from aish.types.messages import AssistantMessage, user

CHILD = Path(__file__).parents[1] / "storage" / "crashing_child.py"


async def run_until_killed(place: Path | str, process: str, lines: int) -> list[list[str]]:
    """What a child acknowledged before it was killed, `lines` lines into its life."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(CHILD), str(place), process, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    said: list[bytes] = []
    async with asyncio.timeout(60):
        while len(said) < lines:
            said.append(await child.stdout.readline())
            assert said[-1], "the child ended by itself"
        child.kill()
        said += (await child.stdout.read()).splitlines(keepends=True)
        await child.wait()
    return [line.decode().split() for line in said if line.endswith(b"\n")]


async def check_said(store: Store, said: list[list[str]]) -> None:
    """Everything acknowledged is there, whole and once."""
    for kind, name, *rest in said:
        if kind == "session":
            assert await store.find_session(name) is not None
        else:
            await check_turn(store, kind, name, int(rest[0]))
    for session in await store.list_sessions(limit=1_000):
        numbers = [turn.number for turn in await store.list_turns(session.id)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert session.turns == len(numbers)


async def check_turn(store: Store, kind: str, name: str, number: int) -> None:
    turn = await store.find_turn(name)
    assert turn is not None
    assert turn.input == (user(name),)
    events = await store.read_events(name)
    seqs = range(1, events.count(b"\n") + 1)
    assert events == b"".join(b'{"seq":%d,"turn":"%s"}\n' % (seq, name.encode()) for seq in seqs)
    if kind == "started":
        assert turn.number == number
    else:
        assert len(seqs) >= number
    if kind == "finished":
        assert (turn.end, turn.messages) == (TurnEnd.ANSWERED, (AssistantMessage(name),))
