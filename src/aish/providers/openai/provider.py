"""Any OpenAI-compatible endpoint: llama.cpp, LMDeploy, MNN, vLLM, LM Studio, OpenRouter, OpenAI, another aish.

Which of our fields a backend accepts is learned from its refusals. `response` reads its answers.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from time import monotonic
from typing import Any

import msgspec

from aish.errors import ModelNotFound, ProviderError, ProviderProtocolError, ProviderRejected
from aish.net.http.client import HttpClient
from aish.ports import TextRelay
from aish.providers.endpoint import Backend, Endpoint
from aish.providers.openai import reported_models
from aish.providers.openai.cache_hints import CacheHints
from aish.providers.openai.request import Dialect, EncodedCache, encode_request
from aish.providers.openai.response import ChatResponseReader, read_usage
from aish.providers.openai.token_counting import BackendTokenCounter
from aish.types.chunks import Batch, UsageChunk
from aish.types.events import Status
from aish.types.models import ModelProfile
from aish.types.requests import EmbeddingResult, Inputs, StepRequest

# A prompt of fewer tokens has not been cut: no window is so small.
_LEAST_CUT_TOKENS = 500
_MAX_CHARS_PER_TOKEN = 8  # on average, of any text of some length
_MAX_MODELS = 1000


class OpenAIProvider:
    def __init__(self, name: str, endpoint: Endpoint, http: HttpClient) -> None:
        self._name = name
        self._endpoint = endpoint
        self._backend = Backend(name, endpoint, http)
        self._chat_url = f"{endpoint.api}/chat/completions"
        self._dialect = Dialect()
        self._encoded = EncodedCache()
        self._counting = BackendTokenCounter(self._backend)
        self._cache_hints = CacheHints(endpoint.url, endpoint.cache_hints)
        self._cut_models: set[str] = set()

    @property
    def name(self) -> str:
        return self._name

    async def list_models(self) -> Sequence[ModelProfile]:
        if self._endpoint.models:
            return [ModelProfile(self._name, model) for model in self._endpoint.models]
        return await self._ask_listing(f"{self._endpoint.api}/models")

    async def describe(self, model: str) -> ModelProfile:
        """As listed. If the backend is a llama.cpp server or LM Studio, as the model really runs."""
        listed = await self._list()
        props = await self._props()
        self._cache_hints.slots = reported_models.slot_count(props)
        info = next((info for info in listed if info.id == model), None)
        if info is None and not (model in self._endpoint.models or reported_models.serves_any_name(props)):
            self._check_unlisted(model, [info.id for info in listed])
        info = reported_models.refine(info or ModelProfile(self._name, model), props)
        if info.context_size is None:
            info = await self._loaded_in_lm_studio(info)
        return msgspec.structs.replace(info, context_size=self._endpoint.context_size or info.context_size)

    def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AbstractAsyncContextManager[AsyncGenerator[Batch, None]]:
        return aclosing(self._batches(request, relay))

    def prepare(self, request: StepRequest) -> StepRequest:
        return request

    async def count_tokens(self, model: str, text: str) -> int | None:
        return await self._counting.text(model, text)

    async def count_prompt(self, request: StepRequest) -> int | None:
        return await self._counting.prompt(request)

    async def embed(self, model: str, inputs: Inputs) -> EmbeddingResult:
        body = {"model": model, "input": list(inputs), "encoding_format": "float"}
        answer = await self._backend.post(f"{self._endpoint.api}/embeddings", body, model=model)
        vectors = reported_models.embeddings(self._name, reported_models.embedding_rows(answer), count=len(inputs))
        usage = read_usage(answer.get("usage"))
        return EmbeddingResult(vectors, usage if usage.prompt_tokens else None)

    async def aclose(self) -> None:
        """The HTTP client is shared; its owner closes it."""

    async def _batches(self, request: StepRequest, relay: TextRelay | None) -> AsyncGenerator[Batch, None]:
        """Tries again after each refusal of one of our fields, without that field."""
        due_s = monotonic() + request.deadline_s
        url, idle_s = self._chat_url, self._endpoint.idle_timeout_s
        logprobs, more = request.sampling.logprobs, self._cache_hints.header(request)
        dialect = known = self._dialect
        begun = False
        while True:
            body, left_s = encode_request(request, dialect, self._encoded), due_s - monotonic()
            self._cache_hints.add(body, request, dialect)
            try:
                async with self._backend.stream(
                    url, body, model=request.model, deadline_s=left_s, traceparent=request.traceparent, more=more
                ) as response:
                    answer = ChatResponseReader(self._name, request.model, response, idle_s, relay, logprobs=logprobs)
                    batch: Batch = ()
                    while not answer.is_over:
                        before, batch = batch, await answer.next_batch()
                        if not begun and dialect is not known:
                            self._dialect = self._dialect.merge(dialect, request.model)
                        begun = True
                        if answer.is_over and (note := self._find_cut(request, (*before, *batch))):
                            yield [Status(note)]
                        yield batch
                return
            except ProviderRejected as exc:
                has_schema = request.sampling.json_schema is not None
                simpler = None if begun else dialect.without_refused(exc.message, has_schema=has_schema, sent=body)
                if simpler is None:
                    raise
                dialect = simpler

    def _find_cut(self, request: StepRequest, last: Batch) -> str:
        """Tells, once for each model, that the backend has cut the prompt: it reports far fewer tokens than the text
        can have. LM Studio and Ollama cut what does not fit, and say nothing."""
        tokens = 0
        for chunk in last:
            if type(chunk) is UsageChunk:
                tokens = chunk.usage.prompt_tokens + chunk.usage.cached_tokens
        if tokens < _LEAST_CUT_TOKENS or request.model in self._cut_models:
            return ""
        chars = sum(len(message.text) for message in request.messages)
        if chars < tokens * _MAX_CHARS_PER_TOKEN:
            return ""
        self._cut_models = {*self._cut_models, request.model} if len(self._cut_models) < _MAX_MODELS else set()
        return (
            f"{self._name} seems to have cut the prompt: {request.model} read {tokens} tokens of {chars} characters. "
            "Load it with a larger window, or set `context_size` to the one it has"
        )

    def _check_unlisted(self, model: str, names: list[str]) -> None:
        """A backend that lists nothing may have the model all the same."""
        if names or self._endpoint.models:
            names = [*self._endpoint.models, *names]
            raise ModelNotFound(f"{self._name} has no model {model}", hint=f"it has {', '.join(names[:5])}")

    async def _ask_listing(self, url: str) -> Sequence[ModelProfile]:
        return reported_models.models_from_listing(self._name, await self._backend.get(url))

    async def _list(self) -> Sequence[ModelProfile]:
        """Empty where the backend lists nothing. A backend that is away or refuses the key still raises."""
        try:
            return await self._ask_listing(f"{self._endpoint.api}/models")
        except ProviderProtocolError:
            return ()
        except ProviderRejected as exc:
            if exc.status in (401, 403):
                raise
            return ()

    async def _props(self) -> Any:
        try:
            return await self._backend.get(f"{self._endpoint.root}/props")
        except ProviderError:
            return None

    async def _loaded_in_lm_studio(self, info: ModelProfile) -> ModelProfile:
        """LM Studio's OpenAI-compatible listing has names only; its own API reports what is loaded, and how."""
        try:
            listed = await self._ask_listing(f"{self._endpoint.root}/api/v0/models")
        except ProviderError:
            return info
        return next((own for own in listed if own.id == info.id), info)
