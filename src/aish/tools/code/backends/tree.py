"""Answers from the syntax tree alone, without a server and without knowledge of types.

Outlines are exact. Definitions are all declarations of that name in files of the same language, references all lines
with the name. Both are `partial`, because the same name may mean something else.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from aish.errors import ToolError
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
from aish.tools.code.files.source import SourceText, load, word_regex
from aish.tools.code.languages import language_table
from aish.tools.code.outline import find_grammar, outline
from aish.tools.code.search.walk import SkippedFiles, walk_files
from aish.tools.workspace import HardLinked, TooLong, Workspace

NAME = "tree-sitter"
_BY_NAME = "found by name alone; the same name may be something else"
_MAX_FILES = 5000
_TIMEOUT_S = 20.0
_TEXT_CHARS = 240
_SMALL_CHARS = 64 * 1024  # parsed directly; longer texts in a thread

T = TypeVar("T")


class TreeBackend:
    """`why` says why no better backend answers, and what the user can do."""

    name = NAME

    def __init__(self, space: Workspace, why: str = "") -> None:
        self._space = space
        self._why = why

    async def outline(self, source: SourceText) -> CodeAnswer[tuple[Symbol, ...]]:
        language = find_grammar(language_table().grammar_of(source.path) or "?")
        if language is None:
            return CodeAnswer((), NAME, AnswerStatus.UNSUPPORTED, "there is no grammar for this kind of file here")
        if len(source.text) <= _SMALL_CHARS:
            return CodeAnswer(outline(source, language), NAME)
        return CodeAnswer(await asyncio.to_thread(outline, source, language), NAME)

    async def hover(self, source: SourceText, spot: SymbolPosition) -> CodeAnswer[str]:
        found = await self.definition(source, spot)
        return CodeAnswer(
            "\n".join(f"{p.path}:{p.line}: {p.text}" for p in found.value[:5]), NAME, found.status, found.note
        )

    async def definition(self, source: SourceText, spot: SymbolPosition) -> CodeAnswer[tuple[Location, ...]]:
        symbols = await self._search(lambda stop: self._find_declarations(source.path, spot.symbol, stop))
        locations = [Location(symbol.path, symbol.line, symbol.end_line, symbol.text) for symbol in symbols]
        return CodeAnswer(tuple(locations), NAME, AnswerStatus.PARTIAL, self._note())

    async def references(self, source: SourceText, spot: SymbolPosition) -> CodeAnswer[tuple[Location, ...]]:
        found = await self._search(lambda stop: self._find_mentions(source.path, spot.symbol, stop))
        return CodeAnswer(tuple(found), NAME, AnswerStatus.PARTIAL, self._note())

    async def symbols(self, query: str, limit: int) -> CodeAnswer[tuple[Symbol, ...]]:
        unread: set[str] = set()
        skipped = SkippedFiles()
        found = await self._search(lambda stop: self._find_matching(query, limit, stop, unread, skipped))
        wanted = query.casefold()
        found.sort(key=lambda one: (one.name.casefold() != wanted, not one.name.casefold().startswith(wanted)))
        note = str(skipped)
        if unread:
            note = f"there is no grammar for {', '.join(sorted(unread))} here; pip install 'aish-runtime[shell]'"
        return CodeAnswer(tuple(found), NAME, AnswerStatus.PARTIAL if note else AnswerStatus.FRESH, note)

    async def diagnostics(self, source: SourceText, wait_s: float) -> CodeAnswer[tuple[Diagnostic, ...]]:
        return self._unsupported_answer(())

    async def rename(self, source: SourceText, spot: SymbolPosition, new_name: str) -> CodeAnswer[Edits]:
        return self._unsupported_answer(())

    async def format(self, source: SourceText) -> CodeAnswer[Edits]:
        return self._unsupported_answer(())

    async def fixes(self, source: SourceText, line: int, end_line: int) -> CodeAnswer[tuple[Fix, ...]]:
        return self._unsupported_answer(())

    async def fix(self, source: SourceText, line: int, end_line: int, key: str) -> CodeAnswer[FixEdits | None]:
        return self._unsupported_answer(None)

    def _unsupported_answer(self, nothing: T) -> CodeAnswer[T]:
        return CodeAnswer(nothing, NAME, AnswerStatus.UNSUPPORTED, self._why or "this needs a language server")

    def _note(self) -> str:
        return f"{_BY_NAME}; {self._why}" if self._why else _BY_NAME

    async def _search(self, do: Callable[[threading.Event], Iterator[T]]) -> list[T]:
        """Runs a search in a thread and stops it when the caller no longer waits."""
        stop = threading.Event()
        timer = asyncio.get_running_loop().call_later(_TIMEOUT_S, stop.set)
        try:
            return await asyncio.to_thread(lambda: list(do(stop)))
        finally:
            timer.cancel()
            stop.set()

    def _find_declarations(self, path: str, name: str, stop: threading.Event) -> Iterator[Symbol]:
        for source in self._sources(language_table().language_of(path), name, stop, named=path):
            language = find_grammar(language_table().grammar_of(source.path) or "?")
            if language is not None:
                yield from (one for one in _outline(source, language) if _last_part(one.name) == name)

    def _find_mentions(self, path: str, name: str, stop: threading.Event) -> Iterator[Location]:
        word = word_regex(name)
        for source in self._sources(language_table().language_of(path), name, stop, named=path):
            for number, line in enumerate(source.lines, 1):
                if word.search(line):
                    yield Location(source.path, number, number, line.strip()[:_TEXT_CHARS])

    def _find_matching(
        self, query: str, limit: int, stop: threading.Event, unread: set[str], skipped: SkippedFiles
    ) -> Iterator[Symbol]:
        """Yields symbols whose name contains the query. Adds the languages and files that it could not read."""
        found = 0
        wanted = query.casefold()
        for source in self._sources("", wanted, stop, skipped):
            language = find_grammar(language_table().grammar_of(source.path) or "?")
            if language is None:
                unread.add(language_table().language_of(source.path))
                continue
            for symbol in _outline(source, language):
                if wanted in symbol.name.casefold():
                    yield symbol
                    found += 1
                    if found >= limit:
                        return

    def _sources(
        self,
        language: str,
        containing: str,
        stop: threading.Event,
        skipped: SkippedFiles | None = None,
        *,
        named: str = "",
    ) -> Iterator[SourceText]:
        """Yields files of the language (or all with a known language) that contain the text. Of files that hold
        secrets only the named one."""
        read, skipped = 0, skipped or SkippedFiles()
        for path in walk_files(self._space, skipped=skipped):
            kind = language_table().language_of(path)
            if stop.is_set() or read >= _MAX_FILES:
                skipped.stopped = True
                return
            if not kind or (language and kind != language):
                continue
            if path != named and self._space.holds_secret(path):
                skipped.secret += 1
                continue
            read += 1
            try:
                source = load(self._space, path)
            except TooLong:
                skipped.too_large += 1
                continue
            except HardLinked:
                skipped.linked += 1
                continue
            except ToolError:
                skipped.unreadable += 1
                continue
            if containing in source.text or containing in source.text.casefold():
                yield source


def _outline(source: SourceText, language: object) -> tuple[Symbol, ...]:
    try:
        return outline(source, language)  # type: ignore[arg-type]  # a grammar
    except ToolError:
        return ()


def _last_part(name: str) -> str:
    return re.split(r"::|\.|:", name)[-1]
