"""The facts about a model. Differences between backends are data here, never `isinstance`."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

import msgspec

from aish.types.requests import Sampling, ToolMode


class Constraint(StrEnum):
    """Kinds of constrained output a backend can promise."""

    JSON_SCHEMA = "json_schema"
    GRAMMAR = "grammar"
    FORMAT = "format"  # Ollama's field


class Capabilities(msgspec.Struct, frozen=True):
    native_tools: bool = True
    constrained: frozenset[Constraint] = frozenset()
    tokenize: bool = False
    vision: bool = False
    embeddings: bool = False
    tool_adapter: bool = False  # an adapter that was trained to choose tools


def is_model_file_name(model: str) -> bool:
    """Whether the embedded provider takes it for a file: with a separator in it, or the suffix of a model file."""
    return "/" in model or "\\" in model or model.endswith(".gguf")


class ModelProfile(msgspec.Struct, frozen=True, dict=True):
    """All that is known of a model, asked here and nowhere else: its window, its capabilities (tools, constrained
    output, vision), and whether it is weak. `context_size` and `parameters` are what the backend said, or None: never
    assumed."""

    provider: str
    id: str
    context_size: int | None = None
    capabilities: Capabilities = Capabilities()
    parameters: int | None = None

    @cached_property
    def name(self) -> str:
        return f"{self.provider}:{self.id}"

    @cached_property
    def is_weak(self) -> bool:
        """Known to have less than a billion parameters: such models call tools for everything and repeat themselves."""
        return self.parameters is not None and self.parameters < 1_000_000_000

    @cached_property
    def is_small(self) -> bool:
        """Known to have less than 14 billion parameters: such models call a tool that they see rather than searching
        for the one that they need."""
        return self.parameters is not None and self.parameters < 14_000_000_000


class Preset(msgspec.Struct, frozen=True):
    """A name for a model with options. A value that is None or empty leaves the model's own setting."""

    model: str
    system: str = ""
    sampling: Sampling = Sampling()
    tool_mode: ToolMode = "auto"
    use_tool_role: bool | None = None
    context_size: int | None = None
