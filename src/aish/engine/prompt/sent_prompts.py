"""Remembers the last prompt of each session, and says why the next one does not continue it.

A backend caches what it has read. If a prompt does not begin with the one before, the backend reads the rest again,
which takes a local model seconds. The reason is recorded with the usage of the call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from aish.types.messages import Message, SystemMessage
from aish.types.requests import StepRequest
from aish.types.tools import ToolSpec

# Sessions in use at the same time. Their messages are mostly those that the history caches, too.
_MAX_SESSIONS = 64


class SentPrompts:
    def __init__(self) -> None:
        self._last: OrderedDict[str, tuple[str, Sequence[ToolSpec], Sequence[Message]]] = OrderedDict()

    def note(self, session: str, request: StepRequest) -> str:
        """Why this prompt does not begin with the last one of the session; "" if it does, or if there was none."""
        last = self._last.pop(session, None)
        self._last[session] = request.model, request.tools, request.messages
        if len(self._last) > _MAX_SESSIONS:
            self._last.popitem(last=False)
        return "" if last is None else _find_break(*last, request)


def _find_break(model: str, tools: Sequence[ToolSpec], messages: Sequence[Message], request: StepRequest) -> str:
    if model != request.model:
        return f"another model: {request.model} after {model}"
    if tools is not request.tools and tools != request.tools:
        return "the tools changed"
    for index, before in enumerate(messages):
        now = request.messages[index] if index < len(request.messages) else None
        if now is before or now == before:
            continue
        if isinstance(before, SystemMessage) and index == 0:
            return "the system message changed"
        has_left = now is not None and any(now is later or now == later for later in messages[index + 1 :])
        return f"message {index + 1} of {len(messages)} {'left the window' if has_left else 'changed'}"
    return ""
