"""`aish safety check 'CMD'` and `aish safety explain TOOL ARGS`: what the gate would decide and why. Runs nothing."""

from __future__ import annotations

import argparse
import json
import sys

from aish.errors import UsageError
from aish.frontends.runtime import Runtime
from aish.frontends.terminal import visible
from aish.safety.commands import Level, LineVerdict, classify

_CODES = {Level.SAFE: 0, Level.UNKNOWN: 10, Level.DESTRUCTIVE: 20}
_MAX_LINE_CHARS = 1024 * 1024


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    if arguments.action == "explain":
        return _explain(arguments.tool, arguments.arguments, runtime)
    if arguments.stdin:
        return _check_lines(runtime)
    if not arguments.line:
        raise UsageError("no command to check", hint="aish safety check 'rm -rf build', or --stdin")
    verdict = classify(" ".join(arguments.line), runtime.shell_context)
    if arguments.json:
        print(_as_json(verdict))
    else:
        _show(" ".join(arguments.line), verdict)
    return _CODES[verdict.level]


def _check_lines(runtime: Runtime) -> int:
    """Prints a JSON object for each line of stdin. The exit code is that of the worst line."""
    worst = 0
    for line in sys.stdin:
        verdict = classify(line.rstrip("\n")[:_MAX_LINE_CHARS], runtime.shell_context)
        print(_as_json(verdict), flush=True)
        worst = max(worst, _CODES[verdict.level])
    return worst


def _as_json(verdict: LineVerdict) -> str:
    reasons = [
        {"text": r.text, "span": list(r.span), "rule": r.rule, "class": r.kind, "level": r.level}
        for r in verdict.reasons
    ]
    return json.dumps({"verdict": verdict.level, "reasons": reasons, "catastrophe": verdict.catastrophe})


def _show(line: str, verdict: LineVerdict) -> None:
    print(verdict.level + (" (asked about even when everything is approved)" if verdict.catastrophe else ""))
    for reason in verdict.reasons:
        start, end = reason.span
        shown = line[start:end] if 0 <= start < end <= len(line) else ""
        print(visible(f"  {reason.text}" + (f"   « {shown} »" if shown and shown != line else "")))


def _explain(name: str, text: str, runtime: Runtime) -> int:
    try:
        arguments = json.loads(text)
    except ValueError as exc:
        raise UsageError(f"the arguments are not JSON: {exc}") from exc
    if not isinstance(arguments, dict):
        raise UsageError("the arguments must be one JSON object")
    judged = runtime.explain(name, arguments)
    print(f"{judged.verdict}  by {visible(judged.rule)}")
    for reason in dict.fromkeys((judged.reason, *judged.reasons)):
        if reason:
            print(f"  {visible(reason)}")
    if judged.always:
        print(f"  always would add: {visible(judged.always.title)}")
    return 0
