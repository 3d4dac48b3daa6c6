"""Ollama's own API: `/api/chat` streamed as NDJSON, `/api/tags`, `/api/show`, `/api/embed`.

Its own API rather than its OpenAI-compatible one, because only here are context sizes, `format` and whole tool calls.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec

from aish.errors import ModelNotFound, ProviderError, ProviderProtocolError
from aish.providers.chat_wire import Json, encode_tools, object_text, plain_text
from aish.providers.endpoint import Endpoint, JsonApi
from aish.providers.faults import error_text, refusal, stream_error, translated
from aish.types.chunks import CallFragment, Chunk, StepEnd, StepFinished, UsageChunk
from aish.types.events import ReasoningDelta, Status, TextDelta
from aish.types.messages import AssistantMessage, ImagePart, Message, SystemMessage, ToolMessage, UserMessage
from aish.types.models import Capabilities, Constraint, ModelInfo
from aish.types.requests import StepRequest
from aish.types.usage import Usage
from aish.wire.http import HttpClient, Response
from aish.wire.lines import LineReader

# One line is one delta; whole tool calls come in one, with all their arguments.
MAX_LINE_BYTES = 8 * 1024 * 1024


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _Call(msgspec.Struct):
    id: str | None = None
    function: _Function | None = None


class _Reply(msgspec.Struct):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_Call] | None = None


class _Line(msgspec.Struct):
    message: _Reply | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: Any = None


_decode_line = msgspec.json.Decoder(_Line).decode
_ENDS = {"stop": StepEnd.STOP, "length": StepEnd.LENGTH, "load": StepEnd.STOP}


class OllamaProvider:
    def __init__(self, name: str, endpoint: Endpoint, http: HttpClient) -> None:
        self._name = name
        self._endpoint = endpoint
        self._http = http
        self._api = JsonApi(name, endpoint, http)

    @property
    def name(self) -> str:
        return self._name

    async def list_models(self) -> Sequence[ModelInfo]:
        listing = await self._api.get(f"{self._endpoint.root}/api/tags")
        models = listing.get("models") if isinstance(listing, dict) else None
        if not isinstance(models, list):
            raise ProviderProtocolError(f"{self._name} lists its models in a form aish does not know")
        names = (entry.get("name") or entry.get("model") for entry in models if isinstance(entry, dict))
        return [ModelInfo(self._name, name) for name in names if isinstance(name, str)]

    async def describe(self, model: str) -> ModelInfo:
        """The window it runs with: as configured, as loaded now, as its model file sets it; else as it was trained."""
        try:
            shown = await self._api.post(f"{self._endpoint.root}/api/show", {"model": model})
        except ModelNotFound as exc:
            raise ModelNotFound(f"{self._name} has no model {model}", hint=f"ollama pull {model}") from exc
        if not isinstance(shown, dict):
            raise ProviderProtocolError(f"{self._name} describes {model} in a form aish does not know")
        size = (
            self._endpoint.context_size
            or await self._loaded_window(model)
            or _num_ctx(shown.get("parameters"))
            or _trained_window(shown)
        )
        return ModelInfo(self._name, model, size, _capabilities(shown))

    @asynccontextmanager
    async def stream(self, request: StepRequest) -> AsyncIterator[AsyncGenerator[Chunk, None]]:
        async with aclosing(self._chunks(request)) as chunks:
            yield chunks

    async def count_tokens(self, model: str, text: str) -> int | None:
        """Ollama has no tokenizer to ask."""
        return None

    async def embed(self, model: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        answer = await self._api.post(f"{self._endpoint.root}/api/embed", {"model": model, "input": list(texts)})
        vectors = answer.get("embeddings") if isinstance(answer, dict) else None
        if not isinstance(vectors, list) or len(vectors) != len(texts):
            raise ProviderProtocolError(f"{self._name} gave embeddings in a form aish does not know")
        return vectors

    async def aclose(self) -> None:
        """The HTTP client is shared and closed by its owner."""

    async def _loaded_window(self, model: str) -> int | None:
        try:
            running = await self._api.get(f"{self._endpoint.root}/api/ps")
        except ProviderError:
            return None
        for entry in running.get("models") or () if isinstance(running, dict) else ():
            if isinstance(entry, dict) and model in (entry.get("name"), entry.get("model")):
                size = entry.get("context_length")
                return size if isinstance(size, int) and size > 0 else None
        return None

    async def _chunks(self, request: StepRequest) -> AsyncGenerator[Chunk, None]:
        with translated(self._name):
            async with self._http.request(
                "POST",
                f"{self._endpoint.root}/api/chat",
                headers=self._endpoint.request_headers(),
                body=msgspec.json.encode(_encode_request(request, self._endpoint.context_size)),
                timeouts=self._endpoint.timeouts(request.deadline_s),
            ) as response:
                if response.status != 200:
                    raise await refusal(self._name, request.model, response)
                async with aclosing(self._read(response, request.model)) as chunks:
                    async for chunk in chunks:
                        yield chunk

    async def _read(self, response: Response, model: str) -> AsyncGenerator[Chunk, None]:
        calls = 0
        done: _Line | None = None
        async with aclosing(self._lines(response)) as lines:
            async for line in lines:
                if line.error:
                    raise stream_error(self._name, model, line.error)
                for chunk in _read_reply(line.message or _Reply(), first_index=calls):
                    calls += isinstance(chunk, CallFragment)
                    yield chunk
                if line.done:
                    done = line
        if done is None:
            yield Status(f"{self._name} ended the answer without saying that it was done")
        else:
            yield UsageChunk(Usage(done.prompt_eval_count or 0, done.eval_count or 0))
        yield StepFinished(_end(done, called=calls > 0))

    async def _lines(self, response: Response) -> AsyncGenerator[_Line, None]:
        reader = LineReader(MAX_LINE_BYTES)
        async for piece in response:
            for line in reader.feed(piece):
                if line.strip():
                    yield self._decode(line)
        for line in reader.finish():
            if line.strip():
                yield self._decode(line)

    def _decode(self, line: bytes) -> _Line:
        try:
            return _decode_line(line)
        except (msgspec.DecodeError, RecursionError) as exc:
            shown = error_text(line)[:80]
            raise ProviderProtocolError(f"{self._name} sent a line that cannot be read ({exc}): {shown}") from exc


def _encode_request(request: StepRequest, context_size: int | None) -> Json:
    """Ollama cuts prompts silently at its own default window, so a configured one is sent along."""
    sampling = request.sampling
    options = {
        "num_ctx": context_size,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "num_predict": sampling.max_tokens,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
    }
    body: Json = {
        "model": request.model,
        "messages": [_encode_message(message) for message in request.messages],
        "stream": True,
        "options": {key: value for key, value in options.items() if value is not None},
    }
    if request.tools:
        body["tools"] = encode_tools(request.tools)
    if sampling.json_schema is not None:
        body["format"] = sampling.json_schema
    return body


def _encode_message(message: Message) -> Json:
    match message:
        case SystemMessage(text):
            return {"role": "system", "content": text}
        case UserMessage(parts):
            images = [part.data for part in parts if isinstance(part, ImagePart) and part.data]
            encoded: Json = {"role": "user", "content": message.text}
            return {**encoded, "images": images} if images else encoded
        case AssistantMessage(text, calls):
            encoded = {"role": "assistant", "content": text}
            if calls:
                encoded["tool_calls"] = [
                    {"function": {"name": call.name, "arguments": msgspec.json.decode(object_text(call.arguments))}}
                    for call in calls
                ]
            return encoded
        case ToolMessage(_, name, parts):
            return {"role": "tool", "tool_name": name, "content": plain_text(parts)}


def _read_reply(reply: _Reply, *, first_index: int) -> Iterator[Chunk]:
    """Calls come whole, each in one piece, and without an index of their own."""
    if reply.thinking:
        yield ReasoningDelta(reply.thinking)
    if reply.content:
        yield TextDelta(reply.content)
    for index, call in enumerate(reply.tool_calls or (), first_index):
        function = call.function or _Function()
        arguments = function.arguments
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()
        yield CallFragment(index, call.id or "", function.name or "", text)


def _end(done: _Line | None, *, called: bool) -> StepEnd:
    if done is None:
        return StepEnd.UNKNOWN
    if called:
        return StepEnd.TOOL_CALLS
    return _ENDS.get(done.done_reason or "stop", StepEnd.UNKNOWN)


def _num_ctx(parameters: Any) -> int | None:
    """From the model file's parameters, a text of `name value` lines."""
    for line in parameters.splitlines() if isinstance(parameters, str) else ():
        name, _, value = line.strip().partition(" ")
        if name == "num_ctx" and value.strip().isdigit():
            return int(value)
    return None


def _trained_window(shown: Json) -> int | None:
    info = shown.get("model_info")
    for key, value in info.items() if isinstance(info, dict) else ():
        if key.endswith(".context_length") and isinstance(value, int):
            return value
    return None


def _capabilities(shown: Json) -> Capabilities:
    """Older servers list none: then tools are tried, and a refusal says so."""
    listed = shown.get("capabilities")
    known = listed if isinstance(listed, list) else None
    return Capabilities(
        native_tools=known is None or "tools" in known,
        constrained=frozenset({Constraint.FORMAT}),
        vision=known is not None and "vision" in known,
        embeddings=known is not None and "embedding" in known,
    )
