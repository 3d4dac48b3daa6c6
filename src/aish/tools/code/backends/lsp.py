"""Answers questions about the files of one language with a language server.

Servers answer before they know everything: while they index they know only the open files, and while they load a
project they know nothing. So a question is asked again when the server reports that it is done; an earlier answer is
`partial`. After a missed deadline the answer is `pending`. If the server dies during a question, it is restarted and
asked once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from aish.errors import AishError, ConnectionLost, ProcessError, ToolError, WireError, WireTimeout
from aish.tools.code.answer import Answer, Fix, Place, Problem, Spot, Status, Symbol
from aish.tools.code.backends.lsp_actions import list_actions, perform
from aish.tools.code.backends.lsp_places import Files
from aish.tools.code.backends.lsp_rename import rename_edits
from aish.tools.code.backends.port import Edits, Fixed
from aish.tools.code.backends.servers import Servers
from aish.tools.code.files.source import Source, content_hash
from aish.tools.code.languages import Found
from aish.tools.code.lsp import answers
from aish.tools.code.lsp.diagnostics import diagnose
from aish.tools.code.lsp.edits import Only, file_edits
from aish.tools.code.lsp.positions import TextMap
from aish.tools.code.lsp.server import Session
from aish.types.tools import ResultStatus

T = TypeVar("T")
Question = Callable[[Session], Awaitable[T]]

# A question about one place waits only briefly for a busy server, a question about the whole project longer.
_QUICK_WAIT_S = 3.0
_TOO_LARGE = "the workspace is too large for all of it to be watched; changes by others may not be known"
_EMPTY = content_hash(b"")
_REPEATS = 8
_IN_ALL = 4  # times the timeout of one answer: to start, to ask, to wait until the server is idle, to ask again
_REPEAT_AFTER_S = 0.15


class LspBackend:
    def __init__(self, servers: Servers, language: str, found: Found) -> None:
        self.name = found.server
        self._servers = servers
        self._language = language
        self._found = found

    async def hover(self, source: Source, spot: Spot) -> Answer[str]:
        async def ask(session: Session) -> str:
            raw = await session.connection.request("textDocument/hover", self._at(session, source, spot))
            return answers.hover_text(raw)

        return await self._answer("textDocument/hover", source, ask, "", quick=True)

    async def definition(self, source: Source, spot: Spot) -> Answer[tuple[Place, ...]]:
        async def ask(session: Session) -> tuple[Place, ...]:
            raw = await session.connection.request("textDocument/definition", self._at(session, source, spot))
            return self._files(session).places(answers.places(raw), whole=True)

        return await self._answer("textDocument/definition", source, ask, (), quick=True)

    async def references(self, source: Source, spot: Spot) -> Answer[tuple[Place, ...]]:
        async def ask(session: Session) -> tuple[Place, ...]:
            params = {**self._at(session, source, spot), "context": {"includeDeclaration": True}}
            raw = await session.connection.request("textDocument/references", params)
            return self._files(session).places(answers.places(raw))

        return await self._answer("textDocument/references", source, ask, ())

    async def outline(self, source: Source) -> Answer[tuple[Symbol, ...]]:
        async def ask(session: Session) -> tuple[Symbol, ...]:
            raw = await session.connection.request("textDocument/documentSymbol", self._document(session, source))
            return self._files(session).symbols(answers.symbols(raw, session.documents.uri(source.path)))

        return await self._answer("textDocument/documentSymbol", source, ask, (), quick=True)

    async def symbols(self, query: str, limit: int) -> Answer[tuple[Symbol, ...]]:
        async def ask(session: Session) -> tuple[Symbol, ...]:
            raw = await session.connection.request("workspace/symbol", {"query": query})
            return self._files(session).symbols(answers.symbols(raw), inside_only=True)

        return await self._answer("workspace/symbol", None, ask, ())

    async def diagnostics(self, source: Source, wait_s: float) -> Answer[tuple[Problem, ...]]:
        async def ask(session: Session) -> Answer[tuple[Problem, ...]]:
            documents = session.documents
            with documents.held(source.path):
                opened = await documents.touch(source)
                report = await diagnose(session.connection, documents, source.path, opened, timeout_s=wait_s)
                now = documents.find(source.path)
            is_same = now is not None and now.hash == source.hash  # otherwise the report may be about a newer text
            return self._reported(
                source, report.problems, fresh=report.fresh and is_same, settled=report.settled and is_same
            )

        try:
            return await self._alive(ask)
        except WireTimeout as exc:
            return Answer((), self.name, Status.PENDING, exc.message)

    async def rename(self, source: Source, spot: Spot, new_name: str) -> Answer[Edits]:
        async def ask(session: Session) -> Edits:
            return await rename_edits(session, self._files(session), source, spot, new_name)

        return self._unless_changed(await self._answer("textDocument/rename", source, ask, ()))

    async def format(self, source: Source) -> Answer[Edits]:
        async def ask(session: Session) -> Edits:
            options = {"tabSize": 4, "insertSpaces": True, "trimTrailingWhitespace": True, "insertFinalNewline": True}
            params = {**self._document(session, source), "options": options}
            edits = answers.decoded(await session.connection.request("textDocument/formatting", params), object)
            change = {"changes": {session.documents.uri(source.path): edits or []}}
            return file_edits(change, Only(source), session.connection.encoding)

        return await self._answer("textDocument/formatting", source, ask, (), quick=True)

    async def fixes(self, source: Source, line: int, end_line: int) -> Answer[tuple[Fix, ...]]:
        async def ask(session: Session) -> tuple[Fix, ...]:
            return tuple(action.fix for action in await list_actions(session, source, line, end_line))

        return await self._answer("textDocument/codeAction", source, ask, (), quick=True)

    async def fix(self, source: Source, line: int, end_line: int, key: str) -> Answer[Fixed | None]:
        async def ask(session: Session) -> Fixed | None:
            actions = await list_actions(session, source, line, end_line)
            action = next((action for action in actions if action.fix.key == key), None)
            if action is None:
                return None
            return Fixed(action.fix.title, await perform(session, self._files(session), action))

        answer = await self._answer("textDocument/codeAction", source, ask, None, quick=True)
        if answer.value is None:
            return answer
        return self._unless_changed(answer.with_value(answer.value.edits)).with_value(answer.value)

    async def aclose(self) -> None:
        """The servers are closed by `LanguageServers`."""

    # Asking the server.

    async def _answer(
        self, method: str, source: Source | None, ask: Question[T], nothing: T, *, quick: bool = False
    ) -> Answer[T]:
        async def put(session: Session) -> Answer[T]:
            if not session.connection.can(method):
                return Answer(nothing, self.name, Status.UNSUPPORTED, f"{self.name} cannot do this")
            if source is None:
                return await self._settled(session, source, ask, quick=quick)
            with session.documents.held(source.path):
                await session.documents.sync(source)
                return await self._settled(session, source, ask, quick=quick)

        try:
            async with asyncio.timeout(_IN_ALL * self._servers.limits.answer_timeout_s):
                return await self._alive(put)
        except WireTimeout as exc:
            return Answer(nothing, self.name, Status.PENDING, f"{exc.message}; ask again")
        except TimeoutError:
            return Answer(nothing, self.name, Status.PENDING, f"{self.name} is not done yet; ask again")

    async def _settled(self, session: Session, source: Source | None, ask: Question[T], *, quick: bool) -> Answer[T]:
        """Asks, and asks again if the server was busy while it answered."""
        inbox = session.connection.inbox
        value = await ask(session)
        if inbox.busy:
            await _quiet(session, _QUICK_WAIT_S if quick else self._servers.limits.answer_timeout_s)
            value = await ask(session)
        if not quick and not session.settled and not inbox.busy:
            value = await _repeated(session, ask, value)
        if inbox.busy:
            note = f"{self.name} is still at work ({inbox.busy}); ask again later"
            return Answer(value, self.name, Status.PARTIAL, note)
        known = session.documents.find(source.path) if source is not None else None
        if source is not None and known is not None and known.hash != source.hash:
            return Answer(value, self.name, Status.STALE, f"{source.path} changed meanwhile")
        note = "" if self._servers.sees_everything else _TOO_LARGE
        if not quick and source is not None:
            note = session.connection.spec.incomplete(source.path) or note
        if note:
            return Answer(value, self.name, Status.PARTIAL, note)
        return Answer(value, self.name)

    async def _alive(self, ask: Question[T]) -> T:
        """Asks, and asks a new server if the first one died meanwhile."""
        try:
            return await self._once(ask)
        except (ProcessError, ConnectionLost):
            try:
                return await self._once(ask)
            except (ProcessError, ConnectionLost) as exc:
                text = f"{self.name} went away twice while it was asked: {exc.message}"
                raise ToolError(text, status=ResultStatus.SERVER_GONE) from exc

    async def _once(self, ask: Question[T]) -> T:
        try:
            async with self._servers.used(self._language, self._found) as session:
                return await ask(session)
        except (WireTimeout, ConnectionLost, ToolError, ProcessError):
            raise
        except WireError as exc:
            raise _translated(self.name, exc) from exc

    def _unless_changed(self, answer: Answer[Edits]) -> Answer[Edits]:
        """Marks an edit as stale if one of its files has changed since the server was last informed."""
        # Any edit fits an empty file. A TypeScript server creates one itself as the target of moved code.
        edited = {edit.path for edit in answer.value if edit.base != _EMPTY}
        changed = self._servers.changed_since_told(self.name, edited)
        if not changed:
            return answer
        note = f"{min(changed)} changed while {self.name} worked; ask again"
        return Answer(answer.value, self.name, Status.STALE, note)

    # Parameters and results of the protocol.

    def _document(self, session: Session, source: Source) -> dict[str, object]:
        return {"textDocument": {"uri": session.documents.uri(source.path)}}

    def _at(self, session: Session, source: Source, spot: Spot) -> dict[str, object]:
        position = TextMap(source.lines, session.connection.encoding).position(spot.line - 1, spot.column)
        return {**self._document(session, source), "position": msgspec.to_builtins(position)}

    def _files(self, session: Session) -> Files:
        return Files(self._servers.space, session.connection.encoding)

    def _reported(
        self, source: Source, problems: Sequence[answers.WireProblem], *, fresh: bool, settled: bool
    ) -> Answer[tuple[Problem, ...]]:
        found = tuple(
            Problem(source.path, one.range.start.line + 1, one.severity, one.message, one.source, one.code)
            for one in problems
        )
        if fresh:
            return Answer(found, self.name)
        if settled:
            note = f"{self.name} does not say which text these belong to; there may be more"
            return Answer(found, self.name, Status.PARTIAL, note)
        if found:
            return Answer(found, self.name, Status.STALE, f"{self.name} has not looked at the present text yet")
        return Answer(found, self.name, Status.PENDING, f"{self.name} has not answered yet; ask again")


async def _repeated(session: Session, ask: Question[T], value: T) -> T:
    """Repeats a question about the whole project until two answers agree, because not every server reports that it is
    loading."""
    for _ in range(_REPEATS):
        await _quiet(session, _QUICK_WAIT_S)
        await asyncio.sleep(_REPEAT_AFTER_S)
        before, value = value, await ask(session)
        if before == value and not session.connection.inbox.busy:
            session.settled = True
            break
    return value


async def _quiet(session: Session, wait_s: float) -> None:
    try:
        async with asyncio.timeout(wait_s):
            while session.connection.inbox.busy:
                await session.connection.inbox.changed()
    except TimeoutError:
        return


def _translated(name: str, exc: AishError) -> ToolError:
    return ToolError(f"{name} answered: {exc.message}", status=ResultStatus.RPC_ERROR)
