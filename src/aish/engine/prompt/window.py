"""Computes the token budget of a window, the turns that fit it, and cuts messages that are too large for it. Without
side effects.

Turns leave the window in large steps: each time the beginning of a prompt moves, the backend reads all of it again. A
step depends only on the sizes of the turns up to there, so a longer conversation leaves out the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from aish.types.context import ContextRules
from aish.types.messages import Message, Part, TextPart, ToolMessage, UserMessage

# Tokens kept free for the answer if none are configured: a long answer, but never most of a small window.
DEFAULT_ANSWER_TOKENS = 4096
# A message is not cut below this.
_LEAST_CHARS = 200
# Each cut takes this many tokens more than needed: the mark takes some, and each cut must come closer than the last.
_MORE_TOKENS = 64


def budget_for(window: int | None, rules: ContextRules, max_answer: int | None) -> int | None:
    """The largest prompt that the window allows, None if nothing bounds it."""
    if window is None:
        return rules.token_budget
    wanted = max_answer or rules.answer_room or min(window // 4, DEFAULT_ANSWER_TOKENS)
    budget = window - min(wanted, window // 2)
    return min(budget, rules.token_budget) if rules.token_budget else budget


def first_turn_of(count: int, max_turns: int | None) -> int:
    """The index of the first turn that goes along, if at most `max_turns` may."""
    if not max_turns or count <= max_turns:
        return 0
    step = max_turns - max_turns // 2
    return -(-(count - max_turns) // step) * step


def first_turn_within(sizes: Sequence[float], room: float) -> int:
    """The index of the first turn that goes along with the last one, the current turn.

    When the room is full, so many turns leave that half of it is free, or as much as the current turn needs.
    """
    first, history = 0, 0.0
    for index, size in enumerate(sizes):
        if history + size > room:
            limit = room / 2
            while limit > 1 and limit + size > room:
                limit /= 2
            while first < index and history > min(limit, room - size):
                history -= sizes[first]
                first += 1
        history += size
    return first


def cut_largest(messages: Sequence[Message], sizes: Sequence[float], excess: float) -> list[Message] | None:
    """Cuts the largest message by about `excess` tokens; None if none can be cut."""
    for place in sorted(range(len(messages)), key=lambda place: -sizes[place]):
        message = messages[place]
        if not isinstance(message, UserMessage | ToolMessage) or len(message.text) <= _LEAST_CHARS:
            continue
        share = max(0.0, 1 - (excess + _MORE_TOKENS) / max(sizes[place], 1))
        chars = max(_LEAST_CHARS // 2, int(len(message.text) * share))
        cut = [*messages]
        cut[place] = _with_text(message, cut_text(message.text, chars))
        return cut
    return None


def cut_text(text: str, chars: int) -> str:
    """Keeps the beginning and the end, with a mark between them."""
    head = chars * 2 // 3
    tail = chars - head
    left_out = len(text) - chars
    return f"{text[:head]}\n[aish: {left_out} characters left out, too large for the model]\n{text[len(text) - tail :]}"


def _with_text(message: UserMessage | ToolMessage, text: str) -> Message:
    others: tuple[Part, ...] = tuple(part for part in message.parts if not isinstance(part, TextPart))
    parts = (TextPart(text), *others)
    if isinstance(message, ToolMessage):
        return ToolMessage(message.tool_call_id, message.name, parts)
    return UserMessage(parts)
