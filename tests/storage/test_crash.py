"""Real processes, killed at random points: what was acknowledged is there, and nothing is half there."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from aish.storage.sqlite.store import SqliteStore
from support.crashing import CHILD, check_said, run_until_killed

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


async def check(path: Path, said: list[list[str]]) -> None:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    store = SqliteStore(path)
    try:
        await check_said(store, said)
    finally:
        await store.aclose()


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
