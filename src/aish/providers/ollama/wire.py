"""Ollama's wire: encodes requests, and reads its lines and what it reports about models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from aish.providers.openai.reported_models import positive_number
from aish.providers.openai.request import Json, as_json_object, encode_tools, with_separate_images
from aish.providers.openai.response import read_logprobs, tokens_used
from aish.types.chunks import CallFragment, Chunk, StepEnd
from aish.types.events import ReasoningDelta, TextDelta
from aish.types.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    marked_text,
)
from aish.types.models import Capabilities, Constraint
from aish.types.requests import StepRequest
from aish.types.usage import Usage


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


class OllamaLine(msgspec.Struct):
    message: _Reply | None = None
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    prompt_eval_cached_count: int | None = None  # of these; versions before September 2026 do not say
    eval_count: int | None = None
    error: Any = None
    logprobs: Any = None


_WINDOW_DIGITS = 12  # more than any window has; int() refuses thousands of digits

decode_line = msgspec.json.Decoder(OllamaLine).decode
# Options beyond OpenAI's that Ollama has under the same names.
_EXTRA_OPTIONS = (
    "top_k",
    "min_p",
    "typical_p",
    "repeat_penalty",
    "repeat_last_n",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
)
_ENDS = {"stop": StepEnd.STOP, "length": StepEnd.LENGTH, "load": StepEnd.STOP}


def encode_request(request: StepRequest, context_size: int | None) -> Json:
    """Sends the window along, because Ollama cuts prompts silently at its own default."""
    sampling = request.sampling
    options = {
        "num_ctx": context_size,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "num_predict": sampling.max_tokens,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
    }
    if sampling.knobs is not None:
        options.update((name, getattr(sampling.knobs, name)) for name in _EXTRA_OPTIONS)
    body: Json = {
        "model": request.model,
        "messages": [_encode_message(message) for message in with_separate_images(request.messages)],
        "stream": True,
        "options": {key: value for key, value in options.items() if value is not None},
    }
    if request.tools:
        body["tools"] = encode_tools(request.tools)
    if sampling.logprobs is not None:
        body |= {"logprobs": True, "top_logprobs": sampling.logprobs}
    if sampling.json_schema is not None:
        body["format"] = sampling.json_schema
    elif sampling.json_object:
        body["format"] = "json"
    return body


def read_reply(line: OllamaLine, *, first_index: int, logprobs: int | None = None) -> Iterator[Chunk]:
    """Each call comes whole. Calls are numbered here, because not every version sends an index."""
    reply = line.message or _Reply()
    if reply.thinking:
        yield ReasoningDelta(reply.thinking)
    if reply.content:
        yield TextDelta(reply.content, UNSET if logprobs is None else read_logprobs(line.logprobs, logprobs))
    for index, call in enumerate(reply.tool_calls or (), first_index):
        function = call.function or _Function()
        arguments = function.arguments
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments or {}).decode()
        yield CallFragment(index, call.id or "", function.name or "", text)


def read_usage(done: OllamaLine) -> Usage:
    cached = tokens_used(done.prompt_eval_cached_count)
    return Usage(tokens_used(done.prompt_eval_count), tokens_used(done.eval_count), cached)


def read_end(done: OllamaLine | None, *, called: bool) -> StepEnd:
    if done is None:
        return StepEnd.UNKNOWN
    if called:
        return StepEnd.TOOL_CALLS
    return _ENDS.get(done.done_reason or "stop", StepEnd.UNKNOWN)


def read_loaded_window(running: Any, model: str) -> int | None:
    """Reads `/api/ps`. A name without a tag means `:latest`."""
    wanted = {model, model if ":" in model else f"{model}:latest"}
    for entry in running.get("models") or () if isinstance(running, dict) else ():
        if isinstance(entry, dict) and wanted & {str(entry.get("name")), str(entry.get("model"))}:
            return positive_number(entry.get("context_length"))
    return None


def read_configured_window(shown: Json) -> int | None:
    """Reads the model file's parameters, a text of `name value` lines."""
    parameters = shown.get("parameters")
    for line in parameters.splitlines() if isinstance(parameters, str) else ():
        name, _, value = line.strip().partition(" ")
        if name == "num_ctx" and (size := value.strip()).isdecimal() and len(size) <= _WINDOW_DIGITS:
            return positive_number(int(size))
    return None


def read_trained_window(shown: Json) -> int | None:
    info = shown.get("model_info")
    for key, value in info.items() if isinstance(info, dict) else ():
        if key.endswith(".context_length"):
            return positive_number(value)
    return None


def show_capabilities(shown: Json) -> Capabilities:
    """Older servers list none: then tools are tried, and a refusal shows that there are none."""
    listed = shown.get("capabilities")
    known = listed if isinstance(listed, list) else None
    return Capabilities(
        native_tools=known is None or "tools" in known,
        constrained=frozenset({Constraint.FORMAT}),
        vision=known is not None and "vision" in known,
        embeddings=known is not None and "embedding" in known,
    )


def _encode_message(message: Message) -> Json:
    match message:
        case SystemMessage(text):
            return {"role": "system", "content": text}
        case UserMessage(parts):
            images = [part.data for part in parts if isinstance(part, ImagePart) and part.data]
            shown = [part for part in parts if not (isinstance(part, ImagePart) and part.data)]
            encoded: Json = {"role": "user", "content": marked_text(shown)}
            return {**encoded, "images": images} if images else encoded
        case AssistantMessage(text, calls, reasoning):
            encoded = {"role": "assistant", "content": text}
            if reasoning:
                encoded["thinking"] = reasoning
            if calls:
                encoded["tool_calls"] = [_encode_call(call) for call in calls]
            return encoded
        case ToolMessage(call, name, parts):
            return {"role": "tool", "tool_name": name, "tool_call_id": call, "content": marked_text(parts)}


def _encode_call(call: ToolCall) -> Json:
    arguments = msgspec.json.decode(as_json_object(call.arguments))
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments}}
