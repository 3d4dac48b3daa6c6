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
    summary_tokens: int = 400


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
