"""The chat-completions wire, requests: encodes canonical requests as JSON. `response` reads the responses."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from aish.providers.loose_json import encode_json
from aish.types.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    marked_text,
)
from aish.types.requests import Knobs, Sampling, StepRequest, ToolChoice, Tuning
from aish.types.tools import ToolSpec

Json = dict[str, Any]

# A shorter conversation is encoded in less time than a look-up takes.
_WORTH_KEEPING = 12
_MAX_KEPT_BYTES = 4 * 1024 * 1024
_ENTRY_BYTES = 400  # what a cached message takes besides its text
_MAX_LEARNED = 256  # models of one backend


class Dialect(msgspec.Struct, frozen=True):
    """What a backend accepts. At first all is assumed; a refusal that names a field teaches us to leave it out."""

    stream_options: bool = True
    max_tokens: bool = True  # newer models of OpenAI want max_completion_tokens instead
    thoughts: bool = True  # the model's reasoning before its calls
    cache_control: bool = True  # marks in messages up to which a prompt is cached
    schema_form: int = 0  # which of the known forms of an answer's schema is used
    unknown_fields: Mapping[str, frozenset[str]] = {}  # sampling fields that a model does not know

    def without_refused(self, refusal: str, *, has_schema: bool = False, sent: Json | None = None) -> Dialect | None:
        """Returns the dialect for another try, or None if the refusal is about something else than what was sent."""
        from aish.providers.openai.refused_fields import at_fault, unknown_in

        fault = at_fault(refusal)
        may_change = has_schema and self.schema_form + 1 < len(_SCHEMA_FORMS)
        if may_change and _ABOUT_SCHEMA_FORM.search(fault):
            return msgspec.structs.replace(self, schema_form=self.schema_form + 1)
        if self.stream_options and "stream_options" in fault:
            return msgspec.structs.replace(self, stream_options=False)
        # The whole refusal: the field to use instead may be in a list of known fields.
        if self.max_tokens and "max_completion_tokens" in refusal:
            return msgspec.structs.replace(self, max_tokens=False)
        if self.thoughts and "reasoning_content" in fault and "missing" not in refusal.lower():
            return msgspec.structs.replace(self, thoughts=False)
        if self.cache_control and "cache_control" in fault:
            return msgspec.structs.replace(self, cache_control=False)
        if sent is None:
            return None
        unknown = frozenset(name for name in unknown_in(fault) if name in _CAN_GO and name in sent)
        return self._without(unknown, str(sent["model"]))

    def merge(self, learned: Dialect, model: str) -> Dialect:
        """Adds what a request to the model has learned; another request may have learned something else meanwhile."""
        both = msgspec.structs.replace(
            self,
            stream_options=self.stream_options and learned.stream_options,
            max_tokens=self.max_tokens and learned.max_tokens,
            thoughts=self.thoughts and learned.thoughts,
            cache_control=self.cache_control and learned.cache_control,
            schema_form=max(self.schema_form, learned.schema_form),
        )
        return both._without(learned.unknown_fields.get(model, frozenset()), model) or both

    def _without(self, fields: frozenset[str], model: str) -> Dialect | None:
        """Returns None if nothing of it is new: the same request would be sent again."""
        known = self.unknown_fields.get(model, frozenset())
        if fields <= known:
            return None
        others = dict(list(self.unknown_fields.items())[1 - _MAX_LEARNED :])
        return msgspec.structs.replace(self, unknown_fields={**others, model: fields | known})


def _as_response_format(schema: Json, *, strict: bool) -> Json:
    described = {"name": "answer", "strict": strict, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


# The forms in which backends accept the schema of an answer: OpenAI's, strict and, for schemas that strict mode
# refuses, not strict; then llama.cpp's, an older one of llama.cpp, and vLLM's two.
_SCHEMA_FORMS: tuple[Callable[[Json], Json], ...] = (
    lambda schema: _as_response_format(schema, strict=True),
    lambda schema: _as_response_format(schema, strict=False),
    lambda schema: {"json_schema": schema},
    lambda schema: {"response_format": {"type": "json_object", "schema": schema}},
    lambda schema: {"guided_json": schema},
    lambda schema: {"structured_outputs": {"json": schema}},
)
_ABOUT_SCHEMA_FORM = re.compile(r"response_format|json_schema|guided_json|structured_outputs")


class EncodedCache:
    """Messages and tools in their JSON, cached while a conversation goes on. Each round of a turn sends all of it
    again, and only new messages have to be encoded. Messages and tools are looked up by identity."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Message, msgspec.Raw]] = {}
        self._bytes = 0
        self._tools: tuple[Sequence[ToolSpec], msgspec.Raw] = ((), msgspec.Raw(b"[]"))

    def messages(self, messages: Sequence[Message]) -> Sequence[Json | msgspec.Raw]:
        if len(messages) < _WORTH_KEEPING:
            return [encode_message(message) for message in messages]
        return [self._of(message) for message in messages]

    def tools(self, tools: Sequence[ToolSpec]) -> msgspec.Raw:
        """Caches the last list, too: a server's tools are the same for most requests."""
        known, raw = self._tools
        if len(known) == len(tools) and all(map(operator.is_, known, tools)):
            return raw
        raw = msgspec.Raw(encode_json(encode_tools(tools)))
        if len(memoryview(raw)) <= _MAX_KEPT_BYTES:
            self._tools = tuple(tools), raw
        return raw

    def _of(self, message: Message) -> msgspec.Raw:
        known = self._kept.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        encoded = encode_json(encode_message(message))
        size = len(encoded) + _ENTRY_BYTES
        if self._bytes + size > _MAX_KEPT_BYTES:
            self._kept.clear()
            self._bytes = 0
        raw = msgspec.Raw(encoded)
        self._kept[id(message)] = (message, raw)
        self._bytes += size
        return raw


def with_separate_images(messages: Sequence[Message]) -> Sequence[Message]:
    """Moves images of tool results into a user message after them, because the tool role allows text only."""
    for message in messages:
        if type(message) is ToolMessage and message.images:
            return _with_images_apart(messages)
    return messages


def _with_images_apart(messages: Sequence[Message]) -> Sequence[Message]:
    apart: list[Message] = []
    images: list[Part] = []
    for message in messages:
        if images and not isinstance(message, ToolMessage):
            apart.append(UserMessage(tuple(images)))
            images = []
        apart.append(message)
        if isinstance(message, ToolMessage) and message.images:
            images += [TextPart(f"[images of {message.name}]"), *message.images]
    return [*apart, UserMessage(tuple(images))] if images else apart


def encode_request(request: StepRequest, dialect: Dialect, encoded: EncodedCache) -> Json:
    messages = with_separate_images(request.messages)
    if not dialect.thoughts:
        messages = [_unthought(message) for message in messages]
    body: Json = {"model": request.model, "messages": encoded.messages(messages)}
    if request.tools:
        body["tools"] = encoded.tools(request.tools)
        if request.tool_choice != _FREE_CHOICE:
            body["tool_choice"] = _encode_choice(request.tool_choice)
        if request.parallel_calls is not None:
            body["parallel_tool_calls"] = request.parallel_calls
    if request.sampling != _UNSAID:
        body.update(_encode_sampling(request.sampling))
        if request.sampling.json_schema is not None:
            body.update(_SCHEMA_FORMS[dialect.schema_form](request.sampling.json_schema))
        if not dialect.max_tokens and "max_tokens" in body:
            body["max_completion_tokens"] = body.pop("max_tokens")
    if request.tuning is not None:
        body.update(_encode_tuning(request.tuning))
    for name in dialect.unknown_fields.get(request.model, ()):
        body.pop(name, None)
    if request.stream:
        body["stream"] = True
        if dialect.stream_options:
            body["stream_options"] = {"include_usage": True}
    return body


def _encode_tuning(tuning: Tuning) -> Json:
    """llama.cpp's own fields. A slot is cleared when its adapter changes, so requests with and without it use different
    slots."""
    encoded: Json = {"id_slot": tuning.slot}
    if tuning.scale is not None:
        encoded["lora"] = [{"id": 0, "scale": tuning.scale}]
    return {**encoded, "logit_bias": tuning.bias} if tuning.bias else encoded


_FREE_CHOICE = ToolChoice()
_UNSAID = Sampling()


def _encode_choice(choice: ToolChoice) -> str | Json:
    return {"type": "function", "function": {"name": choice.named}} if choice.named else choice.mode


def encode_message(message: Message) -> Json:
    match message:
        case UserMessage():
            return {"role": "user", "content": _encode_parts(message.parts)}
        case SystemMessage():
            return {"role": "system", "content": message.text}
        case AssistantMessage():
            encoded: Json = {"role": "assistant", "content": message.text}
            if message.reasoning:
                encoded["reasoning_content"] = message.reasoning
            if message.tool_calls:
                encoded["tool_calls"] = [_encode_call(call) for call in message.tool_calls]
            return encoded
        case ToolMessage():
            return {"role": "tool", "tool_call_id": message.tool_call_id, "content": marked_text(message.parts)}


def _unthought(message: Message) -> Message:
    return AssistantMessage(message.text, message.tool_calls) if isinstance(message, AssistantMessage) else message


def encode_tools(tools: Sequence[ToolSpec]) -> list[Json]:
    return [{"type": "function", "function": _encode_function(tool)} for tool in tools]


def _encode_function(tool: ToolSpec) -> Json:
    function: Json = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return function if tool.strict is None else {**function, "strict": tool.strict}


def as_json_object(arguments: str) -> str:
    """Returns arguments that are surely a JSON object. Chat templates parse them and fail on anything else."""
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return arguments
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        pass
    return "{}" if not arguments.strip() else encode_json({"invalid_arguments": arguments}).decode()


def _encode_call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": as_json_object(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _encode_parts(parts: Sequence[Part]) -> str | list[Json]:
    if len(parts) == 1 and type(parts[0]) is TextPart:
        return parts[0].text  # the usual case
    if all(isinstance(part, TextPart) for part in parts):
        return marked_text(parts)
    return [_encode_image(p) if isinstance(p, ImagePart) else {"type": "text", "text": p.text} for p in parts]


def _encode_image(image: ImagePart) -> Json:
    url = image.url or f"data:{image.media_type};base64,{image.data}"
    return {"type": "image_url", "image_url": {"url": url}}


def _encode_sampling(sampling: Sampling) -> Json:
    body: Json = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": sampling.seed,
        "stop": list(sampling.stop) or None,
        "reasoning_effort": sampling.reasoning_effort or None,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
        "logit_bias": sampling.logit_bias,
        "logprobs": None if sampling.logprobs is None else True,
        "top_logprobs": sampling.logprobs or None,
        "response_format": {"type": "json_object"} if sampling.json_object else None,
    }
    if sampling.knobs is not None:
        body.update(_encode_knobs(sampling.knobs))
    return {key: value for key, value in body.items() if value is not None}


def _encode_knobs(knobs: Knobs) -> Json:
    """Sends the penalty under both of its names: a backend ignores the one that it does not know."""
    return {**msgspec.structs.asdict(knobs), "repetition_penalty": knobs.repeat_penalty}


_CAN_GO = frozenset(
    {*Knobs.__struct_fields__, "repetition_penalty", "logit_bias", "prompt_cache_key", "cache_prompt", "id_slot"}
)
