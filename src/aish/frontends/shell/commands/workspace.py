"""`:workspace`: the folder in which the model works. It follows the user to another project between two turns."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

from aish.config import paths
from aish.config.user_decisions import is_trusted, project_content, was_refused
from aish.errors import AishError, UsageError
from aish.frontends.runtime import WorkspaceChoice, find_entries
from aish.frontends.shell.prompt.template import shorten_path
from aish.frontends.shell.shell import Shell
from aish.types.decisions import Mode

AISH = f"{shlex.quote(sys.executable)} -m aish"  # `aish` need not be on the user's PATH


async def follow_user(shell: Shell) -> None:
    """Before a turn: the workspace becomes the project that the user has gone to."""
    workspaces = shell.runtime.workspaces
    if shell.live is None or not shell.runtime.config.shell.follow:
        return
    mode = workspaces.loaded.config.gate.mode
    try:
        before = await workspaces.follow(Path(shell.cwd))
    except AishError as exc:
        stays = f"the workspace stays {_shorten(shell, workspaces.folder)}: {exc.message}"
        shell.mention_once(stays, stays)
        return
    if before is not None:
        await _tell_move(shell, before, mode)


async def workspace(shell: Shell, rest: str) -> None:
    workspaces = shell.runtime.workspaces
    here, before, mode = Path(shell.cwd), workspaces.folder, workspaces.loaded.config.gate.mode
    match rest:
        case "":
            await follow_user(shell)
        case "pin":
            workspaces.pin(on=True)
        case "follow":
            workspaces.pin(on=False)
            await follow_user(shell)
        case "back" if workspaces.before is None:
            raise UsageError("there was no other workspace before", hint=":workspace PATH names one")
        case "back":
            assert workspaces.before is not None
            await workspaces.choose(workspaces.before, here)
        case _:
            await workspaces.choose(_find_folder(rest, here), here)
    if rest not in ("", "pin", "follow") and workspaces.folder != before:
        await _tell_move(shell, before, mode)
    shell.output.note(_describe(shell, workspaces))


def _describe(shell: Shell, workspaces: WorkspaceChoice) -> str:
    if workspaces.is_pinned:
        how = "pinned: it stays when you go elsewhere; `:workspace follow` lets it follow you"
    elif shell.runtime.config.shell.follow:
        how = "follows you to other projects; `:workspace pin` keeps it"
    else:
        how = "does not follow you (shell.follow)"
    return f"workspace {_shorten(shell, workspaces.folder)}, {how}"


async def _tell_move(shell: Shell, before: Path, mode: Mode) -> None:
    """Says where the model works from now on. A mode that the settings before have set, and not the user, gives way to
    the one that is set here."""
    workspaces = shell.runtime.workspaces
    if shell.mode is mode:
        shell.switch_mode(workspaces.loaded.config.gate.mode)
    text = f"workspace: {_shorten(shell, workspaces.folder)} (was {_shorten(shell, before)})"
    shell.output.note(f"· {text}" + (f", mode {shell.mode}" if shell.mode is not Mode.ASK else ""))
    untrusted = await asyncio.to_thread(find_untrusted, shell, also_refused=False)
    if untrusted:
        names = ", ".join(_shorten(shell, path) for path in untrusted)
        shell.mention_once(names, f"not used until you trust it (:trust): {names}")


def find_untrusted(shell: Shell, *, also_refused: bool) -> list[Path]:
    """What `aish config trust` would accept: the settings as they are on the disk now, and the files for models."""
    runtime, env = shell.runtime, shell.runtime.launch_context.env
    entries = (entry.file for _, entry in find_entries(runtime))
    files = (*runtime.instruction_files(), *entries, *(tool.file for tool in runtime.extensions.tool_files()))
    states = ("untrusted", "refused") if also_refused else ("untrusted",)
    found = [file.path for file in files if file.state in states]
    settings = paths.find_project_file(Path(shell.cwd), paths.home_dir(env), paths.user_file(env))
    if settings is None:
        return found
    content = project_content(settings)
    is_answered = is_trusted(settings, content, env=env) or (
        not also_refused and was_refused(settings, content, env=env)
    )
    return found if is_answered else [settings, *found]


def _find_folder(name: str, here: Path) -> Path:
    return here / Path(name).expanduser()


def _shorten(shell: Shell, path: Path) -> str:
    return shorten_path(str(path), shell.runtime.launch_context.env.get("HOME", ""))
