"""The history of the prompt: an append-only file that all open shells share.

Each line of the file is one entry in JSON: what was entered, when, where, how it ended. A shell reads what others have
added at its next Up or Ctrl-R. A file does here what SQLite does: 100 000 entries load in 0.17 s from both, but looking
for new ones is one `stat`, and adding one takes 0.15 ms without a lock.

Lines that were typed in other terminals come from bash's own history file: all of it at first, later what was added.
The file is rewritten with its newer half when it has grown to 32 MiB.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

_MAX_BYTES = 32 * 1024 * 1024  # about 300 000 entries; then the older half is dropped
_TAIL_BYTES = 256 * 1024  # about 2 500 entries, which take 5 ms
_MAX_LINE_CHARS = 100_000  # longer entries are pasted data
_MAX_IMPORT_BYTES = 32 * 1024 * 1024
_MARK = "#"  # of the line with a time in bash's file


class HistoryEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """`ended_s` is the time of day. A line that was not run, such as a question, has no status."""

    line: str
    ended_s: float = 0.0
    cwd: str = ""
    status: int | None = None
    duration_s: float = 0.0


class _Import(msgspec.Struct, frozen=True):
    """How far bash's file was read."""

    imported: str
    size: int


_ENCODER = msgspec.json.Encoder()
_ENTRY = msgspec.json.Decoder(HistoryEntry)
_IMPORT = msgspec.json.Decoder(_Import)


class PromptHistory:
    """The entries of all shells, oldest first. `file` None, or one that cannot be written: those of this shell only.

    The end of the file is read at first, and the rest with `load_all`: a long history must not delay the prompt.
    """

    def __init__(self, file: Path | None, *, tail_bytes: int = _TAIL_BYTES, max_bytes: int = _MAX_BYTES) -> None:
        self._file = file
        self._tail_bytes = tail_bytes
        self._max_bytes = max_bytes
        self._entries: list[HistoryEntry] = []
        self._imported: dict[str, int] = {}  # how far the files of bash were read
        self._inode = self._start = self._offset = 0  # what of the file was read

    @property
    def entries(self) -> Sequence[HistoryEntry]:
        return self._entries

    @property
    def last_line(self) -> str:
        return self._entries[-1].line if self._entries else ""

    def newest_lines(self, limit: int) -> list[str]:
        """The newest lines, oldest first, without repetitions one after the other."""
        return [line for line, _ in groupby(entry.line for entry in self._entries[-limit:])] if limit else []

    def refresh(self) -> Sequence[HistoryEntry]:
        """Reads what was added since; returns it."""
        if self._file is None:
            return ()
        with contextlib.suppress(OSError):
            found = self._file.stat()
            if found.st_ino != self._inode or found.st_size < self._offset:
                self._entries, self._inode = [], found.st_ino
                self._start = self._offset = max(0, found.st_size - self._tail_bytes)
            if found.st_size > self._offset:
                return self._read_on()
        return ()

    def _read_on(self) -> Sequence[HistoryEntry]:
        assert self._file is not None
        with self._file.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        if not self._entries and self._offset and self._offset == self._start:
            whole = data.find(b"\n") + 1  # the first line is cut
            data, self._start, self._offset = data[whole:], self._start + whole, self._offset + whole
        data = data[: data.rfind(b"\n") + 1]
        self._offset += len(data)
        added = self._decode(data)
        self._entries += added
        return added

    def load_all(self) -> None:
        """Reads the beginning of the file, too."""
        self.refresh()
        if self._start and self._file is not None:
            with contextlib.suppress(OSError), self._file.open("rb") as file:
                self._entries[:0] = self._decode(file.read(self._start))
                self._start = 0

    def _decode(self, data: bytes) -> list[HistoryEntry]:
        entries = []
        for line in data.splitlines():
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                if line.startswith(b'{"imported"'):
                    done = _IMPORT.decode(line)
                    self._imported[done.imported] = done.size
                else:
                    entries.append(_ENTRY.decode(line))
        return entries

    def create(self) -> bool:
        """Creates the file. Whether there was none, which means that this is the first start."""
        return self._file is not None and not self._file.exists() and _append_bytes(self._file, b"")

    def add(self, entry: HistoryEntry) -> None:
        """Adds an entry for all shells, at once."""
        if entry.line.strip() and len(entry.line) <= _MAX_LINE_CHARS:
            self._append([entry])

    def _append(self, added: Sequence[HistoryEntry | _Import]) -> None:
        data = b"".join(_ENCODER.encode(each) + b"\n" for each in added)
        if self._file is None or not _append_bytes(self._file, data):
            self._entries += [each for each in added if isinstance(each, HistoryEntry)]
            return
        self.refresh()
        if self._offset > self._max_bytes:
            self._compact()

    async def import_bash_file(self, path: str) -> None:
        """Adds the lines of bash's history file that are not here yet. Reads only what was appended since last time."""
        self.refresh()
        known = self._imported.get(path, 0)
        found, size, is_new = await asyncio.to_thread(read_bash_file, path, known)
        if size == known:
            return
        if is_new:
            self.load_all()
        # Without times in it, the file of bash has each line of a longer entry by itself.
        present = {line for entry in self._entries for line in (entry.line, *entry.line.splitlines())}
        self._append([*(entry for entry in found if entry.line not in present), _Import(path, size)])

    def import_old_file(self, path: Path) -> None:
        """Adds the lines of the file that older versions wrote, if there are none here."""
        self.refresh()
        if not self._entries:
            with contextlib.suppress(OSError):
                self._append([*parse_old_history(path.read_text("utf-8", "replace"))])

    def _compact(self) -> None:
        """Rewrites the file with its newer half. Other shells see that it is another file."""
        assert self._file is not None
        self.load_all()
        kept: list[HistoryEntry | _Import] = [*self._entries[len(self._entries) // 2 :]]
        kept += [_Import(path, size) for path, size in self._imported.items()]
        new = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            new.touch(mode=0o600)
            new.write_bytes(b"".join(_ENCODER.encode(each) + b"\n" for each in kept))
            new.replace(self._file)
        self.refresh()


def read_bash_file(path: str, known: int) -> tuple[list[HistoryEntry], int, bool]:
    """The entries after the first `known` bytes, the size of the file, and whether all of it was read. Nothing new, or
    no file: `known` itself."""
    try:
        size = Path(path).stat().st_size if path else known
        start = known if known <= size else 0
        if start == size:
            return [], known, False
        with Path(path).open("rb") as file:
            file.seek(max(start, size - _MAX_IMPORT_BYTES))
            text = file.read(_MAX_IMPORT_BYTES).decode("utf-8", "replace")
        return list(parse_bash_history(text)), size, start == 0
    except (OSError, ValueError):
        return [], known, False


def _append_bytes(file: Path, data: bytes) -> bool:
    """One write, so that entries of several shells do not mix."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            return os.write(fd, data) == len(data)
        finally:
            os.close(fd)
    except OSError:
        return False


def parse_bash_history(text: str) -> Iterator[HistoryEntry]:
    """Entries of a history file of bash. With times in it (HISTTIMEFORMAT), lines between two times are one entry."""
    lines = text.splitlines()
    has_times = any(_is_time(line) for line in lines)
    entry: list[str] = []
    ended_s = 0.0
    for line in lines:
        if has_times and _is_time(line):
            yield from _join(entry, ended_s)
            entry, ended_s = [], float(line[1:])
        elif has_times and ended_s:
            entry.append(line)
        else:
            yield from _join([line], 0.0)
    yield from _join(entry, ended_s)


def _is_time(line: str) -> bool:
    return line.startswith(_MARK) and line[1:].isdecimal()


def _join(lines: list[str], ended_s: float) -> Iterator[HistoryEntry]:
    text = "\n".join(lines)
    if text.strip():
        yield HistoryEntry(text, ended_s)


def parse_old_history(text: str) -> Iterator[HistoryEntry]:
    """Entries of prompt_toolkit's history file, whose lines begin with `+`."""
    for is_entry, lines in groupby(text.splitlines(), lambda line: line.startswith("+")):
        if is_entry:
            yield from _join([line[1:] for line in lines], 0.0)


def entry_now(line: str, **fields: str | int | float) -> HistoryEntry:
    return msgspec.structs.replace(HistoryEntry(line, round(time.time(), 3)), **fields)
