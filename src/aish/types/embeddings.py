"""What texts become for a search by meaning, and what they may come as."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from aish.types.usage import Usage

Ids = Sequence[int]  # of the tokens that a text is to the model's own tokenizer
Inputs = Sequence[str] | Sequence[Ids]


def texts_of(inputs: Inputs) -> Sequence[str] | None:
    """None where they are ids."""
    texts = [given for given in inputs if isinstance(given, str)]
    return texts if len(texts) == len(inputs) else None


class Embedded(msgspec.Struct, frozen=True):
    """A vector for each input, in their order. `usage` None: the backend has not said what it used."""

    vectors: Sequence[Sequence[float]]
    usage: Usage | None = None
