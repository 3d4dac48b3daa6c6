"""A model that follows a script, in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec

from aish.providers.scripted import Item, ScriptedProvider, from_steps
from aish.types.chunks import CallFragment, StepEnd, StepFinished
from aish.types.events import TextDelta

_calls = count(1)


def call(tool: str, /, **arguments: Any) -> Item:
    """A call that the model makes in a step."""
    return CallFragment(0, f"call_{next(_calls)}", tool, msgspec.json.encode(arguments).decode())


class Scripted(ScriptedProvider):
    """Each step is what the model says in answer to one request: a text, a `call`, or a list of them. After the last
    step, that one is repeated. `requests` are the requests that it got."""

    def __init__(self, *steps: str | Item | Sequence[str | Item], name: str = "scripted-test") -> None:
        super().__init__(name, {"model": from_steps([_read_step(step) for step in steps] or [[]])})

    @property
    def model(self) -> str:
        """The full name of the model."""
        return f"{self.name}:model"


def _read_step(step: str | Item | Sequence[str | Item]) -> list[Item]:
    given = [step] if isinstance(step, str) or not isinstance(step, Sequence) else list(step)
    items: list[Item] = [TextDelta(item) if isinstance(item, str) else item for item in given]
    has_call = any(isinstance(item, CallFragment) for item in items)
    return [*items, StepFinished(StepEnd.TOOL_CALLS)] if has_call else items
