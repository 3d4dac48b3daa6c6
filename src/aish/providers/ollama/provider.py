"""Ollama's own API: `/api/chat` streamed as NDJSON, `/api/tags`, `/api/show`, `/api/ps`, `/api/embed`.

Its OpenAI-compatible API has no context sizes, no `format` and no complete tool calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

from aish.errors import ModelNotFound, ProviderError, ProviderProtocolError
from aish.net.http.client import HttpClient, Response
from aish.net.lines import LineReader
from aish.ports import TextRelay
from aish.providers.endpoint import LOOKUP, Backend, Endpoint
from aish.providers.http_faults import SEND_TEXT, error_text_of, stream_error
from aish.providers.loose_json import NotJson, decode_json
from aish.providers.ollama.wire import (
    OllamaLine,
    decode_line,
    encode_request,
    read_configured_window,
    read_end,
    read_loaded_window,
    read_reply,
    read_trained_window,
    read_usage,
    show_capabilities,
)
from aish.providers.openai import model_facts
from aish.providers.openai.request import Json
from aish.providers.openai.response import tokens_used
from aish.types.chunks import Batch, CallFragment, StepFinished, UsageChunk
from aish.types.events import Status
from aish.types.models import ModelProfile
from aish.types.requests import EmbeddingResult, Inputs, StepRequest, texts_of
from aish.types.usage import Usage


class _ResponseBody(AsyncIterator[bytes]):
    """The body of a streamed reply. Before the first piece the model may think for as long as the deadline allows;
    after that, silence is limited."""

    def __init__(self, response: Response, idle_s: float) -> None:
        self._response = response
        self._idle_s = idle_s
        self._begun = False

    def complete(self, lag_s: float) -> None:
        """Nothing essential is missing any more; the rest has `lag_s` to arrive."""
        self._response.make_rest_optional(lag_s)

    async def __anext__(self) -> bytes:
        piece = await self._response.__anext__()
        if not self._begun:
            self._begun = True
            self._response.limit_silence(self._idle_s)
        return piece


# One line is one delta. A tool call is in one line, with all its arguments.
MAX_LINE_BYTES = 8 * 1024 * 1024
# How long to wait for the end of the body after the last line. It allows the connection to be used again.
_TAIL_S = 0.1


class OllamaProvider:
    def __init__(self, name: str, endpoint: Endpoint, http: HttpClient) -> None:
        self._name = name
        self._endpoint = endpoint
        self._backend = Backend(name, endpoint, http)

    @property
    def name(self) -> str:
        return self._name

    async def list_models(self) -> Sequence[ModelProfile]:
        if self._endpoint.models:
            return [ModelProfile(self._name, model) for model in self._endpoint.models]
        listing = await self._backend.get(f"{self._endpoint.root}/api/tags")
        models = listing.get("models") if isinstance(listing, dict) else None
        if not isinstance(models, list):
            raise ProviderProtocolError(f"{self._name} lists its models in a form aish does not know")
        names = (entry.get("name") or entry.get("model") for entry in models if isinstance(entry, dict))
        return [ModelProfile(self._name, name) for name in names if isinstance(name, str)]

    async def describe(self, model: str) -> ModelProfile:
        try:
            shown = await self._backend.post(
                f"{self._endpoint.root}/api/show", {"model": model}, model=model, timeouts=LOOKUP
            )
        except ModelNotFound as exc:
            raise ModelNotFound(f"{self._name} has no model {model}", hint=f"ollama pull {model}") from exc
        if not isinstance(shown, dict):
            raise ProviderProtocolError(f"{self._name} describes {model} in a form aish does not know")
        size = self._endpoint.context_size or await self._window(model, shown)
        return ModelProfile(self._name, model, size, show_capabilities(shown))

    @asynccontextmanager
    async def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AsyncIterator[AsyncGenerator[Batch, None]]:
        async with aclosing(self._batches(request)) as batches:
            yield batches

    def prepare(self, request: StepRequest) -> StepRequest:
        return request

    async def count_tokens(self, model: str, text: str) -> int | None:
        """Ollama has no tokenizer to ask. The user may have a tokenizer file."""
        count = self._endpoint.count_text
        return await asyncio.to_thread(count, text) if count else None

    async def count_prompt(self, request: StepRequest) -> int | None:
        return None

    async def embed(self, model: str, inputs: Inputs) -> EmbeddingResult:
        if (texts := texts_of(inputs)) is None:
            raise ProviderError(f"{self._name} is Ollama, which embeds texts and no token ids", hint=SEND_TEXT)
        body = {"model": model, "input": texts}
        answer = await self._backend.post(f"{self._endpoint.root}/api/embed", body, model=model)
        vectors = answer.get("embeddings") if isinstance(answer, dict) else None
        checked = model_facts.embeddings(self._name, vectors, count=len(texts))
        read = tokens_used(answer.get("prompt_eval_count"))
        return EmbeddingResult(checked, Usage(read) if read else None)

    async def aclose(self) -> None:
        """The HTTP client is shared; its owner closes it."""

    async def _window(self, model: str, shown: Json) -> int | None:
        """The window of the loaded model, or the one in its model file. Otherwise the model is loaded, as it soon would
        be anyway.

        The window used in training says little: Ollama runs most models with a much smaller one, and cuts longer
        prompts silently.
        """
        size = await self._loaded_window(model) or read_configured_window(shown)
        if size is None and await self._load(model):
            size = await self._loaded_window(model)
        return size or read_trained_window(shown)

    async def _loaded_window(self, model: str) -> int | None:
        try:
            running = await self._backend.get(f"{self._endpoint.root}/api/ps")
        except ProviderError:
            return None
        return read_loaded_window(running, model)

    async def _load(self, model: str) -> bool:
        """Embedding models refuse, and models in the cloud are never loaded here."""
        try:
            await self._backend.post(f"{self._endpoint.root}/api/generate", {"model": model, "stream": False})
        except ProviderError:
            return False
        return True

    async def _batches(self, request: StepRequest) -> AsyncGenerator[Batch, None]:
        url, body = f"{self._endpoint.root}/api/chat", encode_request(request, self._endpoint.context_size)
        async with (
            self._backend.stream(url, body, model=request.model, deadline_s=request.deadline_s) as response,
            aclosing(self._read(_ResponseBody(response, self._endpoint.idle_timeout_s), request)) as batches,
        ):
            async for batch in batches:
                yield batch

    async def _read(self, body: _ResponseBody, request: StepRequest) -> AsyncGenerator[Batch, None]:
        calls = 0
        done: OllamaLine | None = None
        has_content = False
        async with aclosing(self._lines(body)) as lines:
            async for line in lines:
                if line.error:
                    raise stream_error(self._name, request.model, line.error)
                if batch := list(read_reply(line, first_index=calls, logprobs=request.sampling.logprobs)):
                    has_content = True
                    calls += sum(isinstance(chunk, CallFragment) for chunk in batch)
                    yield batch
                if line.done:
                    done = line
                    body.complete(_TAIL_S)
        if done is not None:
            yield [UsageChunk(read_usage(done))]
        elif has_content:
            yield [Status(f"{self._name} ended the answer without saying that it was done")]
        else:
            raise ProviderProtocolError(f"{self._name} ended its answer without saying anything")
        yield [StepFinished(read_end(done, called=calls > 0))]

    async def _lines(self, body: _ResponseBody) -> AsyncGenerator[OllamaLine, None]:
        reader = LineReader(MAX_LINE_BYTES)
        async for piece in body:
            for line in reader.feed(piece):
                if line.strip():
                    yield self._decode(line)
        for line in reader.finish():
            if line.strip():
                yield self._decode(line)

    def _decode(self, line: bytes) -> OllamaLine:
        try:
            return decode_json(line, decode_line)
        except NotJson as exc:
            shown = error_text_of(line)[:80]
            raise ProviderProtocolError(f"{self._name} sent a line that cannot be read ({exc}): {shown}") from exc
