"""The tools that query code: outline, symbols, hover, definition, references, diagnostics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from aish.errors import ToolError
from aish.tools.code.backends.port import AnswerStatus, CodeAnswer, Diagnostic, Location, SymbolPosition
from aish.tools.code.backends.selection import Backends
from aish.tools.code.contents import Contents
from aish.tools.code.files.source import SourceText
from aish.tools.code.rendering import (
    ResultPage,
    envelope,
    format_declaration,
    format_symbol_list,
    format_symbol_tree,
    group_by_file,
    join_lines,
    summarise_diagnostics,
)
from aish.types.tools import Arguments

_PLACES_SHOWN = 50
_DEFINITIONS_SHOWN = 5
_OUTLINE_SHOWN = 300
_HOVER_CHARS = 4000
_PROBLEMS_SHOWN = 50
_MAX_SYMBOLS = 1000
_MAX_DIAGNOSED = 20  # files in one answer


class QueryTools:
    def __init__(self, contents: Contents, backends: Backends, *, diagnostics_wait_s: float) -> None:
        self._contents = contents
        self._backends = backends
        self._diagnostics_wait_s = diagnostics_wait_s

    async def outline(self, arguments: Arguments) -> str:
        source = await self._load(arguments)
        answer = await self._backends.outline(source)
        page = ResultPage(len(answer.value), 0, _OUTLINE_SHOWN)
        head = envelope(answer, page, revision=source.revision)
        return join_lines(head, format_symbol_tree(answer.value[: page.end]))

    async def symbols(self, arguments: Arguments) -> str:
        offset, limit = _page_arguments(arguments)
        answer = await self._backends.symbols(str(arguments["query"]), _MAX_SYMBOLS)
        page = ResultPage(len(answer.value), offset, limit, complete=len(answer.value) < _MAX_SYMBOLS)
        return join_lines(envelope(answer, page), format_symbol_list(answer.value[page.start : page.end]))

    async def hover(self, arguments: Arguments) -> str:
        source, spot = await self._locate(arguments)
        answer = await self._backends.for_file(source.path).hover(source, spot)
        text = answer.value[:_HOVER_CHARS] or _empty_text(answer)
        return join_lines(envelope(answer, _actual_line(arguments, spot), revision=source.revision), text)

    async def definition(self, arguments: Arguments) -> str:
        source, spot = await self._locate(arguments)
        answer = await self._backends.for_file(source.path).definition(source, spot)
        page = ResultPage(len(answer.value), 0, _DEFINITIONS_SHOWN)
        shown = [await self._show_location(location, source.path) for location in answer.value[: page.end]]
        head = envelope(answer, _actual_line(arguments, spot), page, revision=source.revision)
        return join_lines(head, *(shown or [_empty_text(answer)]))

    async def references(self, arguments: Arguments) -> str:
        source, spot = await self._locate(arguments)
        answer = await self._backends.for_file(source.path).references(source, spot)
        offset, limit = _page_arguments(arguments)
        page = ResultPage(len(answer.value), offset, limit)
        files = f"files={len({location.path for location in answer.value})}"
        head = envelope(answer, _actual_line(arguments, spot), page, files, revision=source.revision)
        none = f"there are no more than {len(answer.value)}" if answer.value else _empty_text(answer)
        shown = self._without_secrets(answer.value[page.start : page.end], source.path)
        return join_lines(head, group_by_file(shown) or none)

    async def diagnostics(self, arguments: Arguments, edited: Sequence[str]) -> str:
        if "path" in arguments:
            return await self.diagnose_files([str(arguments["path"])])
        if not edited:
            raise ToolError("no file was edited yet; give the path of a file")
        return await self.diagnose_files(edited)

    async def diagnose_files(self, paths: Sequence[str]) -> str:
        """Diagnoses several files. Each has a status line of its own."""
        chosen = paths[:_MAX_DIAGNOSED]
        blocks = await asyncio.gather(*(self._diagnose(path) for path in chosen))
        left = f"{len(paths) - len(chosen)} more files were not looked at" if len(paths) > len(chosen) else ""
        return join_lines(*blocks, left)

    async def _diagnose(self, path: str) -> str:
        try:
            source = await self._contents.load(path)
        except ToolError as exc:
            answer: CodeAnswer[tuple[Diagnostic, ...]] = CodeAnswer((), "aish", AnswerStatus.UNSUPPORTED, exc.message)
            return join_lines(envelope(answer, f"path={path}"), summarise_diagnostics(answer))
        try:
            found = await self._backends.for_file(path).diagnostics(source, self._diagnostics_wait_s)
        except ToolError as exc:
            found = CodeAnswer((), "aish", AnswerStatus.PENDING, exc.message)
        answer = found.with_value(tuple(one for one in found.value if one.severity != "hint"))
        page = ResultPage(len(answer.value), 0, _PROBLEMS_SHOWN)
        shown = answer.with_value(answer.value[: page.end])
        known = answer.status not in (AnswerStatus.PENDING, AnswerStatus.UNSUPPORTED)
        head = envelope(answer, f"path={path}", page if known else "", revision=source.revision)
        return join_lines(head, summarise_diagnostics(shown))

    async def _load(self, arguments: Arguments) -> SourceText:
        return await self._contents.load(str(arguments["path"]))

    async def _locate(self, arguments: Arguments) -> tuple[SourceText, SymbolPosition]:
        source = await self._load(arguments)
        return source, await self._backends.locate(source, arguments.get("line"), str(arguments["symbol"]))

    def _without_secrets(self, found: Sequence[Location], named: str) -> list[Location]:
        """Leaves out the text of lines in files that hold secrets and were not named."""
        paths = {location.path for location in found if not location.outside and location.path != named}
        secret = {path for path in paths if self._contents.holds_secret(path)}
        return [msgspec.structs.replace(one, text="") if one.path in secret else one for one in found]

    async def _show_location(self, location: Location, named: str) -> str:
        """Shows a declaration with its code. The syntax tree gives its end if the server returned only the name."""
        if location.outside:
            return f"{location.path}:{location.line} (outside the workspace, not read)"
        if location.path != named and self._contents.holds_secret(location.path):
            return f"{location.path}:{location.line} (holds a secret by its name, not shown)"
        try:
            source = await self._contents.load(location.path)
        except ToolError:
            return f"{location.path}:{location.line}"
        end_line = (
            location.end_line if location.end_line > location.line else await self._end_line(source, location.line)
        )
        return f"{location.path}:{location.line}\n{format_declaration(source, location.line, end_line)}"

    async def _end_line(self, source: SourceText, line: int) -> int:
        symbols = (await self._backends.outline(source)).value
        return max((symbol.end_line for symbol in symbols if symbol.line == line), default=line)


def _page_arguments(arguments: Arguments) -> tuple[int, int]:
    return int(arguments.get("offset", 0)), int(arguments.get("limit", _PLACES_SHOWN))


def _actual_line(arguments: Arguments, spot: SymbolPosition) -> str:
    """Returns the symbol's line if it is not the one in the arguments."""
    return "" if arguments.get("line") == spot.line else f"line={spot.line}"


def _empty_text(answer: CodeAnswer[object]) -> str:
    return "not known yet" if answer.status is AnswerStatus.PENDING else "nothing found"
