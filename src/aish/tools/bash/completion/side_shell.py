"""Asks the side shell: a copy of the live bash, made when it waits, that answers for it without disturbing it.

It is made on demand and outdated by the next line. What it said of names stays good enough for `resolve` until the next
one is asked. One that takes too long is killed with all it started.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

from aish.process.orphan_guard import signal_group
from aish.tools.bash.channel import Channel
from aish.tools.bash.completion.answers import Answer, AnswerParser, completions_of
from aish.tools.bash.completion.names import Names
from aish.tools.bash.completion.words import split
from aish.types.live_shell import Completions, WordKind

_SIGKILL = 9
_FIRST = "0"  # the answer every side shell gives unasked: the names it knows


class SideShell:
    def __init__(self) -> None:
        self._copy: _Copy | None = None
        self._number = 0
        self._names = Names()
        self._fresh = False
        self._refreshing: asyncio.Task[None] | None = None

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
        return completions_of(answer, cut, cwd)

    async def _ask(self, channel: Channel) -> _Copy | None:
        """A copy that knows its names. None when a line started meanwhile."""
        if self._copy is None:
            self._number += 1
            self._copy = _Copy(channel, self._number)
            channel.say_side(self._number)
        copy = self._copy
        answer = await copy.answer(_FIRST)
        if self._copy is not copy:
            return None
        if not self._fresh:
            self._names = Names.parse(answer.words)
            self._fresh = True
        return copy

    def outdated(self) -> None:
        """A line runs: whatever was known may no longer be so."""
        self._fresh = False
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
        self._parser = AnswerParser()
        self._answers: dict[str, asyncio.Future[Answer]] = {}
        self._next = 0
        self._closed = False
        for kind in ("req", "out"):
            os.mkfifo(self._path(kind), 0o600)
        self._req = os.open(self._path("req"), os.O_RDWR | os.O_NONBLOCK)
        self._out = os.open(self._path("out"), os.O_RDWR | os.O_NONBLOCK)
        self._loop.add_reader(self._out, self._read)

    def _path(self, kind: str) -> Path:
        return self._base.with_name(f"{self._base.name}.{kind}")

    async def ask(self, request: bytes) -> Answer:
        self._next += 1
        self._path("in").write_bytes(request)
        os.write(self._req, f"{self._next}\n".encode())
        return await self.answer(str(self._next))

    async def answer(self, number: str) -> Answer:
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
        """Idle, it ends by itself when the pipe does; busy, it has to be told."""
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
                future.set_result(Answer("", (), "", ""))
        for kind in ("req", "out", "in"):
            self._path(kind).unlink(missing_ok=True)
