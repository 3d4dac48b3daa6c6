"""Finds the directories of aish's files: the XDG base directories of the given environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from aish.errors import ConfigError

PROJECT_FILE = ".aish.toml"


def home_dir(env: Mapping[str, str]) -> Path:
    if env.get("HOME"):
        return Path(env["HOME"])
    try:
        return Path.home()
    except RuntimeError as exc:
        raise ConfigError("there is no home directory to keep settings in", hint="set HOME") from exc


def config_dir(env: Mapping[str, str]) -> Path:
    return _base("XDG_CONFIG_HOME", ".config", env)


def data_dir(env: Mapping[str, str]) -> Path:
    return _base("XDG_DATA_HOME", ".local/share", env)


def cache_dir(env: Mapping[str, str]) -> Path:
    return _base("XDG_CACHE_HOME", ".cache", env)


def sandbox_cache_dir(env: Mapping[str, str]) -> Path:
    """For commands in the sandbox, beside the folder that they do not see. No program outside uses it."""
    return cache_dir(env).with_name("aish-sandbox")


def runtime_dir(env: Mapping[str, str]) -> Path:
    """For what lasts no longer than a process. Unlike a folder of temporary files, sandboxes can hide it."""
    base = Path(env.get("XDG_RUNTIME_DIR", ""))
    return base / "aish" if base.is_absolute() and os.access(base, os.W_OK) else data_dir(env) / "run"


def extensions_file(env: Mapping[str, str]) -> Path:
    """The extensions that the user has enabled."""
    return data_dir(env) / "extensions.json"


def user_file(env: Mapping[str, str]) -> Path:
    return config_dir(env) / "config.toml"


def find_project_file(cwd: Path, home: Path, user: Path) -> Path | None:
    """Finds the nearest `.aish.toml` from the working directory upwards. The home directory is not a project."""
    cwd, home, user = real(cwd), real(home), real(user)
    for folder in (cwd, *cwd.parents):
        if folder == home:
            return None
        candidate = folder / PROJECT_FILE
        if _exists(candidate) and real(candidate) != user:
            return candidate
    return None


def real(path: Path) -> Path:
    """Returns the path without links, or the absolute path if the links cannot be followed."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        return path.absolute()


def _exists(path: Path) -> bool:
    try:
        return path.exists() or path.is_symlink()
    except OSError:  # a directory without permission
        return False


def _base(variable: str, fallback: str, env: Mapping[str, str]) -> Path:
    value = env.get(variable, "")
    # The XDG specification: a relative path is to be ignored.
    base = Path(value) if value and Path(value).is_absolute() else home_dir(env) / fallback
    return base / "aish"
