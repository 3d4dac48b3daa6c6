"""Has anything become dearer? Instructions of fixed work, counted by callgrind, against bench/baseline.json.

    make perf-check       fails when a figure is more than 15 % above the baseline
    make perf-baseline    writes the baseline anew, after a change that is meant

Instructions do not depend on what else the machine does. Each figure is a ratio to the instructions of fixed work that
is of no program here (`calibration`; for whole starts, a bare interpreter), counted the same way, so that another
interpreter does not look like a change of ours. Needs valgrind, cc and Linux; where they are missing it says so and
judges nothing.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
STARTS = {"--version": ("--version",), "one answer": ("--model", "scripted:fake-tool", "hi")}
sys.path.insert(0, str(ROOT))

from bench.gateway_parts import gateways, kinds  # noqa: E402
from bench.gateway_parts.gate import body  # noqa: E402
from bench.perf_parts.counting import LIBRARY  # noqa: E402

PARTS = ROOT / "bench" / "perf_parts"
BASELINE = ROOT / "bench" / "baseline.json"
MORE = 1.15
DEADLINE_S = 240.0  # for one process; on a quiet machine the longest takes 30 s
READY_S = 120.0
CHATS, STREAMS, TURNS, ROUNDS = 40, 8, 8, 5
VALGRIND = (
    "valgrind", "--tool=callgrind", "--quiet", "--fair-sched=no", "--cache-sim=no", "--branch-sim=no",
    "--callgrind-out-file=counts.%p", "--vgdb=no",
)  # fmt: skip
TOTALS = re.compile(r"^totals: (\d+)", re.M)  # not `summary`, which goes wrong where threads are many and dumps several
TRIGGER = re.compile(r"^desc: Trigger: Client Request: (\S+)", re.M)

Counts = dict[str, int]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baseline", action="store_true", help="write the baseline instead of comparing with it")
    wanted = parser.parse_args()
    if missing := [name for name in ("valgrind", "cc") if not shutil.which(name)]:
        say(f"perf-check: nothing is judged, {' and '.join(missing)} is missing (apt-get install valgrind gcc)")
        return 0
    began_s = time.monotonic()
    ratios = measured()
    say(f"counted in {time.monotonic() - began_s:.0f} s, load average {os.getloadavg()[0]:.1f}")
    if wanted.baseline:
        BASELINE.write_text(json.dumps({name: round(ratio, 4) for name, ratio in ratios.items()}, indent=1) + "\n")
        say(f"written: {BASELINE.relative_to(ROOT)}")
        return 0
    lines, dearer = compared(ratios, json.loads(BASELINE.read_text()))
    say("\n".join(lines))
    if dearer:
        say(f"dearer by more than {MORE - 1:.0%}: {', '.join(dearer)}. If that is meant: make perf-baseline")
    return int(bool(dearer))


def compared(ratios: dict[str, float], baseline: dict[str, float]) -> tuple[list[str], list[str]]:
    """A table, and the names of what is dearer. What the baseline does not know is not judged."""
    lines, dearer = [f"{'work':<14}{'baseline':>10}{'now':>10}{'change':>9}"], []
    for name, ratio in ratios.items():
        before = baseline.get(name)
        if before is None:
            lines.append(f"{name:<14}{'-':>10}{ratio:>10.3f}{'new':>9}")
            continue
        lines.append(f"{name:<14}{before:>10.3f}{ratio:>10.3f}{ratio / before - 1:>+9.1%}")
        if ratio > before * MORE:
            dearer.append(name)
    return lines, dearer


def measured() -> dict[str, float]:
    # Compiled files must be there, or the first count is one of compiling.
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
        env.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="perf-check-") as folder:
        home = Path(folder)
        env |= {"HOME": folder, LIBRARY: str(library(home)), "PYTHONPATH": str(ROOT)}
        inside = counted_inside(home, env)
        served = counted_served(home, env)
        bare = counted_whole(home, env, "-c", "pass")
        starts = {name: counted_whole(home, env, "-m", "aish", *words) for name, words in STARTS.items()}
    unit = inside.pop("calibration")
    ratios = {name: count / unit for name, count in {**inside, **served}.items()}
    return {**ratios, **{name: count / bare for name, count in starts.items()}}


def library(folder: Path) -> Path:
    made = folder / "counting.so"
    run(["cc", "-O1", "-shared", "-fPIC", "-o", str(made), str(PARTS / "counting.c")], folder, dict(os.environ))
    return made


def counted_inside(folder: Path, env: dict[str, str]) -> Counts:
    server = folder / "echo"
    run(["cc", "-O2", "-o", str(server), str(ROOT / "bench" / "mcp_parts" / "echo.c")], folder, env)
    run([*VALGRIND, "--instr-atstart=no", sys.executable, str(PARTS / "inside.py"), str(server)], folder, env)
    return collected(folder)


def counted_whole(folder: Path, env: dict[str, str], *words: str) -> int:
    """A process from its start to its end; the second, since the first may compile."""
    run([sys.executable, *words], folder, env)
    run([*VALGRIND, sys.executable, *words], folder, env)
    return sum(int(found) for file in files(folder) for found in TOTALS.findall(file.read_text())[:1])


def collected(folder: Path) -> Counts:
    """What was counted, by the names given to it."""
    counts = {}
    for file in files(folder):
        text = file.read_text()
        if trigger := TRIGGER.search(text):
            counts[trigger[1]] = int(TOTALS.findall(text)[0])
    return counts


def files(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.glob("counts.*")):
        yield file
        file.unlink()


# The server.


def counted_served(folder: Path, env: dict[str, str]) -> Counts:
    with gateways.upstream_running() as upstream, serving(folder, env, upstream) as (process, port):
        chat = body("bench-json")
        burst = body("bench-fast", stream=True)
        words = body("bench-slow50x100", stream=True)  # one at a time: read, taken and written on alone
        rounds = body(f"bench-toolloop{ROUNDS}-look", stream=True)
        works = (("chat", chat, CHATS), ("stream", burst, STREAMS), ("words", words, 2), ("toolround", rounds, TURNS))
        for name, request, times in works:
            asked(port, request, min(3, times))  # fills caches
            told(process, "start")
            asked(port, request, times)
            told(process, f"end {name}")
    return collected(folder)


@contextmanager
def serving(
    folder: Path, env: dict[str, str], upstream: gateways.Upstream
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    port = gateways.free_port()
    kind = kinds.aish(upstream, port, tools=True)
    for name, text in kind.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    words = [*VALGRIND, "--instr-atstart=no", sys.executable, str(PARTS / "served.py"), *kind.words[3:]]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            words, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
            start_new_session=True,
        )  # fmt: skip
    try:
        ready(process, port, folder / "log")
        yield process, port
    finally:
        gateways.end(process)


def ready(process: subprocess.Popen[str], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if gateways.answer(port, body("bench-json"), timeout_s=30)[0] == 200:
                return
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
    raise SystemExit(f"perf-check: the server did not come up: {log.read_text()[-1000:]}")


def told(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin and process.stdout
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    if process.stdout.readline() != "done\n":
        raise SystemExit("perf-check: the server ended while it was counted")


def asked(port: int, request: gateways.Json, times: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for _ in range(times):
        connection.request("POST", "/v1/chat/completions", json.dumps(request), {"content-type": "application/json"})
        response = connection.getresponse()
        if response.status != 200 or not response.read():
            raise SystemExit(f"perf-check: the server answered {response.status}")
    connection.close()


def run(words: list[str], folder: Path, env: dict[str, str]) -> None:
    try:
        done = subprocess.run(words, cwd=folder, env=env, capture_output=True, timeout=DEADLINE_S, check=False)
    except subprocess.TimeoutExpired:
        raise SystemExit(f"perf-check: {Path(words[-1]).name} was not through after {DEADLINE_S:g} s") from None
    if done.returncode:
        raise SystemExit(f"perf-check: {Path(words[-1]).name}: {done.stderr.decode(errors='replace')[-1500:]}")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
