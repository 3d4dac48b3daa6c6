"""The chat-completions wire, responses: turns its chunks into ours.

Reading is lenient, since every backend differs a little: fields may be missing, null, or of a similar type. Only what
is decoded here is trusted by other code.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from aish.types.chunks import CallFragment, Chunk, StepEnd, StepFinished, UsageChunk
from aish.types.events import ReasoningDelta, Status, TextDelta
from aish.types.usage import Usage

# Beyond these a report is a mistake.
_MAX_DOLLARS = 10_000
_MAX_TOKENS = 1_000_000_000
_MAX_INDEX = 1_000_000_000

# Log probabilities of tokens: a character has four bytes, and some tokens come before their text.
_MAX_TOKEN_CHARS = 200
_MAX_PER_CHAR = 4
_MAX_AHEAD = 16

Logprobs = list[dict[str, Any]]


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
    logprobs: msgspec.Raw = msgspec.Raw()  # decoded only on request, so that faulty ones disturb no other answer
    finish_reason: Any = None  # MNN sends "" until the last chunk


class WireChunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None
    message: Any = None
    code: Any = None

    def find_error(self) -> Any:
        """The error that the chunk reports instead of an answer, if it does. LMDeploy puts it into the chunk itself."""
        if self.error:
            return self.error
        if self.object == "error":
            return {"message": self.message, "code": self.code}
        for choice in self.choices or ():
            if choice.finish_reason == "error":
                return "it gave up on its answer"
        return None

    def plain_text(self) -> str:
        """The text of a chunk that holds a piece of the answer and nothing else, as nearly all do; "" of any other."""
        choices = self.choices
        if choices is None or len(choices) != 1 or self.usage or self.error:
            return ""
        choice = choices[0]
        delta = choice.delta
        if delta is None or choice.finish_reason or delta.tool_calls or delta.reasoning_content or delta.reasoning:
            return ""
        return delta.content if type(delta.content) is str else ""

    def plain_fragment(self) -> CallFragment | None:
        """The same for a chunk that continues one tool call and holds nothing else."""
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
        whole = 0 <= index < _MAX_INDEX and type(function.arguments) is str
        return CallFragment(index, arguments=function.arguments) if whole else None

    def plain_arguments(self) -> str:
        fragment = self.plain_fragment()
        return fragment.arguments if fragment else ""


decode_chunk = msgspec.json.Decoder(WireChunk).decode

_ENDS = {
    "stop": StepFinished(StepEnd.STOP),
    "eos": StepFinished(StepEnd.STOP),
    "tool_calls": StepFinished(StepEnd.TOOL_CALLS),
    "function_call": StepFinished(StepEnd.TOOL_CALLS),
    "length": StepFinished(StepEnd.LENGTH),
    "content_filter": StepFinished(StepEnd.FILTERED),
}


def read_chunk(wire: WireChunk, *, logprobs: int | None = None) -> list[Chunk]:
    """A finish reason becomes StepFinished; usage may still follow it. `logprobs`: they were requested, with this many
    alternatives for each token."""
    chunks: list[Chunk] = []
    if wire.usage and type(wire.usage) is dict:
        chunks.append(UsageChunk(read_usage(wire.usage)))
    for choice in wire.choices or ():
        odds = UNSET if logprobs is None else read_logprobs(_given(choice.logprobs), logprobs)
        if choice.delta is not None:
            _read_delta(choice.delta, chunks, odds)
        elif choice.message is not None:
            for index, call in enumerate(choice.message.tool_calls or ()):
                call.index = index  # a whole message lists its calls in order and without index
            _read_delta(choice.message, chunks, odds)
        if choice.finish_reason:
            _read_end(choice.finish_reason, chunks)
    return chunks


def read_usage(usage: Any) -> Usage:
    if type(usage) is not dict:
        return Usage()
    of_prompt, of_answer = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return Usage(
        prompt_tokens=tokens_used(usage.get("prompt_tokens")),
        completion_tokens=tokens_used(usage.get("completion_tokens")),
        cached_tokens=tokens_used(of_prompt.get("cached_tokens")) if type(of_prompt) is dict else 0,
        reasoning_tokens=tokens_used(of_answer.get("reasoning_tokens")) if type(of_answer) is dict else 0,
        cost=_dollars(usage["cost"]) if "cost" in usage else None,
    )


def _dollars(cost: Any) -> float | None:
    """Ignores a price that no call can have cost."""
    return float(cost) if type(cost) in (int, float) and 0 <= cost <= _MAX_DOLLARS else None


def _given(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw) if raw else None
    except (ValueError, RecursionError):  # invalid numbers, for example
        return None


def read_logprobs(given: Any, others: int) -> Logprobs | UnsetType:
    """Returns them in OpenAI's form, whatever a backend adds or leaves out; Ollama sends the bare list."""
    tokens = given.get("content") if type(given) is dict else given
    found: Logprobs = []
    for token in tokens if type(tokens) is list else ():
        if odds := _odds(token):
            top = token.get("top_logprobs")
            top = list(filter(None, map(_odds, top[:others]))) if type(top) is list else []
            found.append({**odds, "top_logprobs": top})
    return found or UNSET


def _odds(token: Any) -> dict[str, Any]:
    if type(token) is not dict or type(token.get("token")) is not str or len(token["token"]) > _MAX_TOKEN_CHARS:
        return {}
    logprob, given = token.get("logprob"), token.get("bytes")
    if type(logprob) not in (int, float):
        return {}
    # The Responses API allows no null here. A backend without bytes has whole characters.
    is_told = type(given) is list and all(type(byte) is int and 0 <= byte < 256 for byte in given)
    found = given if is_told else list(token["token"].encode("utf-8", "replace"))
    return {"token": token["token"], "logprob": logprob, "bytes": found}


def _read_delta(delta: _Delta, chunks: list[Chunk], logprobs: Logprobs | UnsetType) -> None:
    thinks = delta.reasoning_content is not None or delta.reasoning is not None
    if thinks and (reasoning := _text(delta.reasoning_content) or _text(delta.reasoning)):
        chunks.append(ReasoningDelta(reasoning))
    text = _text(delta.content) or _text(delta.refusal)
    if text or logprobs is not UNSET:  # a token may be half a character, whose text comes with the other half
        odds = logprobs if logprobs is UNSET else logprobs[: _MAX_PER_CHAR * len(text) + _MAX_AHEAD]
        chunks.append(TextDelta(text, odds))
    for call in delta.tool_calls or ():
        function = call.function or _Function()
        fragment = CallFragment(
            _index(call.index), _word(call.id), _word(function.name), _argument_text(function.arguments)
        )
        chunks.append(fragment)


def _read_end(reason: Any, chunks: list[Chunk]) -> None:
    word = _word(reason)
    finished = _ENDS.get(word)
    if finished is None:
        text = f"the backend gives a reason for its end that aish does not know: {word[:40]}"
        chunks.append(Status(text))
        finished = StepFinished(StepEnd.UNKNOWN)
    if word == "content_filter":
        chunks.append(Status("the backend withheld the rest of the answer (content filter)"))
    chunks.append(finished)


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = (part.get("text") for part in content if isinstance(part, dict)) if isinstance(content, list) else ()
    return "".join(text for text in texts if isinstance(text, str))


def _index(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 10:
        return int(value)
    return int(value) if isinstance(value, int | float) and 0 <= value < _MAX_INDEX else None


def _word(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _argument_text(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()


def tokens_used(value: Any) -> int:
    """The reported number; 0 for one that no call can have used."""
    return value if type(value) is int and 0 < value <= _MAX_TOKENS else 0
