"""Defines every setting: name, type, default and description.

The reference page, the starter file and the checks are made from these classes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from aish.config.schema.tools import (
    GateConfig,
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
    Share,
    TopK,
    Url,
    UrlOrUnset,
    UrlPattern,
    Variable,
)
from aish.errors import ConfigError
from aish.types.decisions import Mode
from aish.types.requests import Knobs, Sampling, ToolMode, TurnLimits

ProviderKind = Literal["openai", "ollama", "embedded", "scripted"]

_DEFAULT_LIMITS = TurnLimits()
_NO_KNOBS = Knobs()


class ProviderConfig(Section, frozen=True, forbid_unknown_fields=True):
    """A backend that answers. Models of it are named `NAME:model`."""

    kind: Annotated[
        ProviderKind,
        Meta(description="The protocol: any OpenAI-compatible server, Ollama, the embedded model, or a script."),
    ] = "openai"
    url: Annotated[UrlOrUnset, Meta(description="Where it listens, such as `http://127.0.0.1:8080`.")] = ""
    urls: Annotated[
        tuple[Url, ...], Meta(description="Several endpoints that serve the same models; they form a pool.")
    ] = ()
    key: Annotated[
        Secret | None, Meta(description="The API key itself. Never shown. `key_env` keeps it out of the file.")
    ] = None
    key_env: Annotated[
        Variable,
        # Hidden when it is wrong: it may be the key itself, in the wrong place.
        Meta(description="The name of the environment variable that holds the API key.", extra={"hide": True}),
    ] = ""
    headers: Annotated[
        dict[str, Secret], Meta(description="More HTTP headers to send. Their values are never shown.")
    ] = {}
    models: Annotated[
        tuple[str, ...], Meta(description="The models to offer, where the server cannot list them or lists too many.")
    ] = ()
    file: Annotated[
        str,
        Meta(
            description="The script of a `scripted` provider, or the `.gguf` file of an `embedded` one.",
            extra={"path": "always"},
        ),
    ] = ""
    context_size: Annotated[
        Count | None, Meta(description="Tokens of context, where the server does not say or says it wrong.")
    ] = None
    tokenizer: Annotated[
        str,
        Meta(
            description="A `tokenizer.json` to count with where the server cannot. Needs the extra `tokenizer`.",
            extra={"path": "always"},
        ),
    ] = ""
    cache_hints: Annotated[
        Literal["auto", "always", "never"],
        Meta(description="Whether hints for its prompt cache are sent; auto: few within this network. See context.md."),
    ] = "auto"
    use_tool_role: Annotated[
        bool, Meta(description="Whether the chat template takes tool results in the role `tool`. If not, as user text.")
    ] = True
    redact: Annotated[
        bool, Meta(description="Replace known secrets by placeholders before messages leave for this provider.")
    ] = False
    timeout_s: Annotated[float, Meta(gt=0, description="Seconds one model call may take in all.")] = 600.0
    connect_timeout_s: Annotated[float, Meta(gt=0, description="Seconds to wait for a connection.")] = 10.0

    @property
    def endpoints(self) -> tuple[str, ...]:
        """`url` and `urls`, each once."""
        return tuple(dict.fromkeys(url for url in (self.url, *self.urls) if url))

    def get_key(self) -> Secret | None:
        """Returns the key to send, None if there is none. Raises ConfigError if its variable is not set."""
        if not self.key and self.key_env:
            raise ConfigError(
                f"the variable {self.key_env}, which is to hold an API key, is not set",
                hint=f"export {self.key_env}=…, or change key_env",
            )
        return self.key or None


class PresetConfig(Section, frozen=True, forbid_unknown_fields=True):
    """A name for a model together with how to use it: `aish --model NAME`."""

    model: Annotated[str, Meta(description="The model, as `provider:model` or a bare name.")] = ""
    system: Annotated[str, Meta(description="More system text for this preset.")] = ""
    temperature: Annotated[NotNegative | None, Meta(description="Randomness; unset leaves the backend's own.")] = None
    top_p: Annotated[Share | None, Meta(description="Nucleus sampling; unset leaves the backend's own.")] = None
    top_k: Annotated[
        TopK | None, Meta(description="Only this many of the likeliest tokens; all: 0 for llama.cpp, -1 for vLLM.")
    ] = None
    min_p: Annotated[
        Share | None, Meta(description="Only tokens that have at least this share of the likeliest one's chance.")
    ] = None
    repeat_penalty: Annotated[
        NotNegative | None, Meta(description="Above 1, repeated tokens become less likely; also for vLLM.")
    ] = None
    max_tokens: Annotated[Count | None, Meta(description="The longest answer, in tokens.")] = None
    seed: Annotated[int | None, Meta(description="Makes answers repeatable where the backend can.")] = None
    stop: Annotated[tuple[str, ...], Meta(description="Texts at which the answer ends.")] = ()
    tool_mode: Annotated[
        ToolMode, Meta(description="How the model calls tools; `auto` takes the best that the backend can promise.")
    ] = "auto"
    use_tool_role: Annotated[bool | None, Meta(description="As in `[providers]`, for this model only.")] = None
    context_size: Annotated[Count | None, Meta(description="As in `[providers]`, for this model only.")] = None

    def sampling(self) -> Sampling:
        knobs = Knobs(top_k=self.top_k, min_p=self.min_p, repeat_penalty=self.repeat_penalty)
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=self.max_tokens,
            stop=self.stop,
            seed=self.seed,
            knobs=None if knobs == _NO_KNOBS else knobs,
        )


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


class EmbeddedConfig(Section, frozen=True, forbid_unknown_fields=True):
    """The model that runs inside aish when no server is found."""

    model: Annotated[
        str, Meta(description="A name of the catalogue, or the path of a `.gguf` file.", extra={"path": "gguf"})
    ] = "smollm2"
    threads: Annotated[int, Meta(ge=0, description="Threads to compute with; 0 chooses by the machine.")] = 0
    context_size: Annotated[int, Meta(ge=0, description="Tokens of context; 0 takes the model's own.")] = 0
    idle_stop_s: Annotated[
        float, Meta(ge=0, description="Seconds without use after which its memory is given back; 0 means never.")
    ] = 600.0
    cache_dir: Annotated[
        str,
        Meta(
            description="The directory of fetched models.",
            extra={"path": "always", "default": "`models` in the cache directory"},
        ),
    ] = ""


class ServerConfig(Section, frozen=True, forbid_unknown_fields=True):
    """An address to probe for a running server."""

    name: Annotated[str, Meta(min_length=1, description="The name of the provider if it is found.")]
    url: Annotated[Url, Meta(description="The URL to probe.")]
    kind: Annotated[ProviderKind, Meta(description="How to talk to it.")] = "openai"


# MNN and vLLM share a port; what answers there is the same protocol.
WELL_KNOWN_SERVERS = (
    ServerConfig(name="ollama", kind="ollama", url="http://127.0.0.1:11434"),
    ServerConfig(name="llamacpp", url="http://127.0.0.1:8080"),
    ServerConfig(name="lmstudio", url="http://127.0.0.1:1234"),
    ServerConfig(name="lmdeploy", url="http://127.0.0.1:23333"),
    ServerConfig(name="mnn", url="http://127.0.0.1:8000"),
)


class DiscoveryConfig(Section, frozen=True, forbid_unknown_fields=True):
    """The search for local servers when no provider is configured."""

    enabled: Annotated[bool, Meta(description="Whether aish searches.")] = True
    timeout_s: Annotated[float, Meta(gt=0, description="Seconds to search; all addresses are probed at once.")] = 0.5
    servers: Annotated[
        tuple[ServerConfig, ...],
        Meta(
            description="The addresses: tables of `name`, `kind` and `url`.",
            extra={"default": "Ollama 11434, llama.cpp 8080, LM Studio 1234, LMDeploy 23333, MNN or vLLM 8000"},
        ),
    ] = WELL_KNOWN_SERVERS


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
