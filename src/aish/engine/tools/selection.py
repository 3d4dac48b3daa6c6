"""The tools of one turn: chosen at its start, the same to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

import msgspec

from aish.tool_calls.repair.fuzzy_match import find_near, without_prefix
from aish.types.tools import ToolSpec, wire_name


def combine_tools(
    known: Callable[[], Iterable[ToolSpec]], offered: Iterable[ToolSpec], clients: Iterable[ToolSpec]
) -> ToolSelection:
    ours = {spec.name: spec for spec in offered}
    theirs = {spec.name: spec for spec in clients if spec.name not in ours}
    return ToolSelection(known, ours, theirs, (*ours.values(), *theirs.values()))


class ToolSelection(msgspec.Struct, eq=False, dict=True):
    """`list_known` says every tool there is; `offered` is what this request may use and the model is shown, besides
    those that the asker runs: `clients`. `specs` are both."""

    _list_known: Callable[[], Iterable[ToolSpec]]
    _offered: dict[str, ToolSpec] = {}
    _clients: dict[str, ToolSpec] = {}
    specs: tuple[ToolSpec, ...] = ()

    @cached_property
    def _known(self) -> frozenset[str]:
        """Asked for when a model names a tool: most turns have none."""
        return frozenset(spec.name for spec in self._list_known())

    @property
    def has_clients(self) -> bool:
        return bool(self._clients)

    def is_clients(self, name: str) -> bool:
        return name in self._clients

    def find(self, name: str) -> ToolSpec | None:
        return self._offered.get(name)

    def find_meant(self, name: str) -> ToolSpec | None:
        """The one tool of ours that a misspelt name means. One that exists is never taken for another, and the
        asker's own are not for us to guess: it sees the name as it was written."""
        if name in self._known:
            return None
        return self._offered.get(find_near(name, [*self._offered, *self._clients]) or "")

    def is_known(self, name: str) -> bool:
        return name in self._known

    def canonical(self, name: str) -> str:
        """The wire name for what a model wrote: `runtime.add` means `runtime__add`."""
        if name in self._known or name in self._clients:
            return name
        bare = without_prefix(name)
        return bare if bare in self._known or bare in self._clients else wire_name(bare)

    def near(self, name: str) -> list[str]:
        import difflib  # only for those who mistype

        return difflib.get_close_matches(name, [*self._offered, *self._clients], n=3)
