"""Inputs and results of embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from aish.types.usage import Usage

Ids = Sequence[int]  # token ids of the model's own tokenizer
Inputs = Sequence[str] | Sequence[Ids]


def texts_of(inputs: Inputs) -> Sequence[str] | None:
    """The inputs as texts, or None if they are token ids."""
    texts = [given for given in inputs if isinstance(given, str)]
    return texts if len(texts) == len(inputs) else None


class Embedded(msgspec.Struct, frozen=True):
    """A vector for each input, in order. `usage` None: the backend did not report it."""

    vectors: Sequence[Sequence[float]]
    usage: Usage | None = None
