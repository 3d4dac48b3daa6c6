"""What is known about programs: our own table, the programs on PATH, and their manual pages."""

from __future__ import annotations

import gzip
import os
import re
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

BUILTINS = frozenset(
    {"export", "history", "jobs", "type", "cd", "alias", "source", "ulimit", "umask", "wait", "disown"}
)
NO_PACKAGE = "-"  # of a program that is told of only where it is installed
_MAX_PROGRAMS = 10_000
_PAGE_BYTES = 256 * 1024  # the name is at the beginning, the examples at the end of all but the longest pages
_NAME_LINE = re.compile(r"^\.S[Hh] +\"?NAME\"?\s*\n(.+?)^\.S[Hh] ", re.M | re.S)
_MDOC_LINE = re.compile(r"^\.Nd +(.+)$", re.M)
_ROFF = re.compile(r"\\f[A-Z]|\\[&,/]|^\.[A-Za-z]+ ?|\"", re.M)


class KnownProgram(msgspec.Struct, frozen=True):
    about: str
    words: str = ""
    example: str = ""
    package: str = ""


class ProgramTable(msgspec.Struct, frozen=True):
    """Our own data: programs by name, synonyms of everyday words, and stop words."""

    programs: Mapping[str, KnownProgram]
    synonyms: Mapping[str, list[str]]
    stop: frozenset[str]


@cache
def program_table() -> ProgramTable:
    text = resources.files("aish.tools.command_index").joinpath("known.toml").read_text(encoding="utf-8")
    read: dict[str, Any] = tomllib.loads(text)
    programs = {name: KnownProgram(*fields) for name, fields in read["programs"].items()}
    return ProgramTable(programs, read["synonyms"], frozenset(read["stop"].split()))


def find_programs(path: str) -> set[str]:
    """Returns the names of all programs on PATH, and bash's builtins."""
    found: set[str] = set(BUILTINS)
    for folder in path.split(os.pathsep):
        try:
            entries = list(os.scandir(folder)) if folder.startswith("/") else []
        except OSError:
            continue
        for entry in entries:
            if len(found) >= _MAX_PROGRAMS:
                return found
            if not entry.name.startswith(".") and os.access(entry.path, os.X_OK) and entry.is_file():
                found.add(entry.name)
    return found


def manual_pages(programs: set[str], folders: tuple[Path, ...]) -> Iterator[tuple[str, str]]:
    """Yields each program's manual page as raw text."""
    for folder in folders:
        for name in programs:
            for file in (folder / f"{name}.{folder.name[-1]}.gz", folder / f"{name}.{folder.name[-1]}"):
                if text := _page(file):
                    yield name, text
                    break


def _page(file: Path) -> str:
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as page:
            return page.read(_PAGE_BYTES).decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error):
        return ""


def read_purpose(text: str) -> str:
    """Returns the one-line description of a manual page."""
    if described := _MDOC_LINE.search(text):
        return strip_markup(described[1])
    named = _NAME_LINE.search(text)
    _, dash, about = named[1].partition("\\-") if named else ("", "", "")
    return strip_markup(about if dash else "")


def strip_markup(text: str) -> str:
    """Removes roff markup."""
    for mark, meant in (("\\(aq", "'"), ("\\[aq]", "'"), ("\\(dq", '"'), ("\\[dq]", '"'), ("\\-", "-"), ("\\e", "\\")):
        text = text.replace(mark, meant)
    return " ".join(_ROFF.sub("", text).split())[:200]
