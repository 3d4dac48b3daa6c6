"""What the model is told before the conversation: the system message, composed in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence

from aish.types.messages import Message, SystemMessage

BASE = "You are a helpful assistant. Answer briefly and plainly."


def compose_system(*parts: str) -> str:
    """What the config, the preset and the request add, in this order; empty parts leave no trace."""
    return "\n\n".join(part.strip() for part in parts if part.strip())


def with_system(system: str, conversation: Sequence[Message]) -> tuple[Message, ...]:
    """One system message at most at the beginning: many chat templates take no second."""
    if not system:
        return tuple(conversation)
    if conversation and isinstance(conversation[0], SystemMessage):
        return (SystemMessage(compose_system(system, conversation[0].text)), *conversation[1:])
    return (SystemMessage(system), *conversation)
