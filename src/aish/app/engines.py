"""Makes engines from the configuration, and what they need of it: limits, presets, secrets, the store, background.

Nothing is opened here: a store opens at its first use, and each kind of store is imported only when it is chosen.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from aish.agents.roster import AgentRoster
from aish.agents.toolset import AgentTools
from aish.app.providers import Providers
from aish.config import paths
from aish.config.schema.config import Config, NetworkConfig, StoreConfig, TelemetryConfig
from aish.config.skills import own_skills_folder
from aish.config.toml_file import configured_prices, price_table
from aish.engine.engine import Engine, FindBackground
from aish.engine.model.ledger import Caps, Prices
from aish.engine.model.router import Router
from aish.engine.model.selection import Routing
from aish.engine.prompt.composer import BASE, TOOLS_NOTE, compose_system
from aish.engine.prompt.token_counts import BYTES_PER_TOKEN, byte_length
from aish.errors import ConfigError, UsageError
from aish.frontends.terminal import visible
from aish.ports import Checkpoints, Clock, ExtensionPoints, Gate, ProcessLiveness, Store, Toolset
from aish.safety.redaction.redactor import Redactor
from aish.safety.redaction.secret_formats import looks_secret
from aish.tools.registry import Registry
from aish.types.context import Background, ContextRules, SystemTexts
from aish.types.messages import UserMessage
from aish.types.models import Preset
from aish.types.records import Fact
from aish.types.requests import TurnRequest
from aish.types.tools import AGENTS_SOURCE

if TYPE_CHECKING:
    from aish.app.project_context import ProjectContext
    from aish.net.http.client import ProxySettings

_MAX_FACTS = 50
_TREE_ENTRIES = 200
# Placeholders for a key where a local server needs none.
_NO_KEYS = frozenset({"ollama", "lm-studio", "dummy", "not-needed", "no-key", "no-key-required", "sk-no-key-required"})


class _SharedParts(TypedDict):
    """The parts that all engines of a process share."""

    clock: Clock
    liveness: ProcessLiveness
    redactor: Redactor
    rules: ContextRules
    prices: Prices
    caps: Caps


class EngineFactory:
    """`only` are the providers given for this run. A single one gets every model name that has no prefix."""

    def __init__(
        self,
        config: Config,
        providers: Providers,
        *,
        clock: Clock,
        liveness: ProcessLiveness,
        redactor: Redactor,
        only: Sequence[str] = (),
    ) -> None:
        self._config = config
        self._providers = providers
        self._only = only
        self._shared = _SharedParts(
            clock=clock,
            liveness=liveness,
            redactor=redactor,
            rules=context_rules(config),
            prices=Prices(lambda: price_table(config.prices), providers.is_free, configured_prices(config.prices)),
            caps=caps_of(config),
        )

    def make(
        self,
        tools: Registry,
        gate: Gate,
        store: Callable[[], Store],
        find_background: FindBackground,
        *,
        extensions: ExtensionPoints | None = None,
        instructions: str = "",
        serving: bool,
        shared: bool,
        checkpoints: Callable[[], Checkpoints] | None = None,
        agents: AgentRoster,
    ) -> Engine:
        """`tools` get the one that runs agents in the engine."""
        system = self._config.system
        engine = Engine(
            router=self._make_router(agents.find_model),
            tools=tools,
            gate=gate,
            store=store,
            system=SystemTexts(system, "", instructions)
            if serving
            else SystemTexts(compose_system(BASE, system), TOOLS_NOTE),
            routing=routing_of(self._config),
            find_background=find_background,
            extensions=extensions,
            write_through=not serving,
            shared=shared,
            checkpoints=checkpoints,
            as_agent=partial(agents.as_agent, tools=tools),
            **self._shared,
        )
        tools.remove(AGENTS_SOURCE)
        tools.add(AGENTS_SOURCE, AgentTools(agents, lambda: engine))
        return engine

    def derive_engine(self, base: Engine, tools: Toolset, gate: Gate) -> Engine:
        """An engine with the models and the store of another, and its own tools and gate."""
        return Engine(
            router=base.router,
            tools=tools,
            gate=gate,
            store=lambda: base.store,
            system=SystemTexts(self._config.system),
            **self._shared,
        )

    def _make_router(self, find_alias: Callable[[str], str | None]) -> Router:
        config = self._config
        router = Router(
            self._providers.all,
            presets=presets_of(config),
            default=config.model,
            strict={name for name, settings in config.providers.items() if not settings.use_tool_role},
            catch_all=self._only[0] if len(self._only) == 1 else "",
            candidates=lambda: self._providers.candidates(router.providers),
            find_alias=find_alias,
        )
        return router


def presets_of(config: Config) -> dict[str, Preset]:
    return {
        name: Preset(
            model=preset.model,
            system=preset.system,
            sampling=preset.sampling(),
            tool_mode=preset.tool_mode,
            use_tool_role=preset.use_tool_role,
            context_size=preset.context_size,
        )
        for name, preset in config.presets.items()
    }


def hidden_settings(env: Mapping[str, str], workspace: Path) -> tuple[Path, ...]:
    """What commands in the sandbox do not see of the folder of settings: all of it, but for skills, whose scripts are
    there to be run. If the workspace contains the folder, these are hidden, too: commands may write to the workspace,
    and the user's own skills need no trust."""
    folder, skills = paths.config_dir(env), own_skills_folder(env)
    if not skills.is_dir() or paths.real(folder).is_relative_to(paths.real(workspace)):
        return (folder,)
    return paths.user_file(env), *(entry for entry in sorted(folder.iterdir()) if entry != skills)


def private_paths(config: Config, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Files and folders of aish itself that no tool may read: settings, keys, approvals, conversations."""
    return paths.config_dir(env), *_private_data(config, env)


def own_folders(env: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders of aish itself: a file in their place decides what aish trusts and runs."""
    return paths.config_dir(env), paths.data_dir(env), paths.cache_dir(env), paths.runtime_dir(env)


def hidden_paths(config: Config, env: Mapping[str, str], workspace: Path) -> tuple[Path, ...]:
    """What commands in the sandbox do not see of aish itself."""
    return *hidden_settings(env, workspace), *_private_data(config, env)


def _private_data(config: Config, env: Mapping[str, str]) -> tuple[Path, ...]:
    folders = own_folders(env)[1:]
    store = config.store.path
    files = (f"{store}{ending}" for ending in ("", "-wal", "-shm", "-journal")) if store else ()
    return (*folders, *map(Path, files))


def endpoint_flags(endpoints: Sequence[str]) -> dict[str, Any]:
    """The settings for `--endpoint NAME=URL` flags. The first endpoint is also the default model of the run."""
    providers: dict[str, Any] = {}
    for endpoint in endpoints:
        name, equals, url = endpoint.partition("=")
        if not (name and equals and url.startswith(("http://", "https://"))):
            raise UsageError(
                f"--endpoint {endpoint!r} is not NAME=URL", hint="for example --endpoint up=http://127.0.0.1:9000/v1"
            )
        providers[name] = {"kind": "openai", "url": url}
    return {"providers": providers, "model": next(iter(providers))} if providers else {}


def context_rules(config: Config) -> ContextRules:
    context = config.context
    return ContextRules(
        max_turns=context.max_turns,
        token_budget=context.token_budget,
        answer_room=context.answer_room,
        oversized=context.oversized,
        summarize=context.summarize_on_evict,
        summary_model=context.summary_model,
        summary_tokens=context.summary_tokens,
        max_tools_share=config.tools.max_window_share,
    )


def routing_of(config: Config) -> Routing:
    return Routing(config.routing.auto, config.routing.classes(), config.routing.fallback)


def caps_of(config: Config) -> Caps:
    cost = config.cost
    return Caps(
        cost.cap_per_session,
        cost.cap_per_day,
        cost.warn_at_dollars,
        cost.warn_at_tokens,
        is_shared=config.store.enabled,
    )


def proxies_of(network: NetworkConfig) -> ProxySettings:
    from aish.net.http.client import ProxySettings

    return ProxySettings(
        http=network.http_proxy.reveal() if network.http_proxy else "",
        https=network.https_proxy.reveal() if network.https_proxy else "",
        no_proxy=network.no_proxy,
    )


def secrets_of(config: Config) -> list[str]:
    keys = [provider.key for provider in config.providers.values()]
    headers = [value for provider in config.providers.values() for value in provider.headers.values()]
    tokens = [server.auth_token for server in config.mcp.servers.values()]
    variables = [value for server in config.mcp.servers.values() for value in server.env.values()]
    telemetry = config.telemetry.headers.values()
    secrets = (*keys, *headers, *tokens, *variables, *telemetry, config.store.url)
    return [*(secret.reveal() for secret in secrets if secret is not None), *_secret_settings(config)]


def _secret_settings(config: Config) -> Iterator[str]:
    """The settings of extensions whose names say that they are secret."""
    for settings in config.extensions.settings.values():
        yield from (value for name, value in settings.items() if isinstance(value, str) and looks_secret(name.upper()))


def secret_variables(env: Mapping[str, str]) -> list[str]:
    return [value for name, value in env.items() if looks_secret(name) and value not in _NO_KEYS]


def make_store(config: StoreConfig) -> Store:
    """Opens nothing: a store opens at its first use."""
    if not config.enabled:
        from aish.storage.memory import MemoryStore

        return MemoryStore()
    if config.url:
        from aish.storage.postgres.store import PostgresStore

        return PostgresStore(config.url.reveal())
    from aish.storage.sqlite.store import SqliteStore

    return SqliteStore(Path(config.path))


def add_telemetry(store: Store, config: TelemetryConfig, redact: Callable[[str], str]) -> Store:
    """The store, tapped for telemetry if an endpoint is configured. Raises ConfigError if OpenTelemetry is missing."""
    if not config.otlp_endpoint:
        return store
    if importlib.util.find_spec("opentelemetry") is None:
        raise ConfigError(
            "telemetry.otlp_endpoint needs the extra otel",
            hint="pip install 'aish-runtime[otel]', or leave the endpoint out",
        )
    from aish.telemetry.store_tap import Sink, Telemetry, tap_store

    headers = {name: secret.reveal() for name, secret in config.headers.items()}

    def make() -> Sink:
        from aish.telemetry.export import OtlpSink

        return OtlpSink(
            config.otlp_endpoint,
            headers=headers,
            service=config.service_name,
            content=config.content,
            redact=redact,
        )

    return tap_store(store, Telemetry(make))


async def find_background(
    request: TurnRequest,
    store: Store,
    config: Config,
    cwd: Path,
    now: ProjectContext | None = None,
    begun: ProjectContext | None = None,
) -> Background:
    """Background for a turn, within a token budget: facts that fit the question, the project's files, and what is known
    of the machine and the project. `begun` is what stands at the beginning of the session, `now` holds now; without
    them the model is told of neither."""
    memory = await _find_facts(request, store, config.memory.max_tokens) if request.memory else ""
    project = ""
    if request.project:
        from aish.frontends.mentions import tree_lines

        lines = await asyncio.to_thread(tree_lines, cwd, _TREE_ENTRIES)
        project = "\n".join(lines)
    if now is None or begun is None:
        return Background(memory=memory, project=project)
    fixed, place, workspace = await asyncio.to_thread(
        lambda: (begun.text, now.place(cwd), begun.workspace_again if now is begun else now.workspace)
    )
    return Background(fixed, memory, project, place, workspace)


async def _find_facts(request: TurnRequest, store: Store, max_tokens: int) -> str:
    """The facts that match the question best, then the newest ones."""
    question = " ".join(message.text for message in request.input if isinstance(message, UserMessage))
    matching = await store.search_facts(question, limit=_MAX_FACTS)
    newest = await store.list_facts(limit=_MAX_FACTS)
    return "\n".join(_take_lines(dict.fromkeys((*matching, *newest)), max_tokens * BYTES_PER_TOKEN))


def _take_lines(facts: Iterable[Fact], max_bytes: int) -> list[str]:
    lines: list[str] = []
    for fact in facts:
        line = f"- {' '.join(visible(fact.text).split())}"
        max_bytes -= byte_length(line) + 1
        if max_bytes < 0:
            break
        lines.append(line)
    return lines
