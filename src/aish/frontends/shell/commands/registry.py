"""Commands for aish itself, `:name`: one table that `:help` shows, completion offers and lines are looked up in."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Awaitable, Callable
from enum import StrEnum
from importlib import import_module

import msgspec

from aish.errors import AishError
from aish.frontends.shell.error_text import error_text
from aish.frontends.shell.render.styles import columns_of
from aish.frontends.shell.state import Shell

Run = Callable[[Shell, str], Awaitable[None]]
_USAGE_CHARS = 28
# Three columns, the last wide enough for a few words.
_WIDE_COLUMNS = 72
_ABOUT_LINES = (
    "A line goes to your shell if it is a command, else to the model. ! means shell, ? means model.",
    "!!cmd runs without telling the model; ? alone asks what went wrong with the last command.",
)


class Argument(StrEnum):
    """What may stand after the command, for completion."""

    NONE = ""
    MODEL = "MODEL"
    MODEL_TEXT = "MODEL TEXT"
    SESSION = "SESSION"
    SERVER = "SERVER"
    TOOL = "TOOL"
    PATH = "PATH"
    SWITCH = "on|off"
    TEXT = "TEXT"


class Command(msgspec.Struct, frozen=True):
    group: str
    help: str
    run: Run
    argument: Argument = Argument.NONE
    words: tuple[str, ...] = ()  # subcommands

    @property
    def usage(self) -> str:
        return " ".join(filter(None, ("|".join(self.words), self.argument.value)))


def _in(place: str) -> Run:
    """A function of one of the modules beside this one, loaded when it is first run: a first prompt needs none."""
    module, _, name = place.partition(".")

    async def run(shell: Shell, rest: str) -> None:
        await getattr(import_module(f"aish.frontends.shell.commands.{module}"), name)(shell, rest)

    return run


async def _help(shell: Shell, rest: str) -> None:
    wanted = rest.strip().lower().lstrip(":")
    columns = columns_of(shell.output.out)()
    group = ""
    found = {n: c for n, c in COMMANDS.items() if wanted in n or wanted in c.help.lower() or wanted in c.group.lower()}
    for name, command in found.items():
        if command.group != group:
            group = command.group
            shell.output.note(f"{group}")
        for line in help_lines(name, command, columns):
            shell.output.note(line)
    if not found:
        shell.output.note(f"nothing is said of {wanted!r}; :help shows everything")
    elif not wanted:
        for line in _ABOUT_LINES:
            shell.output.note(textwrap.fill(line, columns))


def help_lines(name: str, command: Command, columns: int) -> list[str]:
    """In three columns; where there is no room for them, one below the other."""
    if columns < _WIDE_COLUMNS:
        called = textwrap.wrap(f":{name} {command.usage}", columns, initial_indent="  ", subsequent_indent="    ")
        return [*called, *textwrap.wrap(command.help, columns, initial_indent="    ", subsequent_indent="    ")]
    fits = len(command.usage) <= _USAGE_CHARS
    first = f"  :{name:<12} {command.usage if fits else '':<{_USAGE_CHARS}} "
    lines = textwrap.wrap(command.help, columns, initial_indent=first, subsequent_indent=" " * len(first))
    return lines if fits else [*lines, f"{'':<16}{command.usage}"]


A = Argument
COMMANDS: dict[str, Command] = {
    "ask": Command("Talk", "ask the model, whatever it looks like", _in("conversation.ask"), A.TEXT),
    "model": Command("Talk", "show or switch the model", _in("conversation.model"), A.MODEL),
    "models": Command("Talk", "the models there are", _in("conversation.models")),
    "context": Command("Talk", "what the model will see", _in("context.context"), A.TEXT),
    "cost": Command("Talk", "tokens and money spent here", _in("context.cost"), words=("detail", "reset")),
    "reasoning": Command(
        "Talk", "what is shown of thinking", _in("conversation.reasoning"), words=("fold", "show", "hide"),
    ),
    "highlight": Command("Talk", "colour code in answers", _in("conversation.highlight"), A.SWITCH),
    "delegate": Command("Talk", "ask another model", _in("context.delegate"), A.MODEL_TEXT),
    "route": Command(
        "Talk", "which model a question would go to", _in("context.route"), words=("check", "on", "off"),
    ),
    "exec": Command("Shell", "run a command, whatever it looks like", _in("conversation.exec_"), A.TEXT),
    "diff": Command("Shell", "give the model the git diff", _in("conversation.diff"), A.TEXT),
    "tree": Command("Shell", "give the model the files of this folder", _in("conversation.tree"), A.PATH),
    "safety": Command("Shell", "what the gate says of a command", _in("conversation.safety"), A.TEXT, words=("check",)),
    "undo": Command("Shell", "take back the last edit, or one of the list", _in("undo.undo"), words=("list",)),
    "sessions": Command("Sessions", "conversations, newest first", _in("records.sessions"), A.TEXT),
    "resume": Command("Sessions", "go on with a session", _in("records.resume"), A.SESSION),
    "reset": Command("Sessions", "forget this conversation, start a new one", _in("records.reset")),
    "history": Command("Sessions", "what was said in this session", _in("records.history")),
    "mcp": Command(
        "Tools", "MCP servers", _in("mcp.mcp"), A.SERVER,
        words=("list", "tools", "tool", "resources", "prompt", "log", "refresh", "connect", "disconnect"),
    ),
    "memory": Command(
        "Tools", "what outlives a session", _in("memory.memory"),
        words=("list", "add", "forget", "edit", "inject", "summarize", "clear", "import", "export"),
    ),
    "remember": Command("Tools", "keep a fact", _in("memory.remember"), A.TEXT),
    "norris": Command("Work", "work towards a goal", _in("work.norris"), A.TEXT, words=("resume", "list")),
    "plan": Command("Work", "plan first, then work", _in("work.plan"), A.TEXT, words=("save", "run", "list")),
    "runs": Command("Work", "goals and plans of before, newest first", _in("work.runs")),
    "config": Command("aish", "the settings that hold", _in("records.config"), words=("show", "path")),
    "trust": Command("aish", "trust this project's settings", _in("records.trust")),
    "redact": Command("aish", "show a text as it would be stored", _in("records.redact"), A.TEXT),
    "doctor": Command("aish", "what works here", _in("records.doctor")),
    "clear": Command("aish", "clear the screen", _in("conversation.clear")),
    "help": Command("aish", "this list; with a word, what mentions it", _help, A.TEXT),
    "quit": Command("aish", "leave", _in("conversation.quit_")),
}  # fmt: skip
_SHORT = {"q": "quit", "exit": "quit", "h": "help", "m": "model", "new": "reset", "?": "help"}


async def run_meta(shell: Shell, text: str) -> None:
    name, _, rest = text.partition(" ")
    command = COMMANDS.get(_SHORT.get(name, name))
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, n=2)
        hint = f"; did you mean :{' or :'.join(near)}?" if near else "; :help lists them"
        shell.output.note(f"there is no command :{name}{hint}")
        return
    try:
        await command.run(shell, rest.strip())
    except AishError as exc:
        shell.output.note(error_text(exc))
