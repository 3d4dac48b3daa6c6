"""The workspace of now: the folder in which models work, and everything that belongs to it.

The shell may move to another workspace between two turns, when the user has gone to another project. Each workspace
has its own settings, gate, sandbox, tools for code and instructions, under the trust that its own files have. The live
bash, the models, the store and the MCP servers belong to the process and stay. A server never moves.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aish.app.code_tools import PROJECT_MARKS, find_ide_tools
from aish.app.engines import hidden_paths, own_folders, private_paths
from aish.app.safety import CommandContainment, CommandRunner, make_gate
from aish.config import paths
from aish.config.load import LoadedConfig
from aish.errors import UsageError
from aish.frontends.runtime import LaunchContext
from aish.ports import Ask
from aish.safety.commands import ShellContext
from aish.safety.policy.gate import PolicyGate
from aish.safety.policy.rules import Rule
from aish.safety.policy.secret_names import SecretNames
from aish.types.decisions import Decision, EffectRequest, Mode
from aish.types.requests import TurnRequest
from aish.types.tools import ToolSpec

if TYPE_CHECKING:
    from aish.app.project_context import ProjectContext
    from aish.tools.code.toolset import IdeTools
    from aish.tools.mcp.server import McpServer

# Folders of version control say more about where a project begins than a Makefile, which many folders of one have.
_REPOSITORY_MARKS = (".git", ".hg", ".svn")
_MAX_KEPT = 4  # each may have language servers
_MAX_SESSIONS = 64
_MAX_PARENTS = 64


class WorkspaceParts:
    """What belongs to one workspace. `opened_by` has the live shell if another workspace opened it; `cwd` is where the
    user was on arrival; `learn` is told of each lasting approval; `is_chosen`: it is a project because the user says
    so."""

    def __init__(
        self,
        launch: LaunchContext,
        loaded: LoadedConfig,
        find_mcp_servers: Callable[[], Mapping[str, McpServer]],
        *,
        opened_by: CommandRunner | None = None,
        cwd: Path | None = None,
        learn: Callable[[Rule], None] = lambda rule: None,
        is_chosen: bool = False,
    ) -> None:
        self.launch = launch
        self.loaded = loaded
        self._find_mcp_servers = find_mcp_servers
        self._cwd = cwd or launch.cwd
        self._learn = learn
        self.is_chosen = is_chosen
        hides = hidden_paths(loaded.config, launch.env, launch.cwd)
        self.commands = CommandRunner(launch, loaded.config.safety, hides, own_folders(launch.env), opened_by=opened_by)
        self._identity = _identify(launch.cwd)

    @property
    def folder(self) -> Path:
        return self.launch.cwd

    @cached_property
    def shell_context(self) -> ShellContext:
        env, cwd = self.launch.env, str(self.folder)
        private = (str(paths.data_dir(env)), str(paths.config_dir(env)))
        return ShellContext(cwd=cwd, home=str(paths.home_dir(env)), roots=(cwd,), private=private)

    @cached_property
    def is_secret(self) -> SecretNames:
        return SecretNames(self.shell_context)

    @cached_property
    def gate(self) -> PolicyGate:
        return make_gate(
            self.loaded.config, self.launch.env, self.shell_context, self.commands.where_in,
            lambda: self.commands.sandbox.separates_tenants, self.commands.search_path, self.containment, self._learn,
        )  # fmt: skip

    @cached_property
    def containment(self) -> CommandContainment:
        return CommandContainment(self.commands, self.shell_context)

    @cached_property
    def ide(self) -> IdeTools | None:
        config = self.loaded.config.ide
        if self.is_chosen and config.enabled == "auto":
            config = msgspec.structs.replace(config, enabled="always")
        private = private_paths(self.loaded.config, self.launch.env)
        return find_ide_tools(config, self.launch, self._find_mcp_servers, self.is_secret, private)

    @cached_property
    def project_context(self) -> ProjectContext:
        from aish.app.project_context import ProjectContext  # with the first turn, not with the first prompt

        return ProjectContext(self.launch, self._cwd)

    def is_replaced(self) -> bool:
        """Whether another folder stands in the place of this one, such as a new clone: what is open leads nowhere."""
        now = _identify(self.folder)
        return now is not None and now != self._identity

    def reread(self) -> None:
        """Has the instructions, the skills and the environment read again."""
        self.__dict__.pop("project_context", None)

    async def aclose(self) -> None:
        if (ide := self.__dict__.get("ide")) is not None:
            await ide.aclose()


class Workspaces:
    """Owns which workspace is the one of now. Implements `frontends.runtime.WorkspaceChoice`."""

    def __init__(
        self,
        launch: LaunchContext,
        loaded: LoadedConfig,
        load: Callable[[Path], LoadedConfig],
        find_mcp_servers: Callable[[], Mapping[str, McpServer]],
        on_move: Callable[[WorkspaceParts], None],
    ) -> None:
        """`load` reads the settings that hold in a folder; `on_move` exchanges the tools."""
        self.now = self._first = first = WorkspaceParts(launch, loaded, find_mcp_servers, learn=self._learn)
        self._load = load
        self._find_mcp_servers = find_mcp_servers
        self._on_move = on_move
        self._kept = OrderedDict({first.folder: first})
        self._before: Path | None = None
        self.is_pinned = False
        # What stands at the beginning of the prompts of a session stays what it was when the session began.
        self._begun: ProjectContext | None = None
        self._contexts: OrderedDict[str, ProjectContext] = OrderedDict()

    @property
    def folder(self) -> Path:
        return self.now.folder

    @property
    def before(self) -> Path | None:
        return self._before

    @property
    def loaded(self) -> LoadedConfig:
        return self.now.loaded

    async def follow(self, cwd: Path) -> Path | None:
        if self.is_pinned and self.folder.is_dir():
            return None
        home = paths.real(paths.home_dir(self._first.launch.env))
        place = find_workspace_of(paths.real(cwd), self.now, self._first.folder, home)
        if place != self.folder:
            self.is_pinned = False
            return await self._move(place, paths.real(cwd))
        if self.now.is_replaced():
            await self._move(place, paths.real(cwd), is_chosen=self.now.is_chosen)
        return None

    async def choose(self, folder: Path, cwd: Path) -> None:
        place = paths.real(folder)
        if not place.is_dir():
            raise UsageError(f"{folder} is not a folder", hint="name one that exists")
        if place == Path(place.anchor):
            raise UsageError(f"{place} is no workspace", hint="name the folder of a project")
        if place != self.folder:
            await self._move(place, place, is_chosen=True)
        self.now.is_chosen = True
        self.is_pinned = not paths.real(cwd).is_relative_to(place)

    def pin(self, *, on: bool) -> None:
        self.is_pinned = on

    async def _move(self, place: Path, cwd: Path, *, is_chosen: bool = False) -> Path:
        """Returns the folder before. Raises ConfigError if the settings there cannot be used; then nothing changes."""
        parts = self._kept.get(place)
        if parts is None or parts.is_replaced():
            new = await self._make(place, cwd, is_chosen=is_chosen)
            if parts is not None:
                await self._kept.pop(place).aclose()
            parts = new
        before = self.folder
        if before != place:
            self._before = before
        self.now = self._kept[place] = parts
        self._kept.move_to_end(place)
        parts.commands.enter()
        self._on_move(parts)
        others = [kept for kept, one in self._kept.items() if one not in (parts, self._first)]
        for oldest in others[: max(0, len(self._kept) - _MAX_KEPT)]:
            await self._kept.pop(oldest).aclose()
        return before

    async def _make(self, place: Path, cwd: Path, *, is_chosen: bool) -> WorkspaceParts:
        loaded = await asyncio.to_thread(self._load, place)
        launch = msgspec.structs.replace(self._first.launch, cwd=place)
        return WorkspaceParts(
            launch, loaded, self._find_mcp_servers,
            opened_by=self._first.commands, cwd=cwd, learn=self._learn, is_chosen=is_chosen,
        )  # fmt: skip

    def _learn(self, rule: Rule) -> None:
        """A lasting approval holds in all workspaces of this process, where its own folder lets it."""
        for parts in self._kept.values():
            if "gate" in parts.__dict__:  # any other reads it from the disk
                parts.gate.learn_rule(rule)

    def context_of(self, request: TurnRequest) -> ProjectContext:
        """What the model was told when the session began. Agents are told what their caller was told."""
        session = request.charged_to if request.parent else request.session
        if not session:
            context = self.now.project_context
            if request.kept:  # the session has a name from its next turn on, or from its first agent on
                self._begun = context
            return context
        if session not in self._contexts:
            self._contexts[session] = self._begun or self.now.project_context
            self._begun = None
        self._contexts.move_to_end(session)
        while len(self._contexts) > _MAX_SESSIONS:
            self._contexts.popitem(last=False)
        return self._contexts[session]

    def reread(self) -> None:
        """Has the project of now read again. A session that began in another one keeps its beginning."""
        before = self.now.project_context
        self.now.reread()
        for session, context in self._contexts.items():
            if context is before:
                self._contexts[session] = self.now.project_context
        if self._begun is before:
            self._begun = None

    async def aclose(self) -> None:
        for parts in self._kept.values():
            if parts is not self.now:  # whose tools the registry closes
                await parts.aclose()


class WorkspaceGate:
    """Implements `Gate`: that of the workspace of now."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces

    def is_visible(self, tool: ToolSpec, *, interactive: bool, owner: str = "", mode: Mode | None = None) -> bool:
        return self._workspaces.now.gate.is_visible(tool, interactive=interactive, owner=owner, mode=mode)

    async def authorise(self, effect: EffectRequest, ask: Ask | None) -> Decision:
        return await self._workspaces.now.gate.authorise(effect, ask)

    async def find_like(self, effect: EffectRequest) -> str:
        return await self._workspaces.now.gate.find_like(effect)


def find_workspace_of(cwd: Path, now: WorkspaceParts, launched_in: Path, home: Path) -> Path:
    """The workspace for a user in `cwd`: the one of now as long as the user stays in it, else the project there, else
    the folder that aish was started in, else still the one of now, unless it is gone."""
    folder = now.folder
    can_stay = now.is_chosen or (_has_mark(folder, PROJECT_MARKS) and not home.is_relative_to(folder))
    if cwd.is_relative_to(folder) and can_stay:
        return folder
    if (project := find_project(cwd, home)) is not None:
        return project
    is_back = cwd.is_relative_to(launched_in) and not home.is_relative_to(launched_in)
    return launched_in if is_back or not folder.is_dir() else folder


def find_project(cwd: Path, home: Path) -> Path | None:
    """The repository around a folder, else the nearest folder with another mark of a project. Never a home directory or
    what is above it, nor a folder of another user or in which all users may write: its marks may be anyone's."""
    above = []
    for folder in (cwd, *cwd.parents)[:_MAX_PARENTS]:
        if home.is_relative_to(folder) or folder == Path(folder.anchor):
            break
        above.append(folder)
    for marks in (_REPOSITORY_MARKS, PROJECT_MARKS):
        found = next((folder for folder in above if _has_mark(folder, marks)), None)
        if found is not None and _is_own(found):
            return found
    return None


def _identify(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _has_mark(folder: Path, marks: tuple[str, ...]) -> bool:
    return any((folder / mark).exists() for mark in marks)


def _is_own(folder: Path) -> bool:
    try:
        status = folder.stat()
    except OSError:
        return False
    return os.getuid() in (0, status.st_uid) and not status.st_mode & stat.S_IWOTH
