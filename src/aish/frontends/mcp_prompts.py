"""Prompts of MCP servers as a person asks for them: `KEY=VALUE` words in, one text out."""

from __future__ import annotations

from collections.abc import Sequence

from aish.errors import UsageError
from aish.types.messages import Message, UserMessage, marked_text


def values_of(words: Sequence[str]) -> dict[str, str]:
    """Raises UsageError."""
    pairs = [word.partition("=") for word in words]
    if bad := [key + mark for key, mark, _ in pairs if not (key and mark)]:
        raise UsageError(f"{bad[0]!r} gives no argument a value", hint="write KEY=VALUE")
    return {key: value for key, _, value in pairs}


def text_of_prompt(messages: Sequence[Message]) -> str:
    """An image in it leaves its mark."""
    return "\n\n".join(marked_text(m.parts) if isinstance(m, UserMessage) else m.text for m in messages)
