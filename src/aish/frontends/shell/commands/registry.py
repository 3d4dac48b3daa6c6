"""The table of `:` commands: `:help` shows it, completion offers it, and `run_meta` looks lines up in it."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from importlib import import_module
from typing import Any, Protocol

import msgspec

from aish.errors import AishError
from aish.frontends.shell.render.styles import columns_of
from aish.frontends.shell.shell import Shell, format_error
from aish.types.decisions import Mode

Run = Callable[[Shell, str], Awaitable[None]]
_USAGE_CHARS = 28
# Three columns, the last wide enough for a few words.
_WIDE_COLUMNS = 72
_ABOUT_LINES = (
    "A line goes to your shell if it is a command, else to the model. ! means shell, ? means model.",
    "!!cmd runs without telling the model; ? alone asks what went wrong with the last command.",
    "Keys: Tab completes, Ctrl-R searches the history, Shift-Tab changes the mode, Alt-Enter adds a line, F5 runs the "
    "last block of an answer, F6 pages a tool's output, Ctrl-X Ctrl-E opens your editor, Ctrl-C stops, Ctrl-D leaves.",
)


class Argument(StrEnum):
    """The kind of argument that a command takes, for completion."""

    NONE = ""
    MODEL = "MODEL"
    MODEL_TEXT = "MODEL TEXT"
    SESSION = "SESSION"
    SERVER = "SERVER"
    SKILL = "SKILL"
    AGENT_TEXT = "AGENT TASK"
    TOOL = "TOOL"
    PATH = "PATH"
    SWITCH = "on|off"
    TEXT = "TEXT"
    GIT = "[ARGUMENTS OF GIT DIFF]"
    NUMBER = "[N]"
    NUMBER_TEXT = "[N] TEXT"
    TARGET_SCOPE = "[N files|conversation|both]"


class Command(msgspec.Struct, frozen=True):
    group: str
    help: str
    run: Run
    argument: Argument = Argument.NONE
    words: tuple[str, ...] = ()  # subcommands
    hint: str = ""  # stands for the argument in the usage

    @property
    def usage(self) -> str:
        return " ".join(filter(None, ("|".join(self.words), self.hint or self.argument.value)))


class ExtraCommands(Protocol):
    """A source of commands besides the built-in ones."""

    def __call__(self, shell: Shell) -> Mapping[str, Command]: ...


# Each is a `module.function` of this package, an ExtraCommands, that is imported when commands are looked up. Of
# commands with one name the first source counts.
EXTRA_SOURCES = ("own_commands.find_prompt_commands", "own_commands.find_python_commands")


def _lazy(target: str) -> Run:
    """A `module.function` of this package that is imported when it is first run, which keeps the first prompt fast."""

    async def run(shell: Shell, rest: str) -> None:
        await _import(target)(shell, rest)

    return run


def _import(target: str) -> Any:
    module, _, name = target.partition(".")
    return getattr(import_module(f"aish.frontends.shell.commands.{module}"), name)


def find_commands(shell: Shell) -> dict[str, Command]:
    """The built-in commands, then those of the other sources, which never take the name of a built-in one."""
    found = dict(COMMANDS)
    for source in EXTRA_SOURCES:
        for name, command in _import(source)(shell).items():
            if name not in _ALIASES:
                found.setdefault(name, command)
    return found


def is_built_in(name: str) -> bool:
    return name in COMMANDS or name in _ALIASES


async def _help(shell: Shell, rest: str) -> None:
    wanted = rest.strip().lower().lstrip(":")
    columns = columns_of(shell.output.out)()
    group = ""
    commands = find_commands(shell)
    found = {n: c for n, c in commands.items() if wanted in n or wanted in c.help.lower() or wanted in c.group.lower()}
    for name, command in found.items():
        if command.group != group:
            group = command.group
            shell.output.note(f"{group}")
        for line in help_lines(name, command, columns):
            shell.output.note(line)
    if not found:
        shell.output.note(f"no command mentions {wanted!r}; :help shows them all")
    elif not wanted:
        for line in _ABOUT_LINES:
            shell.output.note(textwrap.fill(line, columns))


def help_lines(name: str, command: Command, columns: int) -> list[str]:
    """Three columns, or on a narrow terminal the usage above the help."""
    if columns < _WIDE_COLUMNS:
        usage = textwrap.wrap(f":{name} {command.usage}", columns, initial_indent="  ", subsequent_indent="    ")
        return [*usage, *textwrap.wrap(command.help, columns, initial_indent="    ", subsequent_indent="    ")]
    fits = len(command.usage) <= _USAGE_CHARS
    first = f"  :{name:<12} {command.usage if fits else '':<{_USAGE_CHARS}} "
    lines = textwrap.wrap(command.help, columns, initial_indent=first, subsequent_indent=" " * len(first))
    return lines if fits else [*lines, f"{'':<16}{command.usage}"]


A = Argument
COMMANDS: dict[str, Command] = {
    "ask": Command("Talk", "ask the model, whatever it looks like", _lazy("conversation.ask"), A.TEXT),
    "model": Command("Talk", "show or switch the model", _lazy("conversation.model"), A.MODEL),
    "models": Command("Talk", "the models there are", _lazy("conversation.models")),
    "context": Command("Talk", "what the model will see", _lazy("context.context"), A.TEXT),
    "compact": Command("Talk", "have earlier turns become notes; TEXT: what to keep", _lazy("context.compact"), A.TEXT),
    "cost": Command("Talk", "tokens and money spent here", _lazy("context.cost"), words=("detail", "reset")),
    "reasoning": Command(
        "Talk", "what is shown of thinking", _lazy("conversation.reasoning"), words=("fold", "show", "hide"),
    ),
    "highlight": Command("Talk", "colour code in answers", _lazy("conversation.highlight"), A.SWITCH),
    "delegate": Command("Talk", "ask another model", _lazy("context.delegate"), A.MODEL_TEXT),
    "agent": Command("Talk", "give a task to an agent", _lazy("agents.agent"), A.AGENT_TEXT),
    "route": Command(
        "Talk", "which model a question would go to", _lazy("context.route"), words=("check", "on", "off"),
    ),
    "exec": Command("Shell", "run a command, whatever it looks like", _lazy("conversation.exec_"), A.TEXT),
    "run": Command("Answer", "run a block of the last answer", _lazy("blocks.run"), A.NUMBER),
    "copy": Command("Answer", "copy a block, to the clipboard and a file", _lazy("blocks.copy"), A.NUMBER),
    "edit": Command("Answer", "put a block at the prompt", _lazy("blocks.edit"), A.NUMBER),
    "revise": Command("Answer", "ask the model for another version of a block", _lazy("blocks.revise"), A.NUMBER_TEXT),
    "expand": Command("Answer", "page the whole output of a tool call", _lazy("blocks.expand"), A.NUMBER),
    "last": Command("Answer", "show the last answer again", _lazy("blocks.last")),
    "diff": Command("Shell", "give the model the git diff", _lazy("conversation.diff"), A.GIT),
    "tree": Command("Shell", "give the model the files of this folder", _lazy("conversation.tree"), A.PATH),
    "safety": Command(
        "Shell", "whether a command would be allowed", _lazy("conversation.safety"), A.TEXT, words=("check",),
    ),
    "workspace": Command(
        "Shell", "the folder the model works in; PATH sets it", _lazy("workspace.workspace"), A.PATH,
        words=("back", "pin", "follow"),
    ),
    "undo": Command(
        "Shell", "take back the last edit, or one of the list", _lazy("conversation.undo"), words=("list",),
    ),
    "rewind": Command(
        "Sessions", "bring back files, conversation or both, as before a turn", _lazy("rewind.rewind"), A.TARGET_SCOPE,
    ),
    "sessions": Command("Sessions", "conversations, newest first", _lazy("conversation.sessions"), A.TEXT),
    "resume": Command("Sessions", "go on with a session", _lazy("conversation.resume"), A.SESSION),
    "reset": Command("Sessions", "forget this conversation, start a new one", _lazy("conversation.reset")),
    "history": Command("Sessions", "what was said in this session", _lazy("conversation.history"), A.NUMBER),
    "mcp": Command(
        "Tools", "MCP servers", _lazy("mcp.mcp"), A.SERVER,
        words=("list", "tools", "tool", "resources", "prompt", "log", "refresh", "connect", "disconnect"),
    ),
    "memory": Command(
        "Tools", "facts remembered across sessions", _lazy("memory.memory"),
        words=("list", "add", "forget", "edit", "inject", "summarize", "clear", "import", "export"),
    ),
    "remember": Command("Tools", "keep a fact", _lazy("memory.remember"), A.TEXT),
    "mode": Command("Work", "how much runs without a question", _lazy("mode.mode"), words=tuple(Mode)),
    "approve": Command(
        "Work", "have the plan of the last answer worked off", _lazy("mode.approve"), words=("unasked",),
    ),
    "norris": Command("Work", "work towards a goal", _lazy("plan.norris"), A.TEXT, words=("resume", "list")),
    "plan": Command("Work", "plan first, then work", _lazy("plan.plan"), A.TEXT, words=("save", "run", "list")),
    "runs": Command("Work", "goals and plans of before, newest first", _lazy("plan.runs")),
    "config": Command("aish", "the settings that hold", _lazy("conversation.config"), words=("show", "path")),
    "init": Command("aish", "have the model write an AGENTS.md for this project", _lazy("context.init"), A.TEXT),
    "reload": Command("aish", "read the project's instructions (AGENTS.md) again", _lazy("context.reload")),
    "agents": Command("aish", "the agents of yours, of this project and of aish", _lazy("agents.agents")),
    "skills": Command("aish", "the skills of yours and of this project", _lazy("context.skills"), A.SKILL),
    "trust": Command("aish", "trust the files of this project that aish reads", _lazy("conversation.trust")),
    "redact": Command("aish", "show a text as it would be stored", _lazy("conversation.redact"), A.TEXT),
    "doctor": Command("aish", "what works here", _lazy("conversation.doctor")),
    "clear": Command("aish", "clear the screen", _lazy("conversation.clear")),
    "help": Command("aish", "this list; with a word, what mentions it", _help, A.TEXT),
    "quit": Command("aish", "leave", _lazy("conversation.quit_")),
}  # fmt: skip
_ALIASES = {"q": "quit", "exit": "quit", "h": "help", "m": "model", "new": "reset", "?": "help"}


# They ask the model, or show what belongs to the workspace.
_OF_WORKSPACE = frozenset({
    "agents", "approve", "ask", "context", "init", "norris", "plan", "reload", "revise", "safety", "skills", "trust",
})  # fmt: skip


def needs_workspace(text: str) -> bool:
    """Whether the workspace must be that of the user's directory before this line runs. A command that is not of aish
    may be one of the project."""
    name = text.partition(" ")[0]
    return name in _OF_WORKSPACE or _ALIASES.get(name, name) not in COMMANDS


async def run_meta(shell: Shell, text: str) -> None:
    name, _, rest = text.partition(" ")
    command = COMMANDS.get(_ALIASES.get(name, name))
    if command is None:
        await shell.runtime.extensions.refresh()
        command = (commands := find_commands(shell)).get(name)
    if command is None:
        similar = difflib.get_close_matches(name, commands, n=2)
        hint = f"; did you mean :{' or :'.join(similar)}?" if similar else "; :help lists them"
        shell.output.note(f"there is no command :{name}{hint}")
        return
    try:
        await command.run(shell, rest.strip())
    except AishError as exc:
        shell.output.note(format_error(exc))
