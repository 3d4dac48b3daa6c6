"""Stores the rules that users added with the answer "always". aish never writes the config file itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aish.config import paths
from aish.config.locked_file import change_file
from aish.errors import ConfigError

_FILE = "approved.json"
_MAX_BYTES = 1024 * 1024


def approvals_file(env: Mapping[str, str], home: Path | None = None) -> Path:
    return paths.data_dir(env, home) / _FILE


def load_approvals(file: Path) -> list[dict[str, Any]]:
    """Reads the rules; none if there is no file. Raises ConfigError if the file is damaged."""
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
    """Appends a rule. Only the user may read the file."""

    def with_rule() -> bytes:
        return msgspec.json.format(msgspec.json.encode([*load_approvals(file), dict(rule)])) + b"\n"

    change_file(file, with_rule)
