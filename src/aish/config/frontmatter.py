"""Reads Markdown files with a head: skills, agents and prompt files.

The head stands between two lines of dashes. It is a small part of YAML, read leniently. The user's own files lie in the
folder of the user's settings; those of a project lie in each folder from the root of the repository down to the working
directory, and have no effect until the user trusts them (`instructions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from aish.config import paths
from aish.config.instructions import InstructionFile, find_project_folders, read_own_file, read_project_file
from aish.types.decisions import Mode

_MAX_ENTRIES = 500  # in one folder
_MAX_DEPTH = 3
_SUFFIX = ".md"
_MAX_NAME_CHARS = 64
_MAX_DESCRIPTION_CHARS = 1024
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")

_FENCE = "---"
_KEY = re.compile(r"([A-Za-z][\w-]*):(?:\s+(.*))?$")
_BLOCK = re.compile(r"[>|][+-]?\d?$")


def split_head(text: str) -> tuple[dict[str, str], str]:
    """The fields between two lines of dashes, and the text after them."""
    lines = text.splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        return {}, text.strip()
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), len(lines))
    return _read_fields(lines[1:end]), "\n".join(lines[end + 1 :]).strip()


def _read_fields(lines: list[str]) -> dict[str, str]:
    """Reads the texts at the top level of a YAML mapping: plain, quoted, folded and literal ones, and lists of plain
    ones. Unlike a YAML reader it takes `description: Use this: always`, as many skills have it."""
    fields: dict[str, str] = {}
    at = 0
    while at < len(lines):
        found = _KEY.match(lines[at])
        at += 1
        if found is None:
            continue
        more = []
        while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t-"):
            more.append(lines[at].strip())
            at += 1
        fields[found[1]] = _read_value((found[2] or "").strip(), more)
    return fields


def _read_value(first: str, more: list[str]) -> str:
    if _BLOCK.match(first):
        return ("\n" if first[0] == "|" else " ").join(more).strip()
    if not first and more and more[0].startswith("- "):
        return " ".join(_unquote(line.removeprefix("- ").strip()) for line in more)
    return _unquote(" ".join(filter(None, (first, *more))))


def _unquote(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        inner = text[1:-1]
        return inner.replace("''", "'") if text[0] == "'" else inner.replace('\\"', '"').replace("\\\\", "\\")
    return re.sub(r"(?:^|\s)#.*$", "", text).strip()


def split_list(value: str) -> tuple[str, ...]:
    """The words of a list, as it was written: `[a, b]`, `a, b` or one under the other."""
    inner = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    words = (_unquote(word) for word in re.split(r"[,\s]+", inner))
    return tuple(dict.fromkeys(word for word in words if word))


def find_head_problem(name: str, description: str) -> str:
    """What is wrong with the name and the description of a skill or an agent; "" if nothing is."""
    if _NAME.fullmatch(name) is None or len(name) > _MAX_NAME_CHARS:
        return f"needs a name of at most {_MAX_NAME_CHARS} small letters, digits and single '-'"
    if not description:
        return "has no description between two lines with ---"
    if len(description) > _MAX_DESCRIPTION_CHARS:
        return f"has a description of more than {_MAX_DESCRIPTION_CHARS} characters"
    return ""


def find_mode_problem(mode: str) -> str:
    """What is wrong with the mode that a head names; "" if nothing is, or if it names none."""
    if mode and mode not in tuple(Mode):
        return f"has the mode {mode[:20]!r}; there are {', '.join(Mode)}"
    return ""


class MarkdownEntry(msgspec.Struct, frozen=True):
    """A file with a head. `body` is the text after it."""

    file: InstructionFile
    name: str
    description: str = ""
    body: str = ""

    @property
    def is_usable(self) -> bool:
        return self.file.state == "trusted"

    def with_problem(self, problem: str) -> Self:
        file = msgspec.structs.replace(self.file, state="unreadable", problem=problem)
        return msgspec.structs.replace(self, file=file)


Entry = TypeVar("Entry", bound=MarkdownEntry)


def choose_by_name(entries: Iterable[Entry], limit: int) -> list[Entry]:
    """The first entries, each file once. Of entries with one name the first one is usable, and the others have a
    problem."""
    found: dict[Path, Entry] = {}
    owners: dict[str, Path] = {}
    for entry in islice(entries, limit):
        real = paths.real(entry.file.path)
        if real in found:  # one folder may be a link to another
            continue
        first = owners.get(entry.name)
        if first is not None and not entry.file.problem:
            entry = entry.with_problem(f"has the name of {first}")
        elif entry.is_usable:
            owners[entry.name] = entry.file.path
        found[real] = entry
    return list(found.values())


def usable_names(entries: Iterable[MarkdownEntry]) -> frozenset[str]:
    return frozenset(entry.name for entry in entries if entry.is_usable)


def find_project_subfolders(names: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Iterator[tuple[Path, Path]]:
    """The root of the project, and each folder of these names in it, the nearest first."""
    root, folders = find_project_folders(paths.real(cwd), paths.real(paths.home_dir(env)))
    for folder in reversed(folders):
        for name in names:
            yield root, folder / name


def read_markdown_files(
    own: str,
    names: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    more: Sequence[Path] = (),
    *,
    is_nested: bool = False,
) -> Iterator[tuple[str, InstructionFile]]:
    """The files of the user's folder `own`, then of `more` folders that the user trusts, then of the project's folders.
    The name of a file has no suffix; in a subfolder it begins with `folder:`."""
    for trusted in (paths.config_dir(env) / own, *more):
        for name, path in _list_files(trusted, is_nested=is_nested):
            yield name, read_own_file(path)
    for root, folder in find_project_subfolders(names, cwd, env):
        for name, path in _list_files(folder, is_nested=is_nested):
            yield name, read_project_file(path, root, env)


def list_entries(folder: Path) -> list[Path]:
    """What lies in the folder, sorted and bounded; nothing if it cannot be read."""
    try:
        return sorted(islice(folder.iterdir(), _MAX_ENTRIES))
    except OSError:
        return []


def _list_files(folder: Path, *, is_nested: bool, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, Path]]:
    for entry in list_entries(folder):
        if entry.suffix == _SUFFIX and entry.is_file():
            yield f"{prefix}{entry.stem}", entry
        elif is_nested and depth < _MAX_DEPTH and not entry.name.startswith(".") and entry.is_dir():
            yield from _list_files(entry, is_nested=True, prefix=f"{prefix}{entry.name}:", depth=depth + 1)
