"""The chat-completions wire: canonical requests to its JSON, its stream chunks to ours.

Reading is lenient, since every backend differs a little: fields may be missing, null, or of a neighbouring type. Only
what is decoded here is trusted further in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from aish.providers.loose_json import encode_json
from aish.types.chunks import CallFragment, Chunk, StepEnd, StepFinished, UsageChunk
from aish.types.events import ReasoningDelta, Status, TextDelta
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
from aish.types.requests import Sampling, StepRequest, ToolChoice, Tuning
from aish.types.tools import ToolSpec
from aish.types.usage import Usage

Json = dict[str, Any]

# Beyond these a report is a mistake.
_MOST_DOLLARS = 10_000
_MOST_TOKENS = 1_000_000_000
_MOST_INDEX = 1_000_000_000

# A conversation so short is encoded in less time than it is looked up.
_WORTH_KEEPING = 12
_MOST_KEPT_BYTES = 4 * 1024 * 1024
_ENTRY_BYTES = 400  # what keeping a message takes besides its text


class Dialect(msgspec.Struct, frozen=True):
    """What a backend takes. Each starts out able; a refusal that names a field teaches us to leave it out."""

    stream_options: bool = True
    max_tokens: bool = True  # newer models of OpenAI want max_completion_tokens instead
    schema_form: int = 0  # in which of the known forms the schema of an answer goes

    def without_what(self, refusal: str, *, has_schema: bool = False) -> Dialect | None:
        """The dialect for another try, or None if the refusal is about something else."""
        may_change = has_schema and self.schema_form + 1 < len(_SCHEMA_FORMS)
        if may_change and _ABOUT_SCHEMA_FORM.search(refusal):
            return msgspec.structs.replace(self, schema_form=self.schema_form + 1)
        if self.stream_options and "stream_options" in refusal:
            return msgspec.structs.replace(self, stream_options=False)
        if self.max_tokens and "max_completion_tokens" in refusal:
            return msgspec.structs.replace(self, max_tokens=False)
        return None


def _as_response_format(schema: Json, *, strict: bool) -> Json:
    described = {"name": "answer", "strict": strict, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": described}}


# How a backend is told the schema of an answer: OpenAI's way first, strictly and, since it takes not every schema so,
# less strictly; then llama.cpp's, an older one of llama.cpp, and vLLM's two.
_SCHEMA_FORMS: tuple[Callable[[Json], Json], ...] = (
    lambda schema: _as_response_format(schema, strict=True),
    lambda schema: _as_response_format(schema, strict=False),
    lambda schema: {"json_schema": schema},
    lambda schema: {"response_format": {"type": "json_object", "schema": schema}},
    lambda schema: {"guided_json": schema},
    lambda schema: {"structured_outputs": {"json": schema}},
)
_ABOUT_SCHEMA_FORM = re.compile(r"response_format|json_schema|guided_json|structured_outputs")


class Encoded:
    """Messages in their JSON, kept while a conversation goes on: each round of a turn sends all of it again, and only
    what is new in it is encoded. A message is known by being the very same."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Message, msgspec.Raw]] = {}
        self._bytes = 0

    def messages(self, messages: Sequence[Message]) -> Sequence[Json | msgspec.Raw]:
        if len(messages) < _WORTH_KEEPING:
            return [encode_message(message) for message in messages]
        return [self._of(message) for message in messages]

    def _of(self, message: Message) -> msgspec.Raw:
        known = self._kept.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        encoded = encode_json(encode_message(message))
        size = len(encoded) + _ENTRY_BYTES
        if self._bytes + size > _MOST_KEPT_BYTES:
            self._kept.clear()
            self._bytes = 0
        raw = msgspec.Raw(encoded)
        self._kept[id(message)] = (message, raw)
        self._bytes += size
        return raw


def with_images_apart(messages: Sequence[Message]) -> Sequence[Message]:
    """The images of results after them, as the user's: the role of a tool holds text alone."""
    if not any(type(message) is ToolMessage and message.images for message in messages):
        return messages
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


def encode_request(request: StepRequest, dialect: Dialect, encoded: Encoded) -> Json:
    body: Json = {"model": request.model, "messages": encoded.messages(with_images_apart(request.messages))}
    if request.tools:
        body["tools"] = encode_tools(request.tools)
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
    if request.stream:
        body["stream"] = True
        if dialect.stream_options:
            body["stream_options"] = {"include_usage": True}
    return body


def _encode_tuning(tuning: Tuning) -> Json:
    """llama.cpp's fields. It forgets what it knows of a slot whose adapter changes, so each has one of its own."""
    encoded: Json = {"lora": [{"id": 0, "scale": tuning.scale}], "id_slot": tuning.slot}
    return {**encoded, "logit_bias": tuning.bias} if tuning.bias else encoded


_FREE_CHOICE = ToolChoice()
_UNSAID = Sampling()


def _encode_choice(choice: ToolChoice) -> str | Json:
    return {"type": "function", "function": {"name": choice.named}} if choice.named else choice.mode


def encode_message(message: Message) -> Json:
    match message:
        case SystemMessage(text):
            return {"role": "system", "content": text}
        case UserMessage(parts):
            return {"role": "user", "content": _encode_parts(parts)}
        case AssistantMessage(text, calls):
            encoded: Json = {"role": "assistant", "content": text}
            if calls:
                encoded["tool_calls"] = [_encode_call(call) for call in calls]
            return encoded
        case ToolMessage(call, _, parts):
            return {"role": "tool", "tool_call_id": call, "content": marked_text(parts)}


def encode_tools(tools: Sequence[ToolSpec]) -> list[Json]:
    return [{"type": "function", "function": _encode_function(tool)} for tool in tools]


def _encode_function(tool: ToolSpec) -> Json:
    function: Json = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return function if tool.strict is None else {**function, "strict": tool.strict}


def object_text(arguments: str) -> str:
    """A call's arguments as text that is surely a JSON object: chat templates parse it and fail on anything else."""
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return arguments
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        pass
    return "{}" if not arguments.strip() else encode_json({"invalid_arguments": arguments}).decode()


def _encode_call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": object_text(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _encode_parts(parts: Sequence[Part]) -> str | list[Json]:
    if len(parts) == 1 and type(parts[0]) is TextPart:
        return parts[0].text  # nearly always
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
        "response_format": {"type": "json_object"} if sampling.json_object else None,
    }
    return {key: value for key, value in body.items() if value is not None}


class _Function(msgspec.Struct):
    name: Any = None
    arguments: Any = None  # text; some backends send the object itself


class _Call(msgspec.Struct):
    index: Any = None
    id: Any = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: Any = None  # text; some backends send a list of parts
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    message: _Delta | None = None  # in an answer that is not streamed
    finish_reason: Any = None  # MNN sends an empty text until the last


class WireChunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    message: Any = None
    code: Any = None

    def find_error(self) -> Any:
        """The error it reports instead of an answer, if it does; LMDeploy's lies bare in the chunk."""
        if self.error:
            return self.error
        if self.object == "error":
            return {"message": self.message, "code": self.code}
        for choice in self.choices or ():
            if choice.finish_reason == "error":
                return "it gave up on its answer"
        return None

    def plain_text(self) -> str:
        """Of a chunk that holds a piece of the answer and nothing else, which nearly all do; "" of any other."""
        choices = self.choices
        if choices is None or len(choices) != 1 or self.usage or self.error:
            return ""
        choice = choices[0]
        delta = choice.delta
        if delta is None or choice.finish_reason or delta.tool_calls or delta.reasoning_content or delta.reasoning:
            return ""
        return delta.content if type(delta.content) is str else ""

    def plain_fragment(self) -> CallFragment | None:
        """The same of a chunk that goes on with one tool call and holds nothing else."""
        choices = self.choices
        if choices is None or len(choices) != 1 or self.usage or self.error:
            return None
        choice = choices[0]
        delta = choice.delta
        if delta is None or choice.finish_reason or delta.content or delta.reasoning_content or delta.reasoning:
            return None
        calls = delta.tool_calls
        if calls is None or len(calls) != 1 or delta.refusal:
            return None
        index, function = calls[0].index, calls[0].function
        if type(index) is not int or calls[0].id or function is None or function.name:
            return None
        whole = 0 <= index < _MOST_INDEX and type(function.arguments) is str
        return CallFragment(index, arguments=function.arguments) if whole else None

    def plain_arguments(self) -> str:
        fragment = self.plain_fragment()
        return fragment.arguments if fragment else ""


decode_chunk = msgspec.json.Decoder(WireChunk).decode

_ENDS = {
    "stop": StepEnd.STOP,
    "eos": StepEnd.STOP,
    "tool_calls": StepEnd.TOOL_CALLS,
    "function_call": StepEnd.TOOL_CALLS,
    "length": StepEnd.LENGTH,
    "content_filter": StepEnd.FILTERED,
}


def read_chunk(wire: WireChunk) -> list[Chunk]:
    """Ours for one of theirs. StepFinished appears where theirs names a finish reason: usage may still follow."""
    chunks: list[Chunk] = []
    if isinstance(wire.usage, dict) and wire.usage:
        chunks.append(UsageChunk(read_usage(wire.usage)))
    for choice in wire.choices or ():
        if choice.delta is not None:
            _read_delta(choice.delta, chunks)
        elif choice.message is not None:
            _read_delta(_numbered(choice.message), chunks)
        if choice.finish_reason:
            _read_end(choice.finish_reason, chunks)
    return chunks


def read_usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    of_prompt, of_answer, cost = (
        usage.get("prompt_tokens_details"), usage.get("completion_tokens_details"), usage.get("cost")
    )  # fmt: skip
    return Usage(
        prompt_tokens=_count(usage, "prompt_tokens"),
        completion_tokens=_count(usage, "completion_tokens"),
        cached_tokens=_count(of_prompt, "cached_tokens") if of_prompt else 0,
        reasoning_tokens=_count(of_answer, "reasoning_tokens") if of_answer else 0,
        cost=None if cost is None else _dollars(cost),
    )


def _dollars(cost: Any) -> float | None:
    """What nobody can have paid for one call is no price."""
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= _MOST_DOLLARS:
        return None
    return float(cost)


def _numbered(message: _Delta) -> _Delta:
    """A whole message lists its calls in order and without index."""
    for index, call in enumerate(message.tool_calls or ()):
        call.index = index
    return message


def _read_delta(delta: _Delta, chunks: list[Chunk]) -> None:
    if reasoning := _text(delta.reasoning_content) or _text(delta.reasoning):
        chunks.append(ReasoningDelta(reasoning))
    if text := _text(delta.content) or _text(delta.refusal):
        chunks.append(TextDelta(text))
    for call in delta.tool_calls or ():
        function = call.function or _Function()
        fragment = CallFragment(
            _index(call.index), _word(call.id), _word(function.name), _argument_text(function.arguments)
        )
        chunks.append(fragment)


def _read_end(reason: Any, chunks: list[Chunk]) -> None:
    end = _ENDS.get(_word(reason), StepEnd.UNKNOWN)
    if end is StepEnd.UNKNOWN:
        text = f"the backend gives a reason for its end that aish does not know: {_word(reason)[:40]}"
        chunks.append(Status(text))
    if end is StepEnd.FILTERED:
        chunks.append(Status("the backend withheld the rest of the answer (content filter)"))
    chunks.append(StepFinished(end))


def _text(content: Any) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in content if isinstance(part, dict)) if isinstance(content, list) else ()
    return "".join(text for text in texts if isinstance(text, str))


def _index(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    return int(value) if isinstance(value, int | float) and 0 <= value < _MOST_INDEX else None


def _word(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _argument_text(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()


def _count(usage: Any, key: str) -> int:
    return tokens_used(usage.get(key)) if isinstance(usage, dict) else 0


def tokens_used(value: Any) -> int:
    """As reported; 0 for what no call can have taken."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_TOKENS else 0
