"""What the gate says of a command, in lines for a person."""

from __future__ import annotations

from collections.abc import Iterator

from aish.safety.commands import ShellContext, classify
from aish.safety.policy.gate import Judgement

HARMLESS = "only reads, as far as can be told"


def level_line(command: str, context: ShellContext) -> str:
    """What the command is, whatever the rules make of it."""
    verdict = classify(command, context)
    return verdict.level.value + (" (asked about even when everything is approved)" if verdict.catastrophe else "")


def verdict_lines(judged: Judgement) -> Iterator[str]:
    reason = judged.reason or HARMLESS
    yield f"{judged.verdict}: {reason}"
    for more in judged.reasons:
        if more != reason:
            yield f"  - {more}"
