"""Rules a person added by answering "always": kept apart from the config file, which is theirs alone to write."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aish.config import paths
from aish.errors import ConfigError

_FILE = "approved.json"
_MAX_BYTES = 1024 * 1024


def approvals_file(env: Mapping[str, str], home: Path | None = None) -> Path:
    return paths.data_dir(env, home) / _FILE


def load_approvals(file: Path) -> list[dict[str, Any]]:
    """Nothing where there is no file. A damaged one is an error: what it allowed is not guessed."""
    try:
        content = file.read_bytes()[: _MAX_BYTES + 1]
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise ConfigError(f"{file} cannot be read: {exc.strerror}") from exc
    try:
        return msgspec.json.decode(content, type=list[dict[str, Any]])
    except msgspec.DecodeError as exc:
        raise ConfigError(f"{file} is damaged: {exc}", hint="delete it to be asked again") from exc


def add_approval(file: Path, rule: Mapping[str, Any]) -> None:
    """Appends, whole or not at all; only the user may read it."""
    rules = [*load_approvals(file), dict(rule)]
    staged = file.with_suffix(f".{os.getpid()}.tmp")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(msgspec.json.format(msgspec.json.encode(rules)) + b"\n")
        staged.replace(file)
    except OSError as exc:
        raise ConfigError(f"{file} cannot be written: {exc.strerror}") from exc
