"""OpenTelemetry traces and metrics, made from recorded events. Off unless an endpoint is configured."""
