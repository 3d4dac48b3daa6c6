"""What Python extensions offer, kept up to date: their tools in the registry, their commands and their hooks.

What a source defines is known from a cache, by the hash of the source: the tool process starts for a new or changed
source, and for a call, and never to list tools that are known.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from aish import __version__
from aish.errors import ToolError, UsageError
from aish.extensions.manifest import BLOCKED, CommandEntry, HookEntry, Manifest, PythonSource, ToolEntry
from aish.ports import CallContext
from aish.tools.extensions.process import CallPlace, ToolProcess
from aish.tools.registry import Registry
from aish.types.tools import Arguments, ResultStatus, ToolOutput, ToolSpec

_MAX_CACHED = 1000


class FoundCommand(msgspec.Struct, frozen=True):
    source: PythonSource
    entry: CommandEntry


class FoundHook(msgspec.Struct, frozen=True):
    source: PythonSource
    entry: HookEntry


class FoundTool(msgspec.Struct, frozen=True):
    source: PythonSource
    entry: ToolEntry


class OwnerTools:
    """The tools of one extension. A Toolset."""

    def __init__(self, process: ToolProcess, workspace: Callable[[], Path], tools: Mapping[str, FoundTool]) -> None:
        self.tools = tools
        self._process = process
        self._workspace = workspace
        self._specs = tuple(found.entry.to_spec(found.source.owner) for found in tools.values())

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        found = self.tools.get(name)
        if found is None:
            raise ToolError(f"there is no tool {name}", status=ResultStatus.UNKNOWN_TOOL)
        place = CallPlace(
            str(self._workspace()), context.session, context.turn, context.call, context.status, context.output,
            context.ask_user,
        )  # fmt: skip
        return await self._process.call_tool(found.source, name, arguments, place)

    async def aclose(self) -> None:
        """The process is closed by its owner."""


class ExtensionTools:
    """`find_sources` lists the sources that the user trusts. It is called often and has to be quick. Those with the
    revision `BLOCKED` may not run: they have changed since the user trusted them, and only their hooks are known."""

    def __init__(
        self,
        process: ToolProcess,
        registry: Registry,
        find_sources: Callable[[], Sequence[PythonSource]],
        *,
        cache_file: Path,
        workspace: Callable[[], Path],
    ) -> None:
        self.process = process
        self.problems: tuple[str, ...] = ()
        self.commands: Mapping[str, FoundCommand] = {}
        self.hooks: Sequence[FoundHook] = ()
        self._registry = registry
        self._find_sources = find_sources
        self._cache = ManifestCache(cache_file)
        self._workspace = workspace
        self._sources: tuple[PythonSource, ...] = ()
        self._offered: dict[str, OwnerTools] = {}
        self._lock = asyncio.Lock()

    @property
    def owners(self) -> Collection[str]:
        """The extensions whose tools are offered."""
        return self._offered

    async def refresh(self) -> None:
        """Takes up sources that are new, changed or gone. Usually there is nothing to do."""
        if tuple(self._find_sources()) == self._sources:
            return
        async with self._lock:
            sources = tuple(self._find_sources())
            if sources == self._sources:
                return
            if _has_changed(self._sources, sources):
                self.process.retire()  # it has imported what was there before
            manifests = await self._read_manifests(sources)
            self._sources = sources
            self._take(manifests)

    async def aclose(self) -> None:
        await self.process.aclose()

    async def _read_manifests(self, sources: Sequence[PythonSource]) -> dict[PythonSource, Manifest]:
        known = self._cache.read(sources)
        known |= {source: Manifest(problem=BLOCKED) for source in sources if source.revision == BLOCKED}
        unknown = [source for source in sources if source not in known]
        if unknown:
            described = dict(zip(unknown, await self.process.describe(unknown), strict=True))
            self._cache.add(described)
            known |= described
        return {source: known[source] for source in sources}

    def _take(self, manifests: Mapping[PythonSource, Manifest]) -> None:
        problems = [each.problem for each in manifests.values() if each.problem not in ("", BLOCKED)]
        tools: dict[str, dict[str, FoundTool]] = {}
        commands: dict[str, FoundCommand] = {}
        hooks: list[FoundHook] = []
        for source, manifest in manifests.items():
            own = tools.setdefault(source.owner, {})
            first = [own.setdefault(entry.name, FoundTool(source, entry)) for entry in manifest.tools]
            firsts = [commands.setdefault(entry.name, FoundCommand(source, entry)) for entry in manifest.commands]
            found_first: tuple[FoundTool | FoundCommand, ...] = (*first, *firsts)
            # A source that cannot be read any more keeps its hooks, which fail then: a guard is not lost by a mistake.
            entries = self._cache.find_earlier_hooks(source) if manifest.problem else manifest.hooks
            hooks += [FoundHook(source, hook) for hook in entries]
            problems += [
                f"{source.title}: {found.source.title} has a {found.entry.name}, too"
                for found in found_first
                if found.source != source
            ]
        self.commands, self.hooks = commands, hooks
        problems += self._offer({owner: own for owner, own in tools.items() if own})
        self.problems = tuple(problems)

    def _offer(self, tools: Mapping[str, Mapping[str, FoundTool]]) -> list[str]:
        """Puts the tools of each extension into the registry, and takes out those that are gone. Returns problems."""
        problems = []
        for owner in [owner for owner, offered in self._offered.items() if tools.get(owner) != offered.tools]:
            self._registry.remove(owner)
            del self._offered[owner]
        for owner, own in tools.items():
            if owner in self._offered:
                continue
            toolset = OwnerTools(self.process, self._workspace, own)
            try:
                self._registry.add(owner, toolset)
            except UsageError as exc:
                problems.append(f"the tools of {owner} are not offered: {exc.message}")
            else:
                self._offered[owner] = toolset
        return problems


class ManifestCache:
    """What sources define, in a file, so that the tool process need not start to list tools."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._manifests: dict[str, Manifest] | None = None

    def read(self, sources: Iterable[PythonSource]) -> dict[PythonSource, Manifest]:
        manifests = self._load()
        return {source: manifests[key] for source in sources if (key := _key(source)) in manifests}

    def add(self, described: Mapping[PythonSource, Manifest]) -> None:
        """A source with a problem is tried again by the next aish. Without a cache that can be written, all are."""
        new = {_key(source): manifest for source, manifest in described.items() if not manifest.problem}
        if not new:
            return
        kept = list({**self._load(), **new}.items())[-_MAX_CACHED:]
        self._manifests = dict(kept)
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = self._file.with_suffix(".part")
            part.write_bytes(msgspec.json.encode(self._manifests))
            part.replace(self._file)
        except OSError:
            return

    def find_earlier_hooks(self, source: PythonSource) -> Sequence[HookEntry]:
        """The hooks that the newest known revision of the source defines."""
        prefix = "\0".join((source.path, source.module, ""))
        known = [manifest for key, manifest in self._load().items() if key.startswith(prefix)]
        return known[-1].hooks if known else ()

    def _load(self) -> dict[str, Manifest]:
        if self._manifests is None:
            try:
                self._manifests = msgspec.json.decode(self._file.read_bytes(), type=dict[str, Manifest])
            except (OSError, msgspec.MsgspecError):
                self._manifests = {}
        return self._manifests


def _key(source: PythonSource) -> str:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return "\0".join((source.path, source.module, source.revision, __version__, python))


def _has_changed(before: Sequence[PythonSource], now: Sequence[PythonSource]) -> bool:
    """Whether a source has another revision now."""
    revisions = {(source.path, source.module): source.revision for source in before}
    return any(revisions.get((source.path, source.module), source.revision) != source.revision for source in now)
