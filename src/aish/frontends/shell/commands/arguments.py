"""What stands after a `:name`: taken apart, or refused with what there is."""

from __future__ import annotations

import shlex
from pathlib import Path

from aish.errors import UsageError


def words_of(text: str) -> list[str]:
    """As a shell splits them."""
    try:
        return shlex.split(text)
    except ValueError as exc:
        raise UsageError(f"{text} cannot be read: {str(exc).lower()}", hint="close the quotation") from exc


def path_of(cwd: str, name: str) -> Path:
    """From the shell's directory; `~` is a home."""
    try:
        return Path(cwd) / Path(name).expanduser()
    except RuntimeError as exc:
        raise UsageError(f"{name}: nobody here has such a home") from exc


def is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # too long a name
        return False


def unknown(command: str, given: str, known: str) -> UsageError:
    return UsageError(f":{command} knows no {given}", hint=f"it takes {known}")
