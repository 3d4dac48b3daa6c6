"""Help for weak models: fewer tools, shorter conversations, and a check of what they say about a tool's result. Pure.

A model of a few hundred million parameters calls a tool whenever it may: asked for the capital of France, it runs a
command. So it is offered only the tools whose words the question uses, which also saves tokens. Larger models choose by
themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from aish.types.chunks import Chunk
from aish.types.events import Status, TextDelta
from aish.types.live_shell import RAN_MARK
from aish.types.messages import Message, Part, SystemMessage, TextPart, ToolMessage, UserMessage
from aish.types.tools import ToolSpec

_WORD = re.compile(r"[^\W\d_]{2,}|\d")
# Words that are in every second question and in the description of every second tool.
_COMMON_WORDS = """
a an and are as at be by can do does for from get give has have how if in into is it its like make me my name of on one
or please return returns say set that the them there this to tool use used uses using want was what when where which who
will with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_ENDINGS = ("ing", "ies", "es", "ed", "s")


def select_relevant(tools: Sequence[ToolSpec], messages: Sequence[Message]) -> tuple[ToolSpec, ...]:
    """Keeps the order. Empty if the question has no word in common with any tool."""
    question = next((message.text for message in reversed(messages) if isinstance(message, UserMessage)), "")
    words = stems(question)
    return tuple(tool for tool in tools if words & _words_of(tool))


def stems(text: str) -> set[str]:
    """Words without their usual endings. Digits count as one word, which speaks for tools that take numbers."""
    found = {"0" if word.isdigit() else _stem(word) for word in _WORD.findall(text.casefold())}
    return found - _COMMON


def _words_of(tool: ToolSpec) -> set[str]:
    words = stems(f"{tool.name.partition('__')[2] or tool.name} {tool.description.partition('.')[0]}".replace("_", " "))
    properties = tool.schema.get("properties")
    named = stems(" ".join(_drop_unnamed(properties))) if isinstance(properties, dict) else set()
    return (words | named) - {"0"} | ({"0"} if _takes_numbers(properties) else set())


def _drop_unnamed(properties: dict[str, object]) -> Iterable[str]:
    return (name.replace("_", " ") for name in properties)


def _takes_numbers(properties: object) -> bool:
    """True only if all arguments are numbers: a number in a question does not mean the limit beside a text."""
    if not isinstance(properties, dict) or not properties:
        return False
    return all(isinstance(p, dict) and p.get("type") in ("number", "integer") for p in properties.values())


def _stem(word: str) -> str:
    ending = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) > 2), "")
    return word[: len(word) - len(ending)] if ending else word


# A longer result cannot stand as the answer, so the model's words stay.
_MAX_CHARS = 400
_DIGITS = re.compile(r"[0-9]+")
_BROKEN_OFF = re.compile(r"[+\-:(,=/]\s*$")
_NO_TOOL = "none of the tools fits"


def current_turn_only(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages from the latest question on, with the system message. Shown answers of earlier turns, a small model
    repeats one of them. Output of commands that the user ran before is removed, too: the model would take it for
    another task."""
    start = max((index for index, message in enumerate(messages) if isinstance(message, UserMessage)), default=0)
    system = [message for message in messages[:start] if isinstance(message, SystemMessage)]
    return (*system, *map(_without_runs, messages[start:]))


def _without_runs(message: Message) -> Message:
    if not isinstance(message, UserMessage):
        return message
    parts = tuple(part for part in message.parts if not _is_run(part))
    return UserMessage(parts) if parts else message


def _is_run(part: Part) -> bool:
    return isinstance(part, TextPart) and part.text.lstrip().startswith(RAN_MARK)


def replace_made_up(chunks: Sequence[Chunk], messages: Sequence[Message]) -> list[Chunk]:
    """Returns the chunks of an answer, with the tool's result instead of its text if the text is made up: if it
    contains a number that is neither in the result nor in the question, says that no tool fits, or breaks off."""
    answer = "".join(chunk.text for chunk in chunks if isinstance(chunk, TextDelta))
    result = next((message.text for message in reversed(messages) if isinstance(message, ToolMessage)), "").strip()
    why = _objection(answer, messages)
    if not why or not result or len(result) > _MAX_CHARS:
        return list(chunks)
    others = [chunk for chunk in chunks if not isinstance(chunk, TextDelta)]
    return [Status(f"told as it is: {why}"), TextDelta(result), *others]


def _objection(answer: str, messages: Sequence[Message]) -> str:
    if _NO_TOOL in answer.casefold():
        return "the model speaks of no result"
    if _BROKEN_OFF.search(answer):
        return "the model breaks off"
    context = "\n".join(
        message.text for message in current_turn_only(messages) if isinstance(message, UserMessage | ToolMessage)
    )
    known = {number.lstrip("0") for number in _DIGITS.findall(context)}
    made_up = next((number for number in _DIGITS.findall(answer) if number.lstrip("0") not in known), "")
    return f"{made_up} is in no result" if made_up else ""
