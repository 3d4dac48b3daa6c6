"""Renders a conversation for models that do not see: an image that a tool gave leaves its mark."""

from __future__ import annotations

from aish.types.messages import ImagePart, Message, TextPart, ToolMessage


def without_images(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The same object where there is none. Those of the user go along: they are wanted, and a refusal says why not."""
    for message in messages:
        if type(message) is ToolMessage and message.images:
            return tuple(_told(message) if type(message) is ToolMessage else message for message in messages)
    return messages


def _told(message: ToolMessage) -> ToolMessage:
    parts = (TextPart(part.mark) if isinstance(part, ImagePart) else part for part in message.parts)
    return ToolMessage(message.tool_call_id, message.name, tuple(parts))
