"""The language servers of one workspace: one for each program, started at the first question, a limited number at once.

Before each question a server is informed of all changes on disk and gets the current text of its open documents.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import PurePosixPath

from aish.errors import ToolError, WireTimeout
from aish.tools.code.edits.port import FileEdit
from aish.tools.code.files.change_feed import ChangeFeed
from aish.tools.code.files.source import load
from aish.tools.code.files.watcher import CHANGED, CREATED, REMOVED
from aish.tools.code.languages import FoundServer, ServerChoice, find_program, find_server, language_table, server_spec
from aish.tools.code.lsp.server import LanguageServer, ServerSession
from aish.tools.code.lsp.spec import ServerLimits
from aish.tools.workspace import Workspace

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
        return find_program(name, self.space.root, self._choice) if name else None

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

    def changed_since_told(self, server: str, paths: set[str]) -> set[str]:
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
