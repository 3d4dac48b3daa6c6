"""The composition root: builds the engine and its adapters from the configuration. Only this package names adapters."""

from aish.app.container import launch_context, runtime, serving_runtime

__all__ = ["launch_context", "runtime", "serving_runtime"]
