"""Data of the MCP client: the server to reach, what it offers, and events.

Frozen. Reprs never show values of the environment, headers or tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from aish.net.framing import DEFAULT_MAX_BYTES
from aish.types.tools import JsonSchema

if TYPE_CHECKING:
    from pathlib import Path

Protocol = Literal["auto", "legacy", "2026-07-28"]
Phase = Literal["spawn", "initialize", "list", "call", "shutdown"]
Listed = Literal["tools", "resources", "prompts", "skills"]
SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
SKILL_FILE = "SKILL.md"


class ServerSpec(msgspec.Struct, frozen=True):
    """One server: a `command` to start, or a `url` to reach.

    `protocol`: "auto" tries the handshake (2024-11-05 to 2025-11-25) and then the stateless 2026-07-28; the others use
    only one of them.
    """

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    inherit: tuple[str, ...] = ()  # patterns of further variables to inherit from our own environment
    cwd: Path | None = None
    url: str = ""
    token: str = ""  # sent as a bearer token
    headers: Mapping[str, str] = {}
    only: tuple[str, ...] = ()  # patterns that redirects must match, besides the origin; () requires only the origin
    protocol: Protocol = "auto"
    start_timeout_s: float = 30.0  # for the start, and again for the handshake: `npx` may have to download it
    list_timeout_s: float = 30.0  # for all pages together
    call_timeout_s: float = 60.0
    close_wait_s: float = 2.0  # for exiting after its input is closed, and again after SIGTERM
    max_message_bytes: int = DEFAULT_MAX_BYTES
    max_in_flight: int = 64
    max_tools: int = 2000  # more than any model can be offered; a longer list is an attack or an accident

    def __repr__(self) -> str:
        where = f"command=({self.command[0]!r}, +{len(self.command) - 1})" if self.command else "url=…"
        return f"ServerSpec({self.name!r}, {where}, env=[{','.join(sorted(self.env))}])"

    def secrets(self) -> tuple[str, ...]:
        """Values that no message may show."""
        query = self.url.partition("?")[2].split("&") if "?" in self.url else []
        login = self.url.partition("://")[2].partition("/")[0].rpartition("@")[0]
        in_url = (login, login.partition(":")[2], *(pair.partition("=")[2] for pair in query))
        bare = (value.partition(" ")[2] for value in self.headers.values())  # the key in "Bearer key"
        return tuple(
            value for value in (self.token, *self.env.values(), *self.headers.values(), *bare, *in_url) if value
        )


class McpTool(msgspec.Struct, frozen=True):
    """A tool as described by its server, made safe. The hints are the server's claims: never trust them alone."""

    name: str
    description: str
    schema: JsonSchema
    title: str = ""
    read_only: bool = False
    destructive: bool = True
    open_world: bool = True
    output_schema: JsonSchema | None = None
    header_params: tuple[tuple[tuple[str, ...], str], ...] = ()  # arguments that 2026-07-28 copies into headers


class McpResource(msgspec.Struct, frozen=True):
    uri: str
    name: str = ""
    description: str = ""
    media_type: str = ""


class McpSkill(msgspec.Struct, frozen=True):
    """An Agent Skill that a server publishes. `uri` is that of its `SKILL.md`; `digests` has the SHA-256 of each file,
    by its path in the skill."""

    uri: str
    name: str
    description: str = ""
    digests: Mapping[str, str] = {}

    @property
    def files(self) -> list[str]:
        return [path for path in self.digests if path != SKILL_FILE]


class PromptArgument(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    required: bool = False


class McpPrompt(msgspec.Struct, frozen=True):
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ServerFacts(msgspec.Struct, frozen=True):
    """What a server said about itself in the handshake. `instructions` are untrusted text."""

    protocol_version: str
    name: str = ""
    version: str = ""
    instructions: str = ""
    capabilities: Mapping[str, object] = {}

    def offers(self, what: Listed) -> bool:
        if what == "skills":
            extensions = self.capabilities.get("extensions")
            return isinstance(extensions, dict) and SKILLS_EXTENSION in extensions
        return what in self.capabilities

    def announces_changes(self) -> bool:
        return any(self.announces(what) for what in self.capabilities)

    def announces(self, what: str) -> bool:
        """Whether the server announces changes of this list."""
        offered = self.capabilities.get(what)
        return isinstance(offered, dict) and offered.get("listChanged") is True


class ServerWarning(msgspec.Struct, frozen=True):
    """A problem worth showing to the user; nothing has failed."""

    server: str
    text: str


class ListChanged(msgspec.Struct, frozen=True):
    """The server says that a list has changed. It was not read again yet."""

    server: str
    what: Listed


class ServerLog(msgspec.Struct, frozen=True):
    """A line that the server wants logged. Redacted, untrusted."""

    server: str
    level: str
    text: str


SessionEvent = ServerWarning | ListChanged | ServerLog
OnEvent = Callable[[SessionEvent], None]
OnStatus = Callable[[str], None]
