"""Everything a face may use, each part made when first asked for."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import shlex
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aish.config import paths
from aish.config.approvals import add_approval, approvals_file, load_approvals
from aish.config.load import Loaded, load_config
from aish.config.prices import price_table
from aish.config.schema import Config
from aish.engine.context import BASE, compose_system
from aish.engine.cost import Prices
from aish.engine.route import Router
from aish.engine.session import Background, Engine
from aish.errors import UsageError
from aish.faces.runtime import CachedModel, KeptEdit, Progress, Surroundings
from aish.ports import Provider, Store, Toolset
from aish.safety.commands import ShellContext
from aish.safety.policy import Judgement, PolicyGate
from aish.safety.redact import Redactor
from aish.safety.rules import Rule
from aish.safety.secret_formats import looks_secret
from aish.tools.builtin.runtime import RuntimeTools
from aish.tools.builtin.sandbox import Sandbox, make_sandbox
from aish.tools.builtin.shell import QUIET_ENVIRONMENT, ShellTools
from aish.tools.registry import Registry
from aish.types.command_hints import CommandHint
from aish.types.requests import TurnRequest
from aish.types.tools import Arguments, Effect, ToolSpec, wire_name
from aish.wire.clock import SystemClock
from aish.wire.owners import ProcessOwners
from aish.wire.presence import Presence
from aish.wiring.ide import find_ide_tools, is_hidden, language_lines
from aish.wiring.providers import Providers
from aish.wiring.settings import (
    caps_of,
    context_rules,
    endpoint_flags,
    mcp_server_of,
    presets_of,
    routing_of,
    rules_of,
    secret_variables,
    secrets_of,
)
from aish.wiring.telemetry import observed

if TYPE_CHECKING:
    from aish.providers.model_cache import ModelCache
    from aish.tools.ide.toolset import IdeTools
    from aish.tools.livebash.shell import LiveBash
    from aish.tools.mcp.server import McpServer
    from aish.tools.mcp.servers import McpServers
    from aish.wire.http import HttpClient


# What a turn is made of, and the providers most people have.
_FOR_TURNS = (
    "aish.engine.turns", "aish.engine.making", "aish.providers.toolmode.provider", "aish.providers.embedded",
    "aish.providers.model_cache", "aish.providers.openai", "aish.providers.scripted", "aish.faces.shell.reply",
    "aish.faces.shell.meta_talk",
)  # fmt: skip


def surroundings() -> Surroundings:
    return Surroundings(_cwd(), dict(os.environ))


def serving_runtime(endpoints: Sequence[str], workspace: str) -> Wired:
    return runtime(endpoints, workspace=workspace or surroundings().env.get("RUNTIME_WORKSPACE_ROOT", ""))


def runtime(endpoints: Sequence[str] = (), *, workspace: str = "") -> Wired:
    """`workspace` is where tools work, if not where we stand."""
    here = surroundings()
    if workspace:
        here = msgspec.structs.replace(here, cwd=_workspace(workspace))
    loaded = load_config(cwd=here.cwd, env=here.env, flags=endpoint_flags(endpoints))
    return Wired(here, loaded, endpoints=endpoints)


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


class Wired:
    """Everything a face may use, each part made when first asked for."""

    def __init__(self, here: Surroundings, loaded: Loaded, *, endpoints: Sequence[str] = ()) -> None:
        self.surroundings = here
        self.loaded = loaded
        self._endpoints = tuple(endpoints)
        self._only = [flag.partition("=")[0] for flag in endpoints]  # those given for this run go first
        self._clock = SystemClock()
        self._mcp: McpServers | None = None
        self._tools = Registry()
        self._live: LiveBash | None = None
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
        from aish.wire.http import HttpClient, ProxySettings

        network = self.config.network
        proxies = ProxySettings(
            http=network.http_proxy.reveal() if network.http_proxy else "",
            https=network.https_proxy.reveal() if network.https_proxy else "",
            no_proxy=network.no_proxy,
        )
        return HttpClient(proxies=proxies)

    @cached_property
    def store(self) -> Store:
        return observed(self._make_store(), self.config.telemetry, self.redacted)

    def _make_store(self) -> Store:
        if not self.config.store.enabled:
            from aish.store.memory import MemoryStore

            return MemoryStore()
        if self.config.store.url:
            from aish.store.postgres.store import PostgresStore

            return PostgresStore(self.config.store.url.reveal())
        from aish.store.sqlite import SqliteStore

        return SqliteStore(Path(self.config.store.path))

    @cached_property
    def shelf(self) -> ModelCache:
        from aish.providers.model_cache import ModelCache

        return ModelCache(Path(self.config.embedded.cache_dir))

    async def pull(self, name_or_url: str, report: Callable[[Progress], None]) -> CachedModel:
        return await self.shelf.pull(name_or_url, report=report, fetch=self.http)

    @asynccontextmanager
    async def engine(
        self, *, mcp: Sequence[str] | None = None, serving: bool = False, shared: bool = False
    ) -> AsyncIterator[Engine]:
        tools = self._tools = Registry()
        engine = self._make_engine(tools, serving=serving, shared=shared or bool(self.config.store.url))
        try:
            self._add_tools(tools, mcp)
            async with self._presence():
                yield engine
        finally:
            await engine.aclose()
            if "http" in self.__dict__:
                await self.http.aclose()

    def _presence(self) -> AbstractAsyncContextManager[None]:
        """A database may be shared with other hosts, whose processes cannot be looked at."""
        return self._owners.kept() if isinstance(self._owners, Presence) else nullcontext()

    @cached_property
    def _owners(self) -> ProcessOwners:
        return Presence(self.store) if self.config.store.enabled and self.config.store.url else ProcessOwners()

    def engine_in(self, folder: Path, base: Engine, more: Mapping[str, Toolset]) -> Engine:
        there = Wired(msgspec.structs.replace(self.surroundings, cwd=folder), self.loaded)
        tools = there._local_tools()
        for alias, source in more.items():
            tools.add(alias, source)
        return Engine(
            router=base.router,
            tools=tools,
            gate=there._gate,
            store=base.store,
            clock=self._clock,
            owners=self._owners,
            redactor=self._redactor,
            system=self.config.system,
            rules=context_rules(self.config),
            prices=Prices(price_table(self.config.prices), self._providers.is_free),
            caps=caps_of(self.config),
        )

    @property
    def mcp_servers(self) -> Mapping[str, McpServer]:
        return self._mcp.servers if self._mcp else {}

    async def connect_mcp(self, name: str, target: str) -> str:
        from aish.tools.mcp.servers import McpServers
        from aish.tools.mcp.types import ServerSpec

        if not target:
            raise UsageError("connect to what?", hint="a URL, or a command line")
        name = name or self._tools.next_alias()
        is_url = target.startswith(("http://", "https://"))
        spec = (
            ServerSpec(name=name, url=target) if is_url else ServerSpec(name=name, command=tuple(shlex.split(target)))
        )
        self._mcp = self._mcp or McpServers(self._tools, self.http)
        self._mcp.connect(spec)
        await self._mcp.settled(spec.start_timeout_s, [name])
        return name

    async def disconnect_mcp(self, name: str) -> None:
        if self._mcp is None:
            raise UsageError(f"no MCP server named {name}")
        await self._mcp.disconnect(name)

    async def reconnect_mcp(self, name: str) -> None:
        from aish.tools.mcp.servers import McpServers

        self._mcp = self._mcp or McpServers(self._tools, self.http)
        if name in self._mcp.servers:
            server = await self._mcp.reconnect(name)
        elif name in self.config.mcp.servers:
            server = self._mcp.connect(*mcp_server_of(name, self.config.mcp.servers[name]))
        else:
            raise UsageError(f"no MCP server named {name}", hint="name it under [mcp.servers]")
        await self._mcp.settled(2 * server.spec.start_timeout_s, [name])

    async def mcp_settled(self, timeout_s: float, names: Sequence[str] = ()) -> Sequence[str]:
        return await self._mcp.settled(timeout_s, names) if self._mcp else ()

    @cached_property
    def shell_context(self) -> ShellContext:
        home = paths.home_dir(self.surroundings.env)
        return ShellContext(cwd=str(self.surroundings.cwd), home=str(home), roots=(str(self.surroundings.cwd),))

    @cached_property
    def _sandbox(self) -> Sandbox:
        safety = self.config.safety
        return make_sandbox(safety.sandbox, self.surroundings.cwd, network=safety.network)

    @asynccontextmanager
    async def live_shell(
        self, *, on_output: Callable[[bytes], None], on_notice: Callable[[str], None]
    ) -> AsyncIterator[LiveBash]:
        from aish.tools.livebash.shell import LiveBash, LiveBashSpec

        env = self.surroundings.env
        secret = {name: "" for name in env if looks_secret(name)} if not self.config.safety.secrets_in_env else {}
        spec = LiveBashSpec(
            cwd=self.surroundings.cwd,
            rc_file=str(paths.home_dir(env) / ".bashrc"),
            model_env={**secret, **QUIET_ENVIRONMENT},
        )
        async with LiveBash.open(spec, on_output=on_output, on_notice=on_notice) as shell:
            self._live = shell
            try:
                yield shell
            finally:
                self._live = None

    def _where(self) -> str:
        return self._live.cwd if self._live else str(self.surroundings.cwd)

    async def describe_sandbox(self) -> str:
        return await self._sandbox.describe()

    def describe_languages(self) -> Sequence[tuple[str, bool, str]]:
        return language_lines(self.config.ide, self.surroundings) if self.config.ide.enabled != "never" else ()

    async def undo_edit(self, id: str = "") -> str:
        return await self._opened_ide().undo(id)

    async def kept_edits(self) -> Sequence[KeptEdit]:
        return await self._opened_ide().kept_edits()

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
        approvals = approvals_file(self.surroundings.env)
        gate = self.config.gate
        return PolicyGate(
            [*rules_of(self.config), *msgspec.convert(load_approvals(approvals), list[Rule])],
            verdicts={effect: getattr(gate, effect.value) for effect in Effect},
            shell=self.shell_context,
            where=self._where,
            remember=lambda rule: add_approval(approvals, msgspec.to_builtins(rule)),
        )

    async def _background(self, request: TurnRequest) -> Background:
        from aish.wiring.background import find_background

        return await find_background(request, self.store, self.config, Path(self._where()))

    @cached_property
    def _providers(self) -> Providers:
        return Providers(self.loaded, lambda: self.http, self._redactor, lambda: self.shelf, self._only)

    @cached_property
    def _redactor(self) -> Redactor:
        return Redactor([*secrets_of(self.config), *secret_variables(self.surroundings.env)])

    def redacted(self, text: str) -> str:
        return self._redactor.text(text)

    def reloaded(self) -> Wired:
        return runtime(self._endpoints, workspace=str(self.surroundings.cwd))

    async def find_commands(self, question: str, limit: int = 5) -> Sequence[CommandHint]:
        from aish.tools.recall.index import CommandIndex

        env = self.surroundings.env
        index = CommandIndex(paths.cache_dir(env) / "commands.db", env.get("PATH", ""))
        return await asyncio.to_thread(index.search, question, limit)

    def load_for_turns(self) -> None:
        for module in _FOR_TURNS:
            importlib.import_module(module)

    async def discover(self) -> Sequence[Provider]:
        return await self._providers.discover()

    def _add_tools(self, tools: Registry, mcp: Sequence[str] | None) -> None:
        for alias, source in self._local_sources().items():
            tools.add(alias, source)
        self._ide = ide = self._ide_tools()
        if ide is not None:
            tools.add("ide", ide)
            tools.hide(lambda alias, name: is_hidden(self.config.ide, lambda: self.mcp_servers, alias, name))
        configured = self.config.mcp.servers.items()
        servers = {name: server for name, server in configured if (server.enabled if mcp is None else name in mcp)}
        if servers:
            from aish.tools.mcp.servers import McpServers

            self._mcp = McpServers(tools, self.http)
            for name, server in servers.items():
                self._mcp.connect(*mcp_server_of(name, server))

    def _ide_tools(self) -> IdeTools | None:
        return find_ide_tools(self.config.ide, self.surroundings, lambda: self.mcp_servers)

    def _local_tools(self) -> Registry:
        tools = Registry()
        for alias, source in self._local_sources().items():
            tools.add(alias, source)
        return tools

    def _local_sources(self) -> dict[str, Toolset]:
        shell = shutil.which("bash") or shutil.which("sh") or "sh"
        return {
            "runtime": RuntimeTools(self._clock),
            "shell": ShellTools(
                cwd=self.surroundings.cwd,
                shell=shell,
                sandbox=self._sandbox,
                env=self._command_environment(),
                live=lambda: self._live,
            ),
        }

    def _command_environment(self) -> dict[str, str]:
        """For commands of a model: without the variables that hold secrets, unless the config says otherwise."""
        env = self.surroundings.env
        return dict(env) if self.config.safety.secrets_in_env else {k: v for k, v in env.items() if not looks_secret(k)}

    def _make_engine(self, tools: Registry, *, serving: bool, shared: bool) -> Engine:
        router = Router(
            self._providers.all,
            presets=presets_of(self.config),
            default=self.config.model,
            strict={name for name, settings in self.config.providers.items() if not settings.use_tool_role},
            catch_all=self._only[0] if len(self._only) == 1 else "",
            candidates=lambda: self._providers.candidates(router.providers),
        )
        return Engine(
            router=router,
            tools=tools,
            gate=self._gate,
            store=self.store,
            clock=self._clock,
            owners=self._owners,
            redactor=self._redactor,
            system=self.config.system if serving else compose_system(BASE, self.config.system),
            rules=context_rules(self.config),
            routing=routing_of(self.config),
            prices=Prices(price_table(self.config.prices), self._providers.is_free),
            caps=caps_of(self.config),
            background=self._background,
            write_through=not serving,
            shared=shared,
        )
