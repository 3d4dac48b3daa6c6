"""Converts the configuration to what the parts of the engine take: presets, limits, secrets. Opens nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aish.config import paths
from aish.config.schema.config import Config, NetworkConfig
from aish.engine.model.ledger import Caps
from aish.engine.model.selection import Routing
from aish.errors import UsageError
from aish.safety.redaction.secret_formats import looks_secret
from aish.types.context import ContextRules
from aish.types.models import Preset

if TYPE_CHECKING:
    from aish.net.http.client import ProxySettings


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


def private_paths(config: Config, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Files and folders of aish itself that no tool may read: settings, keys, approvals, conversations."""
    folders = paths.config_dir(env), paths.data_dir(env), paths.cache_dir(env)
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
    )


def routing_of(config: Config) -> Routing:
    return Routing(config.routing.auto, config.routing.classes(), config.routing.fallback)


def caps_of(config: Config) -> Caps:
    cost = config.cost
    return Caps(cost.cap_per_session, cost.cap_per_day, cost.warn_at_dollars, cost.warn_at_tokens)


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
    return [secret.reveal() for secret in secrets if secret is not None]


# Placeholders for a key where a local server needs none.
_NO_KEYS = frozenset({"ollama", "lm-studio", "dummy", "not-needed", "no-key", "no-key-required", "sk-no-key-required"})


def secret_variables(env: Mapping[str, str]) -> list[str]:
    return [value for name, value in env.items() if looks_secret(name) and value not in _NO_KEYS]
