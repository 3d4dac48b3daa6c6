"""Settings for telemetry and for the log."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from aish.config.schema.secret import Secret
from aish.config.schema.section import Section, UrlOrUnset


class TelemetryConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Traces and figures for OpenTelemetry, by its conventions for generative AI. Needs the extra `otel`."""

    otlp_endpoint: Annotated[
        UrlOrUnset, Meta(description="Where they are sent (OTLP over HTTP), such as `http://127.0.0.1:4318`.")
    ] = ""
    headers: Annotated[
        dict[str, Secret], Meta(description="HTTP headers to send along, such as a key. Their values are never shown.")
    ] = {}
    service_name: Annotated[str, Meta(min_length=1, description="The service name that is reported.")] = "aish"
    content: Annotated[
        bool,
        Meta(description="Whether questions, answers, tool arguments and tool results are sent, too. Off by default."),
    ] = False


class LogConfig(Section, frozen=True, forbid_unknown_fields=True):
    """What `aish serve` writes to stderr."""

    format: Annotated[
        Literal["text", "json"], Meta(description="Lines to read, or one JSON object on each for a collector.")
    ] = "text"
    level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Meta(description="The lowest level that is written. `info` writes a line for every request."),
    ] = "warning"
