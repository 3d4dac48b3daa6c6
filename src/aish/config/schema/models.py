"""The schema of the settings for models: where they run, presets of them, and how they are found."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from aish.config.schema.values import (
    Count,
    NotNegative,
    Secret,
    Section,
    Share,
    TopK,
    Url,
    UrlOrUnset,
    Variable,
)
from aish.errors import ConfigError
from aish.types.requests import Knobs, Sampling, ToolMode, TurnLimits

ProviderKind = Literal["openai", "ollama", "embedded", "scripted", "extension"]

_DEFAULT_LIMITS = TurnLimits()
_NO_KNOBS = Knobs()


class ProviderConfig(Section, frozen=True, forbid_unknown_fields=True):
    """A backend that answers. Models of it are named `NAME:model`."""

    kind: Annotated[
        ProviderKind,
        Meta(
            description="The protocol: any OpenAI-compatible server, Ollama, the embedded model, a script, or an "
            "installed package."
        ),
    ] = "openai"
    extension: Annotated[
        str, Meta(description="Of kind `extension`: the name of an entry point in `aish.providers`. See extend.md.")
    ] = ""
    options: Annotated[
        dict[str, Any], Meta(description="Of kind `extension`: its settings, in its own keys. Never shown.")
    ] = {}
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
