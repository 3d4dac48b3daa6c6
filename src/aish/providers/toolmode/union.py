"""The schema of a constrained answer: a call of one of the tools, or an answer to the user.

One call an answer. Small models that may write several repeat themselves; the loop asks again anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from aish.calls.schema import GRAMMAR, simplified
from aish.types.requests import ToolChoice
from aish.types.tools import JsonSchema, ToolSpec

_TEXT: JsonSchema = {"type": "string"}


def answer_or_call(tools: Sequence[ToolSpec], choice: ToolChoice, answer: JsonSchema | None = None) -> JsonSchema:
    """`answer` is the schema of an answer where the asker has one; else it is text."""
    branches = [_call(tool) for tool in chosen(tools, choice)]
    if choice.mode != "required" or not branches:
        branches.append(_object(answer=answer or _TEXT))
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def chosen(tools: Sequence[ToolSpec], choice: ToolChoice) -> list[ToolSpec]:
    """Those that may be called: one if one is named. A name that is not there is as good as none."""
    if choice.mode == "none":
        return []
    named = [tool for tool in tools if tool.name == choice.named]
    return named or list(tools)


def _call(tool: ToolSpec) -> JsonSchema:
    return _object(name={"type": "string", "const": tool.name}, arguments=simplified(tool.schema, GRAMMAR))


def _object(**properties: JsonSchema) -> JsonSchema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
