"""Makes the providers of the configuration, each when it is first used."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aish.config.load import LoadedConfig
from aish.config.schema.models import ProviderConfig, ServerConfig
from aish.engine.model.lazy_providers import LazyProviders
from aish.errors import AishError, ProviderUnavailable, UsageError
from aish.ports import Provider, TextRelay
from aish.safety.redaction.redactor import Redactor

if TYPE_CHECKING:
    from aish.net.http.client import HttpClient
    from aish.providers.model_store.cache import ModelCache
    from aish.types.chunks import Batch
    from aish.types.models import ModelProfile
    from aish.types.requests import EmbeddingResult, Inputs, StepRequest

EMBEDDED = "embedded"
SCRIPTED = "scripted"
# The entry points of installed packages that make providers.
PROVIDER_GROUP = "aish.providers"


class Providers:
    """`only` are the names given for this run: they go first."""

    def __init__(
        self,
        loaded: LoadedConfig,
        http: Callable[[], HttpClient],
        redactor: Redactor,
        model_cache: Callable[[], ModelCache],
        only: Sequence[str],
        given: Mapping[str, Provider],
    ) -> None:
        """`given` are providers that the program has made itself."""
        self._given = given
        self._loaded = loaded
        self._config = loaded.config
        self._find_http = http
        self._redactor = redactor
        self._model_cache = model_cache
        self._only = only
        self._discovered: set[str] = set()

    @property
    def _http(self) -> HttpClient:
        return self._find_http()

    def all(self) -> LazyProviders:
        """The providers given for this run, then the preferred one, the configured ones and the built-in ones."""
        first = [*self._only, self._config.provider]
        names = sorted(self._config.providers, key=lambda name: first.index(name) if name in first else len(first))
        makers = {name: partial(self._make, name) for name in dict.fromkeys((*names, EMBEDDED, SCRIPTED))}
        given = {name: partial(_calling_tools, provider) for name, provider in self._given.items()}
        return LazyProviders({**makers, **given})

    def _make(self, name: str) -> Provider:
        configured = self._config.providers.get(name)
        if configured is not None:
            try:
                made = self._provider(name, configured)
            except AishError as exc:
                return UnavailableProvider(name, exc)
            return self._add_redaction(_calling_tools(made), configured)
        return _calling_tools(self._make_embedded(name) if name == EMBEDDED else self._make_scripted(name, ""))

    async def candidates(self, providers: Mapping[str, Provider]) -> Sequence[Provider]:
        """The providers to ask if no model is named: the configured ones, otherwise local servers; then the embedded
        model."""
        configured = [providers[name] for name in providers if name in self._config.providers]
        found = () if configured else await self.discover()
        return [*configured, *found, providers[EMBEDDED]]

    def _add_redaction(self, provider: Provider, settings: ProviderConfig) -> Provider:
        """Adds redaction. It is the outermost layer: a secret may be restored only once it is known whether the text of
        a model is a tool call."""
        if not settings.redact:
            return provider
        from aish.providers.redacting import RedactingProvider
        from aish.safety.policy.secret_recipients import Recipients

        safety = self._config.safety
        recipients = Recipients(safety.secrets_for_tools, safety.secrets_for_programs)
        return RedactingProvider(provider, self._redactor, recipients)

    def _provider(self, name: str, settings: ProviderConfig) -> Provider:
        match settings.kind:
            case "embedded":
                return self._make_embedded(name, settings.file)
            case "scripted":
                return self._make_scripted(name, settings.file)
            case "extension":
                return load_provider(name, settings)
            case _:
                members = [self._endpoint(name, settings, url) for url in settings.endpoints]
                return self._pool(name, members, settings.timeout_s)

    def _pool(self, name: str, members: Sequence[Provider], call_s: float) -> Provider:
        if not members:
            raise UsageError(f"the provider {name} has no url", hint=f"set providers.{name}.url")
        if len(members) == 1:
            return members[0]
        from aish.providers.pool import PoolProvider

        return PoolProvider(name, members, call_s=call_s)

    def _endpoint(self, name: str, settings: ProviderConfig, url: str) -> Provider:
        key = self._loaded.get_key(name) if name in self._config.providers else settings.get_key()
        headers = {header: value.reveal() for header, value in settings.headers.items()}
        from aish.providers.endpoint import Endpoint
        from aish.providers.openai.provider import OpenAIProvider

        endpoint = Endpoint(
            url=url,
            key=key.reveal() if key else "",
            headers=headers,
            connect_timeout_s=settings.connect_timeout_s,
            max_call_s=settings.timeout_s,
            context_size=settings.context_size,
            models=settings.models,
            cache_hints=settings.cache_hints,
            count_text=_counter(settings.tokenizer),
        )
        if settings.kind == "ollama":
            from aish.providers.ollama.provider import OllamaProvider

            return OllamaProvider(name, endpoint, self._http)
        return OpenAIProvider(name, endpoint, self._http)

    def _server(self, server: ServerConfig) -> Provider:
        return self._endpoint(server.name, ProviderConfig(kind=server.kind, url=server.url), server.url)

    def _make_embedded(self, name: str, file: str = "") -> Provider:
        from aish.providers.embedded.provider import EmbeddedProvider, EmbeddedSettings
        from aish.providers.endpoint import Endpoint
        from aish.providers.model_store.cache import PreferredModel
        from aish.providers.openai.provider import OpenAIProvider

        settings = self._config.embedded
        return EmbeddedProvider(
            PreferredModel(self._model_cache(), file or settings.model),
            lambda url, key: OpenAIProvider(name, Endpoint(url=url, key=key), self._http),
            EmbeddedSettings(
                threads=settings.threads, context_size=settings.context_size, idle_stop_s=settings.idle_stop_s
            ),
            name=name,
        )

    def _make_scripted(self, name: str, file: str) -> Provider:
        from aish.providers.scripted import ScriptedProvider, fake_tool, load_script

        scripts = {Path(file).stem: load_script(Path(file))} if file else {"fake-tool": fake_tool}
        return ScriptedProvider(name, scripts)

    def is_free(self, provider: str) -> bool:
        """Whether calls cost nothing: embedded and discovered providers. A configured URL may be a paid service."""
        configured = self._config.providers.get(provider)
        if configured is not None:
            return configured.kind in (EMBEDDED, SCRIPTED)
        return provider in (EMBEDDED, SCRIPTED) or provider in self._discovered

    async def discover(self) -> Sequence[Provider]:
        if not self._config.discovery.enabled:
            return ()
        from aish.providers.discovery import discover

        found = [_calling_tools(provider) for provider in await discover(self._config.discovery, self._server)]
        self._discovered.update(provider.name for provider in found)
        return found


class UnavailableProvider:
    """Takes the place of a provider that cannot be made, so that all others work. Asking it gives the reason."""

    def __init__(self, name: str, reason: AishError) -> None:
        self.name = name
        self._message, self._hint = reason.message, reason.hint

    async def list_models(self) -> Sequence[ModelProfile]:
        raise self._error()

    async def describe(self, model: str) -> ModelProfile:
        raise self._error()

    def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AbstractAsyncContextManager[AsyncGenerator[Batch, None]]:
        return aclosing(self._batches())

    async def _batches(self) -> AsyncGenerator[Batch, None]:
        raise self._error()
        yield  # makes it a generator

    def prepare(self, request: StepRequest) -> StepRequest:
        return request

    async def count_tokens(self, model: str, text: str) -> int | None:
        return None

    async def count_prompt(self, request: StepRequest) -> int | None:
        return None

    async def embed(self, model: str, inputs: Inputs) -> EmbeddingResult:
        raise self._error()

    async def aclose(self) -> None:
        pass

    def _error(self) -> ProviderUnavailable:
        return ProviderUnavailable(self._message, hint=self._hint)


def load_provider(name: str, settings: ProviderConfig) -> Provider:
    """A provider of an installed package. Its factory gets the name and the options. Raises UsageError."""
    from importlib.metadata import entry_points

    found = list(entry_points(group=PROVIDER_GROUP, name=settings.extension))
    if not found:
        known = ", ".join(sorted(entry.name for entry in entry_points(group=PROVIDER_GROUP))) or "none"
        raise UsageError(
            f"the provider {name} needs the extension {settings.extension or '(providers.NAME.extension is not set)'}",
            hint=f"install its package; there are: {known}",
        )
    try:
        factory: Callable[[str, Mapping[str, Any]], Provider] = found[0].load()
        return factory(name, settings.options)
    except AishError:
        raise
    except Exception as exc:  # of code that is not ours
        raise UsageError(
            f"the provider {name} cannot be made by {found[0].value}: {type(exc).__name__}: {exc}"
        ) from exc


def _calling_tools(provider: Provider) -> Provider:
    from aish.providers.tool_calling.provider import ToolCallingProvider

    return ToolCallingProvider(provider)


def _counter(file: str) -> Callable[[str], int | None] | None:
    if not file:
        return None
    from aish.providers.tokenizer_file import TokenizerFile

    return TokenizerFile(Path(file)).count
