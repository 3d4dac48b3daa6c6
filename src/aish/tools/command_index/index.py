"""The index of programs and their purposes: an SQLite file with full-text search, best match first.

It is rebuilt when PATH has changed. All methods block and belong into a thread.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from aish.tools.command_index.example_lines import ExampleLine, find_best, history_lines, manual_examples, tldr_lines
from aish.tools.command_index.sources import NO_PACKAGE, find_programs, manual_pages, program_table, read_purpose
from aish.types.live_shell import CommandHint

_VERSION = "3"
_MANUALS = (Path("/usr/share/man/man1"), Path("/usr/share/man/man8"))
_WORD = re.compile(r"[a-z0-9][a-z0-9+._-]*")
_MAX_WORDS = 24
_LINE_COLUMNS = "program, task, line UNINDEXED, sample UNINDEXED"
_COLUMNS = "program, about, words, here UNINDEXED"
_SHORT = 3
_MAX_MISSING = 2
# A word of our own table counts most, then the program's name, then the manual.
_RANK = "bm25(commands, 3.0, 2.0, 6.0, 0.0)"


class CommandIndex:
    """`tldr` are folders of tldr pages. `history` is read at each question, if given; `redacted` redacts a line."""

    def __init__(
        self,
        file: Path,
        path: str,
        manuals: Sequence[Path] = _MANUALS,
        *,
        tldr: Sequence[Path] = (),
        history: Path | None = None,
        redacted: Callable[[str], str] = str,
    ) -> None:
        self._file = file
        self._path = path
        self._manuals = tuple(manuals)
        self._tldr = tuple(tldr)
        self._history = history
        self._redacted = redacted

    def search(self, question: str, limit: int = 5) -> Sequence[CommandHint]:
        """Returns the installed programs that fit best, then fitting ones that are not installed. May be empty."""
        words = _words(question)
        if not words:
            return ()
        with suppress(sqlite3.Error, OSError), closing(self._open()) as db:
            query = " OR ".join(f'"{word}"' for word in words)
            rows = db.execute(
                f"SELECT program, about, here FROM commands WHERE commands MATCH ? ORDER BY {_RANK} LIMIT ?",
                (query, limit + _MAX_MISSING),
            ).fetchall()
            hints = [_hint(program, about, here=bool(here)) for program, about, here in rows]
            missing = [hint for hint in hints[:limit] if not hint.here][:_MAX_MISSING]
            here = [_add_example(db, hint, query) for hint in hints if hint.here][:limit]
            return [*self._add_from_history(words, here, limit), *missing]
        return ()

    def _add_from_history(self, words: list[str], hints: list[CommandHint], limit: int) -> list[CommandHint]:
        """Adds a line of the user's history, as the last hint or instead of the same program's hint."""
        if self._history is None:
            return hints
        found = find_best(history_lines(self._history, find_programs(self._path), self._redacted), words)
        if found is None:
            return hints
        others = [hint for hint in hints if hint.program != found.program][: limit - 1]
        return [*others, CommandHint(found.program, found.task, found.line)]

    def _open(self) -> sqlite3.Connection:
        stamp = self._stamp()
        if not self._is_current(stamp):
            self._build(stamp)
        return sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)

    def _is_current(self, stamp: str) -> bool:
        if not self._file.exists():
            return False
        try:
            with closing(sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)) as db:
                return bool(db.execute("SELECT 1 FROM stamp WHERE value = ?", (stamp,)).fetchone())
        except sqlite3.Error:
            return False

    def _build(self, stamp: str) -> None:
        """Builds a new file and renames it into place, so that two processes can build at once."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._file.with_suffix(f".{os.getpid()}")
        temporary.unlink(missing_ok=True)
        known = program_table().programs
        here = find_programs(self._path)
        about, lines = self._read(here)
        try:
            with closing(sqlite3.connect(temporary)) as db:
                db.execute(f"CREATE VIRTUAL TABLE commands USING fts5 ({_COLUMNS}, tokenize = 'porter')")
                db.execute("CREATE TABLE stamp (value TEXT)")
                listed = {name for name in known if name in here or known[name].package != NO_PACKAGE}
                rows = [_row(name, about.get(name, ""), here=name in here) for name in sorted({*listed, *about})]
                db.executemany("INSERT INTO commands VALUES (?, ?, ?, ?)", rows)
                db.execute(f"CREATE VIRTUAL TABLE lines USING fts5 ({_LINE_COLUMNS}, tokenize = 'porter')")
                written = [(line.program, line.task, line.line, int(line.sample)) for line in lines]
                db.executemany("INSERT INTO lines VALUES (?, ?, ?, ?)", written)
                db.execute("INSERT INTO stamp VALUES (?)", (stamp,))
                db.commit()
            temporary.replace(self._file)
        finally:
            temporary.unlink(missing_ok=True)

    def _read(self, here: set[str]) -> tuple[dict[str, str], list[ExampleLine]]:
        """Reads each program's purpose and its example lines."""
        about: dict[str, str] = {}
        lines = list(tldr_lines(here, self._tldr))
        for name, page in manual_pages(here, self._manuals):
            if line := read_purpose(page):
                about[name] = line
            lines += manual_examples(name, page)
        return about, lines

    def _stamp(self) -> str:
        """Returns a value that changes when a program or a manual page is added or removed."""
        seen = [_VERSION, self._path]
        for folder in (*self._path.split(os.pathsep), *map(str, (*self._manuals, *self._tldr))):
            with suppress(OSError):
                seen.append(f"{folder}:{Path(folder).stat().st_mtime_ns}")
        return hashlib.sha256("\n".join(seen).encode("utf-8", "replace")).hexdigest()


def _row(name: str, manual: str, *, here: bool) -> tuple[str, str, str, int]:
    known = program_table().programs.get(name)
    return (name, known.about, known.words, int(here)) if known else (name, manual, "", int(here))


def _words(question: str) -> list[str]:
    words = program_table()
    question_words = [word.strip("._-+") for word in _WORD.findall(question.lower()[:2000])]
    searched_words = [
        word
        for word in question_words
        if word not in words.stop and (len(word) >= _SHORT or word.isdigit() or word == "ip")
    ]
    more = [other for word in searched_words for other in words.synonyms.get(word, ())]
    return list(dict.fromkeys((*searched_words, *more)))[:_MAX_WORDS]


def _add_example(db: sqlite3.Connection, hint: CommandHint, query: str) -> CommandHint:
    """Adds the best fitting example line if our table has none."""
    if hint.example:
        return hint
    found = db.execute(
        "SELECT line, sample FROM lines WHERE lines MATCH ? AND program = ? ORDER BY rank LIMIT 1",
        (query, hint.program),
    ).fetchone()
    return msgspec.structs.replace(hint, example=found[0], sample=bool(found[1])) if found else hint


def _hint(program: str, about: str, *, here: bool) -> CommandHint:
    known = program_table().programs.get(program)
    if known is None:
        return CommandHint(program, about, here=here)
    package = "" if here else known.package or program
    return CommandHint(program, about, known.example, here, package)
