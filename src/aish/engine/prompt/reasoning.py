"""What a model thought before a call goes back to it while it works on: some insist on it, and most do better.

What it thought before the user spoke again is left out, as their own templates do.
"""

from __future__ import annotations

import msgspec

from aish.types.messages import AssistantMessage, Message, UserMessage


def with_fresh_thoughts(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The same object where nothing is left out."""
    if not any(map(_thinks, messages)):
        return messages
    last = max((place for place, message in enumerate(messages) if type(message) is UserMessage), default=-1)
    return tuple(
        message if place > last and _calls(message) else _unthought(message) for place, message in enumerate(messages)
    )


def without_thoughts(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return tuple(map(_unthought, messages)) if any(map(_thinks, messages)) else messages


def _thinks(message: Message) -> bool:
    return type(message) is AssistantMessage and bool(message.reasoning)


def _calls(message: Message) -> bool:
    return type(message) is AssistantMessage and bool(message.tool_calls)


def _unthought(message: Message) -> Message:
    if type(message) is AssistantMessage and message.reasoning:
        return msgspec.structs.replace(message, reasoning="")
    return message
