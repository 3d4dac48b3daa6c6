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
from aish.tools.code.backends.lsp_edits import list_actions, perform, rename_edits
from aish.tools.code.backends.lsp_locations import ServerFiles
from aish.tools.code.backends.port import (
    AnswerStatus,
    CodeAnswer,
    Diagnostic,
    Edits,
    Fix,
    FixEdits,
    Location,
    Symbol,
    SymbolPosition,
)
from aish.tools.code.files.source import SourceText, content_hash
from aish.tools.code.languages import FoundServer
from aish.tools.code.lsp import results
from aish.tools.code.lsp.diagnostics import diagnose
from aish.tools.code.lsp.edits import SingleFile, file_edits
from aish.tools.code.lsp.results import TextMap
from aish.tools.code.lsp.server import LanguageServers, ServerSession
from aish.types.tools import ResultStatus

T = TypeVar("T")
Question = Callable[[ServerSession], Awaitable[T]]

# A question about one place waits only briefly for a busy server, a question about the whole project longer.
_QUICK_WAIT_S = 3.0
_TOO_LARGE = "the workspace is too large for all of it to be watched; changes by others may not be known"
_EMPTY = content_hash(b"")
_REPEATS = 8
_IN_ALL = 4  # times the timeout of one answer: to start, to ask, to wait until the server is idle, to ask again
_REPEAT_AFTER_S = 0.15


class LspBackend:
    def __init__(self, servers: LanguageServers, language: str, found: FoundServer) -> None:
        self.name = found.server
        self._servers = servers
        self._language = language
        self._found = found

    async def hover(self, source: SourceText, spot: SymbolPosition) -> CodeAnswer[str]:
        async def ask(session: ServerSession) -> str:
            raw = await session.connection.request("textDocument/hover", self._position_params(session, source, spot))
            return results.decode_hover(raw)

        return await self._answer("textDocument/hover", source, ask, "", quick=True)

    async def definition(self, source: SourceText, spot: SymbolPosition) -> CodeAnswer[tuple[Location, ...]]:
        async def ask(session: ServerSession) -> tuple[Location, ...]:
            raw = await session.connection.request(
                "textDocument/definition", self._position_params(session, source, spot)
            )
            return self._files(session).convert_locations(results.decode_locations(raw), whole=True)

        return await self._answer("textDocument/definition", source, ask, (), quick=True)

    async def references(self, source: SourceText, spot: SymbolPosition) -> CodeAnswer[tuple[Location, ...]]:
        async def ask(session: ServerSession) -> tuple[Location, ...]:
            params = {**self._position_params(session, source, spot), "context": {"includeDeclaration": True}}
            raw = await session.connection.request("textDocument/references", params)
            return self._files(session).convert_locations(results.decode_locations(raw))

        return await self._answer("textDocument/references", source, ask, ())

    async def outline(self, source: SourceText) -> CodeAnswer[tuple[Symbol, ...]]:
        async def ask(session: ServerSession) -> tuple[Symbol, ...]:
            raw = await session.connection.request(
                "textDocument/documentSymbol", self._document_params(session, source)
            )
            return self._files(session).convert_symbols(results.decode_symbols(raw, session.documents.uri(source.path)))

        return await self._answer("textDocument/documentSymbol", source, ask, (), quick=True)

    async def symbols(self, query: str, limit: int) -> CodeAnswer[tuple[Symbol, ...]]:
        async def ask(session: ServerSession) -> tuple[Symbol, ...]:
            raw = await session.connection.request("workspace/symbol", {"query": query})
            return self._files(session).convert_symbols(results.decode_symbols(raw), inside_only=True)

        return await self._answer("workspace/symbol", None, ask, ())

    async def diagnostics(self, source: SourceText, wait_s: float) -> CodeAnswer[tuple[Diagnostic, ...]]:
        async def ask(session: ServerSession) -> CodeAnswer[tuple[Diagnostic, ...]]:
            documents = session.documents
            with documents.keep_open(source.path):
                opened = await documents.touch(source)
                report = await diagnose(session.connection, documents, source.path, opened, timeout_s=wait_s)
                now = documents.find(source.path)
            is_same = now is not None and now.hash == source.hash  # otherwise the report may be about a newer text
            return self._diagnostics_answer(
                source, report.problems, fresh=report.fresh and is_same, is_final=report.is_final and is_same
            )

        try:
            return await self._ask_with_restart(ask)
        except WireTimeout as exc:
            return CodeAnswer((), self.name, AnswerStatus.PENDING, exc.message)

    async def rename(self, source: SourceText, spot: SymbolPosition, new_name: str) -> CodeAnswer[Edits]:
        async def ask(session: ServerSession) -> Edits:
            return await rename_edits(session, self._files(session), source, spot, new_name)

        return self._mark_if_stale(await self._answer("textDocument/rename", source, ask, ()))

    async def format(self, source: SourceText) -> CodeAnswer[Edits]:
        async def ask(session: ServerSession) -> Edits:
            options = {"tabSize": 4, "insertSpaces": True, "trimTrailingWhitespace": True, "insertFinalNewline": True}
            params = {**self._document_params(session, source), "options": options}
            edits = results.decode_as(await session.connection.request("textDocument/formatting", params), object)
            change = {"changes": {session.documents.uri(source.path): edits or []}}
            return file_edits(change, SingleFile(source), session.connection.encoding)

        return await self._answer("textDocument/formatting", source, ask, (), quick=True)

    async def fixes(self, source: SourceText, line: int, end_line: int) -> CodeAnswer[tuple[Fix, ...]]:
        async def ask(session: ServerSession) -> tuple[Fix, ...]:
            return tuple(action.fix for action in await list_actions(session, source, line, end_line))

        return await self._answer("textDocument/codeAction", source, ask, (), quick=True)

    async def fix(self, source: SourceText, line: int, end_line: int, key: str) -> CodeAnswer[FixEdits | None]:
        async def ask(session: ServerSession) -> FixEdits | None:
            actions = await list_actions(session, source, line, end_line)
            action = next((action for action in actions if action.fix.key == key), None)
            if action is None:
                return None
            return FixEdits(action.fix.title, await perform(session, self._files(session), action))

        answer = await self._answer("textDocument/codeAction", source, ask, None, quick=True)
        if answer.value is None:
            return answer
        return self._mark_if_stale(answer.with_value(answer.value.edits)).with_value(answer.value)

    # Asking the server.

    async def _answer(
        self, method: str, source: SourceText | None, ask: Question[T], nothing: T, *, quick: bool = False
    ) -> CodeAnswer[T]:
        async def ask_session(session: ServerSession) -> CodeAnswer[T]:
            if not session.connection.can_answer(method):
                return CodeAnswer(nothing, self.name, AnswerStatus.UNSUPPORTED, f"{self.name} cannot do this")
            if source is None:
                return await self._ask_until_idle(session, source, ask, quick=quick)
            with session.documents.keep_open(source.path):
                await session.documents.sync(source)
                return await self._ask_until_idle(session, source, ask, quick=quick)

        try:
            async with asyncio.timeout(_IN_ALL * self._servers.limits.answer_timeout_s):
                return await self._ask_with_restart(ask_session)
        except WireTimeout as exc:
            return CodeAnswer(nothing, self.name, AnswerStatus.PENDING, f"{exc.message}; ask again")
        except TimeoutError:
            return CodeAnswer(nothing, self.name, AnswerStatus.PENDING, f"{self.name} is not done yet; ask again")

    async def _ask_until_idle(
        self, session: ServerSession, source: SourceText | None, ask: Question[T], *, quick: bool
    ) -> CodeAnswer[T]:
        """Asks, and asks again if the server was busy while it answered."""
        incoming = session.connection.incoming
        value = await ask(session)
        if incoming.busy:
            await _wait_idle(session, _QUICK_WAIT_S if quick else self._servers.limits.answer_timeout_s)
            value = await ask(session)
        if not quick and not session.is_consistent and not incoming.busy:
            value = await _repeat_until_stable(session, ask, value)
        if incoming.busy:
            note = f"{self.name} is still at work ({incoming.busy}); ask again later"
            return CodeAnswer(value, self.name, AnswerStatus.PARTIAL, note)
        known = session.documents.find(source.path) if source is not None else None
        if source is not None and known is not None and known.hash != source.hash:
            return CodeAnswer(value, self.name, AnswerStatus.STALE, f"{source.path} changed meanwhile")
        note = "" if self._servers.sees_everything else _TOO_LARGE
        if not quick and source is not None:
            note = session.connection.spec.incomplete(source.path) or note
        if note:
            return CodeAnswer(value, self.name, AnswerStatus.PARTIAL, note)
        return CodeAnswer(value, self.name)

    async def _ask_with_restart(self, ask: Question[T]) -> T:
        """Asks, and asks a new server if the first one died meanwhile."""
        try:
            return await self._ask_once(ask)
        except (ProcessError, ConnectionLost):
            try:
                return await self._ask_once(ask)
            except (ProcessError, ConnectionLost) as exc:
                text = f"{self.name} went away twice while it was asked: {exc.message}"
                raise ToolError(text, status=ResultStatus.SERVER_GONE) from exc

    async def _ask_once(self, ask: Question[T]) -> T:
        try:
            async with self._servers.use(self._language, self._found) as session:
                return await ask(session)
        except (WireTimeout, ConnectionLost, ToolError, ProcessError):
            raise
        except WireError as exc:
            raise _tool_error(self.name, exc) from exc

    def _mark_if_stale(self, answer: CodeAnswer[Edits]) -> CodeAnswer[Edits]:
        """Marks an edit as stale if one of its files has changed since the server was last informed."""
        # Any edit fits an empty file. A TypeScript server creates one itself as the target of moved code.
        edited = {edit.path for edit in answer.value if edit.base != _EMPTY}
        changed = self._servers.changed_since_report(self.name, edited)
        if not changed:
            return answer
        note = f"{min(changed)} changed while {self.name} worked; ask again"
        return CodeAnswer(answer.value, self.name, AnswerStatus.STALE, note)

    # Parameters and results of the protocol.

    def _document_params(self, session: ServerSession, source: SourceText) -> dict[str, object]:
        return {"textDocument": {"uri": session.documents.uri(source.path)}}

    def _position_params(self, session: ServerSession, source: SourceText, spot: SymbolPosition) -> dict[str, object]:
        position = TextMap(source.lines, session.connection.encoding).position(spot.line - 1, spot.column)
        return {**self._document_params(session, source), "position": msgspec.to_builtins(position)}

    def _files(self, session: ServerSession) -> ServerFiles:
        return ServerFiles(self._servers.space, session.connection.encoding)

    def _diagnostics_answer(
        self, source: SourceText, problems: Sequence[results.WireDiagnostic], *, fresh: bool, is_final: bool
    ) -> CodeAnswer[tuple[Diagnostic, ...]]:
        found = tuple(
            Diagnostic(source.path, one.range.start.line + 1, one.severity, one.message, one.source, one.code)
            for one in problems
        )
        if fresh:
            return CodeAnswer(found, self.name)
        if is_final:
            note = f"{self.name} does not say which text these belong to; there may be more"
            return CodeAnswer(found, self.name, AnswerStatus.PARTIAL, note)
        if found:
            return CodeAnswer(
                found, self.name, AnswerStatus.STALE, f"{self.name} has not looked at the present text yet"
            )
        return CodeAnswer(found, self.name, AnswerStatus.PENDING, f"{self.name} has not answered yet; ask again")


async def _repeat_until_stable(session: ServerSession, ask: Question[T], value: T) -> T:
    """Repeats a question about the whole project until two answers agree, because not every server reports that it is
    loading."""
    for _ in range(_REPEATS):
        await _wait_idle(session, _QUICK_WAIT_S)
        await asyncio.sleep(_REPEAT_AFTER_S)
        before, value = value, await ask(session)
        if before == value and not session.connection.incoming.busy:
            session.note_agreement()
            break
    return value


async def _wait_idle(session: ServerSession, wait_s: float) -> None:
    try:
        async with asyncio.timeout(wait_s):
            while session.connection.incoming.busy:
                await session.connection.incoming.wait_changed()
    except TimeoutError:
        return


def _tool_error(name: str, exc: AishError) -> ToolError:
    return ToolError(f"{name} answered: {exc.message}", status=ResultStatus.RPC_ERROR)
