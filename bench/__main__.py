"""One entry for all benchmarks: `python -m bench [PART…]`, or `make bench` and `make bench-quick`.

Each part runs in a process of its own with a deadline: one that fails is told and the others go on. Figures go to a
JSON file; `--page` puts them, as tables and charts, into docs/benchmarks.md. Exit code 1 when a bar is missed or a part
failed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench import machine, page, peers
from bench.effort import Effort
from bench.gateway_parts.processes import tree
from bench.parts import PARTS, peers_of
from bench.rows import Row

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / ".cache" / "bench" / "results.json"
QUICK_RESULTS = RESULTS.with_name("quick.json")
PART_S = 1500.0  # a part that takes longer hangs; the slowest takes about ten minutes, installs of peers aside
QUICK_S = 120.0
END_S = 10.0

Json = dict[str, Any]


def main() -> int:
    wanted = _arguments()
    effort = Effort(quick=wanted.quick, peers=not wanted.no_peers)
    if wanted.child:
        _measure(wanted.parts[0], effort, wanted.child)
        return 0
    if wanted.show:
        return _show(json.loads(wanted.json.read_text()), wanted)
    results = kept = {}
    for results in _run(wanted.parts or list(PARTS), effort):  # kept part by part: a run may be broken off
        kept = _merged(results, wanted.json)
        wanted.json.parent.mkdir(parents=True, exist_ok=True)
        wanted.json.write_text(json.dumps(kept, indent=1))
    say(page.text_table(results))
    if wanted.page:
        page.write(kept)
        say(f"written: {page.PAGE.relative_to(ROOT)}")
    return _judged(results)


def _show(kept: Json, wanted: argparse.Namespace) -> int:
    """What was measured before, without measuring again."""
    say(page.text_table(kept))
    if wanted.page:
        page.write(kept)
    return _judged(kept)


def _judged(results: Json) -> int:
    return int(any(part["failed"] or part["missed"] for part in results["parts"].values()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n\n")[1] if __doc__ else "")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; else all")
    parser.add_argument("--quick", action="store_true", help="a look in three minutes, not a judgement")
    parser.add_argument("--no-peers", action="store_true", help="ours and the limits alone")
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks.md and its charts")
    parser.add_argument("--show", action="store_true", help="measure nothing: show the figures of the last run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where figures go; else below .cache/bench")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if unknown := set(wanted.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}")
    wanted.json = wanted.json or (QUICK_RESULTS if wanted.quick else RESULTS)  # a look must not mix with a judgement
    return wanted


def _run(names: list[str], effort: Effort) -> Iterator[Json]:
    """All results so far, after each part."""
    # Where it is set, our files would be compiled at every start, while those of peers were when they were installed.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.pop("PYTHONUNBUFFERED", None)
    parts = {}
    if effort.peers:
        wanted = {peer for name in names for peer in peers_of(name, effort)}
        for name, why in peers.prepare(sorted(wanted)).items():
            say(f"{name}: {why}")
    for name in names:
        say(f"{name}: {PARTS[name]} …")
        parts[name] = _part(name, effort)
        say(f"  {parts[name]['seconds']:.0f} s, load average {parts[name]['load']:.1f} {parts[name]['failed']}")
        yield {"machine": machine.facts(), "quick": effort.quick, "parts": parts}


def _part(name: str, effort: Effort) -> Json:
    """Rows of a part, from a process of its own, and what went wrong."""
    file = RESULTS.with_name(f"{name}.{os.getpid()}.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[]")
    words = [sys.executable, "-m", "bench", name, "--child", str(file)]
    words += ["--quick"] * effort.quick + ["--no-peers"] * (not effort.peers)
    began_s = time.monotonic()
    failed = _ended(words, QUICK_S if effort.quick else PART_S)
    rows = [Row.of_json(each) for each in json.loads(file.read_text())]
    file.unlink()
    return {
        "rows": [each.to_json() for each in rows],
        "failed": failed,
        "missed": [each.what for each in rows if each.met is False],
        "seconds": round(time.monotonic() - began_s, 1),
        "load": round(os.getloadavg()[0], 2),
        "date": machine.now(),
    }


def _ended(words: list[str], deadline_s: float) -> str:
    """Runs a part to its end; what went wrong, in words. Whatever happens here, nothing of it is left running."""
    process = subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, start_new_session=True)
    try:
        _, told = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        return f"it was not through after {deadline_s:g} s"
    finally:
        _end(process)
    if process.returncode:
        lines = told.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {process.returncode}"
    return ""


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()  # it ends what it started, then itself
    try:
        process.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        for pid in tree(process.pid):  # its children lead groups of their own
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def _measure(name: str, effort: Effort, file: Path) -> None:
    """What a part's own process does. Rows are written as they come, so that those before a failure are kept."""
    signal.signal(signal.SIGTERM, _leave)
    found: list[Json] = []
    for each in importlib.import_module(f"bench.parts.{name}").rows(effort):
        found.append(each.to_json())
        file.write_text(json.dumps(found))


def _leave(number: int, frame: object) -> None:
    raise SystemExit(f"ended by signal {number}")


def _merged(results: Json, file: Path) -> Json:
    """Parts measured now beside those measured before, in their order. In a new checkout those are the page's own."""
    before: Json = {}
    for known in (file,) if results["quick"] else (file, page.CHARTS / "results.json"):
        try:
            before = {**json.loads(known.read_text())["parts"], **before}
        except (OSError, ValueError, KeyError):
            continue
    parts = {**before, **results["parts"]}
    return {**results, "parts": {name: parts[name] for name in PARTS if name in parts}}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
