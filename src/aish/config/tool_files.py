"""Finds tools in Python files: the user's own in the folder of the user's settings, and those of a project.

The user's own need no trust: nothing but the user writes there. A file of a project has no effect until the user trusts
exactly its content, like a project's settings.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import msgspec

from aish.config import paths
from aish.config.instructions import InstructionFile, find_project_folders, read_own_file, read_project_file
from aish.config.user_decisions import content_hash, trust_file
from aish.extensions.manifest import PythonSource

OWN_FOLDER = "tools"
PROJECT_FOLDER = ".aish/tools"
# The owners of tools that belong to no extension, and so the first part of their names.
MY = "my"
PROJECT = "project"
_MAX_FILES = 500  # in one folder
_PROJECT_S = 5.0


class ToolFile(msgspec.Struct, frozen=True):
    """A file that defines tools, commands or hooks."""

    file: InstructionFile
    source: PythonSource

    @property
    def owner(self) -> str:
        return self.source.owner

    @property
    def is_usable(self) -> bool:
        return self.file.state == "trusted"


def own_tools_folder(env: Mapping[str, str]) -> Path:
    return paths.config_dir(env) / OWN_FOLDER


class ToolFileFinder:
    """Finds the files again and again, and reads only those that have changed."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._read: dict[Path, tuple[object, ToolFile]] = {}
        self._own = own_tools_folder(env)
        self._project: tuple[Path | None, float, Path, list[Path]] = None, 0.0, Path(), []

    def find(self, cwd: Path) -> list[ToolFile]:
        """The user's own files first, then those of the project from its root down to `cwd`."""
        decisions = _signature(trust_file(self._env))
        found: dict[Path, tuple[object, ToolFile]] = {}
        for path, root in self._candidates(cwd):
            signature = (_signature(path), decisions, root)
            known = self._read.get(path)
            found[path] = known if known is not None and known[0] == signature else (signature, self._load(path, root))
        self._read = found
        return [file for _, file in found.values()]

    def _candidates(self, cwd: Path) -> Iterator[tuple[Path, Path | None]]:
        for path in _python_files(self._own):
            yield path, None
        root, folders = self._find_project_folders(cwd)
        for folder in folders:
            for path in _python_files(folder):
                yield path, root

    def _find_project_folders(self, cwd: Path) -> tuple[Path, list[Path]]:
        """The root of the project and its folders for tools, there or not. Where a repository begins changes rarely."""
        known_cwd, until_s, root, folders = self._project
        now_s = time.monotonic()
        if cwd != known_cwd or now_s >= until_s:
            root, above = find_project_folders(paths.real(cwd), paths.real(paths.home_dir(self._env)))
            folders = [folder / PROJECT_FOLDER for folder in above]
            self._project = cwd, now_s + _PROJECT_S, root, folders
        return root, folders

    def _load(self, path: Path, root: Path | None) -> ToolFile:
        owner = MY if root is None else PROJECT
        real = paths.real(path)
        if root is not None:
            file = read_project_file(path, root, self._env)
        elif real.is_relative_to(paths.real(paths.config_dir(self._env))):
            file = read_own_file(path)
        else:  # a link to where others, such as a model with a workspace there, may write: pinned as a project's file
            file = read_project_file(real, real.parent, self._env)
        return ToolFile(file, PythonSource(owner, path=str(path), revision=content_hash(file.content)))


def _python_files(folder: Path) -> list[Path]:
    try:
        names = sorted(islice(os.listdir(folder), _MAX_FILES))  # noqa: PTH208  (faster where there is no folder)
    except OSError:
        return []
    return [folder / name for name in names if name.endswith(".py") and not name.startswith(("_", "."))]


def _signature(path: Path) -> object:
    """What changes whenever the file is written, as far as can be told without reading it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino
