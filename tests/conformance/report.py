"""docs/conformance.md, from what was run and what was not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suite import SUITE, Outcome, Scenario

_HEAD = f"""# Conformance

This page shows the score of aish in the official MCP conformance suite, `{SUITE}`. It is
written by `make conformance`, which runs every scenario that the suite lists for a revision, except those named below,
and fails if any other check fails.

The client under test is `tests/conformance_client.py` (the client of `aish mcp`). The server is
`tests/conformance/server.py` (the frontend behind `aish mcp serve` and `/mcp`, with the tools that the suite needs).
The suite uses HTTP only; stdio is covered by our own tests and by real servers. "passed" counts checks; skipped and
informational checks are not counted.
"""


def write_report(
    path: Path, outcomes: Sequence[Outcome], skipped: Mapping[Scenario, str], expected: dict[str, Any]
) -> None:
    parts = [_HEAD, _summary(outcomes), _table(outcomes), _failures(expected), _not_run(skipped)]
    path.write_text("\n".join(parts))


def _summary(outcomes: Sequence[Outcome]) -> str:
    rows = [
        "## Summary",
        "",
        "| under test | revision | scenarios | all green | checks passed |",
        "|---|---|---|---|---|",
    ]
    legs = dict.fromkeys((outcome.scenario.side, outcome.scenario.revision) for outcome in outcomes)
    for side, revision in sorted(legs):
        leg = [each for each in outcomes if (each.scenario.side, each.scenario.revision) == (side, revision)]
        green = sum(not each.failed for each in leg)
        rows.append(f"| {side} | {revision} | {len(leg)} | {green} | {_passed(leg)} |")
    return "\n".join([*rows, ""])


def _table(outcomes: Sequence[Outcome]) -> str:
    rows = [
        "## Each scenario",
        "",
        "| under test | revision | scenario | passed | failed checks |",
        "|---|---|---|---|---|",
    ]
    for outcome in sorted(outcomes, key=lambda each: (each.scenario.side, each.scenario.revision)):
        scenario = outcome.scenario
        name = scenario.name if scenario.required else f"{scenario.name} (not scored)"
        failed = ", ".join(f"`{check}`" for check in outcome.failed)
        rows.append(f"| {scenario.side} | {scenario.revision} | {name} | {_passed([outcome])} | {failed} |")
    return "\n".join([*rows, ""])


def _passed(outcomes: Sequence[Outcome]) -> str:
    passed = sum(outcome.counts["SUCCESS"] for outcome in outcomes)
    return f"{passed}/{passed + sum(outcome.counts['FAILURE'] for outcome in outcomes)}"


def _failures(expected: dict[str, Any]) -> str:
    rows = ["## What fails, and why", ""]
    for entry in expected["fails"]:
        checks = "" if entry["checks"] == ["*"] else f" ({', '.join(f'`{check}`' for check in entry['checks'])})"
        rows.append(f"- {entry['side']} **{entry['scenario']}**{checks}: {entry['why']}.")
    return "\n".join([*rows, ""])


def _not_run(skipped: Mapping[Scenario, str]) -> str:
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for scenario, why in skipped.items():
        if scenario.name not in names[scenario.side, why]:
            names[scenario.side, why].append(scenario.name)
    rows = ["## What is not run, and why", ""]
    for (side, why), scenarios in names.items():
        rows.append(f"- {side}: {why}: {', '.join(scenarios)}.")
    return "\n".join([*rows, ""])
