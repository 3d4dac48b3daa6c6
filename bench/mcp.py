"""The MCP client beside the official SDK, in one run on one machine: `make bench-mcp`.

Prints ratios and the bars they are held to. Rounds take turns, so that what disturbs one disturbs the other; a ratio is
the median over pairs of neighbouring rounds. Calls are made with client and server on one core: they work one after the
other anyway, and waking another core costs both clients more than the work that is to be compared. Exit code 1 when a
bar is missed. The SDK lives in an environment of its own under `.cache`, and so does the server, which is C where there
is a compiler.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PARTS = ROOT / "bench" / "mcp_parts"
BUILT = ROOT / ".cache" / "bench" / "echo"
sys.path.insert(0, str(ROOT / "tests"))

from support.mcp_peers import sdk_python  # noqa: E402

OWN = sys.executable
IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
IMPORT_ROUNDS = 9
CALL_ROUNDS = 31  # short and many, so that other work on the machine hits both alike
OWN_CALLS, SDK_CALLS = 1000, 150  # about as long for each
FREE_MS = 100  # a prompt that comes later is felt
REFUSAL_MIB = 24  # the bound of 8 MiB, the pieces in flight and the allocator's slack


def main() -> int:
    # Where it is set, our files would be compiled at every start, while the SDK's were when pip installed them.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    rows = [*imports(), *rates(), *lines(), *many()]
    say(f"\n{'what':<46} {'ours':>14} {'SDK':>14} {'ratio':>9}  bar")
    for row in rows:
        say(f"{row[0]:<46} {row[1]:>14} {row[2]:>14} {row[3]:>9}  {row[4]} {'ok' if row[5] else 'MISSED'}")
    return 0 if all(row[5] for row in rows) else 1


Row = tuple[str, str, str, str, str, bool]


def imports() -> Iterator[Row]:
    rounds = []
    for _ in range(IMPORT_ROUNDS + 1):  # the first is thrown away: it compiles and fills the page cache
        own = float(output(OWN, "-c", IMPORT.format("aish.tools.mcp.connect")))
        rounds.append((own, float(output(str(sdk_python()), "-c", IMPORT.format("mcp")))))
    own, sdk, ratio = medians(rounds[1:])
    yield (
        "import of the client, ms",
        f"{own * 1e3:.0f}",
        f"{sdk * 1e3:.0f}",
        f"1/{1 / ratio:.1f}",
        "<= 1/8",
        ratio <= 1 / 8,
    )


def rates() -> Iterator[Row]:
    stdio, http = echo_servers()
    with one_core():
        yield from compared("stdio tools/call", 4, "stdio", *stdio)
        with running(*http) as server:
            yield from compared("HTTP keep-alive tools/call", 5, "http", f"http://127.0.0.1:{ask(server)}/mcp")


def compared(title: str, bar: float, *target: str) -> Iterator[Row]:
    """Calls a second, and the client's own CPU for each."""
    rates, costs = [], []
    with (
        running(OWN, str(PARTS / "calls_own.py"), *target) as own,
        running(str(sdk_python()), str(PARTS / "calls_sdk.py"), *target) as sdk,
    ):
        for _ in range(CALL_ROUNDS + 1):
            (our_rate, our_us), (their_rate, their_us) = calls(own, OWN_CALLS), calls(sdk, SDK_CALLS)
            rates.append((our_rate, their_rate))
            costs.append((our_us, their_us))
    ours, theirs, ratio = medians(rates[1:])
    yield f"{title}, calls/s", f"{ours:,.0f}", f"{theirs:,.0f}", f"{ratio:.1f}", f">= {bar:g}", ratio >= bar
    ours, theirs, ratio = medians(costs[1:])
    yield "  client CPU a call, µs", f"{ours:.0f}", f"{theirs:.0f}", f"1/{1 / ratio:.1f}", "(no bar)", True


def calls(client: subprocess.Popen[str], count: int) -> tuple[float, float]:
    rate, cpu_us = ask(client, count).split()
    return float(rate), float(cpu_us)


def medians(pairs: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Of ours, of theirs, and of ours divided by theirs."""
    own, sdk = zip(*pairs, strict=True)
    return statistics.median(own), statistics.median(sdk), statistics.median(o / s for o, s in pairs)


def lines() -> Iterator[Row]:
    measured = json.loads(output(OWN, str(PARTS / "long_lines.py")))
    small, large = measured["read_4_s"], measured["read_16_s"]
    ratio = large / small
    yield (
        "a line of 16 MiB against one of 4, ms",
        f"{large * 1e3:.0f} / {small * 1e3:.0f}",
        "-",
        f"{ratio:.1f}",
        "<= 8 (linear: 4, quadratic: 16)",
        ratio <= 8,
    )
    grown, refused = measured["refusal_grown_mib"], measured["refused"] == "too_large"
    yield (
        "a line of 64 MiB refused, ms",
        f"{measured['refusal_s'] * 1e3:.0f}",
        "-",
        measured["refused"],
        "too_large",
        refused,
    )
    yield (
        "  memory grown by it, MiB",
        f"{grown:.1f}",
        "-",
        f"{grown / 64:.2f}",
        f"<= {REFUSAL_MIB} MiB",
        grown <= REFUSAL_MIB,
    )


def many() -> Iterator[Row]:
    measured = json.loads(output(OWN, str(PARTS / "many_servers.py")))
    free_ms = measured["free_s"] * 1e3
    yield "20 servers, 5 bad: prompt free after, ms", f"{free_ms:.1f}", "-", "-", f"<= {FREE_MS}", free_ms <= FREE_MS
    yield (
        "  the other 15 ready / called, s",
        f"{measured['ready_s']:.2f} / {measured['called_s']:.2f}",
        "-",
        "-",
        "before the silent give up (5 s)",
        measured["called_s"] < 5,
    )
    yield "  of them answer", str(measured["working"]), "-", "-", "15", measured["working"] == 15
    yield "  bad ones that say why", str(len(measured["failed"])), "-", "-", "5", len(measured["failed"]) == 5
    for message in measured["failed"].values():
        say(f"    {message}")


# Processes.


def echo_servers() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The commands of the stdio and of the HTTP server."""
    compiler = shutil.which("cc")
    if compiler is None:
        say("no C compiler: the servers are Python, and slow enough to make the clients look more alike")
        return (OWN, str(PARTS / "echo_stdio.py")), (OWN, str(PARTS / "echo_http.py"))
    BUILT.parent.mkdir(parents=True, exist_ok=True)
    output(compiler, "-O2", "-o", str(BUILT), str(PARTS / "echo.c"))
    return (str(BUILT), "stdio"), (str(BUILT), "http")


@contextmanager
def one_core() -> Iterator[None]:
    """For us, and for all that we start meanwhile."""
    if not hasattr(os, "sched_setaffinity"):
        say("this system does not let us choose a core: calls/s include the waking of others")
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def output(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=300, cwd=PARTS).stdout


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PARTS)
    try:
        yield process
    finally:
        if process.stdin:
            process.stdin.close()
        process.terminate()
        process.wait(timeout=20)


def ask(process: subprocess.Popen[str], *words: Any) -> str:
    assert process.stdin and process.stdout
    for word in words:
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
