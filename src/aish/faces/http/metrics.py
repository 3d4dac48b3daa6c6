"""What the server counts, in the form Prometheus reads. Labels have few values: nothing a client sends becomes one
unless it names something of ours."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from aish.faces.http.logs import note_turn
from aish.faces.http.series import Series
from aish.types.events import (
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
from aish.types.tools import Repair
from aish.types.usage import Usage

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_RATES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_ROUNDS = (1, 2, 3, 4, 6, 8, 12, 16, 32)
_MOST_MODELS = 100  # more names than this are counted as "other"
_MOST_TOOLS = 300  # the same of tools: MCP servers bring any number
# What the engine and the providers tell the user when they ask again: the events have no other sign of it.
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
    """`together`: several processes count, and each answers for all."""

    def __init__(self, *, together: bool = False) -> None:
        self._together = together
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"aish_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(f"aish_{name}", text, labels, buckets=buckets, registry=registry)

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
        self.call_repairs = counter("call_repairs", "What was mended in tool calls before they ran.", "kind")
        self.left_out = counter("turns_left_out", "Turns left out of requests because they did not fit.", "model")
        self.under_way = Gauge(
            "aish_requests_under_way", "Requests being answered.", registry=registry, multiprocess_mode="livesum"
        )
        self.mcp_servers = Gauge(
            "aish_mcp_servers", "MCP servers, by state.", ["state"], registry=registry, multiprocess_mode="livemax"
        )
        self.series = Series()
        self._of_models: dict[str, ModelMeters] = {}
        self._tools: set[str] = set()
        self._of_requests: dict[tuple[str, int], Counter] = {}

    def count_request(self, route: str, status: int) -> None:
        counter = self._of_requests.get((route, status))
        if counter is None:
            counter = self._of_requests[route, status] = self.requests.labels(route, str(status))
        counter.inc()

    def page(self) -> bytes:
        if not self._together:
            return generate_latest(self.registry)
        everybody = CollectorRegistry()
        MultiProcessCollector(everybody)  # type: ignore[no-untyped-call]
        return generate_latest(everybody)

    def of_tool(self, tool: str, status: str) -> Counter:
        if tool not in self._tools:
            if len(self._tools) >= _MOST_TOOLS:
                tool = "other"
            self._tools.add(tool)
        return self.tool_calls.labels(tool, status)

    def of_model(self, model: str) -> ModelMeters:
        known = self._of_models.get(model)
        if known is None:
            if len(self._of_models) >= _MOST_MODELS:
                model = "other"
            known = self._of_models.setdefault(model, ModelMeters(self, model))
        return known


class ModelMeters:
    """The counters of one model, looked up once."""

    def __init__(self, metrics: Metrics, model: str) -> None:
        self.first_token = metrics.first_token.labels(model)
        self.token_rate = metrics.token_rate.labels(model)
        self.rounds = metrics.rounds.labels(model)
        self.tokens_in = metrics.tokens.labels(model, "in")
        self.tokens_out = metrics.tokens.labels(model, "out")
        self.cost = metrics.cost.labels(model)
        self.broken_streams = metrics.broken_streams.labels(model)
        self.retries = {kind: metrics.retries.labels(model, kind) for kind in ("fallback", "form")}
        self.left_out = metrics.left_out.labels(model)
        self.ends = {end: metrics.turns.labels(model, end.value) for end in TurnEnd}


class TurnMeter:
    """Looks at one turn's events as they pass."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._model: ModelMeters | None = None
        self._began_s = time.monotonic()
        self._first_s: float | None = None
        self._steps = 0
        self.usage = Usage()

    def see(self, events: Sequence[Event]) -> None:
        if self._first_s is not None and isinstance(events[0].body, TextDelta):
            return  # nearly every batch
        for event in events:
            body = event.body
            if isinstance(body, _WORDS):
                if self._first_s is None:
                    self._token()
            elif isinstance(body, TurnStarted):
                self._model = self._metrics.of_model(body.model)
                note_turn(event.session, event.turn)
            elif isinstance(body, StepStarted):
                self._steps += 1
            elif isinstance(body, ToolResult):
                tool = body.name if body.effect else "unknown"
                self._metrics.of_tool(tool, body.status.value).inc()
                self._metrics.series.count_tool_call()
                self._repaired(body.repairs)
            elif isinstance(body, ToolCallReady):
                self._repaired(body.repairs)
            elif isinstance(body, UsageReported):
                if body.left_out and self._model is not None:
                    self._model.left_out.inc(body.left_out)
            elif isinstance(body, Status) and not event.call:
                self._asked_again(body.text)
            elif isinstance(body, TurnFinished):
                self._finished(body)

    def _token(self) -> None:
        if self._model is not None:
            self._first_s = time.monotonic()
            self._model.first_token.observe(self._first_s - self._began_s)
            self._metrics.series.add_first_token(self._first_s - self._began_s)

    def _asked_again(self, said: str) -> None:
        kind = next((kind for words, kind in _ASKED_AGAIN if words in said), "")
        if kind and self._model is not None:
            self._model.retries[kind].inc()

    def _repaired(self, repairs: tuple[Repair, ...] | msgspec.UnsetType) -> None:
        for repair in repairs or ():
            self._metrics.call_repairs.labels(repair.kind.value).inc()

    def _finished(self, body: TurnFinished) -> None:
        self.usage = usage = body.usage
        self._metrics.series.count_turn(usage)
        model = self._model
        if model is None:
            return
        model.ends[body.reason].inc()
        model.rounds.observe(self._steps)
        model.tokens_in.inc(usage.prompt_tokens)
        model.tokens_out.inc(usage.completion_tokens)
        if usage.cost:
            model.cost.inc(usage.cost)
        if body.reason is TurnEnd.FAILED and self._first_s is not None:
            model.broken_streams.inc()
        elapsed_s = time.monotonic() - (self._first_s or self._began_s)
        if self._first_s is not None and usage.completion_tokens and elapsed_s > 0:
            model.token_rate.observe(usage.completion_tokens / elapsed_s)
