"""The composition root: from configuration to an engine. Only this package names concrete adapters."""

from aish.wiring.wired import runtime, serving_runtime, surroundings

__all__ = ["runtime", "serving_runtime", "surroundings"]
