"""Runs the user's own commands: `:NAME WORDS` asks what stands in `commands/NAME.md`, or runs a Python function."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import msgspec

from aish.config.prompt_files import PromptFile, fill_arguments
from aish.errors import AishError
from aish.extensions.manifest import CommandEntry
from aish.frontends.runtime import Runtime
from aish.frontends.shell.commands.registry import Command
from aish.frontends.shell.shell import Shell
from aish.safety.policy.modes import strictest
from aish.types.decisions import Mode
from aish.types.requests import TurnRequest


def find_prompt_commands(shell: Shell) -> Mapping[str, Command]:
    """A source of commands: the prompt files of the user and those that the user trusts."""
    return {prompt.name: _make_prompt_command(prompt) for prompt in shell.runtime.prompt_files() if prompt.is_usable}


def find_python_commands(shell: Shell) -> Mapping[str, Command]:
    """A source of commands: those of Python extensions, as they were at the last turn or command."""
    return {name: _make_python_command(entry) for name, entry in shell.runtime.extensions.commands.items()}


def _make_python_command(entry: CommandEntry) -> Command:
    return Command("Yours", entry.help, partial(_run, entry.name), hint=entry.usage)


async def _run(name: str, shell: Shell, rest: str) -> None:
    output = await shell.runtime.extensions.run_command(name, rest, shell.cwd)
    if output.text:
        shell.output.answer(output.text.rstrip("\n") + "\n")
    if output.prompt:
        from aish.frontends.shell.ask_model import ask_model  # not before the first question

        await ask_model(shell, output.prompt)


def _make_prompt_command(prompt: PromptFile) -> Command:
    tools = f" (its author means the tools {prompt.allowed_tools})" if prompt.allowed_tools else ""
    return Command("Yours", f"{prompt.description}{tools}", partial(_ask, prompt), hint=prompt.argument_hint)


async def _ask(prompt: PromptFile, shell: Shell, rest: str) -> None:
    from aish.frontends.shell.ask_model import ask_model  # not before the first question

    before = shell.request
    narrowed = narrow_to_prompt(before, prompt)
    shell.change_request(model=narrowed.model, mode=narrowed.mode)
    try:
        await ask_model(shell, fill_arguments(prompt.body, rest))
    finally:
        shell.change_request(model=before.model, mode=before.mode)
        if prompt.model:
            with suppress(AishError):
                await shell.look_up_model()


def narrow_to_prompt(request: TurnRequest, prompt: PromptFile) -> TurnRequest:
    """The request with the model of the prompt file, and the stricter of both modes."""
    mode = request.mode if prompt.mode is None else strictest(prompt.mode, request.mode or Mode.ASK)
    return msgspec.structs.replace(request, model=prompt.model or request.model, mode=mode)


def find_prompt(runtime: Runtime, words: str) -> tuple[PromptFile, str] | None:
    """The prompt file that `:NAME ARGUMENTS` names, and the question it asks then; None if it names none."""
    name, _, rest = words.removeprefix(":").partition(" ")
    if not words.startswith(":") or not name:
        return None
    found = next((prompt for prompt in runtime.prompt_files() if prompt.name == name and prompt.is_usable), None)
    return None if found is None else (found, fill_arguments(found.body, rest.strip()))
