"""The protocols of what `app` gives to a frontend. Nothing is opened before it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from aish.agents.roster import AgentRoster
from aish.autonomy.destructive_check import Containment
from aish.config.frontmatter import MarkdownEntry
from aish.config.instructions import InstructionFile
from aish.config.load import LoadedConfig
from aish.config.prompt_files import PromptFile
from aish.config.schema.config import Config
from aish.config.skills import SkillFile
from aish.engine.engine import Engine
from aish.errors import AishError
from aish.frontends.extension_view import ExtensionView
from aish.ports import Ask, Provider, Store, Toolset
from aish.safety.commands import ShellContext
from aish.safety.policy.judgement import Judgement
from aish.types.decisions import Decision
from aish.types.live_shell import CommandHint, Completions, HistorySettings, RunResult, WordKind
from aish.types.messages import Message
from aish.types.tools import Arguments, DynamicMcpServer, DynamicMcpView, ToolOutput, ToolSpec


class LaunchContext(msgspec.Struct, frozen=True):
    """The working directory and the environment variables that aish runs with. The repr shows no values."""

    cwd: Path
    env: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LaunchContext({str(self.cwd)!r})"


class Progress(Protocol):
    """The progress of a download. `total` None means unknown."""

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
    """The downloaded models of the embedded provider."""

    def list(self) -> Sequence[CachedModel]: ...

    def find(self, name: str) -> Path | None: ...

    def remove(self, name: str) -> None:
        """Raises ModelNotFound."""

    async def verify(self, path: Path, *, anew: bool = False) -> None:
        """Raises ProviderRejected if the file is not the one that was pulled."""

    async def trust(self, name: str) -> CachedModel:
        """Records the hash of a file that was put there by hand. Raises ModelNotFound."""


class McpSession(Protocol):
    """The requests to a ready MCP server besides tool calls."""

    async def list_resources(self) -> Sequence[Any]: ...

    async def read_resource(self, uri: str) -> ToolOutput: ...

    async def list_prompts(self) -> Sequence[Any]: ...

    async def get_prompt(self, name: str, arguments: dict[str, str] | None = None) -> Sequence[Message]: ...


class DynamicMcpTools(Protocol):
    """The tools of MCP servers that an API request named by URL. A TurnRequest refers to them by `name`. They are
    available as long as this object is referenced."""

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


class UndoableEdit(Protocol):
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
    """The user's own bash, kept alive between commands. Lines run in it one at a time."""

    exited: asyncio.Event
    exit_code: int | None

    @property
    def cwd(self) -> str: ...

    @property
    def jobs(self) -> int: ...

    @property
    def editing(self) -> str:
        """`emacs` or `vi`."""

    @property
    def ps1(self) -> str:
        """The user's PS1 as bash shows it, if the prompt has it."""

    @property
    def venv(self) -> str:
        """The name of the active virtual environment, or ""."""

    @property
    def editor(self) -> str:
        """The command in the user's VISUAL or EDITOR, or ""."""

    @property
    def history_settings(self) -> HistorySettings: ...

    def resolve(self, word: str) -> WordKind | None:
        """The kind of the first word of a line, or None. Fast enough to call at every key."""

    def names(self) -> frozenset[str]:
        """Every first word that it knows: names of programs, functions, aliases and builtins."""

    def exists(self, path: str) -> bool:
        """Whether there is such a file, seen from its directory."""

    async def ready(self) -> None:
        """Waits until it can take a line."""

    async def refresh(self, timeout_s: float = 2.0) -> None:
        """Learns the current aliases, functions and programs."""

    async def complete(self, line: str, cursor: int, *, timeout_s: float = 1.0) -> Completions: ...

    async def run_user(
        self, line: str, terminal: int | None, *, may_exit: bool = True, is_own: bool = False
    ) -> RunResult:
        """Runs a line, which has the terminal until the shell waits for the next one. `may_exit`: an `exit` in it ends
        the live shell; otherwise another bash takes over. `is_own`: it is in no history and leaves `$?` as it was."""


class WorkspaceChoice(Protocol):
    """Which folder models work in. It moves between two turns only."""

    @property
    def folder(self) -> Path: ...

    @property
    def before(self) -> Path | None:
        """The workspace before this one."""

    @property
    def is_pinned(self) -> bool:
        """Whether it stays although the user goes elsewhere."""

    @property
    def loaded(self) -> LoadedConfig:
        """The settings that hold in it."""

    async def follow(self, cwd: Path) -> Path | None:
        """Moves to the project that the user is in now. Returns the workspace before; None if it stays. Raises
        ConfigError if the settings there cannot be used; then it stays."""

    async def choose(self, folder: Path, cwd: Path) -> None:
        """Moves to a folder. It stays the workspace until the user, who is in `cwd` now, has been in it and leaves
        it. Raises UsageError and ConfigError."""

    def pin(self, *, on: bool) -> None: ...


class Runtime(Protocol):
    @property
    def workspaces(self) -> WorkspaceChoice: ...

    @property
    def launch_context(self) -> LaunchContext: ...

    @property
    def loaded(self) -> LoadedConfig: ...

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
        """The MCP servers of the engine that is open."""

    async def wait_for_mcp(self, timeout_s: float, names: Sequence[str] = ()) -> Sequence[str]:
        """Waits until each server (or each named one) is ready or has failed. Returns those that still connect."""

    async def connect_mcp(self, name: str, target: str) -> str:
        """Connects a server by URL or command line, for this run. "" makes a name. Returns when it is ready or has
        failed."""

    async def disconnect_mcp(self, name: str) -> None: ...

    async def reconnect_mcp(self, name: str) -> None:
        """Connects a known or configured server again. Returns when it is ready or has failed."""

    @property
    def dynamic_mcp_servers(self) -> Sequence[DynamicMcpView]:
        """The connected MCP servers that API requests named by URL."""

    async def connect_dynamic_mcp(self, wanted: Sequence[DynamicMcpServer]) -> DynamicMcpTools:
        """Connects to MCP servers that an API request names by URL. A connection of the same caller is reused. Raises
        DynamicMcpRefused and DynamicMcpFailed."""

    @property
    def shell_context(self) -> ShellContext:
        """Where commands run, for the command classifier."""

    @property
    def containment(self) -> Containment:
        """The sandbox for a model's commands, as autonomous work sees it."""

    async def describe_sandbox(self) -> str:
        """Describes the sandbox that a model's commands run in."""

    @property
    def extensions(self) -> ExtensionView:
        """The Python extensions of the engine that is open."""

    def describe_languages(self) -> Sequence[tuple[str, bool, str]]:
        """For each language: its name, whether a language server is available, and where it is or how to get one."""

    async def undo_edit(self, id: str = "") -> str:
        """Takes back the last edit of the code tools, or the one named. Returns a description of it. Raises
        AishError."""

    async def list_undoable(self) -> Sequence[UndoableEdit]:
        """The edits that can be taken back, newest first."""

    def explain(self, tool: str, arguments: Arguments) -> Judgement:
        """What the gate would decide about a call."""

    async def authorise_command(self, command: str, ask: Ask) -> Decision:
        """The gate's decision about a command that a model proposed and the user wants to run in the live shell. `ask`
        answers its questions. Raises AishError if the gate fails; then nothing may run."""

    @property
    def can_embed(self) -> bool:
        """Whether the embedded engine is installed."""

    async def pull(
        self, name_or_url: str, report: Callable[[Progress], None], *, sha256: str = "", trust: bool = False
    ) -> CachedModel:
        """Downloads a model."""

    def engine(
        self, *, mcp: Sequence[str] | None = None, serving: bool = False, shared: bool = False
    ) -> AbstractAsyncContextManager[Engine]:
        """Opens an engine; everything it has started is closed on leaving.

        `mcp` names the configured MCP servers to connect; None connects all. `serving`: for API clients, which send
        their own system text, rather than for a user at a terminal. `shared`: other processes answer in the same
        sessions.
        """

    def unstored_engine(self) -> Engine:
        """An engine like the one that is open, but one that keeps nothing, for when the store cannot be written. It
        needs no closing."""

    def engine_in(self, folder: Path, base: Engine, more: Mapping[str, Toolset]) -> Engine:
        """An engine with the models and the store of `base`, whose local tools work in another folder and have `more`
        tools beside them. It neither routes questions nor adds memory or project files. It needs no closing: everything
        it uses belongs to `base` or ends with each call."""

    def redact_text(self, text: str) -> str:
        """The text without known secrets."""

    def reload(self) -> Runtime:
        """A new runtime from the current configuration. Raises ConfigError; this runtime stays as it is."""

    def instruction_files(self) -> Sequence[InstructionFile]:
        """The project's instructions for models, as they were read."""

    def skills(self) -> Sequence[SkillFile]:
        """The user's and the project's skills, as they were read."""

    async def read_skill(self, name: str, file: str = "") -> str:
        """The text of a skill, or of a file of it. Raises ToolError."""

    @property
    def agents(self) -> AgentRoster:
        """The agents of the user, of the project and of aish, as they were read."""

    def prompt_files(self) -> Sequence[PromptFile]:
        """The user's and the project's prompt files, as they were read."""

    def reread_project(self) -> None:
        """Reads the instructions, the skills, the agents, the prompt files and the environment again. The next turn
        begins with what is found."""

    def live_shell(
        self, *, on_output: Callable[[bytes], None], on_notice: Callable[[str], None]
    ) -> AbstractAsyncContextManager[LiveShell]:
        """Opens the live shell. Inside, the model's commands run in copies of it. POSIX only.

        `on_output` gets what jobs print while no line runs.
        """

    async def find_commands(self, question: str, limit: int = 5) -> Sequence[CommandHint]:
        """Programs that may do what is asked for: the best of this machine first, then programs that can be
        installed."""

    def load_for_turns(self) -> None:
        """Imports the modules that the first turn needs. Safe to call in another thread."""

    def discover(self) -> Awaitable[Sequence[Provider]]:
        """Looks for running local model servers."""


def find_entries(runtime: Runtime) -> Sequence[tuple[str, MarkdownEntry]]:
    """What the user and the project have for models besides instructions, each with its kind in words."""
    return (
        *(("skill", skill) for skill in runtime.skills()),
        *(("agent", agent) for agent in runtime.agents.files),
        *(("command", prompt) for prompt in runtime.prompt_files()),
    )
