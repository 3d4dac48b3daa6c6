"""Tab completion: `:` commands and their arguments, mentions, and for commands what the live bash offers."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from aish.errors import AishError, UsageError
from aish.frontends.runtime import LiveShell
from aish.frontends.shell.commands.arguments import is_folder, resolve_path
from aish.frontends.shell.prompt.routing import Destination, KnownNames, route_line
from aish.frontends.shell.shell import Shell
from aish.frontends.terminal import visible
from aish.types.ids import OWN_SESSIONS

if TYPE_CHECKING:
    from aish.frontends.shell.commands.registry import Argument

_MAX_COMPLETIONS = 200
_MAX_SESSIONS = 50
_BASH_S = 1.0
_MENTION = re.compile(r"(?:^|\s)@(\"[^\"\n]*|\S*)$")
_SKILL = re.compile(r"/([a-z0-9-]*)")
_NEEDS_QUOTES = re.compile(r"[\s@`]")


class ShellCompleter(Completer):
    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        return ()  # prompt_toolkit calls the asynchronous method

    async def get_completions_async(self, document: Document, event: CompleteEvent) -> AsyncGenerator[Completion, None]:
        text = document.text_before_cursor
        try:
            found = await self._find(text, document)
        except AishError:  # the command that uses it reports the error
            found = []
        for completion in found[:_MAX_COMPLETIONS]:
            yield completion

    async def _find(self, text: str, document: Document) -> list[Completion]:
        stripped = text.lstrip()
        mention = _MENTION.search(text)
        if stripped.startswith(":") and mention is None:
            return await self._complete_meta(stripped[1:])
        if mention:
            paths = _list_paths(self._shell.cwd, mention[1].lstrip('"'))
            return [Completion(_quote_mention(path), -len(mention[1])) for path in paths]
        if found := _SKILL.fullmatch(stripped):
            names = sorted(name for name in self._shell.skill_names() if name.startswith(found[1]))
            if names:
                return [Completion(f"{name} ", -len(found[1])) for name in names]
        live = self._shell.live
        if live is None:
            return []
        destination = (
            route_line(text, KnownNames.of(live, self._shell.skill_names)).destination
            if stripped
            else Destination.SHELL
        )
        if destination is Destination.MODEL and not stripped.startswith("!") and " " in stripped:
            return []
        return await _complete_command(live, text)

    async def _complete_meta(self, text: str) -> list[Completion]:
        from aish.frontends.shell.commands.registry import find_commands

        words, commands = text.split(" "), find_commands(self._shell)
        if len(words) == 1:
            names = [name for name in commands if name.startswith(words[0])]
            return [Completion(f"{name} ", -len(words[0]), display_meta=commands[name].help) for name in names]
        command = commands.get(words[0])
        if command is None:
            return []
        last = words[-1]
        if len(words) == 2 and command.argument == "SESSION":
            return await self._complete_session(last)
        values = list(command.words) if len(words) == 2 else []
        if not values or command.argument == "PATH":
            values += await self._list_values(command.argument, last)
        return [Completion(value, -len(last)) for value in values if value.startswith(last)]

    async def _complete_session(self, typed: str) -> list[Completion]:
        """The newest first, with what they are about."""
        found = await self._shell.runtime.store.list_sessions(limit=_MAX_SESSIONS, under=OWN_SESSIONS)
        return [
            Completion(session.id, -len(typed), display_meta=visible(session.title))
            for session in found
            if session.id.startswith(typed)
        ]

    async def _list_values(self, kind: Argument, typed: str) -> list[str]:
        from aish.frontends.shell.commands.registry import Argument

        shell = self._shell
        match kind:
            case Argument.MODEL | Argument.MODEL_TEXT:
                infos = await shell.engine.router.list_models()
                return [*shell.runtime.config.presets, *(info.name for info in infos)]
            case Argument.SERVER:
                return list(shell.runtime.mcp_servers)
            case Argument.SKILL:
                return sorted(shell.skill_names())
            case Argument.AGENT_TEXT:
                return [agent.name for agent in shell.runtime.agents.definitions]
            case Argument.TOOL:
                return [spec.name for spec in shell.engine.tools.specs()]
            case Argument.PATH:
                return _list_paths(shell.cwd, typed)
            case Argument.SWITCH:
                return ["on", "off"]
            case _:
                return []


async def _complete_command(live: LiveShell, text: str) -> list[Completion]:
    prefix = len(text) - len(text.lstrip().lstrip("!").lstrip())
    line = text[prefix:]
    offered = await live.complete(line, len(line), timeout_s=_BASH_S)
    is_single = len(offered.candidates) == 1
    return [
        Completion(c.text + (" " if c.ends_word and is_single else ""), offered.start - len(line))
        for c in offered.candidates
    ]


def _quote_mention(path: str) -> str:
    """Quotes a path at whose blanks a mention would end. For a folder the quotation stays open: more may follow."""
    if not _NEEDS_QUOTES.search(path):
        return path
    return f'"{path}' if path.endswith("/") else f'"{path}"'


def _list_paths(cwd: str, typed: str) -> list[str]:
    folder, slash, start = typed.rpartition("/")
    try:
        entries = sorted(resolve_path(cwd, folder + slash if slash else ".").iterdir())
    except (OSError, UsageError):
        return []
    shown = [entry for entry in entries if entry.name.startswith(start) and (start or not entry.name.startswith("."))]
    return [f"{folder}{slash}{entry.name}{'/' if is_folder(entry) else ''}" for entry in shown[:_MAX_COMPLETIONS]]
