"""Everything a frontend may use, each part made when first needed.

Where a part has choices of its own to make (engines, stores, providers, MCP servers, where commands run), a module
beside this one makes it.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aish.app.code_tools import find_ide_tools, is_hidden, language_lines
from aish.app.commands import CommandContainment, Commands
from aish.app.engines import Engines
from aish.app.gate import make_gate
from aish.app.mcp import McpLinks
from aish.app.providers import Providers
from aish.app.settings import endpoint_flags, private_paths, proxies_of, secret_variables, secrets_of
from aish.app.stores import make_store
from aish.app.telemetry import observed
from aish.config import paths
from aish.config.load import Loaded, load_config
from aish.config.schema.config import Config
from aish.engine.engine import Background, Engine
from aish.errors import AishError, UsageError
from aish.frontends.runtime import CachedModel, ProcessEnvironment, Progress, UndoableEdit
from aish.ports import Provider, Store, Toolset
from aish.process.clock import SystemClock
from aish.process.host_presence import HostPresence
from aish.process.liveness import ProcessOwners
from aish.safety.commands import ShellContext
from aish.safety.policy.gate import PolicyGate
from aish.safety.policy.judgement import Judgement
from aish.safety.redaction.redactor import Redactor
from aish.tools.builtin.runtime import RuntimeTools
from aish.tools.registry import Registry
from aish.types.command_hints import CommandHint
from aish.types.dynamic_mcp import DynamicMcpServer, DynamicMcpView
from aish.types.requests import TurnRequest
from aish.types.tools import Arguments, Effect, ToolSpec, wire_name

if TYPE_CHECKING:
    from aish.net.http.client import HttpClient
    from aish.providers.model_store.cache import ModelCache
    from aish.tools.bash.shell import LiveBash
    from aish.tools.code.toolset import IdeTools
    from aish.tools.mcp.dynamic import DynamicToolsHandle
    from aish.tools.mcp.server import McpServer


# What a turn is made of, and the providers most people have.
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
    "aish.storage.sqlite.store",
)


def process_environment() -> ProcessEnvironment:
    return ProcessEnvironment(_cwd(), dict(os.environ))


def serving_runtime(endpoints: Sequence[str], workspace: str) -> Container:
    return runtime(endpoints, workspace=workspace or process_environment().env.get("RUNTIME_WORKSPACE_ROOT", ""))


def runtime(endpoints: Sequence[str] = (), *, workspace: str = "") -> Container:
    """`workspace` is where tools work, if not where we stand."""
    here = process_environment()
    if workspace:
        here = msgspec.structs.replace(here, cwd=_workspace(workspace))
    loaded = load_config(cwd=here.cwd, env=here.env, flags=endpoint_flags(endpoints))
    return Container(here, loaded, endpoints=endpoints)


def _workspace(folder: str) -> Path:
    path = Path(folder).expanduser().absolute()
    if not path.is_dir():
        raise UsageError(f"the workspace {folder} is no folder", hint="name one that exists")
    return path


def _cwd() -> Path:
    try:
        return Path.cwd()
    except OSError as exc:
        raise UsageError("the working directory is gone", hint="cd to one that exists") from exc


class Container:
    """Everything a frontend may use, each part made when first asked for."""

    def __init__(self, here: ProcessEnvironment, loaded: Loaded, *, endpoints: Sequence[str] = ()) -> None:
        self.process_environment = here
        self.loaded = loaded
        self._endpoints = tuple(endpoints)
        self._only = [flag.partition("=")[0] for flag in endpoints]  # those given for this run go first
        self._clock = SystemClock()
        self._tools = Registry()
        self._mcp = self._links()
        self._commands = Commands(here, self.config.safety, self._private)
        self._ide: IdeTools | None = None

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
        return observed(make_store(self.config.store), self.config.telemetry, self.redacted)

    @cached_property
    def model_cache(self) -> ModelCache:
        from aish.providers.model_store.cache import ModelCache

        return ModelCache(Path(self.config.embedded.cache_dir))

    async def pull(self, name_or_url: str, report: Callable[[Progress], None]) -> CachedModel:
        return await self.model_cache.pull(name_or_url, report=report, fetch=self.http)

    @asynccontextmanager
    async def engine(
        self, *, mcp: Sequence[str] | None = None, serving: bool = False, shared: bool = False
    ) -> AsyncIterator[Engine]:
        tools = self._tools = self._local_tools()
        self._mcp = links = self._links()
        engine = self._engines.make(
            tools,
            self._gate,
            lambda: self.store,
            self._background,
            serving=serving,
            shared=shared or bool(self.config.store.url),
        )
        try:
            if serving:
                await self._commands.sandbox.probe()  # whether tenants may run commands is known from the start
            if serving or self.config.telemetry.otlp_endpoint:
                _ = self.store  # what is wrong with it is said at once; a first prompt does not wait for it
            self._add_tools(tools, mcp)
            async with self._presence():
                yield engine
        finally:
            await links.aclose()
            if "store" in self.__dict__:
                await self._forget_old_sessions()
                _ = engine.store  # a frontend may have used it past the engine, which closes what it knows of
            await engine.aclose()
            if "http" in self.__dict__:
                await self.http.aclose()

    async def _forget_old_sessions(self) -> None:
        """At the end, when nobody waits for an answer."""
        if keep_days := self.config.store.keep_days:
            from aish.engine.retention import forget_old_sessions

            with suppress(AishError):
                await forget_old_sessions(self.store, keep_days=keep_days, now_ms=self._clock.now_ms())

    def _presence(self) -> AbstractAsyncContextManager[None]:
        """A database may be shared with other hosts, whose processes cannot be looked at."""
        return self._owners.announced() if isinstance(self._owners, HostPresence) else nullcontext()

    @cached_property
    def _owners(self) -> ProcessOwners:
        return HostPresence(self.store) if self.config.store.enabled and self.config.store.url else ProcessOwners()

    def engine_in(self, folder: Path, base: Engine, more: Mapping[str, Toolset]) -> Engine:
        there = Container(msgspec.structs.replace(self.process_environment, cwd=folder), self.loaded)
        tools = there._local_tools()
        for alias, source in more.items():
            tools.add(alias, source)
        return self._engines.beside(base, tools, there._gate)

    @cached_property
    def _engines(self) -> Engines:
        return Engines(
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

    def _links(self) -> McpLinks:
        return McpLinks(
            self.config.mcp, self.config.serve, self._tools, lambda: self.http, self.process_environment.env
        )

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
        return await self._mcp.wait_settled(timeout_s, names)

    @cached_property
    def shell_context(self) -> ShellContext:
        env, cwd = self.process_environment.env, str(self.process_environment.cwd)
        private = (str(paths.data_dir(env)), str(paths.config_dir(env)))
        return ShellContext(cwd=cwd, home=str(paths.home_dir(env)), roots=(cwd,), private=private)

    def live_shell(
        self, *, on_output: Callable[[bytes], None], on_notice: Callable[[str], None]
    ) -> AbstractAsyncContextManager[LiveBash]:
        return self._commands.live_shell(on_output=on_output, on_notice=on_notice)

    @property
    def containment(self) -> CommandContainment:
        return CommandContainment(self._commands, self.shell_context)

    def chosen_command(self, command: str) -> AbstractContextManager[None]:
        return self._commands.chosen(command)

    async def describe_sandbox(self) -> str:
        return await self._commands.sandbox.describe()

    def describe_languages(self) -> Sequence[tuple[str, bool, str]]:
        return language_lines(self.config.ide, self.process_environment) if self.config.ide.enabled != "never" else ()

    async def undo_edit(self, id: str = "") -> str:
        return await self._opened_ide().undo(id)

    async def list_undoable(self) -> Sequence[UndoableEdit]:
        return await self._opened_ide().list_undoable()

    def _opened_ide(self) -> IdeTools:
        if self._ide is None:
            raise UsageError("there are no tools for code here", hint="they are where there is a project, see [ide]")
        return self._ide

    def explain(self, tool: str, arguments: Arguments) -> Judgement:
        tools = self._local_tools()
        if (ide := self._ide_tools()) is not None:
            tools.add("ide", ide)
        specs = {spec.name: spec for spec in tools.specs()}
        name = wire_name(tool)
        spec = specs.get(name) or ToolSpec(name, "", {}, Effect.EXEC, name.partition("__")[0])
        return self._gate.judge(spec, arguments)

    @cached_property
    def _gate(self) -> PolicyGate:
        where = self._commands.where_in
        return make_gate(self.config, self.process_environment.env, self.shell_context, where, self._confines)

    async def _background(self, request: TurnRequest) -> Background:
        from aish.app.background import find_background

        return await find_background(request, self.store, self.config, Path(self._commands.where()))

    @cached_property
    def _providers(self) -> Providers:
        return Providers(self.loaded, lambda: self.http, self._redactor, lambda: self.model_cache, self._only)

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor([*secrets_of(self.config), *secret_variables(self.process_environment.env)])

    def redacted(self, text: str) -> str:
        return self._redactor.text(text)

    def reloaded(self) -> Container:
        return runtime(self._endpoints, workspace=str(self.process_environment.cwd))

    async def find_commands(self, question: str, limit: int = 5) -> Sequence[CommandHint]:
        from aish.app.command_index import command_index

        index = command_index(self.config.shell, self.process_environment.env, self.redacted)
        return await asyncio.to_thread(index.search, question, limit)

    def load_for_turns(self) -> None:
        for module in _FOR_TURNS:
            importlib.import_module(module)

    async def discover(self) -> Sequence[Provider]:
        return await self._providers.discover()

    def _add_tools(self, tools: Registry, mcp: Sequence[str] | None) -> None:
        self._ide = ide = self._ide_tools()
        if ide is not None:
            tools.add("ide", ide)
            tools.hide(lambda alias, name: is_hidden(self.config.ide, lambda: self.mcp_servers, alias, name))
        self._mcp.begin(mcp)

    def _ide_tools(self) -> IdeTools | None:
        return find_ide_tools(self.config.ide, self.process_environment, lambda: self.mcp_servers, self._private)

    @property
    def _private(self) -> tuple[Path, ...]:
        return private_paths(self.config, self.process_environment.env)

    def _confines(self) -> bool:
        return self._commands.sandbox.is_active

    def _local_tools(self) -> Registry:
        tools = Registry()
        tools.add("runtime", RuntimeTools(self._clock))
        tools.add("shell", self._commands.tools())
        return tools
