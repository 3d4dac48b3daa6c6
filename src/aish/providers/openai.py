"""Any OpenAI-compatible endpoint: llama.cpp, LMDeploy, MNN, vLLM, LM Studio, OpenRouter, OpenAI, another aish.

Streams chat completions over SSE. What is optional in practice is optional here: `[DONE]`, usage, finish reasons,
content types; a backend that ignores `stream` and answers with plain JSON is understood, too. Only a tool call must be
surely whole: it is an effect, and half of one is never handed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import msgspec

from aish.errors import (
    ModelNotFound,
    ProviderError,
    ProviderProtocolError,
    ProviderRejected,
)
from aish.providers import facts
from aish.providers.answer_body import AnswerBody
from aish.providers.chat_chunks import WireChunk, decode_chunk, read_chunk, read_usage
from aish.providers.chat_frames import arguments_frame, text_frame
from aish.providers.chat_wire import Dialect, Encoded, encode_request
from aish.providers.counting import Counting
from aish.providers.endpoint import MAX_ANSWER_BYTES, WRONG_URL, Backend, Endpoint
from aish.providers.faults import error_text, stream_error
from aish.providers.loose_json import NotJson, decode_json
from aish.types.chunks import Batch, CallFragment, Chunk, StepEnd, StepFinished
from aish.types.embeddings import Embedded
from aish.types.events import Status, TextDelta
from aish.types.models import ModelInfo
from aish.types.requests import StepRequest
from aish.wire.http import HttpClient, Response
from aish.wire.lines import SseReader

# One event holds at most one delta; tool arguments in a single piece are the largest known (about 1 MB).
MAX_EVENT_BYTES = 8 * 1024 * 1024
# How long the end of the body may lag behind `[DONE]`; waiting for it saves the connection for the next request.
_TAIL_S = 0.1
# How long usage and `[DONE]` may lag behind the finish reason.
_LAG_S = 2.0


class OpenAIProvider:
    def __init__(self, name: str, endpoint: Endpoint, http: HttpClient) -> None:
        self._name = name
        self._endpoint = endpoint
        self._backend = Backend(name, endpoint, http)
        self._chat_url = f"{endpoint.api}/chat/completions"
        self._dialect = Dialect()
        self._encoded = Encoded()
        self._counting = Counting(self._backend)

    @property
    def name(self) -> str:
        return self._name

    async def list_models(self) -> Sequence[ModelInfo]:
        if self._endpoint.models:
            return [ModelInfo(self._name, model) for model in self._endpoint.models]
        return await self._ask_listing(f"{self._endpoint.api}/models")

    async def describe(self, model: str) -> ModelInfo:
        """As listed and, where the backend is a llama.cpp server or LM Studio, as it really runs."""
        listed = await self._listed()
        props = await self._props()
        info = next((info for info in listed if info.id == model), None)
        if info is None and not (model in self._endpoint.models or facts.serves_any_name(props)):
            self._check_unlisted(model, [info.id for info in listed])
        info = facts.refine(info or ModelInfo(self._name, model), props)
        if info.context_size is None:
            info = await self._loaded_in_lm_studio(info)
        return msgspec.structs.replace(info, context_size=self._endpoint.context_size or info.context_size)

    def stream(self, request: StepRequest) -> AbstractAsyncContextManager[AsyncGenerator[Batch, None]]:
        return aclosing(self._batches(request))

    def prepared(self, request: StepRequest) -> StepRequest:
        return request

    async def count_tokens(self, model: str, text: str) -> int | None:
        return await self._counting.text(model, text)

    async def count_prompt(self, request: StepRequest) -> int | None:
        return await self._counting.prompt(request)

    async def embed(self, model: str, texts: Sequence[str]) -> Embedded:
        body = {"model": model, "input": list(texts), "encoding_format": "float"}
        answer = await self._backend.post(f"{self._endpoint.api}/embeddings", body, model=model)
        vectors = facts.embeddings(self._name, facts.embedding_rows(answer), count=len(texts))
        usage = read_usage(answer.get("usage"))
        return Embedded(vectors, usage if usage.prompt_tokens else None)

    async def aclose(self) -> None:
        """The HTTP client is shared and closed by its owner."""

    async def _batches(self, request: StepRequest) -> AsyncGenerator[Batch, None]:
        """One attempt, and another for each field of ours that the backend turns out not to take."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + request.deadline_s
        url, idle_s = self._chat_url, self._endpoint.idle_timeout_s
        dialect = self._dialect
        begun = False
        while True:
            body, left_s = encode_request(request, dialect, self._encoded), due_s - loop.time()
            try:
                async with self._backend.stream(
                    url, body, model=request.model, deadline_s=left_s, traceparent=request.traceparent
                ) as response:
                    async for batch in _Answer(self._name, request.model, response, idle_s):
                        if not begun:
                            begun, self._dialect = True, dialect
                        yield batch
                return
            except ProviderRejected as exc:
                has_schema = request.sampling.json_schema is not None
                simpler = None if begun else dialect.without_what(exc.message, has_schema=has_schema)
                if simpler is None:
                    raise
                dialect = simpler

    def _check_unlisted(self, model: str, names: list[str]) -> None:
        """A backend that lists nothing may know it all the same."""
        if names or self._endpoint.models:
            names = [*self._endpoint.models, *names]
            raise ModelNotFound(f"{self._name} has no model {model}", hint=f"it has {', '.join(names[:5])}")

    async def _ask_listing(self, url: str) -> Sequence[ModelInfo]:
        return facts.models_from_listing(self._name, await self._backend.get(url))

    async def _listed(self) -> Sequence[ModelInfo]:
        """Empty where the backend lists nothing; a backend that is away or refuses the key still fails."""
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

    async def _loaded_in_lm_studio(self, info: ModelInfo) -> ModelInfo:
        """Its OpenAI-compatible listing has names only; its own says what is loaded, and how."""
        try:
            listed = await self._ask_listing(f"{self._endpoint.root}/api/v0/models")
        except ProviderError:
            return info
        return next((own for own in listed if own.id == info.id), info)


class _Answer(AsyncIterator[Batch]):
    """Reads one answer to its end, a batch for each read that brought something.

    The finish comes last even where usage follows the finish reason on the wire.
    """

    def __init__(self, provider: str, model: str, response: Response, idle_s: float) -> None:
        self._provider = provider
        self._model = model
        self._body = AnswerBody(response, idle_s)
        self._reader = SseReader(MAX_EVENT_BYTES)
        self._is_between = True  # what comes next begins an event
        self._frame = text_frame()
        self._call_frame = arguments_frame()
        self._call_index: int | None = None  # of the call whose frame it is
        self._begun = False
        self._ended = False  # nothing more is to be read
        self._over = False  # and the last has been told
        self._whole = False  # the backend has said that this was all
        self._said = False
        self._called = False
        self._finished: StepFinished | None = None
        self._broken: ProviderError | None = None

    async def __anext__(self) -> Batch:
        while not self._ended:
            if self._whole:
                await self._let_end()
                break
            piece = await (self._body.middle or self._body).next_piece()
            if not piece:
                self._ended = True
                batch = self._read_all([event.data for event in self._reader.finish()])
            else:
                if self._is_between and (text := self._frame.event_text(piece)):
                    return [TextDelta(text)]
                batch = self._read_all(self._reader.feed_data(piece)) if self._begun else await self._begin(piece)
                self._is_between = self._reader.is_between
            if batch:
                self._said = True
                return batch
        if self._broken is not None:
            raise self._broken
        if self._over:
            raise StopAsyncIteration
        return self._last()

    def _last(self) -> Batch:
        self._over = True
        finished = self._finished
        return [finished] if finished else [self._without_finish(), StepFinished(StepEnd.UNKNOWN)]

    def _without_finish(self) -> Status:
        if not self._said:
            raise ProviderProtocolError(f"{self._provider} ended its answer without saying anything")
        if self._called and not self._whole:
            raise ProviderProtocolError(f"{self._provider} broke off its answer in a tool call")
        return Status(f"{self._provider} ended the answer without a finish reason")

    async def _let_end(self) -> None:
        """Nothing is missing; what may still come is read, so that the connection can be used again."""
        self._ended = True
        self._body.complete(_TAIL_S)
        await self._body.drain()

    async def _begin(self, piece: bytes) -> list[Chunk]:
        """The first of it says whether it comes by events or as one document."""
        self._begun = bool(piece.strip())
        if (start := piece.lstrip(b"\xef\xbb\xbf \r\n\t")[:1]) in (b"{", b"<"):
            return self._read_whole(await self._whole_answer(piece, html=start == b"<"))
        return self._read_all(self._reader.feed_data(piece))

    def _read_all(self, events: Sequence[bytes]) -> list[Chunk]:
        """The chunks up to the end or to one that cannot be read: what came well before it is not lost."""
        batch: list[Chunk] = []
        frame, call_frame = self._frame, self._call_frame
        for data in events:
            if text := frame.text(data):
                batch.append(TextDelta(text))
                continue
            if text := call_frame.text(data):
                batch.append(CallFragment(self._call_index, arguments=text))
                continue
            if data == b"[DONE]":
                self._whole = True
                break
            if not data:
                continue
            try:
                try:
                    wire = decode_chunk(data)
                except (ValueError, RecursionError):  # with more patience, then
                    wire = self._decode(data)
                if text := wire.plain_text():
                    frame.learn(data, text)
                    batch.append(TextDelta(text))
                elif (fragment := wire.plain_fragment()) and call_frame.learn(data, fragment.arguments):
                    self._called, self._call_index = True, fragment.index
                    batch.append(fragment)
                else:
                    batch += self._read(wire)
            except ProviderError as exc:
                self._ended, self._broken = True, exc
                break
        return batch

    def _read(self, wire: WireChunk) -> list[Chunk]:
        if (error := wire.find_error()) is not None:
            raise stream_error(self._provider, self._model, error)
        batch: list[Chunk] = []
        for chunk in read_chunk(wire):
            if type(chunk) is StepFinished:
                self._finished = chunk
                self._body.complete(_LAG_S)
            else:
                self._called = self._called or type(chunk) is CallFragment
                batch.append(chunk)
        return batch

    def _read_whole(self, wire: WireChunk) -> list[Chunk]:
        """All of it at once: nothing is to be waited for any more."""
        self._ended = self._whole = True
        batch = self._read(wire)
        self._said = bool(batch)
        batch += self._last()
        return batch

    async def _whole_answer(self, piece: bytes, *, html: bool) -> WireChunk:
        """One JSON document, asked for or not, or something that is no answer at all."""
        if html:
            text = f"{self._provider} answered with an HTML page instead of a stream"
            raise ProviderProtocolError(text, hint=WRONG_URL)
        data = bytearray(piece)
        while piece := await self._body.next_piece():
            data += piece
            if len(data) > MAX_ANSWER_BYTES:
                raise ProviderProtocolError(f"{self._provider}: the answer is larger than {MAX_ANSWER_BYTES} bytes")
        return self._decode(bytes(data))

    def _decode(self, data: bytes) -> WireChunk:
        try:
            return decode_json(data, decode_chunk)
        except NotJson as exc:
            shown = error_text(data)[:80]
            raise ProviderProtocolError(f"{self._provider} sent a chunk that cannot be read ({exc}): {shown}") from exc
