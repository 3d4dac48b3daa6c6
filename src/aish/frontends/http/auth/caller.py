"""Who is asking."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from aish.types.globs import globs_of

_ALL = ("*",)


class Caller(msgspec.Struct, frozen=True):
    """Who asks and what they may: `key` is the id of their key, "" where none is needed, `digest` its hash where it is
    kept. Globs.

    `admin`: also sees and answers what belongs to others. `metrics`: may read what is counted of everybody.
    """

    key: str = ""
    models: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    admin: bool = False
    metrics: bool = False
    digest: str = ""

    @property
    def owner(self) -> str:
        """Whose answers "always" are, and whose commands: an administrator's are everyone's."""
        return "" if self.admin else self.key

    def may_use_model(self, name: str) -> bool:
        return self.models == _ALL or name in globs_of(self.models)

    def allowed(self, tools: Sequence[str]) -> tuple[str, ...]:
        """Of these tool names, those that the key covers."""
        if self.tools == _ALL:
            return tuple(tools)
        covered = globs_of(self.tools)
        return tuple(name for name in tools if name in covered)

    def session(self, named: str) -> str:
        """Where a session of that name is kept: sessions of one key are nobody else's."""
        return f"{self.key}/{named}" if self.key and named else named
