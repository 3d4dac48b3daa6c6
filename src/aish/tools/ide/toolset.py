"""The `ide` source of tools. Light: what does the work is made at the first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from aish.errors import ToolError
from aish.ports import CallContext
from aish.tools.ide.specs import SPECS
from aish.types.messages import TextPart
from aish.types.tools import Arguments, ResultStatus, ToolOutput, ToolSpec

if TYPE_CHECKING:
    from aish.tools.ide.facade import Ide


class IdeTools:
    def __init__(self, make: Callable[[], Ide]) -> None:
        self._make = make
        self._ide: Ide | None = None

    def specs(self) -> Sequence[ToolSpec]:
        return SPECS

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        if all(spec.name != name for spec in SPECS):
            raise ToolError(f"there is no tool {name}", status=ResultStatus.UNKNOWN_TOOL)
        if self._ide is None:
            self._ide = self._opened()
        text = await self._ide.serve(name, arguments, context.status)
        return ToolOutput((TextPart(text),))

    def _opened(self) -> Ide:
        try:
            return self._make()
        except OSError as exc:
            raise ToolError(f"the workspace cannot be opened: {exc.strerror}") from exc

    async def aclose(self) -> None:
        if self._ide is not None:
            await self._ide.aclose()
