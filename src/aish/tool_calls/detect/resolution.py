"""Turns a call found in text into one that can be passed on, with the tool's own name and its arguments as JSON text.

What cannot be repaired is passed on as it is: the dispatcher finds the fault again and tells the model.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from aish.tool_calls.detect.envelope import WrittenCall
from aish.tool_calls.repair.fuzzy_match import find_similar
from aish.tool_calls.repair.repair import BadArguments, fit_to_schema, repair_arguments
from aish.types.tools import Repair, RepairKind, ToolSpec


class ResolvedCall(msgspec.Struct, frozen=True):
    name: str
    arguments: str
    repairs: tuple[Repair, ...] = ()


def resolve_call(
    written: WrittenCall, tools: Mapping[str, ToolSpec], *, is_complete: bool, repair: bool = True
) -> ResolvedCall:
    """`is_complete`: the text around the call was not cut off."""
    name = find_similar(written.name, tools) if repair else written.name
    spec = tools.get(name or "")
    if spec is None:
        return ResolvedCall(written.name, _text(written.arguments))
    renamed = (Repair(RepairKind.TOOL_NAME, "", written.name[:80], spec.name),) if spec.name != written.name else ()
    if not repair:
        return ResolvedCall(written.name, _text(written.arguments))
    try:
        if isinstance(written.arguments, str):
            repaired = repair_arguments(written.arguments, spec, is_complete=is_complete)
        else:
            repaired = fit_to_schema(written.arguments, spec, written.repairs)
    except BadArguments:
        return ResolvedCall(spec.name, _drop_last_bracket(written), renamed)
    if repaired.errors:
        return ResolvedCall(spec.name, _text(written.arguments), (*renamed, *written.repairs))
    repairs = repaired.repairs if isinstance(written.arguments, dict) else (*written.repairs, *repaired.repairs)
    return ResolvedCall(spec.name, _text(repaired.arguments), (*renamed, *repairs))


def _text(arguments: dict[str, object] | str) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def _drop_last_bracket(written: WrittenCall) -> str:
    """Leaves out the last bracket, which was missing in the text, so that the call does not look complete."""
    return written.arguments if isinstance(written.arguments, str) else _text(written.arguments)[:-1]
