"""From configuration to what the engine's parts take: rules, presets, secrets, MCP servers. Opens nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from aish.config.schema import Config
from aish.engine.choose import Routing
from aish.engine.cost import Caps
from aish.errors import ConfigError, UsageError
from aish.safety.rules import Rule, example_errors
from aish.safety.secret_formats import looks_secret
from aish.types.context import ContextRules
from aish.types.decisions import Verdict
from aish.types.models import Preset

if TYPE_CHECKING:
    from aish.config.schema_tools import McpServerConfig
    from aish.tools.mcp.server import Exposure
    from aish.tools.mcp.types import ServerSpec


def rules_of(config: Config) -> list[Rule]:
    """The short forms first; a rule whose examples do not hold is an error."""
    gate = config.gate
    approved = [Rule(Verdict.ALLOW, f"auto_approve {g}", (g,)) for g in (*gate.auto_approve, *config.mcp.auto_approve)]
    denied = [Rule(Verdict.DENY, f"gate.deny {glob}", (glob,)) for glob in gate.deny]
    given = [Rule(**msgspec.structs.asdict(rule)) for rule in gate.rules]
    if errors := example_errors(given):
        raise ConfigError("; ".join(errors), hint="mend gate.rules in the config")
    return [*approved, *denied, *given]


def mcp_server_of(name: str, settings: McpServerConfig) -> tuple[ServerSpec, Exposure]:
    from aish.tools.mcp.server import Exposure
    from aish.tools.mcp.types import ServerSpec

    spec = ServerSpec(
        name=name,
        command=(settings.command, *settings.args) if settings.command else (),
        env={variable: value.reveal() for variable, value in settings.env.items()},
        cwd=Path(settings.cwd) if settings.cwd else None,
        url=settings.url,
        token=settings.auth_token.reveal() if settings.auth_token else "",
        protocol=settings.protocol,
        start_timeout_s=settings.start_timeout_s,
        call_timeout_s=settings.timeout_s,
        max_in_flight=settings.max_in_flight,
    )
    return spec, Exposure(settings.allow, settings.deny, settings.trust_hints)


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


def endpoint_flags(endpoints: Sequence[str]) -> dict[str, Any]:
    providers: dict[str, Any] = {}
    for endpoint in endpoints:
        name, equals, url = endpoint.partition("=")
        if not (name and equals and url.startswith(("http://", "https://"))):
            raise UsageError(
                f"--endpoint {endpoint!r} is not NAME=URL", hint="for example --endpoint up=http://127.0.0.1:9000/v1"
            )
        providers[name] = {"kind": "openai", "url": url}
    return {"providers": providers} if providers else {}


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


def secrets_of(config: Config) -> list[str]:
    keys = [provider.key for provider in config.providers.values()]
    headers = [value for provider in config.providers.values() for value in provider.headers.values()]
    tokens = [server.auth_token for server in config.mcp.servers.values()]
    variables = [value for server in config.mcp.servers.values() for value in server.env.values()]
    telemetry = config.telemetry.headers.values()
    secrets = (*keys, *headers, *tokens, *variables, *telemetry, config.store.url)
    return [secret.reveal() for secret in secrets if secret is not None]


def secret_variables(env: Mapping[str, str]) -> list[str]:
    return [value for name, value in env.items() if looks_secret(name)]
