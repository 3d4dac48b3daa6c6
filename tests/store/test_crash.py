"""Real processes, killed at random points: what was acknowledged is there, and nothing is half there."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from aish.store.sqlite import SqliteStore
from aish.types.events import TurnEnd
from aish.types.messages import AssistantMessage, user

CHILD = Path(__file__).with_name("crashing_child.py")

LIMITED = """
import asyncio, resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import crashing_child
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
try:
    asyncio.run(crashing_child.main(Path(sys.argv[1]), "limited"))
except* Exception as group:
    for error in group.exceptions:
        print("failed", type(error).__name__, str(error).replace(sys.argv[1], "PATH"))
"""


async def run_until_killed(path: Path, process: str, lines: int) -> list[list[str]]:
    """What a child acknowledged before it was killed, `lines` lines into its life."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(CHILD), str(path), process, stdout=asyncio.subprocess.PIPE
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


async def check(path: Path, said: list[list[str]]) -> None:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    store = SqliteStore(path)
    try:
        for kind, name, *rest in said:
            if kind == "session":
                assert await store.find_session(name) is not None
            else:
                await check_turn(store, kind, name, int(rest[0]))
        for session in await store.list_sessions(limit=1_000):
            numbers = [turn.number for turn in await store.list_turns(session.id)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert session.turns == len(numbers)
    finally:
        await store.aclose()


async def check_turn(store: SqliteStore, kind: str, name: str, number: int) -> None:
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


@pytest.mark.parametrize("seed", range(4))
async def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "aish.db"
    chance = random.Random(seed)
    said: list[list[str]] = []
    for life in range(2):
        said += await run_until_killed(path, f"{seed}{life}", chance.randint(1, 400))
    await check(path, said)


async def test_two_processes_on_one_file_killed_together_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "aish.db"
    both = await asyncio.gather(*(run_until_killed(path, name, 150) for name in ("a", "b")))
    await check(path, both[0] + both[1])


async def test_a_file_that_cannot_grow_fails_the_write_in_words_and_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "aish.db"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LIMITED, str(path), str(CHILD.parent), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        output, _ = await child.communicate()
    said = [line.split() for line in output.decode().splitlines()]
    failures = [line for line in said if line[0] == "failed"]
    assert failures
    assert " ".join(failures[0]).startswith("failed StoreError the store PATH cannot")
    await check(path, [line for line in said if line[0] != "failed"])
