"""All tools under one roof, with names that every provider accepts and that lead back to their source.

On the wire a tool is `source__tool`, matching `^[a-zA-Z0-9_-]{1,64}$`. Characters outside that are replaced, names too
long are cut, and where two then collide the later one gets a suffix made from its own full name, so that it keeps the
same wire name from run to run. One map knows both names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from aish.errors import ToolError, UsageError
from aish.ports import CallContext, Toolset
from aish.types.tools import MAX_NAME_CHARS, Arguments, ResultStatus, ToolOutput, ToolSpec, wire_name


class Binding(msgspec.Struct, frozen=True):
    """Where a wire name leads: the source and the name the source itself knows."""

    spec: ToolSpec
    source: Toolset
    own_name: str


class Registry:
    """A Toolset made of others, by alias. The alias of a source never contains `__`."""

    def __init__(self) -> None:
        self._sources: dict[str, Toolset] = {}

    def add(self, alias: str, source: Toolset) -> None:
        if not alias or "__" in alias or wire_name(alias) != alias or alias.endswith("_"):
            raise UsageError(
                f"'{alias}' cannot name a source of tools",
                hint="use letters, digits, '-' and single '_', not ending in '_'",
            )
        if alias in self._sources:
            raise UsageError(f"there is already a source of tools named {alias}", hint="choose another name")
        self._sources[alias] = source

    def remove(self, alias: str) -> Toolset | None:
        return self._sources.pop(alias, None)

    def next_alias(self, stem: str = "mcp") -> str:
        """`mcp1`, `mcp2`, … for sources nobody named."""
        number = 1
        while f"{stem}{number}" in self._sources:
            number += 1
        return f"{stem}{number}"

    def specs(self) -> Sequence[ToolSpec]:
        return [binding.spec for binding in self._bindings().values()]

    def find(self, name: str) -> Binding | None:
        """By wire name; a dot is accepted for the first `__`."""
        bindings = self._bindings()
        return bindings.get(name) or bindings.get(wire_name(name))

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        binding = self.find(name)
        if binding is None:
            raise ToolError(f"the tool {name} is gone", status=ResultStatus.SERVER_GONE)
        return await binding.source.call(binding.own_name, arguments, context)

    async def aclose(self) -> None:
        for source in self._sources.values():
            await source.aclose()

    def _bindings(self) -> dict[str, Binding]:
        bindings: dict[str, Binding] = {}
        for alias, source in self._sources.items():
            for spec in source.specs():
                name = _free_name(alias, spec.name, bindings)
                named = msgspec.structs.replace(spec, name=name, source=alias)
                bindings[name] = Binding(named, source, spec.name)
        return bindings


def _free_name(alias: str, own_name: str, taken: Iterable[str]) -> str:
    name = wire_name(f"{alias}__{own_name}")
    if name not in taken and len(alias) + 2 + len(own_name) <= MAX_NAME_CHARS:
        return name
    digest = hashlib.sha256(f"{alias}\0{own_name}".encode()).hexdigest()[:6]
    return f"{name[: MAX_NAME_CHARS - 7]}_{digest}"
