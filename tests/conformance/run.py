"""`make conformance`: our client and our server frontend against the official suite, scenario by scenario.

Writes docs/conformance.md. Exit code 1 when something fails that expectations.toml does not name, or something it names
passes.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from report import write_report
from suite import Outcome, Scenario, Suite

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
REVISIONS = ("2025-11-25", "2026-07-28")
LISTEN_S = 30
_SHOWN_CHARS = 3000  # of what the suite says about a failure


def main() -> int:
    suite = Suite()
    expected = tomllib.loads((HERE / "expectations.toml").read_text())
    scenarios = [scenario for revision in REVISIONS for scenario in suite.scenarios(revision)]
    skipped = {scenario: why for scenario in scenarios if (why := _why_not_run(scenario, expected))}
    client = f"{sys.executable} {ROOT / 'tests' / 'conformance_client.py'}"
    outcomes = []
    with _server() as url:
        for scenario in scenarios:
            if scenario not in skipped:
                target = ("--url", url) if scenario.side == "server" else ("--command", client)
                outcomes.append(suite.run(scenario, *target))
                _say(outcomes[-1], expected)
    write_report(ROOT / "docs" / "conformance.md", outcomes, skipped, expected)
    surprises = [text for outcome in outcomes for text in _surprises(outcome, expected)]
    sys.stdout.write("\n".join(surprises or ["everything as expected; see docs/conformance.md"]) + "\n")
    return 1 if surprises else 0


def _why_not_run(scenario: Scenario, expected: dict[str, Any]) -> str:
    for entry in expected["not_run"]:
        if entry["side"] == scenario.side and any(fnmatchcase(scenario.name, glob) for glob in entry["scenarios"]):
            return str(entry["why"])
    return ""


def _expected_failures(scenario: Scenario, expected: dict[str, Any]) -> list[str]:
    entries = (entry for entry in expected["fails"] if entry["side"] == scenario.side)
    return [check for entry in entries if entry["scenario"] == scenario.name for check in entry["checks"]]


def _surprises(outcome: Outcome, expected: dict[str, Any]) -> list[str]:
    globs = _expected_failures(outcome.scenario, expected)
    where = f"{outcome.scenario.side} {outcome.scenario.revision} {outcome.scenario.name}"
    unexpected = [check for check in outcome.failed if not any(fnmatchcase(check, glob) for glob in globs)]
    stale = [glob for glob in globs if not any(fnmatchcase(check, glob) for check in outcome.failed)]
    return [
        *(f"FAILED: {where}: {check}" for check in unexpected),
        *([outcome.output[-_SHOWN_CHARS:]] if unexpected else []),
        *(f"STALE: {where}: {glob} is expected to fail and passes" for glob in stale),
    ]


def _say(outcome: Outcome, expected: dict[str, Any]) -> None:
    verdict = "SURPRISE" if _surprises(outcome, expected) else "as expected" if outcome.failed else "ok"
    passed = f"{outcome.counts['SUCCESS']}/{outcome.counts['SUCCESS'] + outcome.counts['FAILURE']}"
    scenario = outcome.scenario
    sys.stdout.write(f"{scenario.revision}  {scenario.side:<7} {scenario.name:<42} {passed:>7}  {verdict}\n")
    sys.stdout.flush()


@contextmanager
def _server() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, HERE / "server.py", str(port)])
    try:
        _wait_for(port)
        yield f"http://localhost:{port}/mcp"
    finally:
        process.terminate()
        process.wait(timeout=10)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + LISTEN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    sys.exit(main())
