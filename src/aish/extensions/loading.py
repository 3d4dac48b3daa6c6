"""Imports the Python of an extension, and finds what it defines.

A file is imported from exactly the bytes that were pinned, under a name of its own, and its folder is not put on the
import path: a file that was not looked at is never run by accident.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import msgspec

from aish.errors import AishError, UsageError
from aish.extensions.definitions import (
    CommandFunction,
    Definition,
    HookFunction,
    ToolFunction,
    find_definitions,
    find_settings,
    make_manifest,
)
from aish.extensions.folder_hash import find_package_folder, hash_folder
from aish.extensions.manifest import Manifest, PythonSource

MAX_FILE_BYTES = 1024 * 1024
_PREFIX = "aish_extension_"
_DIGEST_CHARS = 64  # of a SHA-256; the revision of other modules is their version

Kind = TypeVar("Kind", ToolFunction, CommandFunction, HookFunction)


class LoadError(AishError):
    """An extension that cannot be imported. The message says where and why."""


class LoadedSource(msgspec.Struct, frozen=True):
    definitions: tuple[Definition, ...]
    settings_class: type | None

    @property
    def manifest(self) -> Manifest:
        return make_manifest(self.definitions, self.settings_class)

    def find(self, kind: type[Kind], name: str) -> Kind | None:
        found = (each for each in self.definitions if isinstance(each, kind))
        return next((each for each in found if each.entry.name == name), None)

    def read_settings(self, values: Mapping[str, Any]) -> Any:
        """Raises UsageError if they do not fit."""
        if self.settings_class is None:
            return None
        try:
            return msgspec.convert(dict(values), self.settings_class, strict=False)
        except msgspec.ValidationError as exc:
            raise UsageError(f"its settings do not fit: {exc}") from exc


def load_source(source: PythonSource) -> LoadedSource:
    """Runs the code of the source. Raises LoadError."""
    try:
        module = _import_module(source) if source.module else _load_file(source)
        namespace = vars(module)
        return LoadedSource(tuple(find_definitions(namespace)), find_settings(namespace))
    except LoadError:
        raise
    except AishError as exc:
        hint = f" ({exc.hint})" if exc.hint else ""
        raise LoadError(f"{_place(source, exc)}: {exc.message}{hint}") from exc
    except SyntaxError as exc:
        raise LoadError(f"{_place(source, exc)}: SyntaxError: {exc.msg}") from exc
    except ModuleNotFoundError as exc:
        hint = f"; if it is a package, install it where aish runs: {sys.executable} -m pip install {exc.name}"
        raise LoadError(f"{_place(source, exc)}: {type(exc).__name__}: {exc}{hint}") from exc
    except BaseException as exc:  # anything may happen in an import, also `sys.exit`
        if isinstance(exc, KeyboardInterrupt):
            raise
        raise LoadError(f"{_place(source, exc)}: {type(exc).__name__}: {exc}") from exc


def is_pinned_module(source: PythonSource) -> bool:
    return bool(source.module) and len(source.revision) == _DIGEST_CHARS


def check_pinned_module(source: PythonSource) -> None:
    """Raises LoadError if the files of the module's package are not those that were enabled. Not only before it is
    imported: a function may import more of them later."""
    folder = find_package_folder(source.module)
    if folder is None:
        raise LoadError(f"the module {source.module} is not installed")
    try:
        found = hash_folder(folder)
    except UsageError as exc:
        raise LoadError(exc.message) from exc
    if found != source.revision:
        raise LoadError(f"{source.module} has changed since it was enabled")


def _import_module(source: PythonSource) -> ModuleType:
    """A pinned module is compiled from its files, which were hashed: bytecode beside them was not."""
    if not is_pinned_module(source):
        return importlib.import_module(source.module)
    check_pinned_module(source)
    before = sys.pycache_prefix, sys.dont_write_bytecode
    sys.pycache_prefix, sys.dont_write_bytecode = os.devnull, True
    try:
        return importlib.import_module(source.module)
    finally:
        sys.pycache_prefix, sys.dont_write_bytecode = before


def _load_file(source: PythonSource) -> ModuleType:
    content = Path(source.path).read_bytes()
    if len(content) > MAX_FILE_BYTES:
        raise LoadError(f"{source.path} is larger than {MAX_FILE_BYTES // 1024} KiB")
    if hashlib.sha256(content).hexdigest() != source.revision:
        raise LoadError(f"{source.path} has changed; it is read again with the next turn")
    name = f"{_PREFIX}{source.revision[:16]}_{Path(source.path).stem}"
    module = ModuleType(name)
    module.__file__ = source.path
    sys.modules[name] = module  # annotations and dataclasses are looked up there
    try:
        exec(compile(content, source.path, "exec"), vars(module))
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _place(source: PythonSource, exc: BaseException) -> str:
    """The file, and the line of it that failed."""
    if isinstance(exc, SyntaxError) and exc.filename == source.path:
        return f"{source.path}:{exc.lineno}"
    line = _find_line(source, exc)
    return f"{source.title}:{line}" if line else source.title


def find_place(exc: BaseException, source: PythonSource) -> str:
    """The line of the source that an exception passed last, as " (file.py:12)"."""
    line = _find_line(source, exc) or (_find_line(source, exc.__cause__) if exc.__cause__ else 0)
    return f" ({Path(source.path).name}:{line})" if line else ""


def _find_line(source: PythonSource, exc: BaseException) -> int:
    trace, line = exc.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == source.path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
