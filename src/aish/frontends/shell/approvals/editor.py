"""Lets the user edit a text in their own editor, which has the terminal until it ends.

The text lies in a private file that is removed afterwards. The editor is a foreground child on the user's terminal, so
it has no time limit: the user ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from aish.errors import ProcessError
from aish.frontends.shell.prompt.terminal_echo import echo_on
from aish.process.spawn import run_in_foreground

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
