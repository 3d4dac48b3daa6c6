"""Any OpenAI-compatible endpoint: llama.cpp, LMDeploy, MNN, vLLM, LM Studio, OpenRouter, OpenAI, another aish.

Streams chat completions over SSE. What is optional in practice is optional here: `[DONE]`, usage, finish reasons,
content types; a backend that ignores `stream` and answers with plain JSON is understood, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec

from aish.errors import ModelNotFound, ProviderError, ProviderProtocolError, ProviderRejected, WireError
from aish.providers import facts
from aish.providers.chat_wire import WireChunk, decode_chunk, encode_request, read_chunk
from aish.providers.endpoint import MAX_ANSWER_BYTES, Endpoint, JsonApi
from aish.providers.faults import error_text, refusal, stream_error, translated
from aish.types.chunks import Chunk, StepEnd, StepFinished
from aish.types.events import Status
from aish.types.models import ModelInfo
from aish.types.requests import StepRequest
from aish.wire.http import HttpClient, Response, Timeouts
from aish.wire.lines import SseReader

# One event holds at most one delta; tool arguments in a single piece are the largest known (about 1 MB).
MAX_EVENT_BYTES = 8 * 1024 * 1024
# How long the end of the body may lag behind `[DONE]`; waiting for it saves the connection for the next request.
_TAIL_S = 0.1
_TOKENIZE = Timeouts(connect_s=1, first_byte_s=2, idle_s=2, total_s=2)


class OpenAIProvider:
    def __init__(self, name: str, endpoint: Endpoint, http: HttpClient) -> None:
        self._name = name
        self._endpoint = endpoint
        self._http = http
        self._api = JsonApi(name, endpoint, http)
        self._asks_for_usage = True
        self._tokenizes = True

    @property
    def name(self) -> str:
        return self._name

    async def list_models(self) -> Sequence[ModelInfo]:
        if self._endpoint.models:
            return [ModelInfo(self._name, model) for model in self._endpoint.models]
        listing = await self._api.get(f"{self._endpoint.api}/models")
        return facts.models_from_listing(self._name, listing)

    async def describe(self, model: str) -> ModelInfo:
        """The listing and, where the backend is a llama.cpp server, `/props`: the window it really runs with."""
        listed = await self._listed()
        props = await self._props()
        info = next((info for info in listed if info.id == model), None)
        if info is None and listed and not facts.serves_any_name(props):
            names = ", ".join(info.id for info in listed[:5])
            raise ModelNotFound(f"{self._name} has no model {model}", hint=f"it has {names}")
        info = info or ModelInfo(self._name, model)
        return facts.refine(info, props, configured_context=self._endpoint.context_size)

    @asynccontextmanager
    async def stream(self, request: StepRequest) -> AsyncIterator[AsyncGenerator[Chunk, None]]:
        async with aclosing(self._chunks(request)) as chunks:
            yield chunks

    async def count_tokens(self, model: str, text: str) -> int | None:
        if not self._tokenizes:
            return None
        body = {"model": model, "content": text, "prompt": text}  # llama.cpp reads content, vLLM model and prompt
        try:
            answer = await self._api.post(f"{self._endpoint.root}/tokenize", body, _TOKENIZE)
        except ProviderError:
            self._tokenizes = False
            return None
        return facts.token_count(answer)

    async def embed(self, model: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        url = f"{self._endpoint.api}/embeddings"
        answer = await self._api.post(url, {"model": model, "input": list(texts), "encoding_format": "float"})
        return facts.embeddings(self._name, answer, count=len(texts))

    async def aclose(self) -> None:
        """The HTTP client is shared and closed by its owner."""

    async def _chunks(self, request: StepRequest) -> AsyncGenerator[Chunk, None]:
        try:
            async with aclosing(self._attempt(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ProviderRejected as exc:
            # Some servers know no stream_options; the refusal names it and comes before any chunk.
            if not self._asks_for_usage or "stream_options" not in exc.message:
                raise
            self._asks_for_usage = False
            async with aclosing(self._attempt(request)) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _attempt(self, request: StepRequest) -> AsyncGenerator[Chunk, None]:
        body = {**encode_request(request), "stream": True}
        if self._asks_for_usage:
            body["stream_options"] = {"include_usage": True}
        with translated(self._name):
            async with self._http.request(
                "POST",
                f"{self._endpoint.api}/chat/completions",
                headers=self._endpoint.request_headers(),
                body=msgspec.json.encode(body),
                timeouts=self._endpoint.timeouts(request.deadline_s),
            ) as response:
                if response.status != 200:
                    raise await refusal(self._name, request.model, response)
                async with aclosing(self._read(response, request.model)) as chunks:
                    async for chunk in chunks:
                        yield chunk

    async def _read(self, response: Response, model: str) -> AsyncGenerator[Chunk, None]:
        """Chunks in order; the finish comes last even where usage follows the finish reason on the wire."""
        finished: StepFinished | None = None
        said_anything = False
        async with aclosing(self._wire_chunks(response, model)) as wire_chunks:
            async for wire in wire_chunks:
                if wire.error:
                    raise stream_error(self._name, model, wire.error)
                for chunk in read_chunk(wire):
                    if isinstance(chunk, StepFinished):
                        finished = chunk
                        continue
                    said_anything = True
                    yield chunk
        if finished is None:
            if not said_anything:
                raise ProviderProtocolError(f"{self._name} ended its answer without saying anything")
            yield Status(f"{self._name} ended the answer without a finish reason")
        yield finished or StepFinished(StepEnd.UNKNOWN)

    async def _wire_chunks(self, response: Response, model: str) -> AsyncGenerator[WireChunk, None]:
        reader = SseReader(MAX_EVENT_BYTES)
        first = True
        async for piece in response:
            if first and piece.strip():
                first = False
                if (start := piece.lstrip(b"\xef\xbb\xbf \r\n\t")[:1]) in (b"{", b"<"):
                    yield await self._whole_answer(piece, response, html=start == b"<")
                    return
            for event in reader.feed(piece):
                if event.data == b"[DONE]":
                    await _read_tail(response)
                    return
                if event.data:
                    yield self._decode(event.data)
        for event in reader.finish():
            if event.data and event.data != b"[DONE]":
                yield self._decode(event.data)

    async def _whole_answer(self, piece: bytes, response: Response, *, html: bool) -> WireChunk:
        """The backend ignored `stream` and sent one JSON document, or something that is no answer at all."""
        if html:
            raise ProviderProtocolError(
                f"{self._name} answered with an HTML page instead of a stream",
                hint="is the provider's url right? It usually ends in /v1",
            )
        return self._decode(piece + await response.read(MAX_ANSWER_BYTES))

    def _decode(self, data: bytes) -> WireChunk:
        try:
            return decode_chunk(data)
        except (msgspec.DecodeError, RecursionError) as exc:
            shown = error_text(data)[:80]
            raise ProviderProtocolError(f"{self._name} sent a chunk that cannot be read ({exc}): {shown}") from exc

    async def _listed(self) -> Sequence[ModelInfo]:
        """Empty where the backend lists nothing; a backend that is away or refuses the key still fails."""
        try:
            return await self.list_models()
        except ProviderProtocolError:
            return ()
        except ProviderRejected as exc:
            if exc.status in (401, 403):
                raise
            return ()

    async def _props(self) -> Any:
        try:
            return await self._api.get(f"{self._endpoint.root}/props")
        except ProviderError:
            return None


async def _read_tail(response: Response) -> None:
    try:
        async with asyncio.timeout(_TAIL_S):
            async for _ in response:
                pass
    except (TimeoutError, WireError):
        pass  # nothing of the answer is missing; only the connection is not kept
