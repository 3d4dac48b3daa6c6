"""Asks the side shell: a copy of the live bash that answers for it without disturbing it.

It is forked on demand while bash waits, and outdated by the next line. Its list of names is still used by `resolve`
until there is a new one. A side shell that takes too long is killed with its children.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from aish.process.process_groups import signal_group
from aish.tools.bash.channel import Channel
from aish.tools.bash.completion.program_names import ProgramNames
from aish.tools.bash.completion.words import Split, quote_name, split
from aish.types.live_shell import Candidate, Completions, WordKind

_MAX_CANDIDATES = 1000
# Larger than any useful completion; the rest is dropped.
_ANSWER_MAX_BYTES = 4 * 1024 * 1024
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\+?=")
_KINDS = {"a": WordKind.ALIAS, "k": WordKind.KEYWORD, "f": WordKind.FUNCTION, "b": WordKind.BUILTIN}
# Known before the shell has answered: POSIX reserved words and built-ins.
_KEYWORDS = "if then else elif fi do done case esac while until for in function select time { } ! [[ coproc"
_BUILTINS = (
    ". : [ alias bg break cd command continue echo eval exec exit export false fc fg getopts hash jobs kill printf pwd "
    "read readonly return set shift test times trap true type ulimit umask unalias unset wait"
)
_MAX_KNOWN_FILES = 1000


class SideShellAnswer(msgspec.Struct, frozen=True):
    number: str
    candidates: tuple[str, ...]
    words: str
    options: str


class SideShellParser:
    def __init__(self) -> None:
        self.group = 0
        self._rest = b""
        self._candidates: list[str] = []
        self._words = ""
        self._size = 0

    def feed(self, data: bytes) -> Iterator[SideShellAnswer]:
        *records, self._rest = (self._rest + data).split(b"\0")
        self._rest = self._rest[:_ANSWER_MAX_BYTES]
        for record in records:
            kind, _, text = os.fsdecode(record).partition("\n" if record[:5] in (b"words", b"lines") else " ")
            if kind == "end":
                yield self._end(text)
            elif kind == "pid":
                self.group = int(text)
            elif kind == "words":
                self._words = text
            elif self._size < _ANSWER_MAX_BYTES:
                self._size += len(text)
                self._candidates += text.splitlines() if kind == "lines" else [text]

    def _end(self, text: str) -> SideShellAnswer:
        number, _, options = text.partition(" ")
        answer = SideShellAnswer(number, tuple(dict.fromkeys(self._candidates)), self._words, options)
        self._candidates, self._words, self._size = [], "", 0
        return answer


def fit_completions(answer: SideShellAnswer, cut: Split, cwd: str) -> Completions:
    options = answer.options.split()
    fitting = [text for text in answer.candidates if text]
    shown = sorted(fitting)[:_MAX_CANDIDATES]
    if "filenames" in options:
        candidates = tuple(_file(text, cut.quote, cwd) for text in shown)
    else:
        ends = "nospace" not in options
        candidates = tuple(Candidate(text.rstrip(" "), ends_word=ends or text.endswith(" ")) for text in shown)
    return Completions(cut.start, candidates, len(fitting) - len(shown))


def _file(text: str, quote: str, cwd: str) -> Candidate:
    path = Path(cwd, Path(text).expanduser() if text.startswith("~") else text)
    folder = path.is_dir()
    name = quote_name(text.rstrip("/") + "/" if folder else text, quote)
    return Candidate(name if folder or not quote else name + quote, ends_word=not folder)


_SIGKILL = 9
_FIRST = "0"  # every side shell answers this first, unasked: the names it knows


class SideShell:
    def __init__(self) -> None:
        self._copy: _Copy | None = None
        self._number = 0
        self._names = ShellNames()
        self._fresh = False
        self._refreshing: asyncio.Task[None] | None = None
        self._programs = ProgramNames()
        self._all_names: frozenset[str] | None = None  # until the next line

    def names(self) -> frozenset[str]:
        if self._all_names is None:
            self._all_names = self._names.kinds | self._programs.list_names(self._names.path)
        return self._all_names

    def resolve(self, word: str, cwd: str) -> WordKind | None:
        return self._names.resolve(word, cwd)

    def refresh_soon(self, channel: Channel) -> None:
        if not self._fresh and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.ensure_future(self.refresh(channel, 2.0))

    async def refresh(self, channel: Channel, timeout_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._ask(channel)

    async def complete(self, channel: Channel, line: str, cursor: int, cwd: str, timeout_s: float) -> Completions:
        cut = split(line, cursor)
        try:
            async with asyncio.timeout(timeout_s):
                copy = await self._ask(channel)
                if copy is None:
                    return Completions(start=cut.start)
                answer = await copy.ask(_request(line, cursor, cut.command_start, cut.words, cut.plain, cut.current))
        except TimeoutError:
            self._drop()
            return Completions(start=cut.start)
        return fit_completions(answer, cut, cwd)

    async def _ask(self, channel: Channel) -> _Copy | None:
        """Returns a copy that has listed its names. None if a line started meanwhile."""
        if self._copy is None:
            self._number += 1
            self._copy = _Copy(channel, self._number)
            channel.send_side(self._number)
        copy = self._copy
        answer = await copy.answer(_FIRST)
        if self._copy is not copy:
            return None
        if not self._fresh:
            self._names = ShellNames.parse(answer.words)
            self._all_names = None
            self._fresh = True
        return copy

    def mark_outdated(self) -> None:
        """Called when a line runs, because it may change anything."""
        self._fresh = False
        self._all_names = None
        self._names.forget_files()
        self._drop()

    def _drop(self) -> None:
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def close(self) -> None:
        self._drop()
        if self._refreshing is not None:
            self._refreshing.cancel()


def _request(line: str, cursor: int, start: int, words: tuple[str, ...], plain: str, current: str) -> bytes:
    command = line[start:]
    point = len(line[start:cursor].encode())
    fields = (str(len(words) - 1), command, str(point), plain, current, *words)
    return b"".join(os.fsencode(field) + b"\0" for field in fields)


class _Copy:
    """One side shell and its pipes."""

    def __init__(self, channel: Channel, number: int) -> None:
        self._base = channel.folder / f"side.{number}"
        self._loop = asyncio.get_running_loop()
        self._parser = SideShellParser()
        self._answers: dict[str, asyncio.Future[SideShellAnswer]] = {}
        self._next = 0
        self._closed = False
        for kind in ("req", "out"):
            os.mkfifo(self._path(kind), 0o600)
        self._req = os.open(self._path("req"), os.O_RDWR | os.O_NONBLOCK)
        self._out = os.open(self._path("out"), os.O_RDWR | os.O_NONBLOCK)
        self._loop.add_reader(self._out, self._read)

    def _path(self, kind: str) -> Path:
        return self._base.with_name(f"{self._base.name}.{kind}")

    async def ask(self, request: bytes) -> SideShellAnswer:
        self._next += 1
        self._path("in").write_bytes(request)
        os.write(self._req, f"{self._next}\n".encode())
        return await self.answer(str(self._next))

    async def answer(self, number: str) -> SideShellAnswer:
        future = self._answers.setdefault(number, self._loop.create_future())
        return await asyncio.shield(future)

    def _read(self) -> None:
        try:
            data = os.read(self._out, 65536)
        except BlockingIOError:
            return
        for answer in self._parser.feed(data):
            future = self._answers.setdefault(answer.number, self._loop.create_future())
            if not future.done():
                future.set_result(answer)

    def close(self) -> None:
        """An idle side shell ends with its pipe; a busy one must be killed."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._out)
        os.close(self._req)
        os.close(self._out)
        if self._parser.group:
            signal_group(self._parser.group, _SIGKILL)
        for future in self._answers.values():
            if not future.done():
                future.set_result(SideShellAnswer("", (), "", ""))
        for kind in ("req", "out", "in"):
            self._path(kind).unlink(missing_ok=True)


class ShellNames:
    """What a first word means to the shell, from the names it last listed. Fast enough for every key press."""

    def __init__(self, kinds: dict[str, WordKind] | None = None, path: str = os.defpath) -> None:
        known = dict.fromkeys(_BUILTINS.split(), WordKind.BUILTIN) | dict.fromkeys(_KEYWORDS.split(), WordKind.KEYWORD)
        self._kinds = kinds or known
        self._path = path
        self._files: dict[tuple[str, str], bool] = {}

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(self._kinds)

    @property
    def path(self) -> str:
        return self._path

    @classmethod
    def parse(cls, listed: str) -> ShellNames:
        """Parses lines of a letter and a name. A name with several meanings gets the one that bash would use."""
        lines = [line.partition(" ")[::2] for line in listed.splitlines()]
        kinds = {}
        for letter in "bfka":  # later ones win: alias, keyword, function, builtin
            kinds.update({name: _KINDS[letter] for each, name in lines if each == letter})
        path = next((text for letter, text in lines if letter == "p"), os.defpath)
        return cls(kinds, path)

    def forget_files(self) -> None:
        self._files.clear()

    def resolve(self, word: str, cwd: str) -> WordKind | None:
        if not word:
            return None
        if word in self._kinds:
            return self._kinds[word]
        if _ASSIGNMENT.match(word):
            return WordKind.ASSIGNMENT
        if word[0] in "({":
            return WordKind.KEYWORD
        return WordKind.FILE if self._is_file(word, cwd) else None

    def _is_file(self, word: str, cwd: str) -> bool:
        key = (word, cwd)
        if key not in self._files:
            if len(self._files) >= _MAX_KNOWN_FILES:
                self._files.clear()
            self._files[key] = _find(word, cwd, self._path)
        return self._files[key]


def _find(word: str, cwd: str, path: str) -> bool:
    if word.startswith("~"):
        word = str(Path(word).expanduser()) if word == "~" or word.startswith("~/") else word
    if "/" in word:
        return _runs(os.path.join(cwd, word))  # noqa: PTH118
    return any(
        _runs(name) and not Path(name).is_dir() for name in (f"{folder or cwd}/{word}" for folder in path.split(":"))
    )


def _runs(name: str) -> bool:
    """Accepts programs, and folders named by a path: bash refuses to run those, but they are not questions for a
    model."""
    try:
        return os.access(name, os.X_OK)
    except ValueError:
        return False
