"""Encodes a turn's events as chunks of chat completions, or as one message.

Calls that we run ourselves are not shown as calls: clients would try to run them, too. With `trace` they appear in
chunks without choices, under a key of ours, which clients ignore.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from aish.frontends.http.server.http_errors import INVALID, HttpProblem, openai_shape, problem_of_failure, without_retry
from aish.types.events import (
    LIMIT_ENDS,
    ArgumentsDelta,
    DecisionAsked,
    DecisionMade,
    Event,
    Failed,
    PlanAccepted,
    PlanProposed,
    PlanRejected,
    PlanStepFinished,
    PlanStepStarted,
    ReasoningDelta,
    Status,
    StepStarted,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolResult,
    TurnEnd,
    TurnFinished,
    TurnStarted,
    UsageReported,
)
from aish.types.usage import Usage

DONE = b"data: [DONE]\n\n"
_TEXT_END = b'},"logprobs":null,"finish_reason":null}]}\n\n'
_ARGUMENTS_END = b"}}]" + _TEXT_END
# Between the text before our tools ran and the text after.
PARAGRAPH = "\n\n"
_encode = msgspec.json.encode
_encoder = msgspec.json.Encoder()
_FINISH_REASONS = {TurnEnd.CLIENT_TOOLS: "tool_calls", **dict.fromkeys((TurnEnd.LENGTH, *LIMIT_ENDS), "length")}
_SILENT_EVENTS = frozenset({TurnStarted, UsageReported})  # in every turn, and not shown to clients
_PLANNED = (PlanProposed, PlanRejected, PlanAccepted, PlanStepStarted, PlanStepFinished)
_TRACED = (ToolCallReady, ToolResult, DecisionAsked, DecisionMade, Status, *_PLANNED)


def usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def limit_notice(finished: TurnFinished) -> str:
    """These clients have no other place to show a limit, so the answer itself says it."""
    return f"[aish] {finished.detail}" if finished.reason in LIMIT_ENDS else ""


def _leading_texts(events: Sequence[Event]) -> list[str]:
    """The texts of the plain text events that they begin with."""
    texts: list[str] = []
    for event in events:
        body = event.body
        if type(body) is not TextDelta or body.logprobs is not UNSET:
            break
        texts.append(body.text)
    return texts


def logprobs_object(logprobs: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    return {"content": logprobs, "refusal": None} if logprobs else None


class ParagraphJoiner:
    """Joins the texts of a turn's steps: each step begins a new paragraph."""

    last_text = ""
    new_step = False

    def begin_step(self) -> None:
        self.new_step = bool(self.last_text)

    def join(self, text: str) -> str:
        """Returns the text, with the paragraph break that it needs before it."""
        if self.new_step and text:
            self.new_step = False
            if not self.last_text.endswith("\n") and not text.startswith("\n"):
                text = PARAGRAPH + text
        self.last_text = text or self.last_text
        return text

    def append_notice(self, notice: str) -> str:
        """Returns our own notice, to be sent after all text of the model."""
        return PARAGRAPH + notice if self.last_text else notice


class ChatStreamEncoder:
    heartbeat = b": ping\n\n"

    def __init__(self, id: str, model: str, created: int, clients: Sequence[str], *, usage: bool, trace: bool) -> None:
        head = {"id": id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._head = b"data: " + _encode(head)[:-1]
        self._text_head = self._head + b',"choices":[{"index":0,"delta":{"content":'
        self._clients = frozenset(clients)
        self._argument_heads: dict[str, bytes] = {}  # of the client's calls, by id
        self._usage = usage
        self._trace = trace
        self._paragraphs = ParagraphJoiner()
        self.failed: HttpProblem | None = None
        self.effects = False

    def opening(self) -> bytes:
        return self._delta_chunk({"role": "assistant", "content": ""})

    def encode(self, events: Sequence[Event]) -> bytes:
        if len(events) == 1 and type(body := events[0].body) is TextDelta:  # the usual case
            return self._encode_text(body)
        words = _leading_texts(events) if not self._paragraphs.new_step else []
        pieces = [self._encode_texts(words)] if words else []
        for event in events[len(words) :]:
            body = event.body
            if type(body) is TextDelta:
                pieces.append(self._encode_text(body))
            elif type(body) is ArgumentsDelta:
                pieces.append(self._argument_chunk(event.call, body.text))
            else:
                pieces += self._encode_other(event)
        return b"".join(pieces)

    def _encode_text(self, body: TextDelta) -> bytes:
        if body.logprobs is UNSET:
            return self.word(body.text)
        return self._delta_chunk({"content": self._paragraphs.join(body.text)}, logprobs=body.logprobs)

    def word(self, text: str) -> bytes:
        paragraphs = self._paragraphs
        if paragraphs.new_step or not text:
            text = paragraphs.join(text)
        else:  # as nearly always
            paragraphs.last_text = text
        return self._text_head + _encode(text) + _TEXT_END

    def _encode_texts(self, words: list[str]) -> bytes:
        """Encodes several texts at once, one chunk each. Line ends separate them: in JSON a line end is never part of a
        text."""
        self._paragraphs.last_text = next(filter(None, reversed(words)), self._paragraphs.last_text)
        lines = _encoder.encode_lines(words)[:-1]
        return self._text_head + lines.replace(b"\n", _TEXT_END + self._text_head) + _TEXT_END

    def failure(self, problem: HttpProblem) -> bytes:
        return b"data: " + _encode(openai_shape(without_retry(problem, effects=self.effects))) + b"\n\n" + DONE

    def _encode_other(self, event: Event) -> list[bytes]:
        body = event.body
        pieces: list[bytes] = []
        if type(body) in _SILENT_EVENTS:
            return pieces
        match body:
            case StepStarted():
                self._paragraphs.begin_step()
            case ReasoningDelta(text):
                pieces.append(self._delta_chunk({"reasoning_content": text}))
            case ToolCallStarted(name=name) if name in self._clients:
                pieces.append(self._call_chunk(event.call, name))
            case Failed():
                self.failed = problem_of_failure(body)
            case TurnFinished():
                pieces.append(self._closing_chunks(body))
            case _:
                pass
        if self._trace and isinstance(body, _TRACED):
            pieces.append(self._trace_chunk(event))
        return pieces

    def _call_chunk(self, call: str, name: str) -> bytes:
        index = len(self._argument_heads)
        fragment = b',"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"arguments":' % index
        self._argument_heads[call] = self._head + fragment
        function = {"name": name, "arguments": ""}
        return self._delta_chunk(
            {"tool_calls": [{"index": index, "id": call, "type": "function", "function": function}]}
        )

    def _argument_chunk(self, call: str, text: str) -> bytes:
        """A fragment of arguments, if the call is the client's."""
        head = self._argument_heads.get(call)
        return head + _encode(text) + _ARGUMENTS_END if head else b""

    def _closing_chunks(self, finished: TurnFinished) -> bytes:
        if finished.reason is TurnEnd.FAILED:
            return self.failure(self.failed or HttpProblem(500, finished.detail))
        if finished.reason is TurnEnd.COST:
            self.failed = HttpProblem(402, finished.detail, type=INVALID, code="cost_limit")
            return self.failure(self.failed)
        words = limit_notice(finished)
        pieces = [self.word(self._paragraphs.append_notice(words))] if words else []
        pieces.append(self._delta_chunk({}, _FINISH_REASONS.get(finished.reason, "stop")))
        if self._usage:
            pieces.append(self._extension_chunk("usage", usage_object(finished.usage)))
        return b"".join([*pieces, DONE])

    def _trace_chunk(self, event: Event) -> bytes:
        return self._extension_chunk("aish", {"event": msgspec.to_builtins(event)})

    def _delta_chunk(
        self, delta: dict[str, Any], finish: str | None = None, logprobs: Sequence[dict[str, Any]] = ()
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs_object(logprobs), "finish_reason": finish}
        return self._head + b',"choices":[' + _encode(choice) + b"]}\n\n"

    def _extension_chunk(self, key: str, value: Any) -> bytes:
        return self._head + b',"choices":[],' + _encode({key: value})[1:] + b"\n\n"


class ChatReplyBuilder:
    """The same as one reply."""

    def __init__(self, id: str, model: str, created: int, clients: Sequence[str], *, trace: bool) -> None:
        self._id = id
        self._model = model
        self._created = created
        self._clients = clients
        self._paragraphs = ParagraphJoiner()
        self._text: list[str] = []
        self._logprobs: list[dict[str, Any]] = []
        self._reasoning: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._traced: list[Any] | None = [] if trace else None
        self._finished: TurnFinished | None = None
        self._failed: HttpProblem | None = None

    def feed(self, events: Sequence[Event]) -> None:
        for event in events:
            body = event.body
            if type(body) is TextDelta:
                self._text.append(self._paragraphs.join(body.text))
                if body.logprobs is not UNSET:
                    self._logprobs += body.logprobs
            elif type(body) is TurnFinished:
                self._finished = body
            elif type(body) is StepStarted:
                self._paragraphs.begin_step()
            elif type(body) not in _SILENT_EVENTS:
                self._feed_other(event)

    def _feed_other(self, event: Event) -> None:
        match event.body:
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case ToolCallReady(name, arguments) if name in self._clients:
                function = {"name": name, "arguments": arguments}
                self._calls.append({"id": event.call, "type": "function", "function": function})
            case Failed() as failed:
                self._failed = problem_of_failure(failed)
            case _:
                pass
        if self._traced is not None and isinstance(event.body, _TRACED):
            self._traced.append(msgspec.to_builtins(event))

    def body(self) -> bytes:
        """Raises the HttpProblem that the turn ended with, if it did."""
        finished = self._finished
        if finished is None or finished.reason in (TurnEnd.FAILED, TurnEnd.INTERRUPTED):
            raise self._failed or HttpProblem(500, "the turn did not come to its end")
        if finished.reason is TurnEnd.COST:
            raise HttpProblem(402, finished.detail, type=INVALID, code="cost_limit")
        if words := limit_notice(finished):
            self._text.append((PARAGRAPH if self._text else "") + words)
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._text), "refusal": None}
        if self._calls:
            message |= {"content": message["content"] or None, "tool_calls": self._calls}
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        reason = _FINISH_REASONS.get(finished.reason, "stop")
        logprobs = logprobs_object(self._logprobs)
        choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": reason}
        answer: dict[str, Any] = {
            "id": self._id,
            "object": "chat.completion",
            "created": self._created,
            "model": self._model,
            "choices": [choice],
            "usage": usage_object(finished.usage),
        }
        if self._traced is not None:
            answer["aish"] = {"events": self._traced}
        return _encode(answer)
