"""What texts become for a search by meaning."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from aish.types.usage import Usage


class Embedded(msgspec.Struct, frozen=True):
    """A vector for each text, in their order. `usage` None: the backend has not said what it used."""

    vectors: Sequence[Sequence[float]]
    usage: Usage | None = None
