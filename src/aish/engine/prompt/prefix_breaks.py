"""Remembers the last prompt of each session, and says why the next one does not continue it.

A backend caches what it has read. If a prompt does not begin with the one before, the backend reads the rest again,
which takes a local model seconds. The reason is recorded with the usage of the call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from aish.types.messages import Message, SystemMessage, TextPart, ToolMessage, UserMessage
from aish.types.requests import StepRequest
from aish.types.tools import ToolSpec

# Sessions in use at the same time. Their messages are mostly those that the history caches, too.
_MAX_SESSIONS = 64
# A larger prompt is not remembered: 64 of them would hold the memory of a server.
_MAX_PROMPT_CHARS = 4 * 1024 * 1024


class _SentPrompt(msgspec.Struct, frozen=True):
    model: str
    tools: Sequence[ToolSpec]
    messages: Sequence[Message]
    chars: int


class SentPrompts:
    def __init__(self) -> None:
        self._last: OrderedDict[str, _SentPrompt] = OrderedDict()

    def find_break(self, session: str, request: StepRequest) -> str:
        """Says why this prompt does not begin with the last one of the session, and remembers it for the next. "" if it
        does, or if that is unknown."""
        last = self._last.pop(session, None)
        reason = "" if last is None else _find_break(last, request)
        known, chars = (0, 0) if last is None or reason else (len(last.messages), last.chars)
        chars += sum(map(_count_chars, request.messages[known:]))
        if chars <= _MAX_PROMPT_CHARS:
            self._last[session] = _SentPrompt(request.model, request.tools, request.messages, chars)
        if len(self._last) > _MAX_SESSIONS:
            self._last.popitem(last=False)
        return reason


def _count_chars(message: Message) -> int:
    if isinstance(message, UserMessage | ToolMessage):
        return sum(len(part.text if isinstance(part, TextPart) else part.data) for part in message.parts)
    return len(message.text)


def _find_break(last: _SentPrompt, request: StepRequest) -> str:
    if last.model != request.model:
        return f"another model: {request.model} after {last.model}"
    if last.tools is not request.tools and last.tools != request.tools:
        return "the tools changed"
    messages = last.messages
    if request.messages[: len(messages)] == messages:  # compares the same objects without looking into them
        return ""
    for index, before in enumerate(messages):
        now = request.messages[index] if index < len(request.messages) else None
        if now is before or now == before:
            continue
        if isinstance(before, SystemMessage) and index == 0:
            return "the system message changed"
        has_left = now is not None and any(now is later or now == later for later in messages[index + 1 :])
        return f"message {index + 1} of {len(messages)} {'left the window' if has_left else 'changed'}"
    return ""
