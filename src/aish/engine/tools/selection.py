"""Holds the tools of one turn. They are selected at its start and stay the same to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from aish.tool_calls.repair.fuzzy_match import find_similar, without_prefix
from aish.types.tools import ToolSpec, wire_name

if TYPE_CHECKING:
    from aish.engine.tools.tool_search import ToolSearch

# More tools than this are shown to a model only as far as its window allows; fewer are not worth a search.
MANY_TOOLS = 24


def combine_tools(
    known: Callable[[], Iterable[ToolSpec]], offered: Iterable[ToolSpec], clients: Sequence[ToolSpec]
) -> ToolSelection:
    """The selection of these tools of ours and of the client. Ours win where names are equal."""
    ours = {spec.name: spec for spec in offered}
    theirs = {spec.name: spec for spec in clients if spec.name not in ours} if clients else {}
    return ToolSelection(known, ours, theirs, (*ours.values(), *theirs.values()))


class ToolSelection(msgspec.Struct, eq=False, dict=True):
    """`_list_known` lists every tool there is. `_offered` are the tools of ours that this request may use; `_clients`
    are the client's own. `specs` are those that the model is shown: all, or a few and a search (`tool_search`)."""

    _list_known: Callable[[], Iterable[ToolSpec]]
    _offered: dict[str, ToolSpec] = {}
    _clients: dict[str, ToolSpec] = {}
    specs: tuple[ToolSpec, ...] = ()
    tool_search: ToolSearch | None = None

    @cached_property
    def _known(self) -> frozenset[str]:
        """Computed when a model names a tool, since most turns have no call."""
        return frozenset(spec.name for spec in (*self._list_known(), *self.specs))

    @property
    def own_specs(self) -> tuple[ToolSpec, ...]:
        """The tools of ours that this request may use, shown or not."""
        return tuple(self._offered.values())

    def has_all(self, names: Iterable[str]) -> bool:
        return all(name in self._offered for name in names)

    def show_only(
        self, visible: Sequence[ToolSpec], more: Sequence[ToolSpec], search: ToolSearch | None
    ) -> ToolSelection:
        """The same tools, of which the model is shown these, and `more` to reach the others with."""
        specs = (*visible, *more, *self._clients.values())
        return ToolSelection(self._list_known, self._offered, self._clients, specs, search)

    @property
    def has_clients(self) -> bool:
        return bool(self._clients)

    def is_client_tool(self, name: str) -> bool:
        return name in self._clients

    def find(self, name: str) -> ToolSpec | None:
        return self._offered.get(name)

    def find_meant(self, name: str) -> ToolSpec | None:
        """The one tool of ours that a misspelt name means. The name of an existing tool is never taken for another.
        Names of the client's tools are not corrected: the client sees them as written."""
        if name in self._known:
            return None
        return self._offered.get(find_similar(name, [*self._offered, *self._clients]) or "")

    def is_known(self, name: str) -> bool:
        return name in self._known

    def canonical(self, name: str) -> str:
        """The wire name for what a model wrote: `runtime.add` means `runtime__add`."""
        if name in self._known or name in self._clients:
            return name
        bare = without_prefix(name)
        return bare if bare in self._known or bare in self._clients else wire_name(bare)

    def near(self, name: str) -> list[str]:
        import difflib  # slow to import, and needed for typos only

        return difflib.get_close_matches(name, [*self._offered, *self._clients], n=3)
