"""From a call as it was found in text to one that can be handed on: the tool's own name, and arguments as JSON text.

What cannot be mended is handed on as it stands: whoever prepares calls for running finds the fault again and tells the
model.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from aish.tool_calls.detect.envelope import Written
from aish.tool_calls.repair.fuzzy_match import find_near
from aish.tool_calls.repair.repair import BadArguments, fitted, mend
from aish.types.tools import Repair, RepairKind, ToolSpec


class Ready(msgspec.Struct, frozen=True):
    name: str
    arguments: str
    repairs: tuple[Repair, ...] = ()


def make_ready(written: Written, tools: Mapping[str, ToolSpec], *, whole: bool, repair: bool = True) -> Ready:
    """`whole`: the text it stood in has not been cut off."""
    name = find_near(written.name, tools) if repair else written.name
    spec = tools.get(name or "")
    if spec is None:
        return Ready(written.name, _text(written.arguments))
    renamed = (Repair(RepairKind.TOOL_NAME, "", written.name[:80], spec.name),) if spec.name != written.name else ()
    if not repair:
        return Ready(written.name, _text(written.arguments))
    try:
        if isinstance(written.arguments, str):
            mended = mend(written.arguments, spec, whole=whole)
        else:
            mended = fitted(written.arguments, spec, written.repairs)
    except BadArguments:
        return Ready(spec.name, _unfinished(written), renamed)
    if mended.errors:
        return Ready(spec.name, _text(written.arguments), (*renamed, *written.repairs))
    repairs = mended.repairs if isinstance(written.arguments, dict) else (*written.repairs, *mended.repairs)
    return Ready(spec.name, _text(mended.arguments), (*renamed, *repairs))


def _text(arguments: dict[str, object] | str) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def _unfinished(written: Written) -> str:
    """Without its last bracket, which was not there to begin with: nobody takes it for whole."""
    return written.arguments if isinstance(written.arguments, str) else _text(written.arguments)[:-1]
