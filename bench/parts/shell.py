"""The live bash beside a bash that is only typed to: the cost of a line, the speed of output, the start."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from aish.tools.bash.shell import LiveBash, LiveBashSpec
from bench import shell
from bench.effort import Effort
from bench.rows import Bar, Row, row

PART = "shell"
BASH = "bash itself"
MEGABYTES = 20  # of shell.FLOOD


def rows(effort: Effort) -> Iterator[Row]:
    yield from asyncio.run(measured(effort))


async def measured(effort: Effort) -> list[Row]:
    found = [await start(effort.rounds(10, 4))]
    async with LiveBash.open(LiveBashSpec(cwd=Path.cwd())) as live:
        await live.ready()
        found += [await line_cost(live, line, effort.rounds(300, 60)) for line in (":", "/bin/true")]
        found.append(await flood(live, effort.rounds(5, 3)))
        words = await shell.timed_async(effort.rounds(50, 10), lambda: live.complete("cat /us", 7))
        found.append(row(PART, "a completion by bash", "ms", shell.milliseconds(words), rounds=len(words)))
    return found


async def start(rounds: int) -> Row:
    values = []
    for _ in range(rounds):
        async with LiveBash.open(LiveBashSpec(cwd=Path.cwd(), close_wait_s=0.5)) as live:
            began = time.perf_counter()
            await live.ready()
            values.append(time.perf_counter() - began)
    return row(PART, "its start, until it waits", "ms", shell.milliseconds(values), rounds=rounds)


async def line_cost(live: LiveBash, line: str, rounds: int) -> Row:
    ours, theirs = await shell.in_turns(live, line, rounds)
    figures = shell.milliseconds(ours), shell.milliseconds(theirs)
    bar = Bar(most=2.0, of=BASH, over=True)
    return row(PART, f"a line, `{line}`", "ms", figures[0], limits={BASH: figures[1]}, bar=bar, rounds=rounds)


async def flood(live: LiveBash, rounds: int) -> Row:
    ours, theirs = (MEGABYTES / statistics.median(each) for each in await shell.in_turns(live, shell.FLOOD, rounds))
    bar = Bar(least=10)
    return row(PART, "output", "MB/s", ours, limits={BASH: theirs}, better="more", bar=bar, rounds=rounds)
