"""Ollama's own API: `/api/chat` streamed as NDJSON, `/api/tags`, `/api/show`, `/api/ps`, `/api/embed`.

Its OpenAI-compatible API has no context sizes, no `format` and no complete tool calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

import msgspec

from aish.errors import ModelNotFound, ProviderError, ProviderProtocolError
from aish.net.http.client import HttpClient, Response
from aish.net.lines import LineReader
from aish.ports import TextRelay
from aish.providers.endpoint import LOOKUP, Backend, Endpoint
from aish.providers.http_errors import SEND_TEXT, error_text_of, stream_error
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
from aish.providers.openai import reported_models
from aish.providers.openai.request import Json, encode_tools
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


class _Window(msgspec.Struct):
    """The window of a model: the one it runs with, and the largest to which a request may raise it."""

    size: int
    largest: int

    def fit(self, tokens: int) -> int:
        """Raises the window to the next power of two that holds so many tokens. It never becomes smaller again, because
        Ollama loads the model anew for each change."""
        if tokens > self.size:
            self.size = min(max(self.size, 1 << (tokens - 1).bit_length()), max(self.size, self.largest))
        return self.size


# A window of this size takes a model of eight billion parameters about 4 GB. `context_size` allows more.
_LARGEST_RAISED = 32_768
_ANSWER_TOKENS = 2048  # room for the answer if the request names none
_LEAST_BYTES_PER_TOKEN = 3  # most texts have four
_MAX_CHARS_PER_TOKEN = 6
_MAX_MODELS = 256
# One line is one delta. A tool call is in one line, with all its arguments.
MAX_LINE_BYTES = 8 * 1024 * 1024
# How long to wait for the end of the body after the last line. It allows the connection to be used again.
_TAIL_S = 0.1


class OllamaProvider:
    def __init__(self, name: str, endpoint: Endpoint, http: HttpClient) -> None:
        self._name = name
        self._endpoint = endpoint
        self._backend = Backend(name, endpoint, http)
        self._windows: dict[str, _Window] = {}

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
        checked = reported_models.embeddings(self._name, vectors, count=len(texts))
        read = tokens_used(answer.get("prompt_eval_count"))
        return EmbeddingResult(checked, Usage(read) if read else None)

    async def aclose(self) -> None:
        """The HTTP client is shared; its owner closes it."""

    async def _window(self, model: str, shown: Json) -> int | None:
        """The window that requests may use.

        Ollama runs most models with a small window of its own choice, and cuts longer prompts silently. So each request
        names the window, and raises it where it needs more, up to the one used in training. A window that the model
        file sets is not raised.
        """
        configured, trained = read_configured_window(shown), read_trained_window(shown)
        size = await self._loaded_window(model) or configured
        if size is None and await self._load(model):  # as it soon would be anyway
            size = await self._loaded_window(model)
        if size is None:
            return trained
        largest = size if configured else max(size, min(trained or size, _LARGEST_RAISED))
        if len(self._windows) >= _MAX_MODELS:
            self._windows.clear()
        self._windows[model] = _Window(size, largest)
        return largest

    def _window_for(self, request: StepRequest) -> int | None:
        """The window to ask for; None leaves it to Ollama."""
        window = self._windows.get(request.model)
        if self._endpoint.context_size or window is None:
            return self._endpoint.context_size
        texts = sum(len(message.text.encode("utf-8", "surrogatepass")) for message in request.messages)
        tools = len(msgspec.json.encode(encode_tools(request.tools))) if request.tools else 0
        answer = request.sampling.max_tokens or _ANSWER_TOKENS
        return window.fit((texts + tools) // _LEAST_BYTES_PER_TOKEN + answer)

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
        url, body = f"{self._endpoint.root}/api/chat", encode_request(request, self._window_for(request))
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
            usage = read_usage(done)
            if note := self._find_cut(request, usage):
                yield [Status(note)]
            yield [UsageChunk(usage)]
        elif has_content:
            yield [Status(f"{self._name} ended the answer without saying that it was done")]
        else:
            raise ProviderProtocolError(f"{self._name} ended its answer without saying anything")
        yield [StepFinished(read_end(done, called=calls > 0))]

    def _find_cut(self, request: StepRequest, usage: Usage) -> str:
        """Tells that Ollama has cut the prompt: it read a full window of a text that is surely longer."""
        window = self._endpoint.context_size or (known.size if (known := self._windows.get(request.model)) else None)
        chars = sum(len(message.text) for message in request.messages)
        if not window or usage.prompt_tokens < window * 0.9 or chars < window * _MAX_CHARS_PER_TOKEN:
            return ""
        return (
            f"{self._name} has cut the prompt: {request.model} read {usage.prompt_tokens} tokens of {chars} "
            f"characters, with a window of {window}. Raise it with `context_size`, or start a new session"
        )

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
