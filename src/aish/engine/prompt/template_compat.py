"""Renders a conversation for chat templates that take less than others.

Where `role: "tool"` is rejected, calls become text of the assistant, results become `[tool: name]` text of the next
user message, and neighbours of one role are joined, since such templates also insist that user and assistant alternate.
Where a system message is only taken at the beginning, a later one becomes `[system]` text of the user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import dropwhile

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


def with_early_system(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    if not has_late_system(messages):
        return messages
    rendered: list[Message] = []
    for message in messages:
        if isinstance(message, SystemMessage) and rendered and not isinstance(rendered[-1], SystemMessage):
            message = UserMessage((TextPart(f"[system]\n{message.text}"),))
        if isinstance(message, UserMessage) and rendered and isinstance(previous := rendered[-1], UserMessage):
            rendered[-1] = UserMessage((*previous.parts, TextPart("\n\n"), *message.parts))
        else:
            rendered.append(message)
    return tuple(rendered)


def has_late_system(messages: Sequence[Message]) -> bool:
    rest = dropwhile(lambda message: isinstance(message, SystemMessage), messages)
    return any(isinstance(message, SystemMessage) for message in rest)


_REJECTION = re.compile(r"role|template|jinja|alternat|tool", re.IGNORECASE)
_SYSTEM_REJECTION = re.compile(r"system\W+(message|role|prompt)|role\W+system", re.IGNORECASE)


def is_rejected_shape(error: ProviderError) -> bool:
    """Whether a backend's refusal reads like a chat template choking on tool messages."""
    return _is_refused_for(error, _REJECTION)


def is_rejected_system(error: ProviderError) -> bool:
    """The same for a system message that comes late."""
    return _is_refused_for(error, _SYSTEM_REJECTION)


def _is_refused_for(error: ProviderError, reason: re.Pattern[str]) -> bool:
    return isinstance(error, ProviderRejected | ProviderUnavailable) and bool(reason.search(error.message))
