"""Normalises the messages of a conversation for the model that will read them. Has no side effects.

- Every tool call has exactly one result, right after it and in the order of the calls. Clients send results late, out
  of order or never, and a turn may have ended with calls that its client was to run.
- Reasoning goes back to the model only where it belongs to calls.
- Images in tool results become a mark for models without vision.
- Chat templates that reject tool messages, or system messages after the beginning, get text instead.

Each function returns the same object where nothing changes, so that what is cached by message stays valid.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import dropwhile

import msgspec

from aish.errors import ProviderError, ProviderRejected, ProviderUnavailable
from aish.types.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

NO_RESULT = "[aish] no result was given for this call."

# Words in a backend's refusal that speak of its chat template.
_SHAPE_REJECTION = re.compile(r"role|template|jinja|alternat|tool", re.IGNORECASE)
_SYSTEM_REJECTION = re.compile(r"system\W+(message|role|prompt)|role\W+system", re.IGNORECASE)


def fit_to_model(
    messages: tuple[Message, ...], *, has_vision: bool, takes_tool_role: bool, takes_late_system: bool
) -> tuple[Message, ...]:
    """Renders the messages, whose calls have their results, for a model and its chat template."""
    seen = drop_reasoning(messages)
    seen = seen if has_vision else strip_images(seen)
    if not (takes_tool_role and takes_late_system):
        seen = render_late_system_as_user(seen)
    return seen if takes_tool_role else render_tools_as_text(seen)


def pair_results(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Puts each result behind its call. Results without a call are dropped. An id that is used again is paired in
    order."""
    for message in messages:
        if type(message) is ToolMessage or (type(message) is AssistantMessage and message.tool_calls):
            return tuple(messages) if _is_paired(messages) else _pair(messages)
    return tuple(messages)


def _is_paired(messages: Sequence[Message]) -> bool:
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


def _pair(messages: Sequence[Message]) -> tuple[Message, ...]:
    results: defaultdict[str, deque[ToolMessage]] = defaultdict(deque)
    for message in messages:
        if isinstance(message, ToolMessage):
            results[message.tool_call_id].append(message)
    paired: list[Message] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            continue
        paired.append(message)
        if type(message) is AssistantMessage:
            paired += [_result_of(call, results[call.id]) for call in message.tool_calls]
    return tuple(paired)


def _result_of(call: ToolCall, results: deque[ToolMessage]) -> ToolMessage:
    parts = results.popleft().parts if results else (TextPart(NO_RESULT),)
    return ToolMessage(call.id, call.name, parts)


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


def drop_reasoning(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Keeps the reasoning before tool calls, and drops all other.

    Some models insist on their reasoning while they work, and most do better with it. It stays when the user has spoken
    again, since what was sent once is sent again unchanged.
    """
    if not any(map(_has_reasoning, messages)):
        return messages
    return tuple(message if _has_calls(message) else _without_reasoning(message) for message in messages)


def _has_reasoning(message: Message) -> bool:
    return type(message) is AssistantMessage and bool(message.reasoning)


def _has_calls(message: Message) -> bool:
    return type(message) is AssistantMessage and bool(message.tool_calls)


def _without_reasoning(message: Message) -> Message:
    if type(message) is AssistantMessage and message.reasoning:
        return msgspec.structs.replace(message, reasoning="")
    return message


def strip_images(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Strips images from tool results, for models without vision. Images of the user stay: the user wants them seen,
    and the backend's refusal says why they are not."""
    for message in messages:
        if type(message) is ToolMessage and message.images:
            return tuple(_mark_images(message) if type(message) is ToolMessage else message for message in messages)
    return messages


def _mark_images(message: ToolMessage) -> ToolMessage:
    parts = (TextPart(part.mark) if isinstance(part, ImagePart) else part for part in message.parts)
    return ToolMessage(message.tool_call_id, message.name, tuple(parts))


def render_tools_as_text(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Renders a conversation for templates that reject `role: "tool"`. Calls become text of the assistant, results
    `[tool: name]` text of the user. Neighbours of one role are joined, since such templates insist on alternation."""
    rendered: list[Message] = []
    for message in messages:
        plain = _without_tools(message)
        previous = rendered[-1] if rendered else None
        if isinstance(plain, UserMessage) and isinstance(previous, UserMessage):
            rendered[-1] = UserMessage((*previous.parts, TextPart("\n\n"), *plain.parts))
        elif isinstance(plain, AssistantMessage) and isinstance(previous, AssistantMessage):
            rendered[-1] = AssistantMessage(f"{previous.text}\n\n{plain.text}")
        else:
            rendered.append(plain)
    return tuple(rendered)


def _without_tools(message: Message) -> SystemMessage | UserMessage | AssistantMessage:
    if isinstance(message, ToolMessage):
        heading: Part = TextPart(f"[tool: {message.name}]\n")
        return UserMessage((heading, *message.parts))
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = [f"[call: {call.name}] {call.arguments or '{}'}" for call in message.tool_calls]
        return AssistantMessage("\n".join(filter(None, [message.text, *calls])))
    return message


def render_late_system_as_user(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Renders system messages after the beginning as `[system]` text of the user."""
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


def is_tool_role_rejection(error: ProviderError) -> bool:
    """Whether a backend's refusal reads like a chat template that cannot render tool messages."""
    return _is_rejection(error, _SHAPE_REJECTION)


def is_late_system_rejection(error: ProviderError) -> bool:
    """Whether a backend's refusal reads like a chat template that cannot render a late system message."""
    return _is_rejection(error, _SYSTEM_REJECTION)


def _is_rejection(error: ProviderError, reason: re.Pattern[str]) -> bool:
    return isinstance(error, ProviderRejected | ProviderUnavailable) and bool(reason.search(error.message))
