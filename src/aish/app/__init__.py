"""The composition root: from configuration to an engine. Only this package names concrete adapters."""

from aish.app.container import process_environment, runtime, serving_runtime

__all__ = ["process_environment", "runtime", "serving_runtime"]
