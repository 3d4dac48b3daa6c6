"""What a conversation may take of a model's window, and what was made of it."""

from __future__ import annotations

from typing import Literal

import msgspec


class ContextRules(msgspec.Struct, frozen=True):
    """None leaves it to the model's own window.

    `token_budget` is for the whole request, `answer_room` what is left free of the window for the answer. A message
    larger than all that there is room for is cut with a mark, or the turn refused.
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
    """What a request would be made of. `budget` None: nothing bounds it."""

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
