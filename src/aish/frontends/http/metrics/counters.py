"""The server's counters, as Prometheus reads them.

Labels have few values: nothing that a client sends becomes a label unless it names something of ours.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from aish.frontends.http.metrics.accumulators import MAX_SAMPLES, CounterBatch, HistogramBatch, Series
from aish.frontends.http.server.logs import log_turn_id
from aish.types.events import (
    ArgumentsDelta,
    Event,
    ReasoningDelta,
    Status,
    StepStarted,
    TextDelta,
    ToolCallReady,
    ToolResult,
    TurnEnd,
    TurnFinished,
    TurnStarted,
    UsageReported,
)
from aish.types.tools import Effect, Repair, ResultStatus
from aish.types.usage import NOTHING_USED, Usage

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_RATES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_ROUNDS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
_MAX_MODELS = 100  # more names than this are counted as "other"
_MAX_TOOLS = 300  # the same of tools: MCP servers bring any number
# What the engine and the providers report when they ask again: no event has it in another form.
_ASKED_AGAIN = (
    ("; asking ", "fallback"),
    ("sending results as text instead", "form"),
    ("sending simpler ones", "form"),
    ("constraining the answer instead", "form"),
    ("describing tools in the prompt instead", "form"),
)


_WORDS = (TextDelta, ReasoningDelta)
MANY_WORKERS = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client's: where the workers of one server count together


class Metrics:
    """`together`: several processes count, and each answers for all. `is_ours`: whether the tool is not one that a
    request has brought, whose name the client chose."""

    def __init__(self, *, together: bool = False, is_ours: Callable[[str], bool] = lambda tool: True) -> None:
        self.together = together
        self.is_ours = is_ours
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"aish_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(f"aish_{name}", text, labels, buckets=buckets, registry=registry)

        def gauge(name: str, text: str, mode: Literal["livesum", "livemax"], *labels: str) -> Gauge:
            return Gauge(f"aish_{name}", text, labels, registry=registry, multiprocess_mode=mode)

        self.requests = counter("requests", "Requests answered.", "route", "status")
        self.turns = counter("turns", "Turns, by how they ended.", "model", "end")
        self.first_token = histogram("first_token_seconds", "Until the first token.", _SECONDS, "model")
        self.token_rate = histogram("tokens_per_second", "Tokens of an answer a second.", _RATES, "model")
        self.rounds = histogram("rounds_per_turn", "Model calls in a turn.", _ROUNDS, "model")
        self.tokens = counter("tokens", "Tokens spent.", "model", "direction")
        self.cost = counter("cost_dollars", "Dollars spent, where prices are known.", "model")
        self.tool_calls = counter("tool_calls", "Tool calls, by how they ended.", "tool", "status")
        self.broken_streams = counter("broken_streams", "Answers that broke off.", "model")
        self.retries = counter(
            "retries", "Model calls made again, of another model or in another form.", "model", "kind"
        )
        self.call_repairs = counter("call_repairs", "Repairs of tool calls before they ran.", "kind")
        self.left_out = counter("turns_left_out", "Turns left out of requests because they did not fit.", "model")
        self.prefixes_lost = counter("prefixes_lost", "Prompts that a backend had to read again.", "model")
        self.active_requests = gauge("requests_under_way", "Requests being answered.", "livesum")
        self.mcp_servers = gauge("mcp_servers", "MCP servers, by state.", "livemax", "state")
        # Their labels and URLs are the clients' own words: as many as they like.
        self.mcp_brought_open = gauge(
            "mcp_brought_open", "MCP servers that requests brought, connected now.", "livesum"
        )
        self.mcp_brought = counter("mcp_brought", "Requests that brought MCP servers, by how that ended.", "result")
        self.series = Series()
        self._models: dict[str, ModelCounters] = {}
        self._tools: set[str] = set()
        self._request_counts: dict[tuple[str, int], CounterBatch] = {}

    def count_request(self, method: str, route: str, status: int, failed: int) -> None:
        """`failed`: what the status would have been, if the stream had not begun before it failed."""
        tally = self._request_counts.get((route, status))
        if tally is None:
            tally = self._request_counts[route, status] = CounterBatch(self.requests.labels(route, str(status)))
        tally.count += 1
        if method == "POST":  # what is asked for, not what is looked at
            point = self.series.now()
            point.requests += 1
            if (failed or status) >= 500:
                point.errors += 1

    def count_spent(self, model: ModelCounters | None, usage: Usage, *, turns: int = 0) -> None:
        point = self.series.now()
        point.turns += turns
        point.tokens_in += usage.prompt_tokens
        point.tokens_out += usage.completion_tokens
        if usage.cost:
            point.cost += usage.cost
        elif usage.cost is None and usage.total_tokens:
            point.unknown += 1
        if model is not None:
            model.tokens_in.count += usage.prompt_tokens
            model.tokens_out.count += usage.completion_tokens
            if usage.cached_tokens:
                model.tokens_cached.inc(usage.cached_tokens)
            if usage.cost:
                model.cost.inc(usage.cost)

    def flush(self) -> None:
        """Adds what has been counted to what Prometheus reads."""
        for tally in self._request_counts.values():
            tally.flush()
        for model in self._models.values():
            model.flush()

    def page(self) -> bytes:
        self.flush()
        if not self.together:
            return generate_latest(self.registry)
        everybody = CollectorRegistry()
        MultiProcessCollector(everybody)  # type: ignore[no-untyped-call]
        return generate_latest(everybody)

    def close(self) -> None:
        """Keeps the counts of this process, and removes the figures that hold only while it lives."""
        self.flush()
        if self.together:
            forget_process(os.getpid())

    def tool_counter(self, tool: str, status: str) -> Counter:
        """`tool` is "" for one that was never found."""
        return self.tool_calls.labels(self._label_of(tool) if tool else "unknown", status)

    def _label_of(self, tool: str) -> str:
        if tool in self._tools:
            return tool
        if not self.is_ours(tool):
            return "brought"
        if len(self._tools) >= _MAX_TOOLS:
            return "other"
        self._tools.add(tool)
        return tool

    def model_counters(self, model: str) -> ModelCounters:
        known = self._models.get(model)
        if known is None:
            if len(self._models) >= _MAX_MODELS:
                model = "other"
            if model not in self._models:
                self._models[model] = ModelCounters(self, model)
            known = self._models[model]
        return known


def forget_process(pid: int) -> None:
    """Removes the figures that held only while this process lived, for processes that count together."""
    mark_process_dead(pid)  # type: ignore[no-untyped-call]


class ModelCounters:
    """The counters of one model, looked up once."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self.first_token = HistogramBatch(metrics.first_token.labels(model), _SECONDS)
        self.token_rate = HistogramBatch(metrics.token_rate.labels(model), _RATES)
        self.rounds = HistogramBatch(metrics.rounds.labels(model), _ROUNDS)
        self.tokens_in = CounterBatch(metrics.tokens.labels(model, "in"))
        self.tokens_out = CounterBatch(metrics.tokens.labels(model, "out"))
        self.tokens_cached = metrics.tokens.labels(model, "cached")  # of those that went in
        self.cost = metrics.cost.labels(model)
        self.broken_streams = metrics.broken_streams.labels(model)
        self.retries = {kind: metrics.retries.labels(model, kind) for kind in ("fallback", "form")}
        self.left_out = metrics.left_out.labels(model)
        self.prefixes_lost = metrics.prefixes_lost.labels(model)
        self.ends = {end: CounterBatch(metrics.turns.labels(model, end.value)) for end in TurnEnd}

    def flush(self) -> None:
        for tally in (self.first_token, self.token_rate, self.rounds, self.tokens_in, self.tokens_out):
            tally.flush()
        for tally in self.ends.values():
            tally.flush()


class TurnMeter(msgspec.Struct, eq=False):
    """Counts one turn's events as they pass, and knows whether it did something that must not be done again."""

    _metrics: Metrics
    _began_ns: int = msgspec.field(default_factory=time.time_ns)
    _model: ModelCounters | None = None
    _first_ms: int = 0  # by the event's own time: events that are not streamed arrive all at the end
    _steps: int = 0
    _open: set[str] = set()  # calls without a result
    turn: str = ""  # once it has begun
    had_effect: bool = False
    usage: Usage = NOTHING_USED

    @property
    def has_open_call(self) -> bool:
        return bool(self._open)

    def observe(self, events: Sequence[Event]) -> None:
        if self._first_ms and type(events[0].body) is TextDelta:
            return  # nearly every batch
        for event in events:
            body = event.body
            if type(body) in _WORDS:
                if not self._first_ms:
                    self._token(event.at_ms)
            elif type(body) is StepStarted:
                self._steps += 1
            elif type(body) is UsageReported:
                if self._model is not None and body.left_out:
                    self._model.left_out.inc(body.left_out)
                if self._model is not None and body.prefix_lost:
                    self._model.prefixes_lost.inc()
            elif type(body) is TurnStarted:
                self._model = self._metrics.model_counters(body.model)
                self.turn = event.turn
                self.had_effect = body.after_effect
                log_turn_id(event.session, event.turn)
            elif type(body) is TurnFinished:
                self._count_end(body, event.at_ms)
            elif type(body) is not ArgumentsDelta:
                self._see_other(event)

    def count_abandoned(self, events: Sequence[Event]) -> None:
        """Counts the events of a turn that its client left. A call that was broken off stays open: it may have had its
        effect."""
        broken_off = set(self._open)
        self.observe(events)
        self._open |= broken_off

    def _see_other(self, event: Event) -> None:
        body = event.body
        if isinstance(body, ToolResult):
            self._open.discard(event.call)
            self.had_effect = self.had_effect or body.effect not in (None, Effect.READ)
            self._metrics.tool_counter(body.name if self._is_known(body) else "", body.status.value).inc()
            self._metrics.series.now().tool_calls += 1
            self._count_repairs(body.repairs)
        elif isinstance(body, ToolCallReady):
            self._open.add(event.call)
            self._count_repairs(body.repairs)
        elif isinstance(body, Status) and not event.call:
            self._count_retry(body.text)

    def _is_known(self, result: ToolResult) -> bool:
        """A call that was broken off reports no effect, though its tool was found."""
        if result.effect is not None:
            return True
        return result.status is not ResultStatus.UNKNOWN_TOOL and self._metrics.is_ours(result.name)

    def _token(self, at_ms: int) -> None:
        if self._model is not None:
            self._first_ms = at_ms
            took_ms = at_ms - self._began_ns // 1_000_000
            took_s = took_ms / 1000 if took_ms > 0 else 0.0
            self._model.first_token.observe(took_s)
            samples_ms = self._metrics.series.now().first_token_ms
            if len(samples_ms) < MAX_SAMPLES:
                samples_ms.append(took_s * 1000)

    def _count_retry(self, text: str) -> None:
        kind = next((kind for words, kind in _ASKED_AGAIN if words in text), "")
        if kind and self._model is not None:
            self._model.retries[kind].inc()

    def _count_repairs(self, repairs: tuple[Repair, ...] | msgspec.UnsetType) -> None:
        for repair in repairs or ():
            self._metrics.call_repairs.labels(repair.kind.value).inc()

    def _count_end(self, body: TurnFinished, at_ms: int) -> None:
        self.usage = usage = body.usage
        self._metrics.count_spent(self._model, usage, turns=1)
        model = self._model
        if model is None:
            return
        model.ends[body.reason].count += 1
        model.rounds.observe(self._steps)
        if body.reason is TurnEnd.FAILED and self._first_ms:
            model.broken_streams.inc()
        if usage.completion_tokens and self._first_ms and at_ms > self._first_ms:
            model.token_rate.observe(usage.completion_tokens * 1000 / (at_ms - self._first_ms))
