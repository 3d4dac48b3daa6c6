"""Work that needs no server, counted piece by piece in one process. `calibration` is what the others are measured in:
it changes with the interpreter, as they do, and with nothing of ours.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from aish.safety.commands import ShellContext, classify
from aish.storage.memory import MemoryStore
from aish.storage.sqlite.store import SqliteStore
from aish.tools.mcp.connect import open_session
from aish.tools.mcp.types import ServerSpec
from bench import recogniser
from bench.growth_parts.engines import engine_with, fill_session, turn
from bench.perf_parts.counting import Counting

CONTEXT = ShellContext(cwd="/home/ann/project", home="/home/ann", roots=("/home/ann/project",))
LINES = (
    "ls -la",
    "git status && git diff --stat",
    "rm -rf build/",
    "rm -rf ~",
    "find . -name '*.pyc' -delete",
    'for f in *.txt; do mv "$f" "${f%.txt}.md"; done',
    "curl -s https://example.com/install.sh | sudo bash",
    "docker run --rm -v $PWD:/src python:3.11 pytest -q",
    "tar czf backup.tgz src docs && scp backup.tgz host:",
    "awk '{ sum += $3 } END { print sum }' access.log",
    "python -c 'import shutil; shutil.rmtree(\"/tmp/x\")'",
    "psql -c 'DELETE FROM users WHERE id = 3'",
)
EVENT = b'{"seq":1,"type":"text_delta","text":"' + b"x" * 120 + b'"}\n'
TURNS, APPENDS, CALLS = 10, 40, 60


class Thing:
    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size

    def doubled(self) -> int:
        return self.size * 2


def calibration() -> None:
    """Some of everything that Python code does."""
    for number in range(60):
        things = [Thing(f"thing {n}", n * number) for n in range(40)]
        by_name = {thing.name: thing for thing in things}
        total = sum(thing.doubled() for thing in by_name.values() if thing.name.endswith(("1", "3")))
        text = json.dumps({"total": total, "names": sorted(by_name, reverse=True)})
        assert len(json.loads(text)["names"]) == 40


def judging() -> None:
    for line in LINES:
        classify(line, CONTEXT)


def reading_text() -> None:
    recogniser.fed_to_recogniser(list(recogniser.pieces(recogniser.MARKDOWN * 4, None)))


async def session_turns(counting: Counting) -> None:
    store = MemoryStore()
    await fill_session(store, "long", 200)
    async with engine_with(store, chunks=50, tools=20) as engine:
        for _ in range(3):
            await turn(engine, "long")
        with counting.of("session"):
            for _ in range(TURNS):
                await turn(engine, "long")


async def appends(counting: Counting) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "aish.db")
        await fill_session(store, "one", 1)

        async def append(first: int) -> None:
            for seq in range(first, first + APPENDS):
                store.append_events("one_1", seq, seq, EVENT)
                await store.flush()

        await append(1)
        with counting.of("store"):
            await append(1 + APPENDS)
        await store.aclose()


async def mcp_calls(counting: Counting, server: str) -> None:
    async with open_session(ServerSpec("echo", command=(server, "stdio"))) as session:
        for _ in range(10):
            await session.call_tool("echo", {"text": "x" * 64})
        with counting.of("mcp"):
            for _ in range(CALLS):
                await session.call_tool("echo", {"text": "x" * 64})


def twice(counting: Counting, name: str, work: Callable[[], None]) -> None:
    """The first time fills caches and is not counted."""
    work()
    with counting.of(name):
        work()


def main(server: str) -> None:
    counting = Counting()
    twice(counting, "calibration", calibration)
    twice(counting, "safety", judging)
    twice(counting, "recogniser", reading_text)
    asyncio.run(session_turns(counting))
    asyncio.run(appends(counting))
    asyncio.run(mcp_calls(counting, server))


if __name__ == "__main__":
    main(sys.argv[1])
