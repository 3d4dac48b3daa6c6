"""What a damaged call comes to: the steps that a model's answer takes on its way to being run, without the engine."""

from __future__ import annotations

import random

from aish.tool_calls.detect.detector import CallDetector
from aish.tool_calls.detect.envelope import WrittenCall
from aish.tool_calls.detect.resolution import resolve_call
from aish.tool_calls.repair.fuzzy_match import find_similar
from aish.tool_calls.repair.repair import BadArguments, repair_arguments
from aish.types.tools import Arguments
from support.damage import Damaged


def written(case: Damaged, rng: random.Random) -> list[tuple[str, str]]:
    """Name and arguments of each call, as they come to be prepared. The text comes in pieces of any length."""
    if case.form == "arguments":
        return [(case.called, case.text)]
    tools = {tool.name: tool for tool in case.tools}
    recogniser = CallDetector({tool.name: tool.schema for tool in case.tools})
    pieces, pos, is_complete = [], 0, case.finish == "stop"
    while pos < len(case.text):
        step = rng.choice((1, 2, 3, 7, 20, 1000))
        pieces += recogniser.feed(case.text[pos : pos + step])
        pos += step
    pieces += recogniser.finish(is_complete=is_complete)
    ready = [resolve_call(piece, tools, is_complete=is_complete) for piece in pieces if isinstance(piece, WrittenCall)]
    return [(call.name, call.arguments) for call in ready]


def executed(case: Damaged, rng: random.Random) -> list[tuple[str, Arguments]]:
    """What would be run: as the dispatcher prepares calls, the last one being cut where the answer was."""
    tools = {tool.name: tool for tool in case.tools}
    calls = written(case, rng)
    run: list[tuple[str, Arguments]] = []
    for name, arguments in calls[:-1] if case.finish == "length" else calls:
        spec = tools.get(find_similar(name, tools) or "")
        if spec is None:
            continue
        try:
            mended = repair_arguments(arguments, spec)
        except BadArguments:
            continue
        if not mended.errors:
            run.append((spec.name, mended.arguments))
    return run
