"""Renders a conversation for chat templates that reject `role: "tool"`.

Calls become text of the assistant, results become `[tool: name]` text of the next user message, and neighbours of one
role are joined, since such templates also insist that user and assistant alternate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from aish.errors import ProviderError, ProviderRejected, ProviderUnavailable
from aish.types.messages import AssistantMessage, Message, Part, SystemMessage, TextPart, ToolMessage, UserMessage


def render_strict(messages: Iterable[Message]) -> tuple[Message, ...]:
    rendered: list[Message] = []
    for message in messages:
        plain = _plain(message)
        previous = rendered[-1] if rendered else None
        if isinstance(plain, UserMessage) and isinstance(previous, UserMessage):
            rendered[-1] = UserMessage((*previous.parts, TextPart("\n\n"), *plain.parts))
        elif isinstance(plain, AssistantMessage) and isinstance(previous, AssistantMessage):
            rendered[-1] = AssistantMessage(f"{previous.text}\n\n{plain.text}")
        else:
            rendered.append(plain)
    return tuple(rendered)


def _plain(message: Message) -> SystemMessage | UserMessage | AssistantMessage:
    if isinstance(message, ToolMessage):
        heading: Part = TextPart(f"[tool: {message.name}]\n")
        return UserMessage((heading, *message.parts))
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = [f"[call: {call.name}] {call.arguments or '{}'}" for call in message.tool_calls]
        return AssistantMessage("\n".join(filter(None, [message.text, *calls])))
    return message


_REJECTION = re.compile(r"role|template|jinja|alternat|tool", re.IGNORECASE)


def is_rejected_shape(error: ProviderError) -> bool:
    """Whether a backend's refusal reads like a chat template choking on tool messages."""
    refused = isinstance(error, ProviderRejected | ProviderUnavailable)
    return refused and bool(_REJECTION.search(error.message))
