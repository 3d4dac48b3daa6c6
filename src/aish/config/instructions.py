"""Finds the instructions of a project for models: `AGENTS.md`, and the files that other agents read.

Every folder from the root of the repository down to the working directory may have one, and so may the folder of the
user's own settings. A file of a project has no effect until the user trusts it, like a project's settings
(`user_decisions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from aish.config import paths
from aish.config.toml_file import Unreadable, read_bounded
from aish.config.user_decisions import is_trusted, was_refused

# The first one that is in a folder counts.
INSTRUCTION_NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
_MAX_FOLDERS = 32


class InstructionFile(msgspec.Struct, frozen=True):
    """`content` is what was read; `problem` says why a file cannot be read."""

    path: Path
    state: Literal["trusted", "untrusted", "refused", "unreadable"]
    content: bytes = b""
    problem: str = ""


def find_instructions(cwd: Path, env: Mapping[str, str], more: Sequence[Path] = ()) -> list[InstructionFile]:
    """The user's own file first, then `more` files that the user trusts, then those of the project from its root down
    to `cwd`."""
    own = paths.config_dir(env) / INSTRUCTION_NAMES[0]
    files = [read_own_file(path) for path in (own, *more) if path.is_file()]
    root, folders = find_project_folders(paths.real(cwd), paths.real(paths.home_dir(env)))
    for folder in folders:
        path = next((folder / name for name in INSTRUCTION_NAMES if (folder / name).is_file()), None)
        if path is not None:
            files.append(read_project_file(path, root, env))
    return files


def find_project_folders(cwd: Path, home: Path) -> tuple[Path, list[Path]]:
    """The root of the repository, and the folders from there to `cwd`. Without a repository only `cwd`. The home
    directory is not a project."""
    folders = [cwd]
    for folder in (cwd, *cwd.parents)[:_MAX_FOLDERS]:
        if folder == home:
            break
        if folder != cwd:
            folders.append(folder)
        if (folder / ".git").exists():
            return folder, folders[::-1]
    return cwd, [] if cwd == home else [cwd]


def read_own_file(path: Path) -> InstructionFile:
    try:
        return InstructionFile(path, "trusted", read_bounded(path))
    except (Unreadable, OSError) as exc:
        return InstructionFile(path, "unreadable", problem=_say(exc))


def read_project_file(path: Path, root: Path, env: Mapping[str, str]) -> InstructionFile:
    """Reads a file for models and finds out whether the user trusts it. `root` is the project, which no link leaves."""
    if not paths.real(path).is_relative_to(root):
        return InstructionFile(path, "unreadable", problem="is a link that leads out of the project")
    try:
        content = read_bounded(path)
    except (Unreadable, OSError) as exc:
        return InstructionFile(path, "unreadable", problem=_say(exc))
    if is_trusted(path, content, env=env):
        return InstructionFile(path, "trusted", content)
    return InstructionFile(path, "refused" if was_refused(path, content, env=env) else "untrusted", content)


def _say(error: Unreadable | OSError) -> str:
    return error.message if isinstance(error, Unreadable) else f"cannot be read: {error.strerror}"
