"""The store with telemetry beside it, where an endpoint is configured. Where none is, nothing of it is imported."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from aish.config.schema.telemetry import TelemetryConfig
from aish.errors import ConfigError
from aish.ports import Store


def observed(store: Store, config: TelemetryConfig, redact: Callable[[str], str]) -> Store:
    """Raises ConfigError where what it needs is not installed."""
    if not config.otlp_endpoint:
        return store
    if importlib.util.find_spec("opentelemetry") is None:
        raise ConfigError(
            "telemetry.otlp_endpoint needs the extra otel",
            hint="pip install 'aish-runtime[otel]', or leave the endpoint out",
        )
    from aish.telemetry.tap import Sink, Telemetry, tapped

    headers = {name: secret.reveal() for name, secret in config.headers.items()}

    def make() -> Sink:
        from aish.telemetry.export import OtlpSink

        return OtlpSink(
            config.otlp_endpoint,
            headers=headers,
            service=config.service_name,
            content=config.content,
            redact=redact,
        )

    return tapped(store, Telemetry(make))
