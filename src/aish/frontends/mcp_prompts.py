"""Prompts of MCP servers at the terminal: parses their `KEY=VALUE` arguments, and joins their messages to a text."""

from __future__ import annotations

from collections.abc import Sequence

from aish.errors import UsageError
from aish.types.messages import Message, UserMessage, marked_text


def parse_values(words: Sequence[str]) -> dict[str, str]:
    """Parses `KEY=VALUE` words. Raises UsageError."""
    pairs = [word.partition("=") for word in words]
    if bad := [key + mark for key, mark, _ in pairs if not (key and mark)]:
        raise UsageError(f"{bad[0]!r} gives no argument a value", hint="write KEY=VALUE")
    return {key: value for key, _, value in pairs}


def prompt_text(messages: Sequence[Message]) -> str:
    """The text of all messages, with a mark in place of each image."""
    return "\n\n".join(marked_text(m.parts) if isinstance(m, UserMessage) else m.text for m in messages)
