"""The prompt for models without tools of their own: how tools, past calls and results are written, and the answer's
schema.

This is the only place for these words, since adapters are trained on exactly them. A tool is one line, each argument
another. Texts are shortened more the less room there is, because a small model's window is small. An example:

    Tools:
    get_weather: The weather of a city.
    - city: string. Name of the city.
    - unit: celsius|fahrenheit, optional.

The schema of a constrained answer allows one call of one of the tools, or an answer to the user. It allows only one
call because small models that may write several repeat themselves, and the turn asks again anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from aish.providers.tool_calling.strategies import tools_to_call
from aish.tool_calls.schema.sanitiser import GRAMMAR, simplify_schema
from aish.types.messages import (
    AssistantMessage,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from aish.types.requests import ToolChoice
from aish.types.tools import JsonSchema, ToolSpec

PromptStyle = Literal["constrained", "prompted"]

# Characters of a tool's and of an argument's description. The first pair with which everything fits is used.
_LEVELS = ((240, 100), (120, 60), (80, 0), (40, 0))
_DEFAULT_ROOM_CHARS = 12_000  # about 3 000 tokens, where the window is unknown
_CHARS_A_TOKEN = 3  # names and JSON words take more tokens than prose
_MAX_TYPE_CHARS = 160
_MAX_DEPTH = 3

_CONSTRAINED = (
    'Reply with one JSON object: {"name": "<tool>", "arguments": {...}} to call a tool, '
    'or {"answer": "<text>"} to answer the user.'
)
_CONSTRAINED_CALL = 'Reply with one JSON object, a call: {"name": "<tool>", "arguments": {...}}.'
_PROMPTED = (
    'To call a tool, reply with <tool_call>{"name": "<tool>", "arguments": {...}}</tool_call> and nothing else. '
    "You get its result in the next message. If no tool is needed, answer in plain text."
)
_PROMPTED_CALL = 'Call a tool now: reply with <tool_call>{"name": "<tool>", "arguments": {...}}</tool_call> only.'


def room_for_tools(context_size: int | None) -> int:
    """The number of characters that the tools may take: a third of the window."""
    return _DEFAULT_ROOM_CHARS if context_size is None else max(1200, context_size * _CHARS_A_TOKEN // 3)


def tool_instructions(
    tools: Sequence[ToolSpec],
    style: PromptStyle,
    choice: ToolChoice,
    *,
    room_chars: int,
    answer: JsonSchema | None = None,
) -> str:
    """The part of the system message about tools. `answer` is the schema that an answer has to follow."""
    must = choice.mode == "required"
    if style == "constrained":
        how = _CONSTRAINED_CALL if must else _CONSTRAINED
    else:
        how = _PROMPTED_CALL if must else _PROMPTED
    lines = ["Tools:", describe_tools(tools, room_chars), "", how]
    if answer is not None and not must:
        lines.append(f"The answer has to be JSON of this schema: {_json(answer)}")
    return "\n".join(lines)


def describe_tools(tools: Sequence[ToolSpec], room_chars: int) -> str:
    for tool_chars, argument_chars in _LEVELS:
        text = "\n".join(_describe(tool, tool_chars, argument_chars) for tool in tools)
        if len(text) <= room_chars:
            return text
    signatures = "\n".join(f"{tool.name}({', '.join(_required_first(tool.schema))})" for tool in tools)
    return signatures if len(signatures) <= room_chars else "\n".join(tool.name for tool in tools)


def render_messages(messages: Iterable[Message], style: PromptStyle) -> tuple[Message, ...]:
    """Turns calls and results into text, as turns of user and assistant."""
    result: list[Message] = []
    for message in messages:
        plain = _plain(message, style)
        previous = result[-1] if result else None
        if isinstance(plain, UserMessage) and isinstance(previous, UserMessage):
            result[-1] = UserMessage((*previous.parts, TextPart("\n\n"), *plain.parts))
        elif isinstance(plain, AssistantMessage) and isinstance(previous, AssistantMessage):
            result[-1] = AssistantMessage(f"{previous.text}\n{plain.text}")
        else:
            result.append(plain)
    return tuple(result)


def repeats_calls(messages: Sequence[Message]) -> bool:
    """Whether the last two steps made the same calls."""
    steps = [message.tool_calls for message in messages if isinstance(message, AssistantMessage)][-2:]
    first, last = [[(call.name, call.arguments) for call in calls] for calls in steps] if len(steps) == 2 else ([], [])
    return bool(last) and first == last and isinstance(messages[-1], ToolMessage)


def has_result(messages: Sequence[Message]) -> bool:
    """Whether the last message is a tool's result, other than an error of aish, which may be corrected."""
    return bool(messages) and isinstance(last := messages[-1], ToolMessage) and not last.text.startswith("[aish]")


def with_tool_instructions(messages: Sequence[Message], text: str) -> tuple[Message, ...]:
    """Appends the text to the first system message, or adds one."""
    if messages and isinstance(messages[0], SystemMessage):
        return (SystemMessage(f"{messages[0].text}\n\n{text}"), *messages[1:])
    return (SystemMessage(text), *messages)


def written_call(name: str, arguments: str) -> str:
    """A call as the model shall write it."""
    return f'{{"name": {_json(name)}, "arguments": {arguments.strip() or "{}"}}}'


def answer_text(text: str) -> str:
    return f'{{"answer": {_json(text)}}}'


def _plain(message: Message, style: PromptStyle) -> SystemMessage | UserMessage | AssistantMessage:
    if isinstance(message, ToolMessage):
        heading: Part = TextPart(f"Result of {message.name}:\n")
        return UserMessage((heading, *message.parts))
    if not isinstance(message, AssistantMessage):
        return message
    if message.tool_calls:
        return AssistantMessage("\n".join(_call(call, style) for call in message.tool_calls))
    return AssistantMessage(answer_text(message.text)) if style == "constrained" else AssistantMessage(message.text)


def _call(call: ToolCall, style: PromptStyle) -> str:
    text = written_call(call.name, call.arguments)
    return text if style == "constrained" else f"<tool_call>{text}</tool_call>"


def _describe(tool: ToolSpec, tool_chars: int, argument_chars: int) -> str:
    lines = [f"{tool.name}: {_short(tool.description, tool_chars)}".rstrip(": ")]
    schema = tool.schema
    properties = schema.get("properties")
    required = schema.get("required") or ()
    for name in _required_first(schema):
        inner = properties[name] if isinstance(properties, dict) else {}
        optional = "" if name in required else ", optional"
        description = inner.get("description") if isinstance(inner, dict) else ""
        text = _short(description, argument_chars) if isinstance(description, str) else ""
        lines.append(f"- {name}: {_type(inner)[:_MAX_TYPE_CHARS]}{optional}.{f' {text}' if text else ''}")
    return "\n".join(lines)


def _required_first(schema: JsonSchema) -> list[str]:
    properties = schema.get("properties")
    names = list(properties) if isinstance(properties, dict) else []
    required = schema.get("required") or ()
    return [*(name for name in names if name in required), *(name for name in names if name not in required)]


def _type(schema: Any, depth: int = 0) -> str:
    """A short name of a type: `string`, `a|b`, `list of integer`, `{lat: number, lon: number}`."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return "any"
    if isinstance(choices := schema.get("enum"), list):
        return "|".join(_choice(choice) for choice in choices)
    if "const" in schema:
        return _choice(schema["const"])
    for key in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(key), list):
            return "|".join(dict.fromkeys(_type(branch, depth + 1) for branch in branches))
    kind = schema.get("type")
    if isinstance(kind, list):
        return "|".join(str(name) for name in kind)
    if kind == "array" or "items" in schema:
        return f"list of {_type(schema.get('items'), depth + 1)}"
    if isinstance(properties := schema.get("properties"), dict) and properties:
        return "{" + ", ".join(f"{name}: {_type(inner, depth + 1)}" for name, inner in properties.items()) + "}"
    return str(kind) if isinstance(kind, str) else "any"


def _choice(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _short(text: str, max_chars: int) -> str:
    """About the first sentence, on one line."""
    line = " ".join(text.split())
    if len(line) <= max_chars:
        return line
    cut = line[:max_chars]
    sentence = cut.rfind(". ")
    if sentence > max_chars // 3:
        return cut[: sentence + 1]
    return cut.rpartition(" ")[0].rstrip(",;:") + "…" if max_chars >= 20 else ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_TEXT: JsonSchema = {"type": "string"}
# For weak models: more than they can fill sensibly, and little enough for an answer of a few hundred tokens.
_TEXT_CHARS = 120
_ITEM_CHARS = 40
_ITEMS = 8


def answer_or_call_schema(
    tools: Sequence[ToolSpec], choice: ToolChoice, answer: JsonSchema | None = None, *, bounded: bool = False
) -> JsonSchema:
    """`answer` is the schema of an answer, if the request has one; else an answer is text. `bounded`: limits every
    value of a call, because weak models may otherwise continue one until their tokens are used up."""
    branches = [_call_schema(tool, bounded=bounded) for tool in tools_to_call(tools, choice)]
    if choice.mode != "required" or not branches:
        branches.append(_object_schema(answer=answer or _TEXT))
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _call_schema(tool: ToolSpec, *, bounded: bool) -> JsonSchema:
    arguments = simplify_schema(tool.schema, GRAMMAR)
    return _object_schema(
        name={"type": "string", "const": tool.name},
        arguments=_bounded_schema(arguments, _TEXT_CHARS) if bounded else arguments,
    )


def _bounded_schema(schema: Any, text_chars: int) -> Any:
    if not isinstance(schema, dict):
        return schema
    result = {
        key: _bounded_schema(value, text_chars) for key, value in schema.items() if key in ("additionalProperties",)
    }
    if isinstance(properties := schema.get("properties"), dict):
        result["properties"] = {name: _bounded_schema(inner, text_chars) for name, inner in properties.items()}
    if isinstance(branches := schema.get("anyOf"), list):
        result["anyOf"] = [_bounded_schema(branch, text_chars) for branch in branches]
    if schema.get("type") == "array":
        result["items"] = _bounded_schema(schema.get("items", {}), _ITEM_CHARS)
        result["maxItems"] = min(schema.get("maxItems", _ITEMS), max(_ITEMS, schema.get("minItems", 0)))
    if schema.get("type") == "string" and not schema.keys() & {"enum", "const", "pattern", "format"}:
        result["maxLength"] = min(schema.get("maxLength", text_chars), max(text_chars, schema.get("minLength", 0)))
    return {**schema, **result}


def _object_schema(**properties: JsonSchema) -> JsonSchema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
