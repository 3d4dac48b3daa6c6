"""Selects the backend that answers for a file. Each workspace has exactly one owner.

A connected IDE owns the workspace: it answers what it offers, and no language server is started. Otherwise the language
server of the file's language answers, otherwise the syntax tree, which also says how to get a server.
"""

from __future__ import annotations

from collections.abc import Callable

from aish.tools.code.backends.lsp import LspBackend
from aish.tools.code.backends.port import CodeAnswer, CodeBackend, Symbol, SymbolPosition
from aish.tools.code.backends.tree import TreeBackend
from aish.tools.code.files.source import SourceText
from aish.tools.code.languages import ServerChoice, ServerLimits, language_table
from aish.tools.code.lsp.server import LanguageServers
from aish.tools.code.names import last_name, resolve_symbol
from aish.tools.code.outline import find_grammar
from aish.tools.workspace import Workspace

_MAX_OUTLINES = 64

FindIde = Callable[[TreeBackend], CodeBackend | None]


class Backends:
    def __init__(
        self,
        space: Workspace,
        choice: ServerChoice,
        limits: ServerLimits,
        *,
        max_servers: int = 4,
        find_ide: FindIde = lambda tree: None,
    ) -> None:
        self.servers = LanguageServers(space, choice, limits, max_servers=max_servers)
        self._space = space
        self._find_ide = find_ide
        self._outlines: dict[tuple[str, str], CodeAnswer[tuple[Symbol, ...]]] = {}

    def for_file(self, path: str) -> CodeBackend:
        if (ide := self._ide()) is not None:
            return ide
        language = language_table().language_of(path)
        found = self.servers.find(language) if language else None
        if found is not None and found.command:
            return LspBackend(self.servers, language, found)
        return TreeBackend(
            self._space, _advice(language, found.server if found else "", found.missing if found else "")
        )

    def for_formatting(self, path: str) -> CodeBackend:
        """Returns the backend that formats and fixes, which may be another program."""
        language = language_table().language_of(path)
        found = self.servers.find_formatter(language) if language and self._ide() is None else None
        if found is None:
            return self.for_file(path)
        if not found.command:
            return TreeBackend(self._space, _advice(language, found.server, found.missing))
        return LspBackend(self.servers, language, found)

    async def outline(self, source: SourceText) -> CodeAnswer[tuple[Symbol, ...]]:
        """Uses the syntax tree if there is a grammar: it is fast and needs no server."""
        known = self._outlines.get((source.path, source.hash))
        if known is None:
            if find_grammar(language_table().grammar_of(source.path) or "?") is None:
                return await self.for_file(source.path).outline(source)
            known = await TreeBackend(self._space).outline(source)
            self._outlines[source.path, source.hash] = known
            if len(self._outlines) > _MAX_OUTLINES:
                del self._outlines[next(iter(self._outlines))]
        return known

    async def locate(self, source: SourceText, line: int | None, symbol: str) -> SymbolPosition:
        """Finds a symbol. Without a line the file's declaration of that name is preferred. Raises ToolError."""
        if line is None:
            declared = (one for one in (await self.outline(source)).value if one.name == last_name(symbol))
            line = next((one.line for one in declared), None)
        return resolve_symbol(source, line, symbol)

    async def symbols(self, query: str, limit: int) -> CodeAnswer[tuple[Symbol, ...]]:
        ide = self._ide()
        return await (ide or TreeBackend(self._space)).symbols(query, limit)

    def _ide(self) -> CodeBackend | None:
        return self._find_ide(TreeBackend(self._space, "the IDE that owns this workspace does not offer it"))


def _advice(language: str, server: str, missing: str) -> str:
    if not language:
        return "no language server is known for this kind of file"
    hint = missing.replace("not found; ", "not found; the user can install it with: ")  # this text is for the model
    return f"{server} is not available: {hint}" if server else f"no language server is known for {language}"
