"""Functions of the program that uses the library, as tools. They run in its own process and event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from aish.errors import ToolError
from aish.extensions.context import Context
from aish.extensions.definitions import ToolFunction, get_tool
from aish.extensions.results import ResultError, check_size, to_content
from aish.ports import CallContext
from aish.types.messages import ImagePart, Part, TextPart
from aish.types.tools import Arguments, JsonObject, ResultStatus, ToolOutput, ToolSpec

SOURCE = "app"  # the first part of their names


class InlineTools:
    """A Toolset. `functions` are decorated with @tool."""

    def __init__(self, functions: Sequence[Callable[..., Any]], workspace: Path) -> None:
        self._workspace = workspace
        self._tools = {tool.entry.name: tool for tool in map(get_tool, functions)}
        self._specs = tuple(tool.entry.to_spec(SOURCE) for tool in self._tools.values())

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"there is no tool {name}", status=ResultStatus.UNKNOWN_TOOL)
        own = Context(
            workspace=self._workspace, session=context.session, turn=context.turn, call=context.call,
            on_status=context.status, on_output=context.output, ask=context.ask_user,
        )  # fmt: skip
        try:
            blocks, structured = to_content(await self._run(tool, arguments, own))
            check_size(blocks)
        except asyncio.CancelledError:
            own.cancel()
            raise
        except msgspec.ValidationError as exc:
            return _error(f"the arguments do not fit: {exc}")
        except ResultError as exc:
            return _error(f"{name}: {exc}")
        except (Exception, SystemExit) as exc:  # whatever a function raises is a result for the model
            return _error(f"{type(exc).__name__}: {exc}")
        return ToolOutput(tuple(map(_part, blocks)), structured=structured)

    async def _run(self, tool: ToolFunction, arguments: Arguments, context: Context) -> Any:
        given = tool.signature.convert(arguments)
        if tool.signature.takes_context:
            given = {**given, "ctx": context}
        if inspect.iscoroutinefunction(tool.function):
            return await tool.function(**given)
        return await asyncio.to_thread(partial(tool.function, **given))

    async def aclose(self) -> None:
        """The functions belong to the program."""


def _part(block: JsonObject) -> Part:
    return ImagePart(block["mimeType"], block["data"]) if block["type"] == "image" else TextPart(block["text"])


def _error(text: str) -> ToolOutput:
    return ToolOutput((TextPart(text),), is_error=True)
