"""Makes everything that a frontend may use, each part when it is first needed.

Parts that depend on choices of the configuration (engines, stores, providers, MCP servers, commands) are made by the
other modules of this package.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aish.agents.roster import AgentRoster
from aish.app.code_tools import is_hidden, language_lines
from aish.app.engines import (
    EngineFactory,
    add_telemetry,
    endpoint_flags,
    find_background,
    make_store,
    private_paths,
    proxies_of,
    secret_variables,
    secrets_of,
)
from aish.app.extensions import PythonExtensions
from aish.app.mcp_connections import McpConnections
from aish.app.providers import Providers
from aish.app.safety import CommandContainment
from aish.app.workspaces import WorkspaceGate, WorkspaceParts, Workspaces
from aish.config import paths
from aish.config.agents import AgentFile
from aish.config.instructions import InstructionFile
from aish.config.load import LoadedConfig, load_config
from aish.config.prompt_files import PromptFile
from aish.config.schema.config import Config
from aish.config.skills import SkillFile
from aish.engine.engine import Engine
from aish.errors import AishError, UsageError
from aish.frontends.runtime import CachedModel, LaunchContext, Progress, UndoableEdit
from aish.ports import Ask, Provider, Store, Toolset
from aish.process.clock import SystemClock
from aish.process.liveness import HostPresence, ProcessOwners
from aish.safety.commands import ShellContext
from aish.safety.policy.judgement import Judgement
from aish.safety.policy.rules import SHELL_TOOL
from aish.safety.redaction.redactor import Redactor
from aish.tools.builtin.history import HistoryTools
from aish.tools.builtin.runtime import RuntimeTools
from aish.tools.builtin.skills import SkillTools
from aish.tools.registry import Registry
from aish.types.context import Background
from aish.types.decisions import Decision, EffectRequest
from aish.types.ids import new_id
from aish.types.live_shell import CommandHint
from aish.types.models import AgentDefinition
from aish.types.requests import TurnRequest
from aish.types.tools import HISTORY_SOURCE, Arguments, DynamicMcpServer, DynamicMcpView, Effect, ToolSpec, wire_name

if TYPE_CHECKING:
    from aish.net.http.client import HttpClient
    from aish.providers.model_store.cache import ModelCache
    from aish.tools.bash.shell import LiveBash
    from aish.tools.checkpoints.checkpoints import WorkspaceCheckpoints
    from aish.tools.code.toolset import IdeTools
    from aish.tools.mcp.dynamic import DynamicToolsHandle
    from aish.tools.mcp.server import McpServer


# The modules that turns need, with the common providers.
_FOR_TURNS = (
    "aish.engine.turn.runner",
    "aish.engine.turn.builder",
    "aish.providers.tool_calling.provider",
    "aish.providers.embedded.provider",
    "aish.providers.model_store.cache",
    "aish.providers.openai.provider",
    "aish.providers.scripted",
    "aish.frontends.shell.render.reply",
    "aish.frontends.shell.commands.conversation",
    "aish.app.project_context",
    "aish.storage.sqlite.store",
)


def launch_context() -> LaunchContext:
    return LaunchContext(_cwd(), dict(os.environ))


def serving_runtime(endpoints: Sequence[str], workspace: str) -> Container:
    return runtime(endpoints, workspace=workspace or launch_context().env.get("RUNTIME_WORKSPACE_ROOT", ""))


def runtime(endpoints: Sequence[str] = (), *, workspace: str = "") -> Container:
    """`workspace` is the folder in which tools work, by default the working directory."""
    environment = launch_context()
    if workspace:
        environment = msgspec.structs.replace(environment, cwd=_find_workspace(workspace))
    loaded = load_config(cwd=environment.cwd, env=environment.env, flags=endpoint_flags(endpoints))
    return Container(environment, loaded, endpoints=endpoints)


def library_runtime(
    settings: Mapping[str, Any],
    workspace: str = "",
    providers: Mapping[str, Provider] | None = None,
    agents: Sequence[AgentDefinition] = (),
) -> Container:
    """For programs: `settings` take the place of those of the user's file."""
    environment = launch_context()
    if workspace:
        environment = msgspec.structs.replace(environment, cwd=_find_workspace(workspace))
    loaded = load_config(cwd=environment.cwd, env=environment.env, flags=settings)
    return Container(environment, loaded, providers=providers, agents=agents)


def _find_workspace(folder: str) -> Path:
    path = Path(folder).expanduser().absolute()
    if not path.is_dir():
        raise UsageError(f"the workspace {folder} is not a folder", hint="name one that exists")
    return path


def _cwd() -> Path:
    try:
        return Path.cwd()
    except OSError as exc:
        raise UsageError("the working directory is gone", hint="cd to one that exists") from exc


class Container:
    """Implements `frontends.runtime.Runtime`."""

    def __init__(
        self,
        environment: LaunchContext,
        loaded: LoadedConfig,
        *,
        endpoints: Sequence[str] = (),
        providers: Mapping[str, Provider] | None = None,
        agents: Sequence[AgentDefinition] = (),
    ) -> None:
        """`providers` and `agents` are those that a program has made itself."""
        self._given, self._given_agents = providers or {}, agents
        self.launch_context = environment
        self.loaded = loaded
        self._endpoints = tuple(endpoints)
        self._only = [flag.partition("=")[0] for flag in endpoints]  # providers given for this run
        self._clock = SystemClock()
        self._tools = Registry()
        self._mcp = self._make_mcp_connections()
        self.extensions = self._make_extensions()
        self.workspaces = Workspaces(
            environment, loaded, self._load_settings, lambda: self.mcp_servers, self._exchange_tools
        )

    @property
    def config(self) -> Config:
        return self.loaded.config

    @property
    def notices(self) -> Sequence[str]:
        return self.loaded.notices

    @property
    def can_embed(self) -> bool:
        return importlib.util.find_spec("xllamacpp") is not None

    @cached_property
    def http(self) -> HttpClient:
        from aish.net.http.client import HttpClient

        return HttpClient(proxies=proxies_of(self.config.network))

    @cached_property
    def store(self) -> Store:
        return add_telemetry(make_store(self.config.store), self.config.telemetry, self.redact_text)

    @cached_property
    def model_cache(self) -> ModelCache:
        from aish.providers.model_store.cache import ModelCache

        return ModelCache(Path(self.config.embedded.cache_dir))

    async def pull(
        self, name_or_url: str, report: Callable[[Progress], None], *, sha256: str = "", trust: bool = False
    ) -> CachedModel:
        return await self.model_cache.pull(name_or_url, report=report, fetch=self.http, sha256=sha256, trust=trust)

    @asynccontextmanager
    async def engine(
        self, *, mcp: Sequence[str] | None = None, serving: bool = False, shared: bool = False
    ) -> AsyncIterator[Engine]:
        tools = self._tools = self._make_local_tools()
        self._mcp = connections = self._make_mcp_connections()
        self.extensions = extensions = self._make_extensions(serving=serving)
        here = self.workspaces.now
        engine = self._engines.make(
            tools,
            here.gate if serving else WorkspaceGate(self.workspaces),
            lambda: self.store,
            self._background,
            extensions=extensions,
            instructions=here.project_context.instructions if serving and self.config.context.environment else "",
            serving=serving,
            shared=shared or bool(self.config.store.url),
            checkpoints=(lambda: self._checkpoints) if self.config.rewind.enabled else None,
            agents=self.agents,
        )
        try:
            if serving:
                await here.commands.sandbox.probe()  # so that it is known whether tenants may run commands
            if serving or self.config.telemetry.otlp_endpoint:
                _ = self.store  # reports errors in its configuration now; a first prompt does not wait for the store
            self._add_tools(tools, mcp)
            async with self._announce_presence():
                yield engine
        finally:
            await connections.aclose()
            await engine.finish_hooks()
            await extensions.aclose()
            await self.workspaces.aclose()
            if "store" in self.__dict__:
                await self._forget_old_sessions()
                _ = engine.store  # the engine closes a store that it has used; a frontend may have used it alone
            await engine.aclose()
            if "http" in self.__dict__:
                await self.http.aclose()

    async def _forget_old_sessions(self) -> None:
        """Deletes sessions past `store.keep_days`. Runs at the end, when no turn waits."""
        if keep_days := self.config.store.keep_days:
            from aish.engine.retention import forget_old_sessions

            with suppress(AishError):
                await forget_old_sessions(self.store, keep_days=keep_days, now_ms=self._clock.now_ms())

    def _announce_presence(self) -> AbstractAsyncContextManager[None]:
        """Announces this process to other hosts that share the database."""
        return self._owners.announce() if isinstance(self._owners, HostPresence) else nullcontext()

    @cached_property
    def _owners(self) -> ProcessOwners:
        return HostPresence(self.store) if self.config.store.enabled and self.config.store.url else ProcessOwners()

    @cached_property
    def _checkpoints(self) -> WorkspaceCheckpoints:
        from aish.tools.checkpoints.checkpoints import CheckpointSettings, WorkspaceCheckpoints, find_workspace

        env, rewind = self.launch_context.env, self.config.rewind
        home = paths.home_dir(env)
        settings = CheckpointSettings(
            state=paths.data_dir(env) / "checkpoints",
            home=home,
            hides=self._private,
            max_file_bytes=rewind.max_file_mb << 20,
            max_store_bytes=rewind.max_store_mb << 20,
            keep_days=self.config.store.keep_days,
        )

        def find_root() -> Path:
            now = self.workspaces.now
            return find_workspace(now.folder, Path(now.commands.where()), home.resolve())

        return WorkspaceCheckpoints(settings, find_root)

    def unstored_engine(self) -> Engine:
        store = make_store(msgspec.structs.replace(self.config.store, enabled=False))
        self._tools.remove(HISTORY_SOURCE)
        self._tools.add(HISTORY_SOURCE, HistoryTools(lambda: store))
        gate = WorkspaceGate(self.workspaces)
        return self._engines.make(
            self._tools, gate, lambda: store, self._background, serving=False, shared=False, agents=self.agents
        )

    def engine_in(self, folder: Path, base: Engine, more: Mapping[str, Toolset]) -> Engine:
        other = Container(msgspec.structs.replace(self.launch_context, cwd=folder), self.loaded)
        tools = other._make_local_tools(lambda: base.store)
        for alias, source in more.items():
            tools.add(alias, source)
        return self._engines.derive_engine(base, tools, other.workspaces.now.gate)

    @cached_property
    def _engines(self) -> EngineFactory:
        return EngineFactory(
            self.config,
            self._providers,
            clock=self._clock,
            liveness=self._owners,
            redactor=self._redactor,
            only=self._only,
        )

    @property
    def mcp_servers(self) -> Mapping[str, McpServer]:
        return self._mcp.servers

    def _make_extensions(self, *, serving: bool = False) -> PythonExtensions:
        env, workspace = self.launch_context.env, lambda: self.workspaces.folder
        return PythonExtensions(self.config, env, workspace, self._tools, self.redact_text, serving=serving)

    def _make_mcp_connections(self) -> McpConnections:
        return McpConnections(
            self.config.mcp, self.config.serve, self._tools, lambda: self.http, self.launch_context.env
        )

    def add_tools(self, toolsets: Mapping[str, Toolset]) -> tuple[str, object]:
        """Adds toolsets for requests that name them in `dynamic_mcp`, as long as the returned object is referenced."""
        return self._tools.add_view(toolsets)

    @property
    def dynamic_mcp_servers(self) -> Sequence[DynamicMcpView]:
        return self._mcp.dynamic_servers

    async def connect_dynamic_mcp(self, wanted: Sequence[DynamicMcpServer]) -> DynamicToolsHandle:
        return await self._mcp.connect_dynamic(wanted)

    async def connect_mcp(self, name: str, target: str) -> str:
        return await self._mcp.connect(name, target)

    async def disconnect_mcp(self, name: str) -> None:
        await self._mcp.disconnect(name)

    async def reconnect_mcp(self, name: str) -> None:
        await self._mcp.reconnect(name)

    async def wait_for_mcp(self, timeout_s: float, names: Sequence[str] = ()) -> Sequence[str]:
        return await self._mcp.wait_until_started(timeout_s, names)

    @property
    def shell_context(self) -> ShellContext:
        return self.workspaces.now.shell_context

    def live_shell(
        self, *, on_output: Callable[[bytes], None], on_notice: Callable[[str], None]
    ) -> AbstractAsyncContextManager[LiveBash]:
        wants_ps1 = "{ps1}" in self.config.shell.prompt
        commands = self.workspaces.now.commands
        return commands.live_shell(on_output=on_output, on_notice=on_notice, wants_ps1=wants_ps1)

    @property
    def containment(self) -> CommandContainment:
        return self.workspaces.now.containment

    async def describe_sandbox(self) -> str:
        return await self.workspaces.now.commands.sandbox.describe()

    def describe_languages(self) -> Sequence[tuple[str, bool, str]]:
        here = self.workspaces.now
        config = here.loaded.config.ide
        return language_lines(config, here.launch) if config.enabled != "never" else ()

    async def undo_edit(self, id: str = "") -> str:
        return await self._get_ide().undo(id)

    async def list_undoable(self) -> Sequence[UndoableEdit]:
        return await self._get_ide().list_undoable()

    def _get_ide(self) -> IdeTools:
        if (ide := self.workspaces.now.ide) is None:
            raise UsageError("there are no tools for code here", hint="they are where there is a project, see [ide]")
        return ide

    def explain(self, tool: str, arguments: Arguments) -> Judgement:
        return self.workspaces.now.gate.judge(self._find_spec(tool), arguments)

    async def authorise_command(self, command: str, ask: Ask) -> Decision:
        effect = EffectRequest(new_id("call"), self._find_spec(SHELL_TOOL), {"command": command})
        return await self.workspaces.now.gate.authorise(effect, ask)

    def _find_spec(self, tool: str) -> ToolSpec:
        tools = self._make_local_tools()
        if (ide := self.workspaces.now.ide) is not None:
            tools.add("ide", ide)
        specs = {spec.name: spec for spec in tools.specs()}
        name = wire_name(tool)
        return specs.get(name) or ToolSpec(name, "", {}, Effect.EXEC, name.partition("__")[0])

    async def _background(self, request: TurnRequest) -> Background:
        if not request.environment:
            return await find_background(request, self.store, self.config, self._cwd)
        now = self.workspaces.now.project_context
        return await find_background(
            request, self.store, self.config, self._cwd, now, self.workspaces.context_of(request)
        )

    @property
    def _cwd(self) -> Path:
        return Path(self.workspaces.now.commands.where())

    def instruction_files(self) -> Sequence[InstructionFile]:
        return self.workspaces.now.project_context.instruction_files

    def skills(self) -> Sequence[SkillFile]:
        return self.workspaces.now.project_context.skills if self.config.context.environment else ()

    def prompt_files(self) -> Sequence[PromptFile]:
        return self.workspaces.now.project_context.prompt_files if self.config.context.environment else ()

    @cached_property
    def agents(self) -> AgentRoster:
        return AgentRoster(self._find_agents, lambda: self._given_agents, mode=self.config.gate.mode)

    def _find_agents(self) -> Sequence[AgentFile]:
        return self.workspaces.now.project_context.agents if self.config.context.environment else ()

    async def read_skill(self, name: str, file: str = "") -> str:
        return await self._skill_tools.read(name, file)

    @cached_property
    def _skill_tools(self) -> SkillTools:
        return SkillTools(self.skills, lambda path, glob=False: self.workspaces.now.is_secret(path, glob=glob))

    def reread_project(self) -> None:
        self.workspaces.reread()
        self._skill_tools.reread()
        self.agents.reread()

    @cached_property
    def _providers(self) -> Providers:
        return Providers(
            self.loaded, lambda: self.http, self._redactor, lambda: self.model_cache, self._only, self._given
        )

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor([*secrets_of(self.config), *secret_variables(self.launch_context.env)])

    def redact_text(self, text: str) -> str:
        return self._redactor.text(text)

    def reload(self) -> Container:
        return runtime(self._endpoints, workspace=str(self.launch_context.cwd))

    async def find_commands(self, question: str, limit: int = 5) -> Sequence[CommandHint]:
        from aish.tools.command_index.example_lines import history_file, tldr_folders
        from aish.tools.command_index.index import CommandIndex

        env = self.launch_context.env
        home = paths.home_dir(env)
        index = CommandIndex(
            paths.cache_dir(env) / "commands.db",
            env.get("PATH", ""),
            tldr=tldr_folders(home),
            history=history_file(home, env.get("HISTFILE", "")) if self.config.shell.recall_history else None,
            redacted=self.redact_text,
        )
        return await asyncio.to_thread(index.search, question, limit)

    def load_for_turns(self) -> None:
        for module in _FOR_TURNS:
            importlib.import_module(module)

    async def discover(self) -> Sequence[Provider]:
        return await self._providers.discover()

    def _add_tools(self, tools: Registry, mcp: Sequence[str] | None) -> None:
        if (ide := self.workspaces.now.ide) is not None:
            tools.add("ide", ide)
            self._hide_ide_servers(tools)
        self._mcp.start(mcp)

    def _hide_ide_servers(self, tools: Registry) -> None:
        tools.hide(lambda alias, name: is_hidden(self.config.ide, lambda: self.mcp_servers, alias, name))

    def _load_settings(self, folder: Path) -> LoadedConfig:
        return load_config(cwd=folder, env=self.launch_context.env, flags=endpoint_flags(self._endpoints))

    def _exchange_tools(self, now: WorkspaceParts) -> None:
        """Gives the model the tools of another workspace. Their names and descriptions are the same. A tool that was
        not needed before is added."""
        self._tools.remove("shell")
        self._tools.add("shell", now.commands.tools(), is_fixed=True)
        if self._tools.remove("ide") is None and now.ide is not None:
            self._hide_ide_servers(self._tools)
        if now.ide is not None:
            self._tools.add("ide", now.ide)
        if not self._skill_tools.specs():
            self._skill_tools.reread()

    @property
    def _private(self) -> tuple[Path, ...]:
        return private_paths(self.config, self.launch_context.env)

    def _make_local_tools(self, find_store: Callable[[], Store] | None = None) -> Registry:
        tools = Registry()
        tools.add("runtime", RuntimeTools(self._clock), is_fixed=True)
        tools.add(HISTORY_SOURCE, HistoryTools(find_store or (lambda: self.store)), is_fixed=True)
        tools.add("shell", self.workspaces.now.commands.tools(), is_fixed=True)
        tools.add("skills", self._skill_tools)
        return tools
