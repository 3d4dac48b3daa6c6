"""The language servers of one workspace: one for each program, started at the first use, stopped when idle, restarted
after a crash, a limited number at once.

States of a server: asleep → starting → ready → asleep again (idle, or too large), or crashed. After the first crash it
restarts at once, then after growing pauses; after several in a row it is not started for a while, and each use gets an
error. Only the owner task opens and closes the connection; any task can use it.

Before each question a server is informed of all changes on disk and gets the current text of its open documents.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath

from aish.errors import AishError, ToolError, WireTimeout
from aish.tools.code.edits.records import FileEdit
from aish.tools.code.files.change_feed import ChangeFeed
from aish.tools.code.files.source import load
from aish.tools.code.files.watcher import CHANGED, CREATED, REMOVED
from aish.tools.code.languages import (
    FoundServer,
    LanguageServerSpec,
    ServerChoice,
    ServerLimits,
    find_named_server,
    find_server,
    language_table,
    server_spec,
)
from aish.tools.code.lsp.connection import LspConnection
from aish.tools.code.lsp.documents import Documents
from aish.tools.workspace import Workspace
from aish.types.tools import ResultStatus

_STDERR_SHOWN_CHARS = 300


class ServerSession:
    """A connection and its documents. Valid as long as the connection."""

    def __init__(self, connection: LspConnection) -> None:
        self.connection = connection
        self.documents = Documents(connection)
        self.is_consistent = False  # whether two answers about the whole project have agreed
        self.sync_lock = asyncio.Lock()  # changes are reported by one task at a time

    def note_agreement(self) -> None:
        self.is_consistent = True

    def note_new_files(self) -> None:
        """Files came or went, so answers about the whole project must agree again."""
        self.is_consistent = False


class LanguageServer:
    """`on_start` is called before each start: later changes may not be known to the server."""

    def __init__(self, spec: LanguageServerSpec, *, on_start: Callable[[], None] = lambda: None) -> None:
        self.spec = spec
        self._on_start = on_start
        self.starts = 0
        self.ended = ""  # why it is not running, for messages
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[ServerSession] | None = None
        self._stop = asyncio.Event()
        self._is_closed = False
        self._is_ending = False
        self._uses = 0
        self._used_s = 0.0
        self._crashes = 0
        self._not_before_s = 0.0

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[ServerSession]:
        """Keeps the server running meanwhile. Raises WireTimeout while it starts, ToolError if it cannot be started."""
        self._uses += 1
        try:
            yield await self._session()
        finally:
            self._uses -= 1
            self._used_s = _now_s()

    async def discard(self, session: ServerSession) -> None:
        """Stops the server of this session, so that the next use starts one that reads everything anew."""
        ready = self._ready
        if ready is not None and ready.done() and ready.exception() is None and ready.result() is session:
            self._is_ending = True
            await self._end()

    async def aclose(self) -> None:
        self._is_closed = True
        await self._end()

    async def _end(self) -> None:
        self._stop.set()
        task = self._task
        if task is None:
            return
        if self._ready is not None and not self._ready.done():
            task.cancel()  # it is still starting and needs no shutdown
        await asyncio.wait({task}, timeout=3 * self.spec.limits.close_wait_s + 5)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=5)

    async def _session(self) -> ServerSession:
        if self._is_closed:
            raise ToolError(f"{self.spec.name} is closed", status=ResultStatus.SERVER_GONE)
        try:
            async with asyncio.timeout(self.spec.limits.answer_timeout_s):
                await self._wait_for_end()
                if not self.running:
                    self._start()
                assert self._ready is not None
                return await asyncio.shield(self._ready)
        except TimeoutError as exc:
            raise WireTimeout(f"{self.spec.name} is still starting", phase="start") from exc

    async def _wait_for_end(self) -> None:
        """Waits until a server that is stopping has ended."""
        ending = self._is_ending or (self._ready is not None and self._ready.done() and self._is_dead(self._ready))
        if ending and self._task is not None and self.running:
            await asyncio.wait({self._task})

    def _is_dead(self, ready: asyncio.Future[ServerSession]) -> bool:
        return ready.exception() is not None or ready.result().connection.closed

    def _start(self) -> None:
        wait_s = self._not_before_s - _now_s()
        if wait_s > 0:
            text = (
                f"{self.spec.name} crashed {self._crashes} times ({self.ended}); it is not started for {wait_s:.0f} s"
            )
            raise ToolError(text, status=ResultStatus.SERVER_GONE)
        self._stop, self._is_ending = asyncio.Event(), False
        self._ready = asyncio.get_running_loop().create_future()
        self._used_s = _now_s()
        self.starts += 1
        self._on_start()
        self._task = asyncio.create_task(self._run(self._ready), name=f"language server {self.spec.name}")

    async def _run(self, ready: asyncio.Future[ServerSession]) -> None:
        began_s = _now_s()
        crash: AishError | None = None
        try:
            async with LspConnection.open(self.spec) as connection:
                ready.set_result(ServerSession(connection))
                crash = await self._monitor(connection)
        except AishError as exc:
            crash = exc
        finally:  # also on cancellation: waiting callers get an error
            if not ready.done():
                ready.set_exception(_start_error(self.spec.name, crash))
                ready.exception()  # marks it as retrieved if no caller waits
        if crash is not None:
            self._note_crash(crash, began_s)

    async def _monitor(self, connection: LspConnection) -> AishError | None:
        """Waits until the server is stopped or exits. Returns the error if it crashed."""
        limits = self.spec.limits
        closed_task = asyncio.ensure_future(connection.wait_closed())
        stop = asyncio.ensure_future(self._stop.wait())
        try:
            while True:
                done, _ = await asyncio.wait(
                    {closed_task, stop}, timeout=limits.check_every_s, return_when=asyncio.FIRST_COMPLETED
                )
                if closed_task in done:
                    return closed_task.result()
                if stop in done:
                    self.ended = "stopped"
                    return None
                if self._is_idle():
                    return None
                if (size := self._find_memory_excess(connection)) is not None:
                    return size
        finally:
            self._is_ending = True
            closed_task.cancel()
            stop.cancel()

    def _is_idle(self) -> bool:
        idle_s = self.spec.limits.idle_stop_s
        if self._uses or not idle_s or _now_s() - self._used_s < idle_s:
            return False
        self.ended = "asleep"
        return True

    def _find_memory_excess(self, connection: LspConnection) -> AishError | None:
        """Returns an error if the server uses too much memory. It counts as a crash, so that it is not restarted for
        ever."""
        limit_mb = self.spec.limits.max_memory_mb
        size_mb = resident_mb(connection.pid) if limit_mb else None
        if size_mb is None or size_mb <= limit_mb:
            return None
        return AishError(f"{self.spec.name} held {size_mb:.0f} MB, more than the {limit_mb} MB it may")

    def _note_crash(self, crash: AishError, began_s: float) -> None:
        limits, now_s = self.spec.limits, _now_s()
        self._crashes = 1 if now_s - began_s > limits.rest_s else self._crashes + 1
        self.ended = describe_crash(crash)
        if self._crashes >= limits.restarts:
            self._not_before_s = now_s + limits.rest_s
        elif self._crashes > 1:
            self._not_before_s = now_s + limits.first_pause_s * 2 ** (self._crashes - 2)


def _start_error(name: str, crash: AishError | None) -> ToolError:
    why = describe_crash(crash) if crash is not None else "stopped"
    hint = f"; {crash.hint}" if crash is not None and crash.hint else ""
    return ToolError(f"{name} cannot be used: {why}{hint}", status=ResultStatus.SERVER_GONE)


def describe_crash(crash: AishError) -> str:
    tail = " ".join(getattr(crash, "stderr_tail", "").split())[-_STDERR_SHOWN_CHARS:]
    return f"{crash.message}: {tail}" if tail else crash.message


def _now_s() -> float:
    return asyncio.get_running_loop().time()


_PROC = Path("/proc")
# Fields of /proc/PID/stat after the name, which ends with the last parenthesis.
_SESSION, _RESIDENT_PAGES = 3, 21


def resident_mb(leader: int) -> float | None:
    """Returns the memory of all processes in the session of `leader`; None if it is unknown."""
    if not (_PROC / "self" / "stat").exists():
        return None
    pages = sum(_resident_pages(entry, leader) for entry in os.listdir(_PROC) if entry.isdigit())  # noqa: PTH208  # names only
    return pages * os.sysconf("SC_PAGE_SIZE") / (1024 * 1024)


def _resident_pages(pid: str, leader: int) -> int:
    try:
        fields = (_PROC / pid / "stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[_RESIDENT_PAGES]) if int(fields[_SESSION]) == leader else 0
    except (OSError, ValueError, IndexError):  # the process has ended meanwhile
        return 0


_MAX_OPENED = 32  # new files that are opened at once
_STARTS = 2  # starts of a server for one question, if too many files change meanwhile


class LanguageServers:
    def __init__(self, space: Workspace, choice: ServerChoice, limits: ServerLimits, *, max_servers: int = 4) -> None:
        self.space = space
        self.limits = limits
        self._choice = choice
        self._max_servers = max_servers
        self._found: dict[str, FoundServer] = {}
        self._servers: dict[str, LanguageServer] = {}
        self._changes: ChangeFeed | None = None
        self._starting = asyncio.Lock()

    def find(self, language: str) -> FoundServer | None:
        """Searches again until a server is found."""
        known = self._found.get(language)
        if known is None:
            known = find_server(language, self.space.root, self._choice)
            if known is not None and known.command:
                self._found[language] = known
        return known

    def find_formatter(self, language: str) -> FoundServer | None:
        name = language_table().language[language].formatter
        return find_named_server(name, self.space.root, self._choice) if name else None

    @asynccontextmanager
    async def use(self, language: str, found: FoundServer) -> AsyncIterator[ServerSession]:
        """Yields a session that is informed of all changes on disk. Raises ToolError, and WireTimeout while the server
        starts."""
        async with self._starting:
            if self._changes is None:
                self._changes = await asyncio.to_thread(ChangeFeed, self.space.root, _is_watched)
            server = await self._server(language, found)
        for _ in range(_STARTS):
            async with server.use() as session:
                async with session.sync_lock:
                    is_informed = await self._report_changes(found.server, session)
                if is_informed:
                    yield session
                    return
            await server.discard(session)
        raise WireTimeout(f"more files change than {found.server} can follow", phase="start")

    def changed_since_report(self, server: str, paths: set[str]) -> set[str]:
        """Returns the files that may have changed on disk since the server was last informed."""
        changes = self._changes.peek(server) if self._changes is not None else {}
        return paths if changes is None else paths & changes.keys()

    @property
    def sees_everything(self) -> bool:
        return self._changes is None or self._changes.complete

    def report_edits(self, edits: Iterable[FileEdit]) -> None:
        """Reports our own edits, for systems without a file watcher."""
        if self._changes is not None:
            self._changes.add({edit.path: _kind(edit) for edit in edits})

    async def aclose(self) -> None:
        await asyncio.gather(*(server.aclose() for server in self._servers.values()), return_exceptions=True)
        if self._changes is not None:
            self._changes.close()

    async def _server(self, language: str, found: FoundServer) -> LanguageServer:
        server = self._servers.pop(found.server, None)
        if server is None:
            await self._stop_least_used()
            assert self._changes is not None
            spec = server_spec(language, found, self.space.root, self._choice, self.limits)
            server = LanguageServer(spec, on_start=functools.partial(self._changes.reset, found.server))
        self._servers[found.server] = server  # the most recently used is last
        return server

    async def _stop_least_used(self) -> None:
        """Stops the server that was not used for longest."""
        running = [name for name, server in self._servers.items() if server.running]
        if len(running) >= self._max_servers:
            await self._servers.pop(running[0]).aclose()

    async def _report_changes(self, name: str, session: ServerSession) -> bool:
        """Informs the server of changes. Returns False if too much has changed to list: then a new server must read
        everything."""
        assert self._changes is not None
        changes = await self._changes.take_async(name)
        if not changes:
            return changes is not None
        await session.documents.send_changes(changes.items())
        made = [path for path, kind in changes.items() if kind == CREATED and session.connection.spec.wants(path)]
        if any(kind != CHANGED for kind in changes.values()):
            session.note_new_files()
        for path in changes:
            # Some servers take a second to find a new file. A document that is opened is known at once.
            if session.documents.find(path) is not None or path in made[:_MAX_OPENED]:
                await self._sync_document(session, path)
        return True

    async def _sync_document(self, session: ServerSession, path: str) -> None:
        try:
            source = load(self.space, path)
        except ToolError:
            await session.documents.close(path)
        else:
            await session.documents.sync(source)


def _kind(edit: FileEdit) -> int:
    return REMOVED if edit.content is None else CREATED if edit.base is None else CHANGED


def _is_watched(name: str) -> bool:
    known = language_table()
    suffix = PurePosixPath(name).suffix.lower()
    return any(suffix in language.documents for language in known.language.values()) or any(
        name in server.watched or f"*{suffix}" in server.watched for server in known.server.values()
    )
