"""An OTLP/HTTP collector in this process: it takes what is sent, and can tell what that was."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Sent(NamedTuple):
    name: str
    id: bytes
    parent: bytes
    trace: bytes
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    failed: bool
    service: str


class Collector:
    """`status` is what it answers with."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.status = 200
        self.requests: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def spans(self) -> list[Sent]:
        found = []
        for path, _, body in list(self.requests):
            if path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    service = _values(resource.resource.attributes)["service.name"]
                    found += [_sent(span, service) for scope in resource.scope_spans for span in scope.spans]
        return found

    @property
    def figures(self) -> dict[str, list[tuple[dict[str, Any], int, float]]]:
        """By name: attributes, how many and their sum. The newest of each."""
        found: dict[str, list[tuple[dict[str, Any], int, float]]] = {}
        for path, _, body in list(self.requests):
            if path == "/v1/metrics":
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                        points = metric.histogram.data_points
                        found[metric.name] = [(_values(p.attributes), p.count, p.sum) for p in points]
        return found


def _sent(span: Any, service: str) -> Sent:
    return Sent(
        span.name,
        span.span_id,
        span.parent_span_id,
        span.trace_id,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _values(span.attributes),
        span.status.code == 2,
        service,
    )


def _values(attributes: Any) -> dict[str, Any]:
    values = {}
    for pair in attributes:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        values[pair.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    return values


@contextmanager
def otlp_collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            collector.requests.append((self.path, dict(self.headers.items()), body))
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
