"""What a frontend is given to work with. `app` fills it; nothing in it is opened before it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from aish.autonomy.destructive_check import Containment
from aish.config.load import Loaded
from aish.config.schema.config import Config
from aish.engine.engine import Engine
from aish.errors import AishError
from aish.ports import Provider, Store, Toolset
from aish.safety.commands import ShellContext
from aish.safety.policy.gate import Judgement
from aish.types.command_hints import CommandHint
from aish.types.dynamic_mcp import GuestServer, GuestView
from aish.types.live_shell import Completions, RunResult, WordKind
from aish.types.messages import Message
from aish.types.tools import Arguments, ToolOutput, ToolSpec


class ProcessEnvironment(msgspec.Struct, frozen=True):
    """The process's own: where it stands and what its environment says. Values never show in its repr."""

    cwd: Path
    env: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ProcessEnvironment({str(self.cwd)!r})"


class Progress(Protocol):
    """How far a pull has come. `total` None means unknown."""

    @property
    def phase(self) -> str: ...

    @property
    def done(self) -> int: ...

    @property
    def total(self) -> int | None: ...


class CachedModel(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def path(self) -> Path: ...

    @property
    def size(self) -> int: ...


class ModelStore(Protocol):
    """Models on this machine for the embedded provider."""

    def list(self) -> Sequence[CachedModel]: ...

    def find(self, name: str) -> Path | None: ...

    def remove(self, name: str) -> None:
        """Raises ModelNotFound."""


class McpSession(Protocol):
    """What a ready MCP server can be asked besides calling its tools."""

    async def list_resources(self) -> Sequence[Any]: ...

    async def read_resource(self, uri: str) -> ToolOutput: ...

    async def list_prompts(self) -> Sequence[Any]: ...

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None) -> Sequence[Message]: ...


class BroughtTools(Protocol):
    """The tools of MCP servers that a request has brought: `name` is what a TurnRequest calls them. They are there for
    as long as this is held."""

    @property
    def name(self) -> str: ...


class McpServerView(Protocol):
    """An MCP server as a frontend sees it: `state` is connecting, ready, failed or closed."""

    @property
    def state(self) -> str: ...

    @property
    def failure(self) -> AishError | None: ...

    @property
    def log(self) -> Sequence[str]: ...

    @property
    def session(self) -> McpSession: ...

    @property
    def transport(self) -> str:
        """`http` or `stdio`."""

    def specs(self) -> Sequence[ToolSpec]: ...

    async def refresh(self) -> int: ...


class KeptEdit(Protocol):
    """An edit of files that can be taken back."""

    @property
    def id(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def made_ms(self) -> int: ...

    @property
    def paths(self) -> Sequence[str]: ...


class LiveShell(Protocol):
    """The person's own shell, kept alive: their lines and the model's run in it, one at a time."""

    exited: asyncio.Event
    exit_code: int | None

    @property
    def cwd(self) -> str: ...

    @property
    def jobs(self) -> int: ...

    @property
    def editing(self) -> str:
        """`emacs` or `vi`."""

    def resolve(self, word: str) -> WordKind | None:
        """What the first word of a line is; quick enough for every key."""

    async def refresh(self, timeout_s: float = 2.0) -> None:
        """Learn the aliases, functions and programs of now."""

    async def complete(self, line: str, cursor: int, *, timeout_s: float = 1.0) -> Completions: ...

    async def run_user(self, line: str, terminal: int | None) -> RunResult:
        """The terminal belongs to it until the shell waits again."""


class Runtime(Protocol):
    @property
    def process_environment(self) -> ProcessEnvironment: ...

    @property
    def loaded(self) -> Loaded: ...

    @property
    def config(self) -> Config: ...

    @property
    def notices(self) -> Sequence[str]: ...

    @property
    def store(self) -> Store: ...

    @property
    def model_cache(self) -> ModelStore: ...

    @property
    def mcp_servers(self) -> Mapping[str, McpServerView]:
        """Those of the engine that is open."""

    async def mcp_settled(self, timeout_s: float, names: Sequence[str] = ()) -> Sequence[str]:
        """Waits until each server (or each named) can be used or is known not to be; those still connecting."""

    async def connect_mcp(self, name: str, target: str) -> str:
        """A server by URL or by command line, for this run; "" makes a name. Returns when it is ready or has failed."""

    async def disconnect_mcp(self, name: str) -> None: ...

    async def reconnect_mcp(self, name: str) -> None:
        """One that is there, or is configured, from the beginning. Returns when it is ready or has failed."""

    @property
    def mcp_guests(self) -> Sequence[GuestView]:
        """Those that requests have brought, as long as they are connected."""

    async def bring_mcp(self, wanted: Sequence[GuestServer]) -> BroughtTools:
        """Connects to MCP servers that a request names by URL, or finds them connected for the same asker. Raises
        GuestRefused and GuestFailed."""

    @property
    def shell_context(self) -> ShellContext:
        """What the command classifier is told of where commands run."""

    @property
    def containment(self) -> Containment:
        """What holds the commands of a model here."""

    def chosen_command(self, command: str) -> AbstractContextManager[None]:
        """While it is open, `shell__run` runs this very command in the live shell itself, since the person chose it,
        unless the sandbox is demanded. Every other command of a model runs in a copy of that shell."""

    async def describe_sandbox(self) -> str:
        """What fences in the commands of a model here."""

    def describe_languages(self) -> Sequence[tuple[str, bool, str]]:
        """For each language: whether a server answers for it here, and where that is or how to get one."""

    async def undo_edit(self, id: str = "") -> str:
        """Takes back the last edit of the tools for code, or that one; says what was. Raises AishError."""

    async def list_undoable(self) -> Sequence[KeptEdit]:
        """Edits that can be taken back, newest first."""

    def explain(self, tool: str, arguments: Arguments) -> Judgement:
        """What the gate would say of a call."""

    @property
    def can_embed(self) -> bool:
        """Whether the embedded engine is installed."""

    async def pull(self, name_or_url: str, report: Callable[[Progress], None]) -> CachedModel:
        """Fetch a model into the cache of models."""

    def engine(
        self, *, mcp: Sequence[str] | None = None, serving: bool = False, shared: bool = False
    ) -> AbstractAsyncContextManager[Engine]:
        """Open for the length of the context; everything it started is closed on leaving.

        `mcp` names the MCP servers to connect, of those configured; None connects all. `serving`: for programs, which
        bring their own words for the model, rather than for a person at a terminal. `shared`: other processes answer in
        the same sessions.
        """

    def engine_in(self, folder: Path, base: Engine, more: Mapping[str, Toolset]) -> Engine:
        """An engine with the models and the store of `base`, whose local tools work in another folder, with more tools
        beside them. It asks the model it is told to and no other, and adds nothing known of the user or the project.
        It needs no closing: everything it holds is of `base`, or ends with each call."""

    def redacted(self, text: str) -> str:
        """Without known secrets."""

    def reloaded(self) -> Runtime:
        """The same anew, from what the configuration says now. ConfigError leaves this one as it is."""

    def live_shell(
        self, *, on_output: Callable[[bytes], None], on_notice: Callable[[str], None]
    ) -> AbstractAsyncContextManager[LiveShell]:
        """Open for the length of the context. Meanwhile the model's commands run in copies of it. POSIX only.

        `on_output` hears what jobs print while no line runs.
        """

    async def find_commands(self, question: str, limit: int = 5) -> Sequence[CommandHint]:
        """Programs that may do what is asked for: those of this machine that fit best, then what could be installed."""

    def load_for_turns(self) -> None:
        """Load what the first turn needs, in whatever thread, while nobody waits for it."""

    def discover(self) -> Awaitable[Sequence[Provider]]:
        """Look for running local servers."""
