"""What Python extensions offer, as data: sources, and the tools, commands and hooks that a source defines."""

from __future__ import annotations

import msgspec

from aish.types.decisions import HookPoint
from aish.types.tools import Effect, JsonSchema, ToolSpec

# The revision of a source that may not run, because it has changed since the user trusted it.
BLOCKED = "blocked"


class PythonSource(msgspec.Struct, frozen=True):
    """A piece of Python that defines tools: a file with exactly this content, or an installed module.

    `owner` is the extension that it belongs to, and the first part of its tools' names. `revision` is the SHA-256 of
    the file, or what is known of the version of the module.
    """

    owner: str
    path: str = ""
    module: str = ""
    revision: str = ""

    @property
    def title(self) -> str:
        return self.module or self.path


class ToolEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool without its function."""

    name: str
    description: str
    schema: JsonSchema
    effect: Effect = Effect.EXEC
    timeout_s: float = 60.0
    concurrency: int = 0
    output_schema: JsonSchema | None = None

    def to_spec(self, source: str) -> ToolSpec:
        return ToolSpec(
            name=self.name,
            description=self.description,
            schema=self.schema,
            effect=self.effect,
            source=source,
            timeout_s=self.timeout_s,
            concurrency=self.concurrency,
            output_schema=self.output_schema,
        )


class CommandEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command without its function. `usage` names its arguments."""

    name: str
    help: str
    usage: str = ""


class HookEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hook without its function. `tools` are globs of the tools that it is for."""

    name: str
    point: HookPoint
    tools: tuple[str, ...] = ("*",)


class Manifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one source defines. `problem` says why it could not be read; then it defines nothing."""

    tools: tuple[ToolEntry, ...] = ()
    commands: tuple[CommandEntry, ...] = ()
    hooks: tuple[HookEntry, ...] = ()
    settings: JsonSchema | None = None
    problem: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.tools or self.commands or self.hooks or self.problem)
