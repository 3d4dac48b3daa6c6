"""Which tools a weak model is offered: those whose words the question uses.

A model of a few hundred million parameters calls a tool whenever it may: asked for the capital of France it runs a
command. Fewer tools also cost fewer tokens. Larger models choose by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from aish.types.messages import Message, UserMessage
from aish.types.models import ModelInfo
from aish.types.tools import ToolSpec

_WORD = re.compile(r"[^\W\d_]{2,}|\d")
# Said in every second question, and of every second tool.
_COMMON_WORDS = """
a an and are as at be by can do does for from get give has have how if in into is it its like make me my name of on one
or please return returns say set that the them there this to tool use used uses using want was what when where which who
will with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_ENDINGS = ("ing", "ies", "es", "ed", "s")


def is_weak(info: ModelInfo | None) -> bool:
    return info is not None and info.is_weak


def relevant(tools: Sequence[ToolSpec], messages: Sequence[Message]) -> tuple[ToolSpec, ...]:
    """In their order. Empty if the question has no word in common with any."""
    asked = next((message.text for message in reversed(messages) if isinstance(message, UserMessage)), "")
    words = stems(asked)
    return tuple(tool for tool in tools if words & _words_of(tool))


def stems(text: str) -> set[str]:
    """Words without their usual endings; digits count as one word, which speaks for tools that take numbers."""
    found = {"0" if word.isdigit() else _stem(word) for word in _WORD.findall(text.casefold())}
    return found - _COMMON


def _words_of(tool: ToolSpec) -> set[str]:
    words = stems(f"{tool.name.partition('__')[2] or tool.name} {tool.description.partition('.')[0]}".replace("_", " "))
    properties = tool.schema.get("properties")
    named = stems(" ".join(_named(properties))) if isinstance(properties, dict) else set()
    return (words | named) - {"0"} | ({"0"} if _takes_numbers(properties) else set())


def _named(properties: dict[str, object]) -> Iterable[str]:
    return (name.replace("_", " ") for name in properties)


def _takes_numbers(properties: object) -> bool:
    """Only where they are all it takes: a limit beside a text is not what a number in a question means."""
    if not isinstance(properties, dict) or not properties:
        return False
    return all(isinstance(p, dict) and p.get("type") in ("number", "integer") for p in properties.values())


def _stem(word: str) -> str:
    ending = next((end for end in _ENDINGS if word.endswith(end) and len(word) - len(end) > 2), "")
    return word[: len(word) - len(ending)] if ending else word
