"""The tables in data/, loaded at first use. Entries are found by a program's name."""

from __future__ import annotations

import functools
import re
import tomllib
from fnmatch import fnmatchcase
from importlib import resources
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from aish.safety.commands.options import Grammar, grammar
from aish.safety.commands.verdict import Level, PathChange


class DestructiveRule(msgspec.Struct, frozen=True):
    """A destructive use of a program. Every given condition must hold."""

    id: str
    program: str
    says: str
    kind: str = msgspec.field(name="class")
    verb: str = ""
    word: str = ""
    flags: tuple[str, ...] = ()
    unless: str = ""
    method: str = ""
    dynamic: bool = False
    dashes: bool = False
    text: str = ""
    level: Level = Level.DESTRUCTIVE
    catastrophe: bool = False


class Wrapper(msgspec.Struct, frozen=True):
    program: str
    options: str = ""
    verb: str = ""
    skip: int = 0
    after: str = ""
    text: bool = False
    scripts: str = ""
    only_scripts: bool = False
    assignments: bool = False
    bang: bool = False
    applescript: bool = False
    each: bool = False
    permitted: str | None = None


class WriterProgram(msgspec.Struct, frozen=True):
    program: str
    which: str
    to: str = ""
    options: str = ""
    needs: str = ""
    unless: str = ""
    append: str = ""
    change: PathChange = PathChange.OVERWRITE


class ScriptLanguage(msgspec.Struct, frozen=True):
    name: str
    program: str
    code: str
    destroys: str
    options: str = ""
    verb: str = ""
    single: bool = False
    writes: str = "(?!)"
    spawns: str = "(?!)"
    hides: str = "(?!)"


class QueryClient(msgspec.Struct, frozen=True):
    """A program that takes a query language."""

    program: str
    code: str
    options: str = ""
    single: bool = False
    mongo: bool = False
    local: bool = False  # its databases are files, so a sandbox does not hold what it changes


class Permit(msgspec.Struct, frozen=True):
    """How a program may be run to stay read-only, and what it then reads.

    `any` permits every option; `flags` then only says which take a value. `operands` says what the words without a dash
    are: files whose content or whose names are shown, plain text, or a pattern (unless an option in `given` supplies
    it) before files. `paths` names options whose value is a file, `filters` those whose value selects files by name,
    `deep` those that read folders recursively ("*": always), `refuse` arguments that are not permitted. `folders`: an
    operand may be a folder, whose files are then read.
    """

    flags: str = ""
    any: bool = False
    operands: Literal["files", "names", "text", "pattern"] = "files"
    given: str = ""
    paths: str = ""
    filters: str = ""
    deep: str = ""
    folders: bool = False
    tracked: bool = False  # of a folder in a repository, only what is tracked is read
    lists: str = ""  # options with which only names are shown
    shows_hidden: str = ""  # options with which hidden files are searched; "" means always
    ignores_links: str = ""  # options with which links below a folder are not read; "*" means always
    follows: str = ""  # options with which links are followed below a folder
    shows_remote: bool = False  # shows addresses in the settings of the repository, which may hold a login
    here: bool = False  # reads the working directory if no file is named
    refuse: str = ""
    network: str = ""  # the host it contacts
    secret: str = ""  # the secret it shows
    uses: tuple[str, ...] = ()
    require: str = ""
    listing: str = ""
    max: int | None = None
    positional: str = ""
    check: str = ""
    single: bool = False
    verbs: dict[str, Any] = {}


class PathTable(msgspec.Struct, frozen=True):
    scratch: tuple[str, ...]
    sinks: tuple[str, ...]
    system: tuple[str, ...]
    precious: frozenset[str]
    disk: str
    startup: tuple[str, ...]
    keys: tuple[str, ...]
    anywhere: tuple[str, ...]
    data: str
    writer: tuple[WriterProgram, ...]


class _Named(Protocol):
    @property
    def program(self) -> str: ...


Entry = TypeVar("Entry", bound=_Named)


class ByProgram(Generic[Entry]):
    """Finds entries by a program's name; names in the tables may be globs (`mkfs.*`)."""

    def __init__(self, entries: tuple[Entry, ...], same: dict[str, str] | None = None) -> None:
        self._exact: dict[str, list[Entry]] = {}
        self._globs: list[tuple[str, Entry]] = []
        for entry in entries:
            for name in entry.program.split():
                if "*" in name or "?" in name:
                    self._globs.append((name, entry))
                    continue
                for alias in (name, *(same or {}).get(name, "").split()):
                    self._exact.setdefault(alias, []).append(entry)

    def find(self, name: str) -> list[Entry]:
        found = self._exact.get(name, [])
        more = [entry for glob, entry in self._globs if fnmatchcase(name, glob)]
        return found + more if more else found

    def names(self) -> set[str]:
        return {*self._exact}


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files(__package__) / "data" / name).read_text("utf-8"))


class DestructiveTable(msgspec.Struct, frozen=True):
    rules: ByProgram[DestructiveRule]
    grammars: dict[str, Grammar]
    blank: Grammar
    blank_single: Grammar
    single: frozenset[str]

    def grammar(self, program: str) -> Grammar:
        return self.grammars.get(program) or (self.blank_single if program in self.single else self.blank)


@functools.cache
def destructive() -> DestructiveTable:
    data = _load("destructive.toml")
    single = frozenset(data["single"]["names"].split())
    same: dict[str, str] = data["same"]
    grammars: dict[str, Grammar] = {}
    for name, text in data["options"].items():
        for alias in (name, *same.get(name, "").split()):
            grammars[alias] = grammar(text, single=alias in single)
    rules = ByProgram(msgspec.convert(data["rule"], tuple[DestructiveRule, ...]), same)
    return DestructiveTable(rules, grammars, grammar(""), grammar("", single=True), single)


@functools.cache
def wrappers() -> ByProgram[Wrapper]:
    return ByProgram(msgspec.convert(_load("wrappers.toml")["wrapper"], tuple[Wrapper, ...]))


@functools.cache
def places() -> PathTable:
    return msgspec.convert(_load("places.toml"), PathTable)


class SecretTable(msgspec.Struct, frozen=True):
    """What reveals a secret when it is read, and what does not."""

    home: tuple[str, ...]
    home_plain: tuple[str, ...]
    paths: tuple[str, ...]
    names: tuple[str, ...]
    names_plain: tuple[str, ...]
    exemplars: tuple[str, ...]
    harmless: tuple[str, ...]
    listed: frozenset[str]


@functools.cache
def secrets() -> SecretTable:
    data = _load("secrets.toml")
    listed = frozenset(data.pop("listed").split())
    return SecretTable(**{name: _words(group) for name, group in data.items()}, listed=listed)


def _words(group: str | dict[str, str]) -> tuple[str, ...]:
    """Joins a list that is divided by kind."""
    text = group if isinstance(group, str) else " ".join(group.values())
    return tuple(text.split())


@functools.cache
def writers() -> ByProgram[WriterProgram]:
    return ByProgram(places().writer)


@functools.cache
def _code() -> dict[str, Any]:
    return _load("code.toml")


@functools.cache
def shells() -> frozenset[str]:
    return frozenset(_code()["shells"].split())


@functools.cache
def languages() -> ByProgram[ScriptLanguage]:
    return ByProgram(msgspec.convert(_code()["language"], tuple[ScriptLanguage, ...]))


@functools.cache
def clients() -> ByProgram[QueryClient]:
    return ByProgram(msgspec.convert(_code()["client"], tuple[QueryClient, ...]))


class ReadOnlyTable(msgspec.Struct, frozen=True):
    sets: dict[str, str]
    permits: dict[str, Permit]
    variables: frozenset[str]
    keywords: frozenset[str]
    find_plain: frozenset[str]
    find_valued: frozenset[str]

    def flags(self, permit: Permit) -> str:
        return " ".join((permit.flags, *(self.sets[name] for name in permit.uses)))


@functools.cache
def read_only() -> ReadOnlyTable:
    data = _load("readonly.toml")
    permits: dict[str, Permit] = {}
    for operands, programs in data["harmless"].items():
        permits.update(dict.fromkeys(programs.split(), Permit(any=True, operands=operands)))
    for names, table in data["program"].items():
        permit = msgspec.convert(table, Permit)
        for name in names.split("|"):
            permits[name.replace("\\", "")] = permit
    names = ("variables", "keywords", "find_plain", "find_valued")
    lists = {name: frozenset(data[name].split()) for name in names}
    return ReadOnlyTable(data["sets"], permits, **lists)


class VerbTable(msgspec.Struct, frozen=True):
    options: str
    single: bool
    entries: tuple[tuple[re.Pattern[str], Permit], ...]


@functools.cache
def verbs(program: str) -> VerbTable:
    """Returns the subcommands that a program may be run with."""
    table = read_only().permits[program].verbs
    options, single = table.get("options", ""), table.get("single", False)
    entries = [
        (re.compile(pattern), msgspec.convert({"single": single, **permit}, Permit))
        for pattern, permit in table.items()
        if isinstance(permit, dict)
    ]
    return VerbTable(options, single, tuple(entries))
