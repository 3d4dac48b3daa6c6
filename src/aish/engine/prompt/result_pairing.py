"""A conversation in which every tool call has exactly one result, right after it and in the order of the calls.

Conversations come from elsewhere: clients send results late, out of order or never, and a turn may have ended with
calls that its asker was to run. Backends and chat templates take none of that.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from aish.types.messages import AssistantMessage, Message, TextPart, ToolCall, ToolMessage

NO_RESULT = "[aish] no result was given for this call."


def settle(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Results of calls nobody made are left out. Some backends use an id again: its results then go in order."""
    for message in messages:
        if type(message) is ToolMessage or (type(message) is AssistantMessage and message.tool_calls):
            return tuple(messages) if _is_settled(messages) else _settled(messages)
    return tuple(messages)


def _is_settled(messages: Sequence[Message]) -> bool:
    """As is every conversation of our own: then each message stays the very same, and whoever knows it knows it."""
    due: deque[ToolCall] = deque()
    for message in messages:
        if isinstance(message, ToolMessage):
            call = due.popleft() if due else None
            if call is None or call.id != message.tool_call_id or call.name != message.name:
                return False
        elif due:
            return False
        elif isinstance(message, AssistantMessage):
            due.extend(message.tool_calls)
    return not due


def _settled(messages: Sequence[Message]) -> tuple[Message, ...]:
    results: defaultdict[str, deque[ToolMessage]] = defaultdict(deque)
    for message in messages:
        if isinstance(message, ToolMessage):
            results[message.tool_call_id].append(message)
    settled: list[Message] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            continue
        settled.append(message)
        settled += [_result(call, results[call.id]) for call in _calls(message)]
    return tuple(settled)


def open_calls(messages: Sequence[Message]) -> list[ToolCall]:
    """The calls of the last assistant message that have no result yet."""
    answered = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AssistantMessage):
            return [call for call in message.tool_calls if call.id not in answered]
        else:
            return []
    return []


def _calls(message: Message) -> tuple[ToolCall, ...]:
    return message.tool_calls if type(message) is AssistantMessage else ()


def _result(call: ToolCall, given: deque[ToolMessage]) -> ToolMessage:
    parts = given.popleft().parts if given else (TextPart(NO_RESULT),)
    return ToolMessage(call.id, call.name, parts)
