"""Extensions: folders with an `extension.toml`, and installed packages, that the user has enabled.

An enabled folder is pinned by a hash of all its files: whatever changes in it has no effect until the user enables it
again. A package in a folder of installed packages is what the user has installed, so it is pinned by its name only; one
that is installed from where it is worked on (`pip install --editable`) is pinned like a folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from aish.config import paths
from aish.config.toml_file import Unreadable, read_toml
from aish.config.user_decisions import change_file
from aish.errors import ConfigError, UsageError
from aish.extensions.folder_hash import find_package_folder, hash_folder, is_hashed
from aish.extensions.manifest import PythonSource

EXTENSION_FILE = "extension.toml"
ENTRY_POINTS = "aish.extensions"
# Names of tools that are aish's own, or belong to no extension.
RESERVED = frozenset({"aish", "agents", "history", "ide", "my", "project", "runtime", "shell", "skills", "tools"})
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}[a-z0-9]")

Part = Literal["instructions", "skills", "commands", "agents"]
PARTS: tuple[Part, ...] = ("instructions", "skills", "commands", "agents")
State = Literal["enabled", "available", "changed", "broken"]


class ExtensionHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of `extension.toml`. Paths are relative to its folder."""

    name: str
    description: str = ""
    version: str = ""
    python: tuple[str, ...] = ()
    instructions: str = ""
    skills: str = ""
    commands: str = ""
    agents: str = ""


class Extension(msgspec.Struct, frozen=True):
    """`folder` is None for a package without an `extension.toml`. `sources` is the Python that the tool process
    imports."""

    name: str
    state: State
    description: str = ""
    version: str = ""
    folder: Path | None = None
    module: str = ""
    sha256: str = ""
    sources: tuple[PythonSource, ...] = ()
    head: ExtensionHead | None = None
    problem: str = ""

    @property
    def is_usable(self) -> bool:
        return self.state == "enabled"

    def missing_parts(self) -> list[str]:
        """What `extension.toml` names and is not there."""
        parts = [path for name in PARTS if (path := self.part(name)) is not None]
        return [f"{path} is not there" for path in parts if not path.exists()]

    def part(self, name: Part) -> Path | None:
        """The file or folder of a part, if the extension has it."""
        relative = getattr(self.head, name) if self.head is not None else ""
        return self.folder / relative if relative and self.folder is not None else None


class _Pin(msgspec.Struct, omit_defaults=True):
    """What the user has enabled: a folder with this content, or the module of a package."""

    path: str = ""
    sha256: str = ""
    module: str = ""


def find_extensions(env: Mapping[str, str]) -> list[Extension]:
    """The extensions that the user has enabled."""
    return [_read_pinned(name, pin) for name, pin in sorted(_read_pins(env).items())]


def find_usable_parts(env: Mapping[str, str]) -> dict[Part, list[Path]]:
    """The files and folders of each part, of the extensions that are enabled and have not changed since."""
    usable = [each for each in find_extensions(env) if each.is_usable]
    return {name: [path for each in usable if (path := each.part(name)) is not None] for name in PARTS}


def find_available(env: Mapping[str, str]) -> list[Extension]:
    """The enabled extensions, and installed packages that could be enabled."""
    enabled = {each.name: each for each in find_extensions(env)}
    installed = [_read_module(name, module, "available") for name, module in _list_installed().items()]
    return [*enabled.values(), *(each for each in installed if each.name not in enabled)]


def read_extension(target: str) -> Extension:
    """An extension by its folder or by the name of an installed one, as it would be enabled. Raises UsageError."""
    folder = Path(target).expanduser()
    if folder.is_dir():
        found = _read_folder(folder.resolve(), "available")
    elif module := _list_installed().get(target):
        found = _read_module(target, module, "available")
    else:
        raise UsageError(
            f"there is no extension {target}", hint=f"name a folder with {EXTENSION_FILE}, or an installed extension"
        )
    if found.problem:
        raise UsageError(f"{target}: {found.problem}")
    return found


def enable_extension(extension: Extension, env: Mapping[str, str]) -> None:
    """Enables exactly what was read. Raises ConfigError, and UsageError if another one has its name."""
    path = "" if extension.module else str(extension.folder)
    pin = _Pin(path, extension.sha256, extension.module)
    before = _read_pins(env).get(extension.name)
    if before is not None and (before.path, before.module) != (pin.path, pin.module):
        where = before.path or f"the package {before.module}"
        raise UsageError(
            f"there is an extension {extension.name} already, from {where}",
            hint=f"`aish extensions remove {extension.name}` first, or give one of them another name",
        )
    _change_pins(env, {extension.name: pin})


def remove_extension(name: str, env: Mapping[str, str]) -> bool:
    """Returns False if it was not enabled."""
    is_known = name in _read_pins(env)
    if is_known:
        _change_pins(env, {name: None})
    return is_known


def _read_pins(env: Mapping[str, str]) -> dict[str, _Pin]:
    try:
        return msgspec.json.decode(paths.extensions_file(env).read_bytes(), type=dict[str, _Pin])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as exc:
        hint = "delete it, and enable extensions again"
        raise ConfigError(f"{paths.extensions_file(env)} cannot be read: {exc}", hint=hint) from exc


def _change_pins(env: Mapping[str, str], changes: Mapping[str, _Pin | None]) -> None:
    def with_changes() -> bytes:
        pins = {name: pin for name, pin in {**_read_pins(env), **changes}.items() if pin is not None}
        return msgspec.json.format(msgspec.json.encode(pins), indent=2) + b"\n"

    change_file(paths.extensions_file(env), with_changes)


def _read_pinned(name: str, pin: _Pin) -> Extension:
    found = _read_module(name, pin.module, "enabled") if pin.module else _read_folder(Path(pin.path), "enabled")
    if found.problem:
        return msgspec.structs.replace(found, name=name)
    if found.sha256 != pin.sha256 or found.name != name:
        problem = f"has changed since it was enabled; `aish extensions add {pin.path or name}` shows it again"
        return msgspec.structs.replace(found, name=name, state="changed", problem=problem)
    return found


def _read_folder(folder: Path, state: State) -> Extension:
    """An extension in a folder. What is wrong with it is its problem."""
    try:
        head = read_head(folder)
        digest = hash_folder(folder)
        sources = tuple(_source(folder, head, file) for file in head.python)
    except UsageError as exc:
        return Extension(folder.name, "broken", folder=folder, problem=exc.message)
    return Extension(
        head.name, state, head.description, head.version, folder, sha256=digest, sources=sources, head=head
    )


def read_head(folder: Path) -> ExtensionHead:
    """Raises UsageError."""
    path = folder / EXTENSION_FILE
    try:
        file = read_toml(path)
        if file is None:
            raise UsageError(f"there is no {path}", hint="an extension is a folder with this file")
        head = msgspec.convert(file.values, ExtensionHead)
    except (Unreadable, msgspec.ValidationError) as exc:
        raise UsageError(f"{path}: {exc}") from exc
    if _NAME.fullmatch(head.name) is None or "__" in head.name:
        raise UsageError(f"{path}: the name {head.name!r} must be of small letters, digits, '-' and single '_'")
    if head.name in RESERVED:
        raise UsageError(f"{path}: the name {head.name} is taken by aish itself")
    for relative in (*head.python, head.instructions, head.skills, head.commands, head.agents):
        if relative and not paths.real(folder / relative).is_relative_to(paths.real(folder)):
            raise UsageError(f"{path}: {relative} leads out of the folder")
        if not is_hashed(relative):
            raise UsageError(f"{path}: {relative} cannot be a part of an extension")
    return head


def _source(folder: Path, head: ExtensionHead, file: str) -> PythonSource:
    from hashlib import sha256

    path = folder / file
    try:
        return PythonSource(head.name, path=str(path), revision=sha256(path.read_bytes()).hexdigest())
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}") from exc


def _list_installed() -> dict[str, str]:
    """The names of installed extensions and their modules."""
    from importlib.metadata import entry_points

    return {entry.name: entry.value.partition(":")[0].strip() for entry in entry_points(group=ENTRY_POINTS)}


def _read_module(name: str, module: str, state: State) -> Extension:
    """An installed extension. Nothing of it is imported here."""
    if _NAME.fullmatch(name) is None or name in RESERVED:
        return Extension(name, "broken", module=module, problem=f"{name} cannot name an extension")
    folder = find_package_folder(module)
    if folder is None:
        return Extension(name, "broken", module=module, problem=f"its module {module} is not installed")
    head: ExtensionHead | None = None
    try:
        if (folder / EXTENSION_FILE).is_file():
            head = msgspec.structs.replace(read_head(folder), name=name)
        digest = "" if _is_site_folder(folder) else hash_folder(folder)
    except UsageError as exc:
        return Extension(name, "broken", module=module, problem=exc.message)
    facts = _read_metadata(name)
    version = facts.get("version", "")
    return Extension(
        name, state, (head.description if head else "") or facts.get("summary", ""), version, folder, module, digest,
        (PythonSource(name, module=module, revision=digest or version),), head,
    )  # fmt: skip


def _is_site_folder(folder: Path) -> bool:
    """Whether a package lies where installers put packages. Others may be changed by anyone who works on them."""
    import site
    import sysconfig

    places = {*sysconfig.get_paths().values(), site.getusersitepackages()}
    return any(folder.is_relative_to(place) for place in places)


def _read_metadata(name: str) -> dict[str, Any]:
    from importlib.metadata import entry_points

    for entry in entry_points(group=ENTRY_POINTS, name=name):
        if entry.dist is not None:
            return {"summary": entry.dist.metadata["Summary"] or "", "version": entry.dist.version}
    return {}
