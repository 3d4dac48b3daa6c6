"""Joins toolsets into one, with names that every provider accepts.

On the wire a tool is `source__tool` and matches `^[a-zA-Z0-9_-]{1,64}$`. Other characters are replaced and long names
are cut. If two names then collide, the later one gets a suffix made from its full name, so that it keeps the same wire
name in every run.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from weakref import WeakValueDictionary

import msgspec

from aish.errors import ToolError, UsageError
from aish.ports import CallContext, Previewing, Toolset, Witnessing
from aish.types.tools import MAX_NAME_CHARS, SEARCH_SOURCE, Arguments, ResultStatus, ToolOutput, ToolSpec, wire_name


class Binding(msgspec.Struct, frozen=True):
    """The toolset of a wire name, and the tool's name there."""

    spec: ToolSpec
    source: Toolset
    own_name: str


class Registry:
    """A Toolset made of others, by alias. An alias never contains `__`. `base`: it has those of another one, too."""

    def __init__(self, base: Registry | None = None) -> None:
        self._base = base
        self._sources: dict[str, Toolset] = {}
        self._fixed: dict[str, Sequence[ToolSpec]] = {}
        self._offered: _Offered = []
        self._by_name: dict[str, Binding] = {}
        self._specs: tuple[ToolSpec, ...] = ()
        self._hidden: Callable[[str, str], bool] = lambda alias, name: False
        self._views: WeakValueDictionary[str, Registry] = WeakValueDictionary()
        self._numbers = count(1)

    def add(self, alias: str, source: Toolset, *, is_fixed: bool = False) -> None:
        """`is_fixed`: the list of its tools never changes, so it is read once."""
        if not alias or "__" in alias or wire_name(alias) != alias or alias.endswith("_"):
            raise UsageError(
                f"'{alias}' cannot name a source of tools",
                hint="use letters, digits, '-' and single '_', not ending in '_'",
            )
        if self._has_source(alias) or alias == SEARCH_SOURCE:
            raise UsageError(f"there is already a source of tools named {alias}", hint="choose another name")
        self._sources[alias] = source
        if is_fixed:
            self._fixed[alias] = source.specs()

    def hide(self, hidden: Callable[[str, str], bool]) -> None:
        """Hides tools (alias and own name) from models; other parts of aish can still use them."""
        self._hidden = hidden
        self._offered = []

    def remove(self, alias: str) -> Toolset | None:
        self._fixed.pop(alias, None)
        return self._sources.pop(alias, None)

    def add_view(self, toolsets: Mapping[str, Toolset]) -> tuple[str, Registry]:
        """Returns a name and a view that also has these toolsets; what is added here later is in it, too. The name is
        valid as long as the view exists. Do not close the view: its toolsets belong to others."""
        view = Registry(self)
        for alias, source in toolsets.items():
            view.add(alias, source)
        name = f"dynamic{next(self._numbers)}"
        self._views[name] = view
        return name, view

    def with_dynamic(self, dynamic_mcp: str) -> Toolset:
        return self._views.get(dynamic_mcp, self)

    def next_alias(self, stem: str = "mcp") -> str:
        """Returns `mcp1`, `mcp2`, … for unnamed toolsets."""
        number = 1
        while f"{stem}{number}" in self._sources:
            number += 1
        return f"{stem}{number}"

    def specs(self) -> Sequence[ToolSpec]:
        """Returns the same object until a toolset changes its list. Sorted: servers connect and list their tools in any
        order, and tools stand at the beginning of a prompt, which backends cache."""
        self._bindings()
        return self._specs

    def find(self, name: str) -> Binding | None:
        """Finds a tool by its wire name; a dot is accepted for the first `__`."""
        bindings = self._bindings()
        return bindings.get(name) or bindings.get(wire_name(name))

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        binding = self.find(name)
        if binding is None:
            raise ToolError(f"the tool {name} is gone", status=ResultStatus.SERVER_GONE)
        return await binding.source.call(binding.own_name, arguments, context)

    async def preview(self, name: str, arguments: Arguments, call: str) -> str:
        binding = self.find(name)
        if binding is None or not isinstance(binding.source, Previewing):
            return ""
        return await binding.source.preview(binding.own_name, arguments, call)

    async def compute_witness(self, name: str, arguments: Arguments) -> str:
        binding = self.find(name)
        if binding is None or not isinstance(binding.source, Witnessing):
            return ""
        return await binding.source.compute_witness(binding.own_name, arguments)

    async def has_happened(self, name: str, witness: str) -> bool | None:
        binding = self.find(name)
        if binding is None or not isinstance(binding.source, Witnessing):
            return None
        return await binding.source.has_happened(binding.own_name, witness)

    async def aclose(self) -> None:
        """Closes all at once: each has its own time limits, and an error in one does not affect the others."""
        await asyncio.gather(*(source.aclose() for source in self._sources.values()), return_exceptions=True)

    def _has_source(self, alias: str) -> bool:
        return alias in self._sources or (self._base is not None and self._base._has_source(alias))

    def _list_offered(self) -> _Offered:
        """What is its own has its name also if the base gets something of that name later."""
        fixed = self._fixed
        own = [
            (alias, source, fixed[alias] if alias in fixed else source.specs())
            for alias, source in self._sources.items()
        ]
        if self._base is None:
            return own
        return [*(offer for offer in self._base._list_offered() if offer[0] not in self._sources), *own]

    def _bindings(self) -> dict[str, Binding]:
        """Rebuilds the map only if a toolset changed its list."""
        offered = self._list_offered()
        if not _is_same(offered, self._offered):
            self._offered = offered
            self._by_name = _bind(offered, (self._base or self)._hidden)
            self._specs = tuple(self._by_name[name].spec for name in sorted(self._by_name))
        return self._by_name


_Offered = list[tuple[str, Toolset, Sequence[ToolSpec]]]


def _is_same(offered: _Offered, before: _Offered) -> bool:
    if len(offered) != len(before):
        return False
    for (_, source, specs), (_, source_before, specs_before) in zip(offered, before, strict=True):
        if source is not source_before or specs is not specs_before:
            return False
    return True


def _bind(offered: _Offered, hidden: Callable[[str, str], bool]) -> dict[str, Binding]:
    bindings: dict[str, Binding] = {}
    for alias, source, specs in offered:
        for spec in specs:
            if hidden(alias, spec.name):
                continue
            name = _unique_name(alias, spec.name, bindings)
            bindings[name] = Binding(msgspec.structs.replace(spec, name=name, source=alias), source, spec.name)
    return bindings


def _unique_name(alias: str, own_name: str, taken: Iterable[str]) -> str:
    name = wire_name(f"{alias}__{own_name}")
    if name not in taken and len(alias) + 2 + len(own_name) <= MAX_NAME_CHARS:
        return name
    digest = hashlib.sha256(f"{alias}\0{own_name}".encode()).hexdigest()[:6]
    return f"{name[: MAX_NAME_CHARS - 7]}_{digest}"
