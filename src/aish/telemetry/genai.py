"""Makes spans and metrics of turns, by OpenTelemetry's conventions for generative AI.

A turn is `invoke_agent`, a model call in it `chat`, a tool call `execute_tool`. Times are those of the recorded events.
Message content is left out unless the configuration asks for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

import msgspec
from opentelemetry.context import Context
from opentelemetry.metrics import Meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from aish.types.events import (
    ArgumentsDelta,
    Event,
    Failed,
    ReasoningDelta,
    StepStarted,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolResult,
    TurnEnd,
    TurnFinished,
    TurnStarted,
    UsageReported,
    decode_event,
)
from aish.types.messages import Message, UserMessage, text_of
from aish.types.tools import ResultStatus

Attributes = dict[str, str | int | float | list[str]]

_MAX_OPEN = 4096  # turns; the oldest are dropped, since the end of a turn may never come
_MAX_CALLS = 1024  # of one turn that have no result yet
_MAX_CHARS = 64 * 1024  # of content in one attribute
_TOKEN_BUCKETS = [float(4**power) for power in range(14)]
_SECOND_BUCKETS = [0.01 * 2**power for power in range(14)]
# Nearly all lines. Without content, only the first one of a step matters.
_DELTAS = (b'"body":{"type":"text_delta"', b'"body":{"type":"reasoning_delta"', b'"body":{"type":"arguments_delta"')
_MODEL_OUTPUT = (TextDelta, ReasoningDelta, ArgumentsDelta, ToolCallStarted, ToolCallReady, UsageReported)


class Instruments:
    """`redact` removes secrets from the joined answer: in the recorded pieces, a secret may be split between two."""

    def __init__(self, tracer: Tracer, meter: Meter, *, content: bool, redact: Callable[[str], str]) -> None:
        self.tracer = tracer
        self.content = content
        self.redact = redact
        self.tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens of a model call.",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self.duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "How long an operation took.",
            explicit_bucket_boundaries_advisory=_SECOND_BUCKETS,
        )


class GenAi:
    """Takes events of any turns and makes spans of them."""

    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments
        self._turns: OrderedDict[str, _Turn] = OrderedDict()

    def add(self, lines: bytes) -> None:
        for line in lines.splitlines():
            is_delta = any(mark in line[:400] for mark in _DELTAS)
            if not self._instruments.content and is_delta and self._is_answering(line):
                continue
            self._add(decode_event(line))

    def _is_answering(self, line: bytes) -> bool:
        """Whether the turn of this line has begun to answer, so that a further delta carries no information."""
        start = line.find(b'"turn":"') + 8
        turn = self._turns.get(line[start : line.find(b'"', start)].decode())
        return turn is not None and turn.is_answering

    def _add(self, event: Event) -> None:
        if isinstance(event.body, TurnStarted):
            while len(self._turns) >= _MAX_OPEN:
                self._turns.popitem(last=False)[1].abandon()
            self._turns[event.turn] = _Turn(self._instruments, event, event.body)
        elif (turn := self._turns.get(event.turn)) is not None:
            turn.add(event)
            if isinstance(event.body, TurnFinished):
                del self._turns[event.turn]


class _Step:
    """One model call."""

    def __init__(self, span: Span, model: str, began_ms: int) -> None:
        self.span = span
        self.began_ms = self.last_ms = began_ms
        self.attributes = _model_attributes(model, "chat")
        self.first_ms: int | None = None
        self.texts: list[str] = []
        self.size = 0

    def add_text(self, text: str) -> None:
        if self.size < _MAX_CHARS:
            self.texts.append(text[: _MAX_CHARS - self.size])
            self.size += len(text)


def _parent(traceparent: str) -> Context | None:
    """The span of the calling program."""
    return TraceContextTextMapPropagator().extract({"traceparent": traceparent}) if traceparent else None


class _Turn:
    def __init__(self, instruments: Instruments, event: Event, body: TurnStarted) -> None:
        self._instruments = instruments
        self._shared: Attributes = {"gen_ai.conversation.id": event.session} if event.session else {}
        self._began_ms = event.at_ms
        self._step: _Step | None = None
        self._calls: dict[str, ToolCallReady] = {}
        self._failure: Failed | None = None
        attributes = {**_model_attributes(body.model, "invoke_agent"), **self._shared}
        attributes |= {"gen_ai.agent.name": "aish", "aish.turn.id": event.turn}
        if instruments.content:
            attributes["gen_ai.input.messages"] = _input(body.input)
        self._span = instruments.tracer.start_span(
            "invoke_agent aish", _parent(body.traceparent), SpanKind.INTERNAL, attributes, start_time=_ns(event.at_ms)
        )
        self._context = set_span_in_context(self._span)

    @property
    def is_answering(self) -> bool:
        return self._step is not None and self._step.first_ms is not None

    def add(self, event: Event) -> None:
        body, step = event.body, self._step
        if isinstance(body, _MODEL_OUTPUT) and step is not None:
            self._record_output(step, event)
        if isinstance(body, StepStarted):
            self._end_step()
            self._begin_step(body, event.at_ms)
        elif isinstance(body, UsageReported):
            self._record_usage(body)
        elif isinstance(body, ToolCallReady) and len(self._calls) < _MAX_CALLS:
            self._calls[event.call] = body
        elif isinstance(body, ToolResult):
            self._end_step()
            self._record_call(event, body)
        elif isinstance(body, Failed):
            self._failure = body
        elif isinstance(body, TurnFinished):
            self._finish(event, body)

    def abandon(self) -> None:
        self._end_step()
        self._span.end(_ns(self._began_ms))

    def _begin_step(self, body: StepStarted, at_ms: int) -> None:
        span = self._instruments.tracer.start_span(
            f"chat {_bare(body.model)}",
            self._context,
            SpanKind.CLIENT,
            {**_model_attributes(body.model, "chat"), **self._shared},
            start_time=_ns(at_ms),
        )
        self._step = _Step(span, body.model, at_ms)

    def _record_output(self, step: _Step, event: Event) -> None:
        step.last_ms = max(step.last_ms, event.at_ms)
        if step.first_ms is None and not isinstance(event.body, UsageReported):
            step.first_ms = event.at_ms
            step.span.set_attribute("gen_ai.response.time_to_first_chunk", (event.at_ms - step.began_ms) / 1000)
        if self._instruments.content and isinstance(event.body, TextDelta):
            step.add_text(event.body.text)

    def _record_usage(self, body: UsageReported) -> None:
        usage, attributes = body.usage, _model_attributes(body.model, "chat")
        counts = {"input": usage.prompt_tokens, "output": usage.completion_tokens}
        for kind, count in counts.items():
            self._instruments.tokens.record(count, {**attributes, "gen_ai.token.type": kind})
        if self._step is None:
            return
        span = self._step.span
        span.set_attribute("gen_ai.response.model", _bare(body.model))
        span.set_attribute("gen_ai.usage.input_tokens", usage.prompt_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", usage.completion_tokens)
        if usage.cached_tokens:
            span.set_attribute("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens)
        if usage.cost is not None:
            span.set_attribute("aish.cost_dollars", usage.cost)

    def _record_call(self, event: Event, body: ToolResult) -> None:
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": body.name,
            "gen_ai.tool.call.id": event.call,
            "gen_ai.tool.type": "function",
            **self._shared,
        }
        call = self._calls.pop(event.call, None)
        if self._instruments.content:
            attributes["gen_ai.tool.call.result"] = text_of(body.parts)[:_MAX_CHARS]
            if call is not None:
                attributes["gen_ai.tool.call.arguments"] = call.arguments[:_MAX_CHARS]
        start_ns = _ns(event.at_ms) - int(body.duration_ms * 1_000_000)
        span = self._instruments.tracer.start_span(
            f"execute_tool {body.name}", self._context, SpanKind.INTERNAL, attributes, start_time=start_ns
        )
        figures = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": body.name if body.effect else "unknown"}
        if body.status is not ResultStatus.OK:
            figures["error.type"] = body.status.value
            _fail(span, body.status.value)
        self._instruments.duration.record(body.duration_ms / 1000, figures)
        span.end(_ns(event.at_ms))

    def _finish(self, event: Event, body: TurnFinished) -> None:
        failed = body.reason is TurnEnd.FAILED
        kind = self._failure.kind if self._failure else "failed"
        self._end_step(kind if failed else "", body.reason.value)
        span = self._span
        span.set_attribute("aish.turn.end", body.reason.value)
        span.set_attribute("gen_ai.usage.input_tokens", body.usage.prompt_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", body.usage.completion_tokens)
        figures: dict[str, str] = {"gen_ai.operation.name": "invoke_agent"}
        if failed:
            figures["error.type"] = kind
            _fail(span, kind, self._failure.message if self._failure else "")
        self._instruments.duration.record((event.at_ms - self._began_ms) / 1000, figures)
        span.end(_ns(event.at_ms))

    def _end_step(self, error: str = "", reason: str = "") -> None:
        step, self._step = self._step, None
        if step is None:
            return
        figures = dict(step.attributes)
        if error:
            figures["error.type"] = error
            _fail(step.span, error)
        else:
            step.span.set_attribute("gen_ai.response.finish_reasons", [_FINISH.get(reason, "tool_calls")])
        if step.texts:
            text = self._instruments.redact("".join(step.texts))
            step.span.set_attribute("gen_ai.output.messages", _messages("assistant", [text]))
        self._instruments.duration.record((step.last_ms - step.began_ms) / 1000, figures)
        step.span.end(_ns(step.last_ms))


_FINISH: Mapping[str, str] = {"answered": "stop", "length": "length", "cancelled": "cancelled"}


def _model_attributes(name: str, operation: str) -> Attributes:
    provider, _, _ = name.partition(":")
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": provider or "unknown",
        "gen_ai.request.model": _bare(name),
    }


def _bare(name: str) -> str:
    return name.partition(":")[2] or name


def _ns(at_ms: int) -> int:
    return at_ms * 1_000_000


def _fail(span: Span, kind: str, message: str = "") -> None:
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, message[:500] or kind))


def _input(messages: tuple[Message, ...]) -> str:
    """The last user messages, as many as fit: a client may send its whole conversation."""
    texts: list[str] = []
    room = _MAX_CHARS
    for message in reversed(messages):
        if isinstance(message, UserMessage) and room > 0:
            texts.insert(0, text_of(message.parts)[:room])
            room -= len(texts[0]) + 1
    return _messages("user", texts)


def _messages(role: str, texts: list[str]) -> str:
    shown = [{"role": role, "parts": [{"type": "text", "content": text}]} for text in texts]
    return msgspec.json.encode(shown).decode()
