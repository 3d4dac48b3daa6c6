"""Makes the store that the configuration chooses, with telemetry if an endpoint is configured.

Each kind of store, and telemetry, is imported only when it is chosen.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from aish.errors import ConfigError
from aish.ports import Store

if TYPE_CHECKING:
    from aish.config.schema.config import StoreConfig
    from aish.config.schema.telemetry import TelemetryConfig


def make_store(config: StoreConfig) -> Store:
    """Opens nothing: a store opens at its first use."""
    if not config.enabled:
        from aish.storage.memory import MemoryStore

        return MemoryStore()
    if config.url:
        from aish.storage.postgres.store import PostgresStore

        return PostgresStore(config.url.reveal())
    from aish.storage.sqlite.store import SqliteStore

    return SqliteStore(Path(config.path))


def add_telemetry(store: Store, config: TelemetryConfig, redact: Callable[[str], str]) -> Store:
    """The store, tapped for telemetry if an endpoint is configured. Raises ConfigError if OpenTelemetry is missing."""
    if not config.otlp_endpoint:
        return store
    if importlib.util.find_spec("opentelemetry") is None:
        raise ConfigError(
            "telemetry.otlp_endpoint needs the extra otel",
            hint="pip install 'aish-runtime[otel]', or leave the endpoint out",
        )
    from aish.telemetry.tap import Sink, Telemetry, tap_store

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

    return tap_store(store, Telemetry(make))
