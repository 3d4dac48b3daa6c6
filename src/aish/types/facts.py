"""A fact that outlives a session."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class FactKind(StrEnum):
    FACT = "fact"
    PREFERENCE = "preference"
    CONTEXT = "context"


class Fact(msgspec.Struct, frozen=True):
    """`source` says where it comes from: `user`, `import`, or the session it was proposed in."""

    id: str
    text: str
    created_ms: int
    updated_ms: int
    kind: FactKind = FactKind.FACT
    tags: tuple[str, ...] = ()
    source: str = "user"
