"""Defines every setting: name, type, default and description.

The reference page, the starter file and the checks are made from these classes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from aish.config.schema.models import DiscoveryConfig, EmbeddedConfig, PresetConfig, ProviderConfig
from aish.config.schema.tools import (
    ExtensionsConfig,
    GateConfig,
    HookConfig,
    IdeConfig,
    McpConfig,
    RewindConfig,
    SafetyConfig,
    ShellConfig,
    ToolsConfig,
)
from aish.config.schema.values import (
    Count,
    NotNegative,
    Secret,
    Section,
    UrlOrUnset,
    UrlPattern,
)
from aish.types.decisions import Mode
from aish.types.requests import Knobs, TurnLimits

ProviderKind = Literal["openai", "ollama", "embedded", "scripted"]

_DEFAULT_LIMITS = TurnLimits()
_NO_KNOBS = Knobs()


class LimitsConfig(Section, frozen=True, forbid_unknown_fields=True):
    """What one turn may spend. At a limit the turn ends cleanly and says so."""

    max_steps: Annotated[Count, Meta(description="Model calls.")] = _DEFAULT_LIMITS.max_steps
    max_tool_calls: Annotated[int, Meta(ge=0, description="Tool calls.")] = _DEFAULT_LIMITS.max_tool_calls
    wall_s: Annotated[float, Meta(gt=0, description="Seconds.")] = _DEFAULT_LIMITS.wall_s
    max_tokens: Annotated[Count | None, Meta(description="Tokens, sent and received; unset means no limit.")] = None
    max_cost: Annotated[
        NotNegative | None,
        Meta(description="Dollars. Where the price is known no call that could pass it is made; unset: no limit."),
    ] = None
    result_max_chars: Annotated[
        Count,
        Meta(description="Characters of one tool result that the model gets to read; the rest is cut with a mark."),
    ] = _DEFAULT_LIMITS.result_max_chars
    repeat_limit: Annotated[
        Count, Meta(description="The same call with the same arguments this many times: ask, or stop.")
    ] = _DEFAULT_LIMITS.repeat_limit

    def limits(self) -> TurnLimits:
        return TurnLimits(**msgspec.structs.asdict(self))


class StoreConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Where conversations are kept."""

    enabled: Annotated[
        bool, Meta(description="Whether anything is stored. If not, aish forgets everything when it ends.")
    ] = True
    path: Annotated[
        str,
        Meta(description="The SQLite file.", extra={"path": "always", "default": "`aish.db` in the data directory"}),
    ] = ""
    url: Annotated[
        Secret | None,
        Meta(
            description="A PostgreSQL database in place of the file, shared by several servers:"
            " `postgresql://user:password@host:5432/name`. Not shown. Needs the extra `postgres`."
        ),
    ] = None
    keep_days: Annotated[
        Count | None,
        Meta(
            description="Days that a session is kept after it was last used. Unset: until it is deleted. What it cost"
            " is remembered either way."
        ),
    ] = None


class NetworkConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Proxies. Unset keys follow `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case."""

    http_proxy: Annotated[Secret | None, Meta(description="The proxy for http. Not shown: it may hold a password.")] = (
        None
    )
    https_proxy: Annotated[Secret | None, Meta(description="The proxy for https. Not shown either.")] = None
    no_proxy: Annotated[tuple[str, ...], Meta(description="Hosts to reach without a proxy.")] = ()


class TelemetryConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Traces and figures for OpenTelemetry, by its conventions for generative AI. Needs the extra `otel`."""

    otlp_endpoint: Annotated[
        UrlOrUnset, Meta(description="Where they are sent (OTLP over HTTP), such as `http://127.0.0.1:4318`.")
    ] = ""
    headers: Annotated[
        dict[str, Secret], Meta(description="HTTP headers to send along, such as a key. Their values are never shown.")
    ] = {}
    service_name: Annotated[str, Meta(min_length=1, description="The service name that is reported.")] = "aish"
    content: Annotated[
        bool,
        Meta(description="Whether questions, answers, tool arguments and tool results are sent, too. Off by default."),
    ] = False


class LogConfig(Section, frozen=True, forbid_unknown_fields=True):
    """What `aish serve` writes to stderr."""

    format: Annotated[
        Literal["text", "json"], Meta(description="Lines to read, or one JSON object on each for a collector.")
    ] = "text"
    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The lowest level that is written. `info` writes a line for every request."),
    ] = "warning"


class NorrisConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Work towards a goal: `:norris`, `aish norris`. At a limit it stops and says so."""

    max_steps: Annotated[Count, Meta(description="Steps.")] = 16
    max_cost: Annotated[NotNegative | None, Meta(description="Dollars; unset means no limit of its own.")] = None
    max_minutes: Annotated[float, Meta(gt=0, description="Minutes.")] = 60.0
    preplanner: Annotated[
        str, Meta(description="A model or preset that writes the list of tasks once, before the work begins.")
    ] = ""
    executor: Annotated[str, Meta(description="The model or preset that does the work; unset: the one in use.")] = ""


class PlannerConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Planning before working: `:plan`, and `"planner": true` in a request."""

    model: Annotated[str, Meta(description="The model that writes plans; unset: the one that answers.")] = ""
    max_steps: Annotated[Count, Meta(description="The most steps of a plan.")] = 8
    max_rewrites: Annotated[int, Meta(ge=0, description="How often a plan with errors is sent back.")] = 2
    max_replans: Annotated[int, Meta(ge=0, description="How often the rest is planned anew after a failed step.")] = 1


class ServeConfig(Section, frozen=True, forbid_unknown_fields=True):
    """The server. Without keys it listens on this machine only."""

    listen: Annotated[str, Meta(description="Where to listen, as `host:port`.")] = "127.0.0.1:8600"
    tools: Annotated[
        tuple[str, ...],
        Meta(description="Tools that are added to every request, with `*`, for clients that name none."),
    ] = ()
    hosts: Annotated[
        tuple[str, ...], Meta(description="Host names of this server, besides localhost and its addresses.")
    ] = ()
    origins: Annotated[
        tuple[str, ...],
        Meta(description="Origins of pages that may call the server, such as `https://chat.example.org`."),
    ] = ()
    mcp_urls: Annotated[
        tuple[UrlPattern, ...],
        Meta(
            description="MCP servers a request may bring along by `server_url`, such as `https://mcp.example.com/*` or "
            "`http://127.0.0.1:*`; empty for none. The server connects where a client says: list hosts you trust."
        ),
    ] = ()
    max_body_bytes: Annotated[Count, Meta(description="The largest request body.")] = 32 * 1024 * 1024
    max_messages: Annotated[Count, Meta(description="The most messages in one request.")] = 10_000
    max_tools: Annotated[Count, Meta(description="The most tools in one request.")] = 512
    max_stored_bytes: Annotated[
        int,
        Meta(
            ge=0,
            description="How much one key may store in sessions, responses and conversations. With more, its requests "
            "are refused with 429 until it has deleted some. 0: no limit. Administrators have none.",
        ),
    ] = 1024**3
    max_trace_bytes: Annotated[
        Count,
        Meta(
            description="How much the traces of requests without a session may take, of all keys together. The oldest "
            "are deleted, within ten minutes."
        ),
    ] = 4 * 1024**3
    max_requests: Annotated[
        Count, Meta(description="Requests at once; further ones are refused with 503 and `Retry-After`.")
    ] = 4096
    heartbeat_s: Annotated[float, Meta(gt=0, description="Seconds without output before a heartbeat is sent.")] = 15.0
    send_timeout_s: Annotated[
        float,
        Meta(gt=0, description="Seconds that a client may leave a stream unread before the connection is closed."),
    ] = 30.0
    client_sessions: Annotated[
        bool,
        Meta(description="Use the session that a client names in `x-session-id` (opencode) or `session-id` (codex)."),
    ] = False
    approvals: Annotated[
        Literal["wait", "deny"],
        Meta(description="A call that needs consent waits to be answered at `/v1/approvals`, or is refused at once."),
    ] = "wait"
    max_mode: Annotated[
        Mode,
        Meta(
            description="How far the `mode` of a request may go whose key is not an administrator's; see `gate.mode`."
        ),
    ] = Mode.ASK
    approval_timeout_s: Annotated[
        float, Meta(gt=0, description="Seconds that such a call waits before it is refused.")
    ] = 120.0
    drain_s: Annotated[float, Meta(ge=0, description="Seconds that streams may take to end after SIGTERM.")] = 30.0
    keep_days: Annotated[
        int,
        Meta(
            ge=1,
            le=36_500,
            description="Days that stored responses and the traces of requests without a session are kept.",
        ),
    ] = 30


class ContextConfig(Section, frozen=True, forbid_unknown_fields=True):
    """How much of a conversation is sent. Turns that do not fit are left out whole, oldest first."""

    max_turns: Annotated[Count | None, Meta(description="At most so many earlier turns; unset: as many as fit.")] = None
    token_budget: Annotated[
        Count | None, Meta(description="Tokens for a whole request; unset: the model's window less `answer_room`.")
    ] = None
    answer_room: Annotated[
        Count | None,
        Meta(description="Tokens kept free for the answer; unset: a quarter of the window, at most 4096."),
    ] = None
    oversized: Annotated[
        Literal["cut", "refuse"],
        Meta(description="What happens to a message that is larger than the whole budget."),
    ] = "cut"
    summarize_on_evict: Annotated[
        bool,
        Meta(
            description="Whether earlier turns become notes, written by a model, before the window is full. Models"
            " below a billion parameters write none, unless `summary_model` is set."
        ),
    ] = True
    summary_model: Annotated[str, Meta(description="The model that summarises; unset: the one that answers.")] = ""
    summary_tokens: Annotated[
        Count, Meta(description="The longest notes, in tokens; at most an eighth of the window.")
    ] = 1000
    environment: Annotated[
        bool,
        Meta(
            description="Whether the shell tells the model about the machine, the directory and the project, with the"
            " project's instructions (`AGENTS.md`)."
        ),
    ] = True
    project_tree: Annotated[
        bool, Meta(description="Whether the shell tells the model which files there are in the project.")
    ] = False


class CostConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Limits on money. A cap is checked before each call, with the most that call may cost."""

    cap_per_session: Annotated[NotNegative | None, Meta(description="Dollars one session may cost.")] = None
    cap_per_day: Annotated[
        NotNegative | None, Meta(description="Dollars a day, over all sessions and processes on this store.")
    ] = None
    warn_at_dollars: Annotated[NotNegative | None, Meta(description="Warn once a session has cost this much.")] = None
    warn_at_tokens: Annotated[Count | None, Meta(description="Warn once a session has used this many tokens.")] = None


class PriceConfig(Section, frozen=True, forbid_unknown_fields=True):
    """What a model costs, by `provider:model` or its bare name; `*` matches anything. Overrides the built-in prices."""

    prompt: Annotated[NotNegative, Meta(description="Dollars for a million tokens sent.")] = 0.0
    completion: Annotated[NotNegative, Meta(description="Dollars for a million tokens received.")] = 0.0
    cached: Annotated[
        NotNegative | None, Meta(description="Dollars for a million tokens read from the backend's cache.")
    ] = None


class MemoryConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Facts that are remembered across sessions."""

    inject: Annotated[bool, Meta(description="Whether facts are sent with questions in the shell.")] = True
    max_tokens: Annotated[
        Count, Meta(description="The most tokens of facts that are sent, the most relevant first.")
    ] = 400


class RoutingConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Which model answers a question."""

    auto: Annotated[
        bool, Meta(description="Whether a question that names no model goes to the preset for its kind.")
    ] = False
    fallback: Annotated[
        str, Meta(description="The model or preset that is asked once when the chosen one cannot be reached.")
    ] = ""
    debug: Annotated[str, Meta(description="For questions with an error or a traceback.")] = ""
    code: Annotated[str, Meta(description="For questions about code.")] = ""
    reasoning: Annotated[str, Meta(description="For questions that ask for reasons.")] = ""
    long: Annotated[str, Meta(description="For very long questions.")] = ""
    quick: Annotated[str, Meta(description="For short, plain questions.")] = ""

    def classes(self) -> dict[str, str]:
        kinds = ("debug", "code", "reasoning", "long", "quick")
        return {kind: preset for kind in kinds if (preset := getattr(self, kind))}


class Config(Section, frozen=True, forbid_unknown_fields=True):
    """Settings that apply everywhere."""

    model: Annotated[
        str,
        Meta(
            description="The model to use: `provider:model`, a preset or a bare name. Unset: a running server decides."
        ),
    ] = ""
    provider: Annotated[str, Meta(description="The provider to prefer where a bare model name leaves a choice.")] = ""
    system: Annotated[str, Meta(description="More system text for every conversation.")] = ""
    providers: dict[str, ProviderConfig] = {}
    presets: dict[str, PresetConfig] = {}
    limits: LimitsConfig = LimitsConfig()
    gate: GateConfig = GateConfig()
    tools: ToolsConfig = ToolsConfig()
    store: StoreConfig = StoreConfig()
    embedded: EmbeddedConfig = EmbeddedConfig()
    discovery: DiscoveryConfig = DiscoveryConfig()
    network: NetworkConfig = NetworkConfig()
    mcp: McpConfig = McpConfig()
    extensions: ExtensionsConfig = ExtensionsConfig()
    hooks: Annotated[
        tuple[HookConfig, ...],
        Meta(description="Commands that run at points of a turn: tables of `point`, `command` and `tools`."),
    ] = ()
    safety: SafetyConfig = SafetyConfig()
    rewind: RewindConfig = RewindConfig()
    context: ContextConfig = ContextConfig()
    cost: CostConfig = CostConfig()
    prices: dict[str, PriceConfig] = {}
    memory: MemoryConfig = MemoryConfig()
    routing: RoutingConfig = RoutingConfig()
    norris: NorrisConfig = NorrisConfig()
    planner: PlannerConfig = PlannerConfig()
    serve: ServeConfig = ServeConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    log: LogConfig = LogConfig()
    shell: ShellConfig = ShellConfig()
    ide: IdeConfig = IdeConfig()
