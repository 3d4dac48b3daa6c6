"""The live bash beside bash itself, in one run on one machine: the cost of a line, the speed of output, the start.

python bench/shell.py

"bare" is a bash on a pty, driven by a blocking loop that types a line and waits for its prompt: the least one could do.
"""

from __future__ import annotations

import asyncio
import os
import resource
import select
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from aish.frontends.shell.prompt.history import HistoryEntry
from aish.frontends.shell.prompt.history_search import HistoryIndex
from aish.process.child import ProcessSpec
from aish.process.pty import Pty, WindowSize
from aish.tools.bash.shell import LiveBash, LiveBashSpec

LINES = 300
FLOOD = "head -c 20000000 /dev/zero | tr '\\0' x | fold -w 79"
PROMPT = b"<what-now>"


def milliseconds(values: list[float]) -> float:
    return statistics.median(values) * 1000


class Bare:
    """A bash that is only typed to."""

    def __init__(self, pty: Pty, found: list[bytes]) -> None:
        self._pty, self._found = pty, found

    def run(self, line: str) -> None:
        self._found.clear()
        self._pty.write(line.encode() + b"\n")
        self.wait()

    def wait(self) -> None:
        tail = b""
        while PROMPT not in tail:
            if not select.select([self._pty._master], [], [], 10)[0]:
                raise TimeoutError("bash does not answer")
            tail = tail[-64:] + os.read(self._pty._master, 65536)


@asynccontextmanager
async def opened_bare() -> AsyncIterator[Bare]:
    found: list[bytes] = []
    spec = ProcessSpec(
        ("bash", "--norc", "-i"), inherit=("*",), env={"PS1": PROMPT.decode()}, close_wait_s=0.2, term_wait_s=0.2
    )
    async with Pty.start(spec, size=WindowSize(24, 80), take=found.append) as pty:
        pty.pause()
        bare = Bare(pty, found)
        bare.wait()
        yield bare


def timed(count: int, run: Callable[[], object]) -> list[float]:
    values = []
    for _ in range(count):
        start = time.perf_counter()
        run()
        values.append(time.perf_counter() - start)
    return values


async def timed_async(count: int, run: Callable[[], Awaitable[object]]) -> list[float]:
    values = []
    for _ in range(count):
        start = time.perf_counter()
        await run()
        values.append(time.perf_counter() - start)
    return values


async def bench_lines(shell: LiveBash) -> None:
    for line in (":", "/bin/true"):
        ours, theirs = (milliseconds(values) for values in await in_turns(shell, line, LINES))
        say(f"{line:12} live {ours:5.2f} ms, bare {theirs:5.2f} ms: {ours - theirs:+.2f} ms (bar 2)")


async def in_turns(shell: LiveBash, line: str, count: int) -> tuple[list[float], list[float]]:
    """One after the other, so that whatever else the machine does hits both."""
    live: list[float] = []
    bare: list[float] = []
    async with opened_bare() as each:
        for _ in range(count):
            bare += timed(1, lambda: each.run(line))
            live += await timed_async(1, lambda: shell.run_user(line, None))
    return live, bare


async def bench_flood(shell: LiveBash) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    live, bare = await in_turns(shell, FLOOD, 5)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    ours, theirs = 20 / statistics.median(live), 20 / statistics.median(bare)
    say(f"20 MB        live {ours:5.1f} MB/s, bare {theirs:5.1f} MB/s: {ours / theirs:.2f} x, memory {grown:+.1f} MB")


def start_plain_bash() -> float:
    begun = time.time()
    done = subprocess.run(["bash", "-c", "echo $EPOCHREALTIME"], check=True, capture_output=True)
    return float(done.stdout) - begun


async def bench_model_line(shell: LiveBash) -> None:
    """The copy of the shell for a command of a model, beside a fresh bash that knows nothing of the shell."""
    started: dict[str, list[float]] = {"first": [], "next": []}
    whole: list[float] = []
    plain: list[float] = []

    async def run(which: str) -> None:
        begun = time.time()  # the command tells when it runs
        result = await shell.run_model("echo $EPOCHREALTIME", 10)
        whole.append(time.time() - begun)
        started[which].append(float(result.output) - begun)

    for _ in range(60):
        await shell.run_user(":", None)  # so that the first copy has to read the state of the shell
        plain.append(start_plain_bash())
        await run("first")
        await run("next")
    first, later, theirs = (milliseconds(values) for values in (started["first"], started["next"], plain))
    say(
        f"model line   starts after {first:.1f} ms, the next after {later:.1f} ms, bash -c after {theirs:.1f} ms: "
        f"{first - theirs:+.1f} ms, {later - theirs:+.1f} ms (bar 15); whole {milliseconds(whole):.1f} ms"
    )


async def bench_model_flood(shell: LiveBash) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.perf_counter()
    await shell.run_model(f"for n in {{1..50}}; do {FLOOD}; done", 300, on_text=lambda text: None)
    took_s = time.perf_counter() - begun
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    say(f"1 GB         copy {took_s:5.1f} s, memory {grown:+.1f} MB")


async def bench_start() -> None:
    async def start() -> None:
        async with LiveBash.open(LiveBashSpec(cwd=Path.cwd(), close_wait_s=0.5)) as shell:
            begun = time.perf_counter()
            await shell.ready()
            values.append(time.perf_counter() - begun)

    values: list[float] = []
    for _ in range(10):
        await start()
    say(f"start        {milliseconds(values):.1f} ms until it waits, without rc files")


async def bench_asking(shell: LiveBash) -> None:
    first = milliseconds(await timed_async(1, shell.refresh))
    complete = await timed_async(50, lambda: shell.complete("cat /us", 7))
    resolve = timed(2000, lambda: shell.resolve("python3"))
    words, words_us = milliseconds(complete), milliseconds(resolve) * 1000
    say(f"asking       first {first:.1f} ms, a completion {words:.2f} ms, a word {words_us:.1f} µs")


HISTORY_LINES = 100_000
HISTORY_BAR_MS = 20
QUERIES = (
    "g",
    "git",
    "git c",
    "gcm",
    "zzz",
    "qzx",
    "git 99",
    "pods commit host",
    "7777",
    "docker grep zzz",
    "e",
    "t 1 2 3",
)


def bench_history() -> None:
    """Ctrl-R over many different lines: from a key to what the menu shows."""
    random = Random(35)
    text = "git commit push make test docker run ls cd src grep python main.py -la npm cat kubectl get pods ssh host"
    words = text.split()
    lines = (f"{' '.join(random.choices(words, k=random.randint(2, 7)))} {number}" for number in range(HISTORY_LINES))
    index = HistoryIndex([HistoryEntry(line) for line in lines])
    slowest = {query: min(timed(5, lambda query=query: index.search(query))) * 1000 for query in QUERIES}  # type: ignore[misc]
    worst = max(slowest, key=lambda query: slowest[query])
    median = statistics.median(slowest.values())
    say(
        f"Ctrl-R       {HISTORY_LINES} lines: {median:.1f} ms a key, {slowest[worst]:.1f} ms for {worst!r} "
        f"(bar {HISTORY_BAR_MS})"
    )


async def main() -> None:
    bench_history()
    await bench_start()
    async with LiveBash.open(LiveBashSpec(cwd=Path.cwd())) as shell:
        await shell.ready()
        await bench_lines(shell)
        await bench_model_line(shell)
        await bench_flood(shell)
        await bench_model_flood(shell)
        await bench_asking(shell)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
