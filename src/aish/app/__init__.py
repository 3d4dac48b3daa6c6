"""The composition root: builds the engine and its adapters from the configuration. Only this package names adapters."""

from aish.app.container import process_environment, runtime, serving_runtime

__all__ = ["process_environment", "runtime", "serving_runtime"]
