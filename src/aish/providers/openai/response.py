"""Reads one answer of a chat-completions backend to its end, one batch for each read that brings something.

An answer arrives as server-sent events or as one document, whatever was requested. Reading is lenient, since every
backend differs a little: fields may be missing, null, or of a similar type. What is optional in practice is optional
here: `[DONE]`, usage, finish reasons, content types. Only a tool call must be complete: it has an effect, and half of
one is never passed on. The finish comes last, even where usage follows the finish reason on the wire.

Before the first piece a backend may think for as long as the deadline allows: many send headers at once and then read a
long prompt. After that, silence means that something is stuck.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from aish.errors import ProviderError, ProviderProtocolError
from aish.net.http.client import Response
from aish.net.lines import SseReader
from aish.ports import TextRelay
from aish.providers.endpoint import MAX_ANSWER_BYTES, WRONG_URL
from aish.providers.http_errors import error_text_of, stream_error
from aish.providers.loose_json import NotJson, decode_json
from aish.providers.openai.chunk_templates import ChunkTemplate
from aish.types.chunks import Batch, CallFragment, Chunk, StepEnd, StepFinished, UsageChunk
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
    timings: Any = None  # llama.cpp's own
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
        chunks.append(UsageChunk(read_usage(wire.usage, wire.timings)))
    for choice in wire.choices or ():
        odds = UNSET if logprobs is None else read_logprobs(_decode_leniently(choice.logprobs), logprobs)
        if choice.delta is not None:
            _read_delta(choice.delta, chunks, odds)
        elif choice.message is not None:
            for index, call in enumerate(choice.message.tool_calls or ()):
                call.index = index  # a whole message lists its calls in order and without index
            _read_delta(choice.message, chunks, odds)
        if choice.finish_reason:
            _read_end(choice.finish_reason, chunks)
    return chunks


def read_usage(usage: Any, timings: Any = None) -> Usage:
    if type(usage) is not dict:
        return Usage()
    of_answer = usage.get("completion_tokens_details")
    return Usage(
        prompt_tokens=tokens_used(usage.get("prompt_tokens")),
        completion_tokens=tokens_used(usage.get("completion_tokens")),
        cached_tokens=_cached_tokens(usage, timings),
        reasoning_tokens=tokens_used(of_answer.get("reasoning_tokens")) if type(of_answer) is dict else 0,
        cost=_dollars(usage["cost"]) if "cost" in usage else None,
    )


def _cached_tokens(usage: dict[str, Any], timings: Any) -> int:
    """As OpenAI and most others report them; or as DeepSeek, Moonshot or an older llama.cpp do."""
    of_prompt = usage.get("prompt_tokens_details")
    if type(of_prompt) is dict and (cached := tokens_used(of_prompt.get("cached_tokens"))):
        return cached
    cached = tokens_used(usage.get("prompt_cache_hit_tokens")) or tokens_used(usage.get("cached_tokens"))
    return cached or (tokens_used(timings.get("cache_n")) if type(timings) is dict else 0)


def _dollars(cost: Any) -> float | None:
    """Ignores a price that no call can have cost."""
    return float(cost) if type(cost) in (int, float) and 0 <= cost <= _MAX_DOLLARS else None


def _decode_leniently(raw: msgspec.Raw) -> Any:
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
    is_given = type(given) is list and all(type(byte) is int and 0 <= byte < 256 for byte in given)
    found = given if is_given else list(token["token"].encode("utf-8", "replace"))
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


def text_template() -> ChunkTemplate:
    return ChunkTemplate(b'"content":', lambda data: decode_chunk(data).plain_text())


def arguments_template() -> ChunkTemplate:
    return ChunkTemplate(b'"arguments":', lambda data: decode_chunk(data).plain_arguments())


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


# One event has at most one delta. The largest known are tool arguments in a single piece (about 1 MB).
MAX_EVENT_BYTES = 8 * 1024 * 1024
# How long to wait for the end of the body after `[DONE]`. It allows the connection to be used again.
_TAIL_S = 0.1
# How long to wait for usage and `[DONE]` after the finish reason.
_LAG_S = 2.0
_BLANK = b"\xef\xbb\xbf \r\n\t"


class ChatResponseReader:
    """Call `next_batch` until `is_over`."""

    # Set once the answer turns out to be an event stream.
    _reader: SseReader
    _template: ChunkTemplate
    _call_template: ChunkTemplate

    def __init__(
        self,
        provider: str,
        model: str,
        response: Response,
        idle_s: float,
        relay: TextRelay | None,
        *,
        logprobs: int | None,
    ) -> None:
        self.is_over = False  # the last batch has been returned
        self._provider = provider
        self._model = model
        self._response = response
        self._idle_s = idle_s
        self._relay = relay
        self._logprobs = logprobs  # how many alternatives for each token were requested
        self._document: list[bytes] = []
        self._document_bytes = 0
        self._is_event_stream = False
        self._is_between = False  # the next bytes begin an event
        self._call_index: int | None = None  # of the call that `_call_template` belongs to
        self._has_ended = False  # nothing more will be read
        self._is_complete = False  # the backend has sent everything
        self._has_content = False
        self._has_call = False
        self._finished: StepFinished | None = None
        self._broken: ProviderError | None = None

    async def next_batch(self) -> Batch:
        while not self._has_ended:
            if self._is_complete:
                await self._read_to_end()
                break
            piece = await self._response.next_piece()
            if self._is_between and (read := self._template.event_text) and (text := read(piece)):
                return [TextDelta(text)]
            if batch := self._read_piece(piece):
                self._has_content = True
                return batch
        if self._broken is not None:
            raise self._broken
        return self._last()

    def _take(self, piece: bytes) -> bool:
        """Relays a word that came alone. Returns False if it is none, or if it belongs into a batch."""
        relay = self._relay
        if relay is None or not self._is_between:
            return False
        read = self._template.event_text
        text = read(piece) if read is not None else ""
        return bool(text) and relay.accept(text)

    def _last(self) -> Batch:
        self.is_over = True
        finished = self._finished
        return [finished] if finished else [self._without_finish(), StepFinished(StepEnd.UNKNOWN)]

    def _without_finish(self) -> Status:
        if not self._has_content:
            raise ProviderProtocolError(f"{self._provider} ended its answer without saying anything")
        if self._has_call and not self._is_complete:
            raise ProviderProtocolError(f"{self._provider} broke off its answer in a tool call")
        return Status(f"{self._provider} ended the answer without a finish reason")

    async def _read_to_end(self) -> None:
        """Reads the end of the body, which holds nothing, so that the connection can be used again."""
        self._has_ended, self._relay = True, None
        self._response.make_rest_optional(_TAIL_S)
        while await self._response.next_piece():
            pass

    def _read_piece(self, piece: bytes) -> list[Chunk]:
        if self._is_event_stream:
            return self._read_events(piece)
        return self._read_document(piece) if self._document else self._begin(piece)

    def _begin(self, piece: bytes) -> list[Chunk]:
        """The first bytes tell an event stream from a document."""
        self._response.limit_silence(self._idle_s)
        text = piece.lstrip(_BLANK)
        start = text[:1]
        if start == b"{":
            self._document.append(text)
            self._document_bytes = len(text)
            if self._response.at_end:
                return self._read_document(b"")
        elif start == b"<":
            message = f"{self._provider} answered with an HTML page instead of a stream"
            raise ProviderProtocolError(message, hint=WRONG_URL)
        elif start:
            self._is_event_stream = True
            self._reader = SseReader(MAX_EVENT_BYTES)
            self._template = text_template()
            self._call_template = arguments_template()
            if self._relay is not None:
                self._response.offer_to(self._take)
            return self._read_events(piece)
        else:
            self._has_ended = not piece
        return []

    def _read_document(self, piece: bytes) -> list[Chunk]:
        """Collects JSON, requested or not, and reads it at its end."""
        if piece:
            self._document.append(piece)
            self._document_bytes += len(piece)
            if self._document_bytes > MAX_ANSWER_BYTES:
                raise ProviderProtocolError(f"{self._provider}: the answer is larger than {MAX_ANSWER_BYTES} bytes")
            return []
        self._has_ended = self._is_complete = True
        batch = self._read(self._decode(b"".join(self._document)))
        self._has_content = bool(batch)
        batch += self._last()
        return batch

    def _read_events(self, piece: bytes) -> list[Chunk]:
        """The chunks up to the end, or up to one that cannot be read: what came before it is not lost."""
        reader = self._reader
        if piece:
            events = reader.feed_data(piece)
            self._is_between = reader.is_between_events
        else:
            events = [event.data for event in reader.finish()]
            self._has_ended = True
        batch: list[Chunk] = []
        frame, call_frame = self._template, self._call_template
        for data in events:
            if (read := frame.text) and (text := read(data)):
                batch.append(TextDelta(text))
            elif (read := call_frame.text) and (text := read(data)):
                batch.append(CallFragment(self._call_index, arguments=text))
            elif data == b"[DONE]":
                self._is_complete = True
                break
            elif data:
                try:
                    self._read_event(data, batch)
                except ProviderError as exc:
                    self._has_ended, self._broken = True, exc
                    break
        return batch

    def _read_event(self, data: bytes, batch: list[Chunk]) -> None:
        try:
            wire = decode_chunk(data)
        except (ValueError, RecursionError):  # read it leniently
            wire = self._decode(data)
        if self._logprobs is not None:
            batch += self._read(wire)
        elif text := wire.plain_text():
            if self._has_content or batch:  # the first word is not kept waiting for it
                self._template.learn(data, text)
            batch.append(TextDelta(text))
        elif (fragment := wire.plain_fragment()) and self._call_template.learn(data, fragment.arguments):
            self._has_call, self._call_index = True, fragment.index
            batch.append(fragment)
        else:
            batch += self._read(wire)

    def _read(self, wire: WireChunk) -> list[Chunk]:
        if (error := wire.find_error()) is not None:
            raise stream_error(self._provider, self._model, error)
        batch: list[Chunk] = []
        for chunk in read_chunk(wire, logprobs=self._logprobs):
            if type(chunk) is StepFinished:
                self._finished = chunk
                self._response.make_rest_optional(_LAG_S)
            else:
                self._has_call = self._has_call or type(chunk) is CallFragment
                batch.append(chunk)
        return batch

    def _decode(self, data: bytes) -> WireChunk:
        try:
            return decode_json(data, decode_chunk)
        except NotJson as exc:
            shown = error_text_of(data)[:80]
            raise ProviderProtocolError(f"{self._provider} sent a chunk that cannot be read ({exc}): {shown}") from exc
