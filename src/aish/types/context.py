"""How much of a model's window a conversation may take, and what a prompt consists of."""

from __future__ import annotations

from typing import Literal

import msgspec


class ContextRules(msgspec.Struct, frozen=True):
    """None leaves it to the model's own window.

    `token_budget` is for the whole request, `answer_room` is kept free for the answer. A message that is larger than
    the whole budget is cut with a mark, or the turn is refused.
    """

    max_turns: int | None = None
    token_budget: int | None = None
    answer_room: int | None = None
    oversized: Literal["cut", "refuse"] = "cut"
    summarize: bool = False
    summary_model: str = ""
    max_tools_share: float = 0.1  # of the window, for the descriptions of many tools
    summary_tokens: int = 1000


class ContextPart(msgspec.Struct, frozen=True):
    name: str
    tokens: int


class ContextView(msgspec.Struct, frozen=True):
    """The parts of a prompt. `budget` None: nothing bounds it."""

    model: str
    parts: tuple[ContextPart, ...]
    window: int | None
    budget: int | None
    turns: int
    left_out: int
    counted_by: Literal["backend", "guess"]

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


class Background(msgspec.Struct, frozen=True):
    """What the model is told besides the conversation. `fixed` is the same in all turns and belongs at the beginning;
    the rest goes with the newest message. `place` is where the user is now, and `workspace` what belongs to the
    workspace of now, whose first line names it. Both are told if they differ from what was told last, at first in
    `fixed`."""

    fixed: str = ""
    memory: str = ""
    project: str = ""
    place: str = ""
    workspace: str = ""


class SystemTexts(msgspec.Struct, frozen=True):
    """What an engine tells every model. `tools_note` is for models that have tools, `instructions` are those of the
    project for models of at least a billion parameters."""

    base: str = ""
    tools_note: str = ""
    instructions: str = ""


NO_TEXTS = SystemTexts()
