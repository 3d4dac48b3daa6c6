"""Chat completions, the answer: from the engine's events to chunks, or to one message.

Calls that we run ourselves are not shown as calls: clients would try to run them, too. With `trace` they appear in
chunks without choices, under a key of ours, which every client passes over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from aish.frontends.http.server.http_errors import INVALID, Problem, openai_shape, problem_of_failure, settled
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
# Between what the model said before our tools ran and what it said after.
PARAGRAPH = "\n\n"
_encode = msgspec.json.encode
_encoder = msgspec.json.Encoder()
_FINISH_REASONS = {TurnEnd.CLIENT_TOOLS: "tool_calls", **dict.fromkeys((TurnEnd.LENGTH, *LIMIT_ENDS), "length")}
_UNSEEN = frozenset({TurnStarted, UsageReported})  # they are in every turn, and nothing is told of them
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


def closing_words(finished: TurnFinished) -> str:
    """A limit is said in the answer itself: these clients have no other place for it."""
    return f"[aish] {finished.detail}" if finished.reason in LIMIT_ENDS else ""


def _words_first(events: Sequence[Event]) -> list[str]:
    """The words that they begin with."""
    words: list[str] = []
    for event in events:
        body = event.body
        if type(body) is not TextDelta or body.logprobs is not UNSET:
            break
        words.append(body.text)
    return words


def logprobs_object(logprobs: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    return {"content": logprobs, "refusal": None} if logprobs else None


class Narrative:
    """The text of a turn that may have several steps: one paragraph after another."""

    said = ""  # last
    new_step = False

    def step(self) -> None:
        self.new_step = bool(self.said)

    def text(self, text: str) -> str:
        if self.new_step and text:
            self.new_step = False
            if not self.said.endswith("\n") and not text.startswith("\n"):
                text = PARAGRAPH + text
        self.said = text or self.said
        return text

    def last(self, words: str) -> str:
        """Ours, after all the model has said."""
        return PARAGRAPH + words if self.said else words


class ChatStream:
    heartbeat = b": ping\n\n"

    def __init__(self, id: str, model: str, created: int, clients: Sequence[str], *, usage: bool, trace: bool) -> None:
        head = {"id": id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._head = b"data: " + _encode(head)[:-1]
        self._text_head = self._head + b',"choices":[{"index":0,"delta":{"content":'
        self._clients = frozenset(clients)
        self._argument_heads: dict[str, bytes] = {}  # of the client's calls, by id
        self._usage = usage
        self._trace = trace
        self._narrative = Narrative()
        self.failed: Problem | None = None
        self.effects = False

    def opening(self) -> bytes:
        return self._delta({"role": "assistant", "content": ""})

    def encode(self, events: Sequence[Event]) -> bytes:
        if len(events) == 1 and type(body := events[0].body) is TextDelta:  # as a model says it
            return self._said(body)
        words = _words_first(events) if not self._narrative.new_step else []
        pieces = [self._texts(words)] if words else []
        for event in events[len(words) :]:
            body = event.body
            if type(body) is TextDelta:
                pieces.append(self._said(body))
            elif type(body) is ArgumentsDelta:
                pieces.append(self._arguments(event.call, body.text))
            else:
                pieces += self._other(event)
        return b"".join(pieces)

    def _said(self, body: TextDelta) -> bytes:
        if body.logprobs is UNSET:
            return self.word(body.text)
        return self._delta({"content": self._narrative.text(body.text)}, logprobs=body.logprobs)

    def word(self, text: str) -> bytes:
        narrative = self._narrative
        if narrative.new_step or not text:
            text = narrative.text(text)
        else:  # as nearly always
            narrative.said = text
        return self._text_head + _encode(text) + _TEXT_END

    def _texts(self, words: list[str]) -> bytes:
        """A chunk each, and nearly all there is: in JSON a line's end is never part of a text."""
        self._narrative.said = next(filter(None, reversed(words)), self._narrative.said)
        lines = _encoder.encode_lines(words)[:-1]
        return self._text_head + lines.replace(b"\n", _TEXT_END + self._text_head) + _TEXT_END

    def failure(self, problem: Problem) -> bytes:
        return b"data: " + _encode(openai_shape(settled(problem, effects=self.effects))) + b"\n\n" + DONE

    def _other(self, event: Event) -> list[bytes]:
        body = event.body
        pieces: list[bytes] = []
        if type(body) in _UNSEEN:
            return pieces
        match body:
            case StepStarted():
                self._narrative.step()
            case ReasoningDelta(text):
                pieces.append(self._delta({"reasoning_content": text}))
            case ToolCallStarted(name=name) if name in self._clients:
                pieces.append(self._call(event.call, name))
            case Failed():
                self.failed = problem_of_failure(body)
            case TurnFinished():
                pieces.append(self._end(body))
            case _:
                pass
        if self._trace and isinstance(body, _TRACED):
            pieces.append(self._traced(event))
        return pieces

    def _call(self, call: str, name: str) -> bytes:
        place = len(self._argument_heads)
        fragment = b',"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"arguments":' % place
        self._argument_heads[call] = self._head + fragment
        function = {"name": name, "arguments": ""}
        return self._delta({"tool_calls": [{"index": place, "id": call, "type": "function", "function": function}]})

    def _arguments(self, call: str, text: str) -> bytes:
        """A piece of them, if the call is the client's."""
        head = self._argument_heads.get(call)
        return head + _encode(text) + _ARGUMENTS_END if head else b""

    def _end(self, finished: TurnFinished) -> bytes:
        if finished.reason is TurnEnd.FAILED:
            return self.failure(self.failed or Problem(500, finished.detail))
        if finished.reason is TurnEnd.COST:
            return self.failure(Problem(402, finished.detail, type=INVALID, code="cost_limit"))
        words = closing_words(finished)
        pieces = [self.word(self._narrative.last(words))] if words else []
        pieces.append(self._delta({}, _FINISH_REASONS.get(finished.reason, "stop")))
        if self._usage:
            pieces.append(self._without_choices("usage", usage_object(finished.usage)))
        return b"".join([*pieces, DONE])

    def _traced(self, event: Event) -> bytes:
        return self._without_choices("aish", {"event": msgspec.to_builtins(event)})

    def _delta(
        self, delta: dict[str, Any], finish: str | None = None, logprobs: Sequence[dict[str, Any]] = ()
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs_object(logprobs), "finish_reason": finish}
        return self._head + b',"choices":[' + _encode(choice) + b"]}\n\n"

    def _without_choices(self, key: str, value: Any) -> bytes:
        return self._head + b',"choices":[],' + _encode({key: value})[1:] + b"\n\n"


class ChatWhole:
    """The same as one answer."""

    def __init__(self, id: str, model: str, created: int, clients: Sequence[str], *, trace: bool) -> None:
        self._id = id
        self._model = model
        self._created = created
        self._clients = clients
        self._narrative = Narrative()
        self._text: list[str] = []
        self._logprobs: list[dict[str, Any]] = []
        self._reasoning: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._traced: list[Any] | None = [] if trace else None
        self._finished: TurnFinished | None = None
        self._failed: Problem | None = None

    def feed(self, events: Sequence[Event]) -> None:
        for event in events:
            body = event.body
            if type(body) is TextDelta:
                self._text.append(self._narrative.text(body.text))
                if body.logprobs is not UNSET:
                    self._logprobs += body.logprobs
            elif type(body) is TurnFinished:
                self._finished = body
            elif type(body) is StepStarted:
                self._narrative.step()
            elif type(body) not in _UNSEEN:
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
        """Raises the Problem the turn ended with, if it did."""
        finished = self._finished
        if finished is None or finished.reason in (TurnEnd.FAILED, TurnEnd.INTERRUPTED):
            raise self._failed or Problem(500, "the turn did not come to its end")
        if finished.reason is TurnEnd.COST:
            raise Problem(402, finished.detail, type=INVALID, code="cost_limit")
        if words := closing_words(finished):
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
