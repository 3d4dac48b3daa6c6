"""Parses what follows a `:name` command."""

from __future__ import annotations

import shlex
from pathlib import Path

from aish.errors import UsageError


def split_words(text: str) -> list[str]:
    """Splits as a shell does. Raises UsageError."""
    try:
        return shlex.split(text)
    except ValueError as exc:
        raise UsageError(f"{text} cannot be read: {str(exc).lower()}", hint="close the quotation") from exc


def resolve_path(cwd: str, name: str) -> Path:
    """Relative to the shell's directory; `~` is expanded. Raises UsageError."""
    try:
        return Path(cwd) / Path(name).expanduser()
    except RuntimeError as exc:
        raise UsageError(f"{name}: there is no such home directory") from exc


def is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # the name is too long
        return False


def unknown_argument(command: str, given: str, known: str) -> UsageError:
    return UsageError(f":{command} has no argument {given}", hint=f"it takes {known}")
