"""The composition root: from configuration to an engine. Only this package names concrete adapters."""

from aish.app.container import runtime, serving_runtime, surroundings

__all__ = ["runtime", "serving_runtime", "surroundings"]
