"""What a small model tells of a tool's result, looked at without a model. Pure.

Where it tells a number that neither the result nor the question holds, or that no tool fits, or where it breaks off,
the result is told as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from aish.types.chunks import Chunk
from aish.types.events import Status, TextDelta
from aish.types.live_shell import RAN_MARK
from aish.types.messages import Message, Part, SystemMessage, TextPart, ToolMessage, UserMessage

# A result longer than this is no answer: what the model made of it stays.
_MAX_CHARS = 400
_DIGITS = re.compile(r"[0-9]+")
_BROKEN_OFF = re.compile(r"[+\-:(,=/]\s*$")
_NO_TOOL = "none of the tools fits"


def this_turn(messages: Sequence[Message]) -> tuple[Message, ...]:
    """From the newest question on, with the system message: with the answers of earlier turns before it, a small model
    tells one of those. What the person had run before is left out, too: it would be taken for more to do."""
    begins = max((place for place, message in enumerate(messages) if isinstance(message, UserMessage)), default=0)
    system = [message for message in messages[:begins] if isinstance(message, SystemMessage)]
    return (*system, *map(_without_runs, messages[begins:]))


def _without_runs(message: Message) -> Message:
    if not isinstance(message, UserMessage):
        return message
    kept = tuple(part for part in message.parts if not _is_run(part))
    return UserMessage(kept) if kept else message


def _is_run(part: Part) -> bool:
    return isinstance(part, TextPart) and part.text.lstrip().startswith(RAN_MARK)


def retold(held: Sequence[Chunk], messages: Sequence[Message]) -> list[Chunk]:
    """The chunks of an answer, with the result in the place of its words where those are made up."""
    said = "".join(chunk.text for chunk in held if isinstance(chunk, TextDelta))
    result = next((message.text for message in reversed(messages) if isinstance(message, ToolMessage)), "").strip()
    why = _objection(said, messages)
    if not why or not result or len(result) > _MAX_CHARS:
        return list(held)
    others = [chunk for chunk in held if not isinstance(chunk, TextDelta)]
    return [Status(f"told as it is: {why}"), TextDelta(result), *others]


def _objection(said: str, messages: Sequence[Message]) -> str:
    if _NO_TOOL in said.casefold():
        return "the model speaks of no result"
    if _BROKEN_OFF.search(said):
        return "the model breaks off"
    heard = "\n".join(message.text for message in this_turn(messages) if isinstance(message, UserMessage | ToolMessage))
    known = {number.lstrip("0") for number in _DIGITS.findall(heard)}
    made_up = next((number for number in _DIGITS.findall(said) if number.lstrip("0") not in known), "")
    return f"{made_up} is in no result" if made_up else ""
