"""An example as the model sees it: aish's own constrained prompt in the model's chat template, and the answer to it.

The words come from `aish.providers.tool_calling.prompts`, which is what serves. Nothing of them is repeated here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aish.providers.tool_calling.prompts import (
    answer_text,
    render_messages,
    room_for_tools,
    tool_instructions,
    with_tool_instructions,
    written_call,
)
from aish.types.messages import AssistantMessage, Message, SystemMessage, UserMessage
from aish.types.requests import ToolChoice
from aish.types.tools import Effect, JsonSchema, ToolSpec

CONTEXT_SIZE = 8192  # what the embedded engine gives one question
END = "<|im_end|>"
# The template puts this where no system message is; with tools there always is one.
_OWN_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


@dataclass(frozen=True)
class Example:
    """`kind` is for the figures: call, refusal, result, chat."""

    kind: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    answer: str


def tool(name: str, description: str, schema: JsonSchema) -> ToolSpec:
    return ToolSpec(name, description, schema, Effect.READ, "")


def prompt(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> str:
    """Up to the place where the model begins to write."""
    if not tools:
        return templated(messages)
    said = tool_instructions(tools, "constrained", ToolChoice(), room_chars=room_for_tools(CONTEXT_SIZE))
    return templated(with_tool_instructions(render_messages(messages, "constrained"), said))


def templated(messages: Sequence[Message]) -> str:
    turns = [(_role(message), message.text) for message in messages]
    if not turns or turns[0][0] != "system":
        turns.insert(0, ("system", _OWN_SYSTEM))
    return "".join(f"<|im_start|>{role}\n{text}{END}\n" for role, text in turns) + "<|im_start|>assistant\n"


def call(spec: ToolSpec, arguments: dict[str, Any]) -> str:
    """Required arguments first, then the others in the schema's order: the grammar allows no other."""
    names = list(spec.schema.get("properties", {}))
    required = spec.schema.get("required", [])
    order = [*(name for name in names if name in required), *(name for name in names if name not in required)]
    ordered = {name: arguments[name] for name in order if name in arguments}
    return written_call(spec.name, json.dumps(ordered, ensure_ascii=False))


def answer(text: str) -> str:
    return answer_text(text)


def _role(message: Message) -> str:
    if isinstance(message, SystemMessage):
        return "system"
    if isinstance(message, UserMessage):
        return "user"
    if isinstance(message, AssistantMessage):
        return "assistant"
    raise TypeError("tool messages are rendered as text before they come here")
