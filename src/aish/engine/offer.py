"""The tools of one turn: chosen at its start, the same to its end."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from aish.types.tools import ToolSpec, wire_name


class Offer:
    """`known` is every tool there is; `offered` is what this request may use and the model is shown."""

    def __init__(self, known: Iterable[ToolSpec], offered: Iterable[ToolSpec]) -> None:
        self._known = {spec.name: spec for spec in known}
        self._offered = {spec.name: spec for spec in offered}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(self._offered.values())

    def find(self, name: str) -> ToolSpec | None:
        return self._offered.get(name)

    def is_known(self, name: str) -> bool:
        return name in self._known

    def canonical(self, name: str) -> str:
        """The wire name for what a model wrote: `runtime.add` means `runtime__add`."""
        return name if name in self._known else wire_name(name)

    def near(self, name: str) -> list[str]:
        return difflib.get_close_matches(name, self._offered, n=3)


def matches(name: str, globs: Sequence[str]) -> bool:
    """Globs may be written with a dot, too: `runtime.*` is `runtime__*`."""
    return any(fnmatchcase(name, glob) or fnmatchcase(name, glob.replace(".", "__", 1)) for glob in globs)
