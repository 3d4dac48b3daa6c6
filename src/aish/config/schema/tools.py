"""Settings for tools: the gate, the sandbox, MCP servers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from aish.config.schema.values import Count, Secret, Section, UrlOrUnset, Variable
from aish.types.decisions import HookPoint, Mode, Verdict
from aish.types.tools import Effect

PROMPT_FIELDS = (
    "model", "cwd", "branch", "venv", "ps1", "ctx_used", "ctx_max", "cost", "mode", "status", "mark",
)  # fmt: skip


class RuleConfig(Section, frozen=True, forbid_unknown_fields=True):
    """A rule: all its criteria must match. Deny beats ask beats allow, whatever the order."""

    verdict: Annotated[Verdict, Meta(description="The verdict for calls that match.")]
    name: Annotated[str, Meta(description="The name under which the rule is shown.")] = ""
    tools: Annotated[tuple[str, ...], Meta(description="Tool names, with `*`.")] = ()
    effects: Annotated[tuple[Effect, ...], Meta(description="Effects of the tools.")] = ()
    commands: Annotated[
        tuple[str, ...], Meta(description="The words a command begins with; `*` stands for any one word.")
    ] = ()
    paths: Annotated[tuple[str, ...], Meta(description="Paths in the workspace; `**` is any number of folders.")] = ()
    reads: Annotated[
        tuple[str, ...], Meta(description="Folders outside the workspace that commands may read. Only with allow.")
    ] = ()
    match: Annotated[tuple[str, ...], Meta(description="Examples that it must match; checked when it is loaded.")] = ()
    not_match: Annotated[tuple[str, ...], Meta(description="Examples that it must not match.")] = ()
    why: Annotated[str, Meta(description="The reason, shown to the user and the model when it refuses or asks.")] = ""


class GateConfig(Section, frozen=True, forbid_unknown_fields=True):
    """What tools may do. Deny beats ask beats allow; where no user can be asked, ask means deny."""

    mode: Annotated[
        Mode,
        Meta(
            description="How much runs without a question: `ask` only reads, `edits` also edits that can be undone, "
            "`auto` also commands that the sandbox holds and that lose nothing, `plan` nothing but reads."
        ),
    ] = Mode.ASK
    read: Annotated[Verdict, Meta(description="Tools that only read.")] = Verdict.ALLOW
    write: Annotated[Verdict, Meta(description="Tools that change files.")] = Verdict.ASK
    exec: Annotated[Verdict, Meta(description="Tools that run programs.")] = Verdict.ASK
    network: Annotated[Verdict, Meta(description="Tools that talk to other machines.")] = Verdict.ASK
    auto_approve: Annotated[
        tuple[str, ...], Meta(description="Tools that are not asked about, such as `git__status` or `docs__*`.")
    ] = ()
    deny: Annotated[tuple[str, ...], Meta(description="Tools that never run, in the same form.")] = ()
    rules: Annotated[
        tuple[RuleConfig, ...],
        Meta(description="Finer rules: tables of `verdict`, `tools`, `effects`, `commands`, `paths` and examples."),
    ] = ()


class ToolsConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Which tools the model sees."""

    offer: Annotated[tuple[str, ...], Meta(description="Names with `*`; an empty list offers none.")] = ("*",)
    max_window_share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="How much of the model's window many tools may take. The others are found by `tools__search`;"
            " 1 shows all.",
        ),
    ] = 0.1


class SafetyConfig(Section, frozen=True, forbid_unknown_fields=True):
    """A second line behind the gate."""

    sandbox: Annotated[
        Literal["auto", "bwrap", "landlock", "off"],
        Meta(
            description="Run commands of the model in a sandbox: bubblewrap where it works, else Landlock (`auto`);"
            " always in this one, or not at all; or never."
        ),
    ] = "auto"
    network: Annotated[bool, Meta(description="Whether commands in the sandbox may use the network.")] = False
    secrets_in_env: Annotated[
        bool,
        Meta(description="Whether commands of the model see variables named like secrets, such as `GITHUB_TOKEN`."),
    ] = False
    secrets_for_tools: Annotated[
        tuple[str, ...],
        Meta(
            description="Tools, with `*`, that get the real value where a model behind `redact` wrote the placeholder"
            " of a secret. Any other gets the placeholder."
        ),
    ] = ()
    secrets_for_programs: Annotated[
        tuple[str, ...],
        Meta(
            description="Programs that get it in a command line, such as `gh`: every command of the line must be named,"
            " and nothing be redirected to a file."
        ),
    ] = ()
    second_opinion: Annotated[
        str,
        Meta(description="Another model or preset that may halt work towards a goal before a step; it allows nothing."),
    ] = ""


class RewindConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Checkpoints of the workspace, taken before a turn changes something. `:rewind` brings them back."""

    enabled: Annotated[bool, Meta(description="Whether checkpoints are taken.")] = True
    max_file_mb: Annotated[Count, Meta(description="Megabytes of the largest file that is kept in them.")] = 16
    max_store_mb: Annotated[
        Count, Meta(description="Megabytes that all checkpoints of a workspace may take; the oldest make room.")
    ] = 1024


class McpServerConfig(Section, frozen=True, forbid_unknown_fields=True):
    """An MCP server: a `command` to start, or a `url` to reach. Its tools are named `NAME__tool`."""

    command: Annotated[str, Meta(description="The program to start. aish starts no other MCP servers.")] = ""
    args: Annotated[tuple[str, ...], Meta(description="Its arguments.")] = ()
    env: Annotated[dict[str, Secret], Meta(description="Variables to set for it. Their values are never shown.")] = {}
    cwd: Annotated[str, Meta(description="Where it runs.", extra={"path": "always"})] = ""
    url: Annotated[UrlOrUnset, Meta(description="Where it listens.")] = ""
    auth_token: Annotated[Secret | None, Meta(description="A bearer token. Never shown.")] = None
    auth_env: Annotated[
        Variable, Meta(description="The name of the variable that holds the bearer token.", extra={"hide": True})
    ] = ""
    timeout_s: Annotated[float, Meta(gt=0, description="Seconds one call may take.")] = 60.0
    start_timeout_s: Annotated[float, Meta(gt=0, description="Seconds it may take to start.")] = 30.0
    max_in_flight: Annotated[Count, Meta(description="Calls at once.")] = 16
    allow: Annotated[tuple[str, ...], Meta(description="Its tools to offer, with `*`.")] = ("*",)
    deny: Annotated[tuple[str, ...], Meta(description="Its tools not to offer.")] = ()
    protocol: Annotated[
        Literal["auto", "legacy", "2026-07-28"], Meta(description="The revision to speak; `auto` asks the server.")
    ] = "auto"
    trust_hints: Annotated[
        bool, Meta(description="Trust its annotation that a tool only reads. Otherwise every tool is asked about.")
    ] = False
    enabled: Annotated[bool, Meta(description="Whether aish connects to it.")] = True


class McpConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Servers that offer tools over the Model Context Protocol."""

    servers: dict[str, McpServerConfig] = {}
    auto_approve: Annotated[
        tuple[str, ...], Meta(description="Tools that are not asked about: `alias__tool` or `alias__*`.")
    ] = ()
    wait_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds a question on the command line, or a server that starts, waits for them to connect.",
        ),
    ] = 5.0


class HookConfig(Section, frozen=True, forbid_unknown_fields=True):
    """A command that runs at a point of a turn: it gets JSON on stdin and may answer with JSON. See extend.md."""

    point: Annotated[HookPoint, Meta(description="When it runs.")]
    command: Annotated[str, Meta(min_length=1, description="The program and its arguments; no shell.")]
    tools: Annotated[tuple[str, ...], Meta(description="The tools it is for, with `*`.")] = ("*",)


class ExtensionsConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Tools, commands and hooks in Python, which run in a process of their own."""

    enabled: Annotated[
        bool, Meta(description="Whether Python in `tools/` folders and enabled extensions is used at all.")
    ] = True
    env: Annotated[
        tuple[str, ...],
        Meta(description="Variables that this process gets, with `*`, besides `PATH`, `HOME` and a few others."),
    ] = ()
    max_memory_mb: Annotated[
        int, Meta(ge=0, description="Megabytes of data that the process may hold; 0 means no limit.")
    ] = 4096
    hook_timeout_s: Annotated[float, Meta(gt=0, le=60, description="Seconds that one hook may take.")] = 5.0
    failing_hook: Annotated[
        Literal["auto", "refuse", "skip"],
        Meta(
            description="What a hook that fails or takes too long does to a tool call: `refuse` it, or tell you and"
            " `skip` the hook. `auto` refuses for hooks of projects and extensions, and skips your own."
        ),
    ] = "auto"
    settings: Annotated[
        dict[str, dict[str, Any]], Meta(description="The settings of an extension, in its own keys. Never shown.")
    ] = {}


class LanguageConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Settings of one language: `python`, `typescript`, `c`."""

    server: Annotated[str, Meta(description="Its server, such as `ty` for Python. Unset: the first that is found.")] = (
        ""
    )


class LanguageServerConfig(Section, frozen=True, forbid_unknown_fields=True):
    """A language server: `basedpyright`, `ty`, `ruff`, `typescript`, `typescript-language-server`, `clangd`."""

    command: Annotated[
        tuple[str, ...], Meta(description="The program and its arguments, if the server is not in `PATH`.")
    ] = ()


class IdeConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Tools that understand and change code: `ide__references`, `ide__rename` and ten more."""

    enabled: Annotated[
        Literal["auto", "always", "never"],
        Meta(description="Whether these tools are offered; `auto` offers them in a project."),
    ] = "auto"
    languages: dict[str, LanguageConfig] = {}
    servers: dict[str, LanguageServerConfig] = {}
    project_programs: Annotated[
        bool,
        Meta(
            description="Whether servers and interpreters in the project's own `.venv` and `node_modules` may be run. "
            "In a project of strangers they are programs of strangers."
        ),
    ] = False
    mcp: Annotated[
        str,
        Meta(
            description="The MCP server that is your IDE and answers instead, if it offers `lsp.*` tools. `auto` takes "
            "a configured local one that does, `none` never one."
        ),
    ] = "auto"
    max_servers: Annotated[Count, Meta(description="Language servers at once.")] = 4
    max_memory_mb: Annotated[
        int, Meta(ge=0, description="Memory of one server above which it is restarted; 0 means no limit.")
    ] = 2048
    idle_stop_s: Annotated[
        float, Meta(ge=0, description="Seconds without use after which a server is stopped; 0 means never.")
    ] = 600.0
    start_timeout_s: Annotated[float, Meta(gt=0, description="Seconds a server may take to start.")] = 30.0
    wait_s: Annotated[
        float, Meta(gt=0, le=60, description="Seconds to wait for an answer; later ones are `pending`.")
    ] = 10.0
    format_on_edit: Annotated[
        bool, Meta(description="Format files that the model has edited, if there is a formatter.")
    ] = False
    hard_links: Annotated[
        bool,
        Meta(
            description="Whether files that have a second name, which may be outside the workspace, are read. They are "
            "never written, and those of installed packages are read anyway."
        ),
    ] = False


class ShellConfig(Section, frozen=True, forbid_unknown_fields=True):
    """The prompt where your shell and a model meet."""

    prompt: Annotated[
        str,
        Meta(
            description="The text before the input line. Fields: `{model}`, `{cwd}`, `{branch}`, `{venv}`, "
            "`{ctx_used}`, `{ctx_max}`, `{cost}`, `{mode}` if it is not `ask`, `{status}`, `{ps1}`, which is the "
            "prompt of your bash, and `{mark}`, which shows where the line goes."
        ),
    ] = "{venv} {cwd} {branch} {mode} {status}{mark} "
    follow: Annotated[
        bool,
        Meta(
            description="Whether the model's workspace follows you to another project, with your next question after a "
            "`cd`. `:workspace` shows and sets it."
        ),
    ] = True
    continue_after_commands: Annotated[
        Literal["ask", "always", "never"],
        Meta(
            description="Whether the model goes on at once with the output of a proposed command. With `ask` the menu "
            "has a key for it."
        ),
    ] = "ask"
    attach_output: Annotated[
        bool, Meta(description="Whether the output of your commands is sent with your next question.")
    ] = True
    attach_max_chars: Annotated[
        int, Meta(ge=0, description="The most characters of that output; the beginning and the end of it are sent.")
    ] = 16_000
    recall_history: Annotated[
        bool,
        Meta(
            description="Whether lines of your bash history are hints when you ask for a command. They are shown to "
            "you and sent to the model; lines that seem to hold a secret are left out."
        ),
    ] = False
    editing: Annotated[
        Literal["auto", "emacs", "vi"], Meta(description="Key bindings; `auto` takes those of your bash.")
    ] = "auto"
    notify: Annotated[
        Literal["all", "bell", "off"],
        Meta(
            description="What tells you, while you look at another window, that a question waits or that a long turn "
            "is over: the bell and a notification of the desktop, only the bell, or nothing. The terminal must report "
            "its focus."
        ),
    ] = "all"
    notify_after_s: Annotated[float, Meta(ge=0, description="How long a turn takes whose end is worth a notice.")] = 10
    highlight: Annotated[bool, Meta(description="Colour code in answers.")] = True
    reasoning: Annotated[Literal["fold", "show", "hide"], Meta(description="How a model's reasoning is shown.")] = (
        "fold"
    )
