"""Lets the user edit the arguments of a call, or a text, in their own editor, which has the terminal until it ends.

A command of one line is edited at the prompt. The text lies in a private file that is removed afterwards. The editor is
a foreground child on the user's terminal, so it has no time limit: the user ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aish.errors import ProcessError
from aish.frontends.shell.prompt.line_reader import AnswerReader
from aish.frontends.shell.prompt.terminal_echo import echo_on
from aish.frontends.terminal import Output
from aish.process.spawn import run_in_foreground
from aish.types.decisions import Question
from aish.types.tools import Arguments

_USUAL = ("sensible-editor", "editor", "nano", "vim", "vi")
_MAX_BYTES = 4 * 1024 * 1024  # more is no text that a person has edited


async def edit_text(text: str, *, name: str, env: Mapping[str, str]) -> str | None:
    """The text as the user has left it; None if the editor reports an error. `name` is that of the file, whose ending
    tells the editor the language. Raises ProcessError."""
    argv = find_editor(env)
    folder = Path(tempfile.mkdtemp(prefix="aish-edit-"))
    file = folder / (Path(name).name or "text")
    try:
        file.write_text(text, "utf-8")
        with echo_on():
            status = await asyncio.to_thread(run_in_foreground, [*argv, str(file)], env)
        if status != 0:
            return None
        with file.open("rb") as edited:
            data = edited.read(_MAX_BYTES + 1)
    except OSError as exc:
        raise ProcessError(f"the editor {argv[0]} could not be used: {exc.strerror or exc}") from exc
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
    if len(data) > _MAX_BYTES:
        raise ProcessError(f"the edited text is larger than {_MAX_BYTES // 1024 // 1024} MiB")
    return data.decode("utf-8", "replace")


def find_editor(env: Mapping[str, str]) -> list[str]:
    """The command of the editor: `VISUAL`, `EDITOR`, or a usual one. Raises ProcessError."""
    for name in ("VISUAL", "EDITOR"):
        with contextlib.suppress(ValueError):
            if words := shlex.split(env.get(name, "")):
                return words
    for program in _USUAL:
        if found := shutil.which(program, path=env.get("PATH")):
            return [found]
    raise ProcessError("there is no editor here", hint="set VISUAL or EDITOR")


async def read_edited_arguments(
    question: Question, reader: AnswerReader, output: Output, env: Mapping[str, str]
) -> Arguments | None:
    """The arguments as the user has edited them. None if they are empty, unchanged or invalid; the output says why."""
    command = question.arguments.get("command")
    if isinstance(command, str) and "\n" not in command:
        line = await reader.read("new command: ", command)
        return {**question.arguments, "command": line} if line and line.strip() else None
    try:
        return await _edit_in_editor(question, output, env)
    except ProcessError as exc:
        output.note(f"{exc.message}{f' ({exc.hint})' if exc.hint else ''}")
        return None


async def _edit_in_editor(question: Question, output: Output, env: Mapping[str, str]) -> Arguments | None:
    arguments = question.arguments
    if isinstance(command := arguments.get("command"), str):
        edited = await edit_text(command, name="command.sh", env=env)
        return {**arguments, "command": edited.rstrip("\n")} if edited and edited.strip() else None
    if (single := _find_single_edit(arguments)) is not None:
        edited = await edit_text(single["new"], name=str(single["path"]), env=env)
        return None if edited is None else {**arguments, "edits": [{**single, "new": edited}]}
    return await _edit_as_json(question, output, env)


def _find_single_edit(arguments: Arguments) -> dict[str, Any] | None:
    """The only edit of a call that edits files: its new text is what the user wants to change."""
    edits = arguments.get("edits")
    edit: dict[str, Any] = edits[0] if isinstance(edits, list) and len(edits) == 1 else {}
    is_text = isinstance(edit, dict) and isinstance(edit.get("new"), str) and isinstance(edit.get("path"), str)
    return edit if is_text else None


async def _edit_as_json(question: Question, output: Output, env: Mapping[str, str]) -> Arguments | None:
    from aish.tool_calls.schema.validator import schema_errors

    text = json.dumps(question.arguments, ensure_ascii=False, indent=2)
    edited = await edit_text(text + "\n", name="arguments.json", env=env)
    if edited is None or not edited.strip():
        return None
    try:
        arguments = json.loads(edited)
    except (ValueError, RecursionError) as exc:
        output.note(f"that is not JSON: {exc}")
        return None
    if errors := schema_errors(question.schema, arguments):
        output.note(f"that does not fit {question.tool}: {'; '.join(errors)}")
        return None
    return arguments if isinstance(arguments, dict) else None
