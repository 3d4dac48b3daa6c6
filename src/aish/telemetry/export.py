"""Sends spans and metrics to an OTLP/HTTP endpoint. Imported only if one is configured, and only in the telemetry
thread.

OpenTelemetry's own processors batch and send in their own threads, with bounded queues. A failure is logged once, and
again when it is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from aish import __version__
from aish.telemetry.genai import GenAi, Instruments

log = logging.getLogger(__name__)

_SEND_S = 5.0
_MAX_SPANS = 4096  # that wait to be sent; further ones are dropped
_SPANS_EVERY_MS = 2_000
_FIGURES_EVERY_MS = 30_000


class OtlpSink:
    """Implements `tap.Sink`. `endpoint` is the base: `/v1/traces` and `/v1/metrics` are below it."""

    def __init__(
        self, endpoint: str, *, headers: Mapping[str, str], service: str, content: bool, redact: Callable[[str], str]
    ) -> None:
        # It logs every failure in several places; `_FailureLogger` logs it once.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        base = endpoint.rstrip("/")
        resource = Resource.create({"service.name": service, "service.version": __version__})
        spans = OTLPSpanExporter(f"{base}/v1/traces", headers=dict(headers), timeout=_SEND_S)
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._tracers.add_span_processor(
            BatchSpanProcessor(
                _FailureLogger(spans, base), max_queue_size=_MAX_SPANS, schedule_delay_millis=_SPANS_EVERY_MS
            )
        )
        figures = OTLPMetricExporter(f"{base}/v1/metrics", headers=dict(headers), timeout=_SEND_S)
        reader = PeriodicExportingMetricReader(figures, export_interval_millis=_FIGURES_EVERY_MS)
        self._meters = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        tracer, meter = self._tracers.get_tracer("aish", __version__), self._meters.get_meter("aish", __version__)
        self._genai = GenAi(Instruments(tracer, meter, content=content, redact=redact))

    def add(self, lines: bytes) -> None:
        self._genai.add(lines)

    def close(self) -> None:
        self._tracers.shutdown()
        self._meters.shutdown(timeout_millis=_SEND_S * 1000)


class _FailureLogger(SpanExporter):
    """Logs when sending begins to fail, and when it works again."""

    def __init__(self, inner: SpanExporter, endpoint: str) -> None:
        self._inner = inner
        self._endpoint = endpoint
        self._fails = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        fails = result is not SpanExportResult.SUCCESS
        if fails and not self._fails:
            log.warning("telemetry cannot be sent to %s; what does not fit until it can is left out", self._endpoint)
        elif self._fails and not fails:
            log.warning("telemetry is sent to %s again", self._endpoint)
        self._fails = fails
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)
