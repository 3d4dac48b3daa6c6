"""The facts about a model, and the agents that answer in its place. Differences between backends are data here, never
`isinstance`."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property

import msgspec

from aish.types.decisions import Mode
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


# A model name of this form answers as the agent.
AGENT_MODEL = "agent:"
# An agent may start agents, and these no further ones.
MAX_AGENT_DEPTH = 2


class AgentDefinition(msgspec.Struct, frozen=True):
    """`tools` are globs; without any it only reads. `model` "" is that of its caller. `mode` and `max_steps` can only
    narrow what the caller has left. `origin` says where the definition comes from."""

    name: str
    description: str
    instructions: str = ""
    tools: tuple[str, ...] = ()
    model: str = ""
    mode: Mode | None = None
    max_steps: int | None = None
    origin: str = ""

    @property
    def only_reads(self) -> bool:
        return not self.tools or self.mode is Mode.PLAN


def agent_of(model: str) -> str:
    """The name of the agent that a model name means, "" if it means none."""
    return model.removeprefix(AGENT_MODEL) if model.startswith(AGENT_MODEL) else ""
