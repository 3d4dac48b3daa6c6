"""What Tab offers: meta commands and their arguments, mentions, and for commands what the live bash itself would."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from aish.errors import AishError, UsageError
from aish.frontends.shell.commands.arguments import is_folder, path_of
from aish.frontends.shell.prompt.routing import Goal, route
from aish.frontends.shell.state import Shell

if TYPE_CHECKING:
    from aish.frontends.shell.commands.registry import Argument

_MOST = 200
_BASH_S = 1.0
_MENTION = re.compile(r"(?:^|\s)@(\"[^\"\n]*|\S*)$")
_NEEDS_MARKS = re.compile(r"[\s@`]")


class ShellCompleter(Completer):
    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        return ()  # only the asynchronous way is used

    async def get_completions_async(self, document: Document, event: CompleteEvent) -> AsyncGenerator[Completion, None]:
        text = document.text_before_cursor
        try:
            found = await self._find(text, document)
        except AishError:  # what cannot be looked up is not offered; what uses it will say why
            found = []
        for completion in found[:_MOST]:
            yield completion

    async def _find(self, text: str, document: Document) -> list[Completion]:
        stripped = text.lstrip()
        if stripped.startswith(":"):
            return await self._meta(stripped[1:])
        if mention := _MENTION.search(text):
            paths = _paths(self._shell.cwd, mention[1].lstrip('"'))
            return [_ending(_mentioned(path), mention[1]) for path in paths]
        live = self._shell.live
        resolve = live.resolve if live else lambda word: None
        goal = route(text, resolve).goal if stripped else Goal.SHELL
        if live is None or (goal is Goal.MODEL and not stripped.startswith("!") and " " in stripped):
            return []
        return await self._bash(text)

    async def _bash(self, text: str) -> list[Completion]:
        live = self._shell.live
        if live is None:
            return []
        marks = len(text) - len(text.lstrip().lstrip("!").lstrip())
        line = text[marks:]
        offered = await live.complete(line, len(line), timeout_s=_BASH_S)
        return [
            Completion(
                c.text + (" " if c.ends_word and len(offered.candidates) == 1 else ""), offered.start - len(line)
            )
            for c in offered.candidates
        ]

    async def _meta(self, text: str) -> list[Completion]:
        from aish.frontends.shell.commands.registry import COMMANDS

        words = text.split(" ")
        if len(words) == 1:
            names = [name for name in COMMANDS if name.startswith(words[0])]
            return [Completion(f"{name} ", -len(words[0]), display_meta=COMMANDS[name].help) for name in names]
        command = COMMANDS.get(words[0])
        if command is None:
            return []
        last = words[-1]
        values = command.words if len(words) == 2 and command.words else await self._values(command.argument, last)
        return [_ending(value, last) for value in values if value.startswith(last)]

    async def _values(self, kind: Argument, typed: str) -> list[str]:
        from aish.frontends.shell.commands.registry import Argument

        shell = self._shell
        match kind:
            case Argument.MODEL | Argument.MODEL_TEXT:
                infos = await shell.engine.router.list_models()
                return [*shell.runtime.config.presets, *(info.name for info in infos)]
            case Argument.SESSION:
                return [session.id for session in await shell.runtime.store.list_sessions(limit=50)]
            case Argument.SERVER:
                return list(shell.runtime.mcp_servers)
            case Argument.TOOL:
                return [spec.name for spec in shell.engine.tools.specs()]
            case Argument.PATH:
                return _paths(shell.cwd, typed)
            case Argument.SWITCH:
                return ["on", "off"]
            case _:
                return []


def _ending(value: str, typed: str) -> Completion:
    return Completion(value, -len(typed))


def _mentioned(path: str) -> str:
    """In quotation marks where a mention would end too early; those of a folder are left open."""
    if not _NEEDS_MARKS.search(path):
        return path
    return f'"{path}' if path.endswith("/") else f'"{path}"'


def _paths(cwd: str, typed: str) -> list[str]:
    folder, slash, start = typed.rpartition("/")
    try:
        place = path_of(cwd, folder + slash if slash else ".")
        entries = sorted(place.iterdir())
    except (OSError, UsageError):
        return []
    shown = [entry for entry in entries if entry.name.startswith(start) and (start or not entry.name.startswith("."))]
    return [f"{folder}{slash}{entry.name}{'/' if is_folder(entry) else ''}" for entry in shown[:_MOST]]
