"""The schema of a constrained answer: a call of one of the tools, or an answer to the user.

One call an answer. Small models that may write several repeat themselves; the loop asks again anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aish.tool_calls.schema.sanitiser import GRAMMAR, simplified
from aish.types.requests import ToolChoice
from aish.types.tools import JsonSchema, ToolSpec

_TEXT: JsonSchema = {"type": "string"}
# For weak models: more than they can say with sense, and little enough for an answer of a few hundred tokens.
_TEXT_CHARS = 120
_ITEM_CHARS = 40
_ITEMS = 8


def answer_or_call(
    tools: Sequence[ToolSpec], choice: ToolChoice, answer: JsonSchema | None = None, *, bounded: bool = False
) -> JsonSchema:
    """`answer` is the schema of an answer where the asker has one; else it is text. `bounded`: no value of a call may
    go on for ever, which those of weak models do until their tokens are used up."""
    branches = [_call(tool, bounded=bounded) for tool in chosen(tools, choice)]
    if choice.mode != "required" or not branches:
        branches.append(_object(answer=answer or _TEXT))
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def chosen(tools: Sequence[ToolSpec], choice: ToolChoice) -> list[ToolSpec]:
    """Those that may be called: one if one is named. A name that is not there is as good as none."""
    if choice.mode == "none":
        return []
    named = [tool for tool in tools if tool.name == choice.named]
    return named or list(tools)


def _call(tool: ToolSpec, *, bounded: bool) -> JsonSchema:
    arguments = simplified(tool.schema, GRAMMAR)
    return _object(
        name={"type": "string", "const": tool.name},
        arguments=_bounded(arguments, _TEXT_CHARS) if bounded else arguments,
    )


def _bounded(schema: Any, text_chars: int) -> Any:
    if not isinstance(schema, dict):
        return schema
    result = {key: _bounded(value, text_chars) for key, value in schema.items() if key in ("additionalProperties",)}
    if isinstance(properties := schema.get("properties"), dict):
        result["properties"] = {name: _bounded(inner, text_chars) for name, inner in properties.items()}
    if isinstance(branches := schema.get("anyOf"), list):
        result["anyOf"] = [_bounded(branch, text_chars) for branch in branches]
    if schema.get("type") == "array":
        result["items"] = _bounded(schema.get("items", {}), _ITEM_CHARS)
        result["maxItems"] = min(schema.get("maxItems", _ITEMS), max(_ITEMS, schema.get("minItems", 0)))
    if schema.get("type") == "string" and not schema.keys() & {"enum", "const", "pattern", "format"}:
        result["maxLength"] = min(schema.get("maxLength", text_chars), max(text_chars, schema.get("minLength", 0)))
    return {**schema, **result}


def _object(**properties: JsonSchema) -> JsonSchema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
