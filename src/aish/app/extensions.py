"""Python extensions of one engine: finds what the user trusts, and makes its parts when the first of it is found."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aish.config import paths
from aish.config.schema.config import Config
from aish.config.tool_files import ToolFile, ToolFileFinder
from aish.errors import ConfigError, UsageError
from aish.extensions.manifest import BLOCKED
from aish.tools.registry import Registry

if TYPE_CHECKING:
    from aish.config.extensions import Extension
    from aish.extensions.manifest import CommandEntry, Manifest, PythonSource
    from aish.frontends.extension_view import CommandReply
    from aish.tools.extensions.hooks import HookRunner
    from aish.tools.extensions.toolset import ExtensionTools
    from aish.types.decisions import HookEvent, HookPoint, HookVerdict

log = logging.getLogger(__name__)

# How often the files of enabled extensions are looked at: a change in them has no effect until it is enabled anyway.
_LOOK_S = 2.0
_FRESH_S = 1.0
_MAX_LATE_NOTICES = 10


class PythonExtensions:
    """`workspace` is the folder that the user is in."""

    def __init__(
        self,
        config: Config,
        env: Mapping[str, str],
        workspace: Callable[[], Path],
        registry: Registry,
        redact: Callable[[str], str],
        *,
        serving: bool = False,
    ) -> None:
        self._config = config.extensions
        self._hook_commands = config.hooks
        self._redact = redact
        self._env = env
        self._workspace = workspace
        self._registry = registry
        self._finder = ToolFileFinder(env)
        self._enabled: Sequence[Extension] = ()
        self._enabled_until_s = 0.0
        self._fresh_until_s = 0.0
        self._is_serving = serving
        self._fresh_s = _FRESH_S if serving else 0.0
        self._reported: set[str] = set()
        self._is_first = True
        self._late_notices: list[str] = []
        self._damage = ""  # why it is not known what is enabled

    async def refresh(self) -> Sequence[str]:
        """Takes up what was added, changed or removed. Nothing is imported while there are no extensions.

        A server refreshes with each request, so it reads folders once a second."""
        now_s = time.monotonic()
        if not self._config.enabled or now_s < self._fresh_until_s:
            return ()
        files = self.tool_files()
        if self._is_made or self._sources_among(files):
            await self.tools.refresh()
        self._fresh_until_s = now_s + self._fresh_s
        late, self._late_notices = self._late_notices, []
        problems = [*self._problems_among(files), *self._changes_among(files)]
        new = [problem for problem in problems if problem not in self._reported]
        self._reported.update(new)
        if self._is_serving:
            for problem in (*new, *late):
                log.warning("%s", problem)
        return [*new, *late]

    async def aclose(self) -> None:
        if self._is_made:
            await self.tools.aclose()

    def tool_files(self) -> Sequence[ToolFile]:
        return self._finder.find(self._workspace())

    @property
    def enabled(self) -> Sequence[Extension]:
        """The extensions that the user has enabled, also those that have changed since."""
        now_s = time.monotonic()
        if now_s >= self._enabled_until_s:
            self._enabled_until_s = now_s + _LOOK_S
            self._enabled = self._find_enabled()
        return self._enabled

    async def describe(self, sources: Sequence[PythonSource]) -> Sequence[Manifest]:
        return await self.tools.process.describe(sources)

    async def run_command(self, name: str, text: str, cwd: str) -> CommandReply:
        from aish.tools.extensions.process import CallPlace

        found = self.tools.commands.get(name) if self._is_made else None
        if found is None:  # its file went while the line was typed or read
            raise UsageError(f"the command {name} is gone", hint="its file or its extension was removed or changed")
        return await self.tools.process.run_command(found.source, name, text, CallPlace(cwd))

    def has_tools_of(self, source: str) -> bool:
        return self._is_made and source in self.tools.owners

    @property
    def commands(self) -> Mapping[str, CommandEntry]:
        return {name: found.entry for name, found in self.tools.commands.items()} if self._is_made else {}

    def has_hooks(self, point: HookPoint) -> bool:
        """Whether there is any hook for this point."""
        return bool(self._hook_commands or (self._is_made and self.tools.hooks)) and self._hooks.has_hooks(point)

    async def run_hooks(self, event: HookEvent) -> HookVerdict:
        """Runs the hooks for an event. What fails after a turn is told with the next one."""
        verdict = await self._hooks.run_hooks(event)
        if event.point == "after_turn":
            self._late_notices = [*self._late_notices, *verdict.notices][-_MAX_LATE_NOTICES:]
        return verdict

    @cached_property
    def _hooks(self) -> HookRunner:
        from aish.tools.extensions.hooks import HookRunner

        return HookRunner(
            lambda: self.tools.process,
            lambda: self.tools.hooks if self._is_made else (),
            self._hook_commands,
            timeout_s=self._config.hook_timeout_s,
            failing=self._config.failing_hook,
            workspace=self._workspace,
            redact=self._redact,
            folder=folder if (folder := paths.config_dir(self._env)).is_dir() else Path("/"),
        )

    @property
    def problems(self) -> Sequence[str]:
        """What is wrong with files and extensions, in words."""
        return self._problems_among(self.tool_files())

    def _problems_among(self, found: Sequence[ToolFile]) -> Sequence[str]:
        files = [f"{each.file.path} {each.file.problem}" for each in found if each.file.problem]
        folders = [f"the extension {each.name} {each.problem}" for each in self.enabled if each.problem]
        damage = [self._damage] if self._damage else []
        return [*files, *folders, *damage, *(self.tools.problems if self._is_made else ())]

    def _changes_among(self, found: Sequence[ToolFile]) -> list[str]:
        """Files that are no longer trusted. Those that were not at the start are told of there."""
        changed = [
            f"{each.file.path} has changed, and is ignored until you trust it: `aish config trust`"
            for each in found
            if each.file.state == "untrusted"
        ]
        if self._is_first:
            self._is_first = False
            self._reported.update(changed)
        return changed

    @property
    def _is_made(self) -> bool:
        return "tools" in self.__dict__

    @cached_property
    def tools(self) -> ExtensionTools:
        from aish.tools.extensions.process import ToolProcess
        from aish.tools.extensions.toolset import ExtensionTools

        process = ToolProcess(
            workspace=self._workspace,
            env_patterns=self._config.env,
            max_memory_mb=self._config.max_memory_mb,
            settings=self._config.settings,
        )
        return ExtensionTools(
            process,
            self._registry,
            self._find_sources,
            cache_file=paths.cache_dir(self._env) / "extensions.json",
            workspace=self._workspace,
        )

    def _find_sources(self) -> Sequence[PythonSource]:
        return self._sources_among(self.tool_files()) if self._config.enabled else ()

    def _sources_among(self, files: Sequence[ToolFile]) -> Sequence[PythonSource]:
        """What the user trusts; and, blocked, what has changed since: its hooks refuse then rather than vanish."""
        found = [(each.source, each.is_usable) for each in files if each.file.state != "refused"]
        found += [(source, each.is_usable) for each in self.enabled for source in each.sources]
        return [
            source if is_usable else msgspec.structs.replace(source, revision=BLOCKED) for source, is_usable in found
        ]

    def _find_enabled(self) -> Sequence[Extension]:
        if not paths.extensions_file(self._env).exists():
            return ()
        from aish.config.extensions import find_extensions

        self._damage = ""
        try:
            return find_extensions(self._env)
        except ConfigError as exc:
            self._damage = f"{exc.message}; {exc.hint}"
            return ()
