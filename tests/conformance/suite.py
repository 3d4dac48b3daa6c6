"""The official conformance suite as a program: getting it, asking what it has, running one scenario of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.installed import LOCKS, node, node_modules

_PACKAGE = "@modelcontextprotocol/conformance"
SUITE = f"{_PACKAGE}@{json.loads((LOCKS / 'conformance' / 'package.json').read_text())['dependencies'][_PACKAGE]}"
SCENARIO_S = 60

_REQUIRED = re.compile(r"^  - (\S+)$", re.MULTILINE)
_UNSCORED = re.compile(r"^    - (\S+) \[(client|server)\]$", re.MULTILINE)


@dataclass(frozen=True)
class Scenario:
    side: str  # client or server: what is under test
    revision: str
    name: str
    required: bool


@dataclass(frozen=True)
class Outcome:
    scenario: Scenario
    counts: Counter[str]
    failed: tuple[str, ...]  # ids of checks, or a word where there was none
    output: str


class Suite:
    def scenarios(self, revision: str) -> list[Scenario]:
        """All it has for a revision, those it scores first."""
        listed = self._run(["list", "--requirements", revision]).stdout
        scored, _, unscored = listed.partition("Run and reported, but never scored:")
        servers, _, clients = scored.partition("Client scenarios")
        return [
            *(Scenario("client", revision, name, required=True) for name in _REQUIRED.findall(clients)),
            *(Scenario("server", revision, name, required=True) for name in _REQUIRED.findall(servers)),
            *(Scenario(side, revision, name, required=False) for name, side in _UNSCORED.findall(unscored)),
        ]

    def run(self, scenario: Scenario, *target: str) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            words = [scenario.side, *target, "--scenario", scenario.name, "--spec-version", scenario.revision]
            done = self._run([*words, "--output-dir", folder])
            checks = [check for file in Path(folder).rglob("checks.json") for check in json.loads(file.read_text())]
        return _judge(scenario, done, checks)

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        program = node_modules("conformance") / _PACKAGE / "dist" / "index.js"
        process = subprocess.Popen(
            [node(), program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            out, _ = process.communicate(timeout=SCENARIO_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            return subprocess.CompletedProcess(words, 124, f"{out}\nno end within {SCENARIO_S} s")
        return subprocess.CompletedProcess(words, process.returncode, out)


def _judge(scenario: Scenario, done: subprocess.CompletedProcess[str], checks: list[dict[str, Any]]) -> Outcome:
    counts = Counter(str(check["status"]) for check in checks)
    failed = list(dict.fromkeys(check["id"] for check in checks if check["status"] == "FAILURE"))
    if not checks:
        failed.append("no checks")
    elif done.returncode and not failed:
        failed.append(f"exit code {done.returncode}")
    return Outcome(scenario, counts, tuple(failed), done.stdout)
