"""Languages and their servers: which installed program serves a language of a project, and how it is started.

Programs come from the config, else from PATH, else from the project's own environment if the config allows it: programs
in a project are not trusted by default. Nothing is downloaded or started.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Mapping
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec


class ServerLimits(msgspec.Struct, frozen=True):
    start_timeout_s: float = 30.0  # of a large project, on a busy machine
    answer_timeout_s: float = 10.0
    idle_stop_s: float = 600.0  # 0 means never
    max_memory_mb: int = 2048  # of the server and its child processes; 0 means no limit
    close_wait_s: float = 2.0
    max_message_bytes: int = 32 * 1024 * 1024
    max_open: int = 64  # open documents; the one not used for longest is closed
    restarts: int = 3  # crashes in a row, after which nothing is started for a while
    first_pause_s: float = 0.5  # after the second crash; doubled by each further one
    rest_s: float = 60.0  # how long nothing is started then; a server that ran this long counts as recovered
    check_every_s: float = 5.0  # checks memory and idleness


class LanguageServerSpec(msgspec.Struct, frozen=True):
    """`documents` maps file suffixes to language ids of the protocol."""

    name: str
    command: tuple[str, ...]
    root: Path
    documents: Mapping[str, str]
    watched: tuple[str, ...] = ()  # further names, or `*.suffix`, whose changes are reported
    settings: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}
    loaded_log: str = ""  # the log message that says that the project is loaded; "" if there is none
    ask_compiler: bool = False  # diagnostics come from the TypeScript compiler (see `diagnostics`)
    complete_with: tuple[str, ...] = ()  # one of these files must be in a parent folder, else answers are partial
    because: str = ""
    limits: ServerLimits = ServerLimits()

    def language_id(self, path: str) -> str:
        suffix = PurePosixPath(path).suffix
        return self.documents.get(suffix) or self.documents.get(suffix.lower(), "plaintext")

    def incomplete(self, path: str) -> str:
        """Returns why answers about the file's project may be incomplete, or ""."""
        if not self.complete_with:
            return ""
        folders = [self.root / folder for folder in PurePosixPath(path).parents]
        return (
            "" if any((folder / name).is_file() for folder in folders for name in self.complete_with) else self.because
        )

    def wants(self, path: str) -> bool:
        """Whether changes of this file are reported to the server."""
        name = PurePosixPath(path)
        ending = name.suffix.lower()
        return ending in self.documents or name.name in self.watched or f"*{ending}" in self.watched


PROJECT_FOLDERS = (".venv/bin", "venv/bin", "node_modules/.bin")
_INTERPRETERS = (".venv/bin/python", "venv/bin/python")
_PACKAGE_BYTES = 256 * 1024


class LanguageEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    documents: dict[str, str] = {}
    grammar: dict[str, str] = {}
    servers: tuple[str, ...] = ()
    formatter: str = ""
    keywords: frozenset[str] = frozenset()


class ServerEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: tuple[str, ...]
    install: str
    package: tuple[str, int, int] | None = None
    watched: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}
    loaded_log: str = ""
    ask_compiler: bool = False
    complete_with: tuple[str, ...] = ()
    because: str = ""


class LanguageTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    language: dict[str, LanguageEntry]
    server: dict[str, ServerEntry]

    def language_of(self, path: str) -> str:
        """Returns the language by the file's suffix; "" if it is unknown."""
        suffix = PurePosixPath(path).suffix.lower()
        return next((n for n, lang in self.language.items() if suffix in lang.documents or suffix in lang.grammar), "")

    def grammar_of(self, path: str) -> str:
        suffix = PurePosixPath(path).suffix.lower()
        return next((lang.grammar[suffix] for lang in self.language.values() if suffix in lang.grammar), "")


class ServerChoice(msgspec.Struct, frozen=True):
    """The configuration of servers: which to use for a language, and how to start them."""

    use: Mapping[str, str] = {}
    commands: Mapping[str, tuple[str, ...]] = {}
    project_programs: bool = False
    search_path: str = ""


class FoundServer(msgspec.Struct, frozen=True):
    """The program of a server, or why there is none."""

    server: str
    command: tuple[str, ...] = ()
    where: str = ""
    missing: str = ""


@functools.cache
def language_table() -> LanguageTable:
    text = resources.files(__package__).joinpath("languages.toml").read_bytes()
    return msgspec.toml.decode(text, type=LanguageTable)


def candidates(language: str, choice: ServerChoice) -> tuple[str, ...]:
    """Returns the servers for a language, best first. A server named in the config is the only one."""
    chosen = choice.use.get(language)
    if chosen:
        return (chosen,)
    known = language_table().language.get(language)
    return known.servers if known else ()


def find_server(language: str, root: Path, choice: ServerChoice) -> FoundServer | None:
    """Returns the best server that is installed, else why the first is not; None if the language has no server."""
    found = [find_named_server(name, root, choice) for name in candidates(language, choice)]
    return next((one for one in found if one.command), found[0] if found else None)


def find_named_server(name: str, root: Path, choice: ServerChoice) -> FoundServer:
    server = language_table().server.get(name)
    if server is None:
        return FoundServer(name, missing=f"no server is named {name}; there are: {', '.join(language_table().server)}")
    if configured := choice.commands.get(name):
        return FoundServer(name, command=tuple(configured), where="config")
    refusal = ""
    for folder, is_projects in _program_folders(root, choice.search_path):
        program = _find_in(folder, server)
        if program and is_projects and not choice.project_programs:
            refusal = f"{program} is the project's own; to run it set ide.project_programs = true"
        elif program and server.ask_compiler and not choice.project_programs and _bundled_compiler(program) is None:
            refusal = f"{program} would run the project's own TypeScript; to let it, set ide.project_programs = true"
        elif program:
            return FoundServer(
                name, command=(program, *server.command[1:]), where="the project" if is_projects else "PATH"
            )
    return FoundServer(name, missing=refusal or f"not found; {server.install}")


def _program_folders(root: Path, search_path: str) -> list[tuple[Path, bool]]:
    """Returns the folders to search, and whether each belongs to the project. Relative parts of PATH are skipped: they
    depend on the working directory."""
    on_path = [Path(part) for part in search_path.split(os.pathsep) if part.startswith("/")]
    own = [root / folder for folder in PROJECT_FOLDERS]
    return [*((folder, False) for folder in on_path), *((folder, True) for folder in own)]


def _find_in(folder: Path, server: ServerEntry) -> str:
    program = shutil.which(server.command[0], path=str(folder))
    if program is None:
        return ""
    return program if server.package is None or _has_version(Path(program), server.package) else ""


def _has_version(program: Path, package: tuple[str, int, int]) -> bool:
    """Checks the version of the package that the program belongs to, through its link."""
    name, at_least, below = package
    for folder in program.resolve().parents:
        manifest = folder / "package.json"
        if folder.name == name and manifest.is_file():
            return at_least <= _major_version(manifest) < below
    return False


def _major_version(manifest: Path) -> int:
    try:
        with manifest.open("rb") as file:
            version = str(msgspec.json.decode(file.read(_PACKAGE_BYTES))["version"])
        return int(version.partition(".")[0])
    except (OSError, ValueError, KeyError, TypeError, msgspec.DecodeError):
        return -1


def server_spec(
    language: str, found: FoundServer, root: Path, choice: ServerChoice, limits: ServerLimits
) -> LanguageServerSpec:
    known, server = language_table().language[language], language_table().server[found.server]
    return LanguageServerSpec(
        name=found.server,
        command=found.command,
        root=root,
        documents=known.documents,
        watched=server.watched,
        settings=_settings(server.settings, root, choice),
        options=_options(server, found.command[0], choice),
        loaded_log=server.loaded_log,
        ask_compiler=server.ask_compiler,
        complete_with=server.complete_with,
        because=server.because,
        limits=limits,
    )


def _bundled_compiler(program: str) -> Path | None:
    """Finds the compiler that is installed beside a TypeScript server."""
    parents = Path(program).resolve().parents
    found = (folder / "typescript" / "lib" / "tsserver.js" for folder in parents)
    return next((path for path in found if path.is_file()), None)


def _options(server: ServerEntry, program: str, choice: ServerChoice) -> dict[str, Any]:
    """Names the compiler for a TypeScript server, which would use the project's own otherwise."""
    compiler = _bundled_compiler(program) if server.ask_compiler and not choice.project_programs else None
    return server.options | {"tsserver": {"path": str(compiler)}} if compiler else server.options


def _settings(settings: dict[str, Any], root: Path, choice: ServerChoice) -> dict[str, Any]:
    """Adds the project's interpreter, which the server runs to find installed packages."""
    own = next((root / name for name in _INTERPRETERS if (root / name).exists()), None)
    if "python" not in settings or own is None or not choice.project_programs:
        return settings
    return settings | {"python": settings["python"] | {"pythonPath": str(own)}}
