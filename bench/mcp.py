"""The MCP client beside the official SDK, in one run on one machine: `make bench-mcp`.

Prints ratios and the bars they are held to; medians of rounds that take turns, so that what disturbs one disturbs the
other. Exit code 1 when a bar is missed. The SDK lives in an environment of its own under `.cache`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PARTS = ROOT / "bench" / "mcp_parts"
sys.path.insert(0, str(ROOT / "tests"))

from support.mcp_peers import sdk_python  # noqa: E402

OWN = sys.executable
IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
IMPORT_ROUNDS = 5
CALL_ROUNDS = 25  # short and many, so that other work on the machine hits both alike
OWN_CALLS, SDK_CALLS = 600, 150  # about as long for each
FREE_MS = 100  # a prompt that comes later is felt
REFUSAL_MIB = 24  # the bound of 8 MiB, the pieces in flight and the allocator's slack


def main() -> int:
    rows = [*imports(), *rates(), *lines(), *many()]
    say(f"\n{'what':<46} {'ours':>14} {'SDK':>14} {'ratio':>9}  bar")
    for row in rows:
        say(f"{row[0]:<46} {row[1]:>14} {row[2]:>14} {row[3]:>9}  {row[4]} {'ok' if row[5] else 'MISSED'}")
    return 0 if all(row[5] for row in rows) else 1


Row = tuple[str, str, str, str, str, bool]


def imports() -> Iterator[Row]:
    took: dict[str, list[float]] = {"own": [], "sdk": []}
    for _ in range(IMPORT_ROUNDS + 1):  # the first is thrown away: it compiles and fills the page cache
        took["own"].append(float(output(OWN, "-c", IMPORT.format("aish.tools.mcp.connect"))))
        took["sdk"].append(float(output(str(sdk_python()), "-c", IMPORT.format("mcp"))))
    own, sdk = (statistics.median(times[1:]) for times in took.values())
    yield (
        "import of the client, ms",
        f"{own * 1e3:.0f}",
        f"{sdk * 1e3:.0f}",
        f"1/{sdk / own:.1f}",
        "<= 1/8",
        sdk >= 8 * own,
    )


def rates() -> Iterator[Row]:
    echo = (OWN, str(PARTS / "echo_stdio.py"))
    yield from compared("stdio tools/call", 4, "stdio", *echo)
    with running(OWN, str(PARTS / "echo_http.py")) as server:
        yield from compared("HTTP keep-alive tools/call", 5, "http", f"http://127.0.0.1:{ask(server)}/mcp")


def compared(title: str, bar: float, *target: str) -> Iterator[Row]:
    """Calls a second, and the client's own CPU for each, which other work on the machine disturbs less."""
    rounds: dict[str, list[tuple[float, float]]] = {"own": [], "sdk": []}
    with (
        running(OWN, str(PARTS / "calls_own.py"), *target) as own,
        running(str(sdk_python()), str(PARTS / "calls_sdk.py"), *target) as sdk,
    ):
        for _ in range(CALL_ROUNDS + 1):
            for name, process, count in (("own", own, OWN_CALLS), ("sdk", sdk, SDK_CALLS)):
                rate, cpu_us = map(float, ask(process, count).split())
                rounds[name].append((rate, cpu_us))
    (ours, our_us), (theirs, their_us) = (
        [statistics.median(col) for col in zip(*r[1:], strict=True)] for r in rounds.values()
    )
    ratio = ours / theirs
    yield f"{title}, calls/s", f"{ours:,.0f}", f"{theirs:,.0f}", f"{ratio:.1f}", f">= {bar:g}", ratio >= bar
    yield "  client CPU a call, µs", f"{our_us:.0f}", f"{their_us:.0f}", f"1/{their_us / our_us:.1f}", "(no bar)", True


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
