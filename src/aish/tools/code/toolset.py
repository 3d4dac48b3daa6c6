"""The `ide` toolset. Imports little: the implementation is created at the first call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from aish.errors import ToolError
from aish.ports import CallContext
from aish.tools.code.specs import SPECS
from aish.types.messages import TextPart
from aish.types.tools import Arguments, ResultStatus, ToolOutput, ToolSpec

if TYPE_CHECKING:
    from aish.tools.code.edits.port import Kept
    from aish.tools.code.facade import Ide


class IdeTools:
    def __init__(self, make: Callable[[], Ide]) -> None:
        self._make = make
        self._ide: Ide | None = None

    def specs(self) -> Sequence[ToolSpec]:
        return SPECS

    async def call(self, name: str, arguments: Arguments, context: CallContext) -> ToolOutput:
        if all(spec.name != name for spec in SPECS):
            raise ToolError(f"there is no tool {name}", status=ResultStatus.UNKNOWN_TOOL)
        text = await self._opened().serve(name, arguments, context.status, call=context.call)
        return ToolOutput((TextPart(text),))

    async def preview(self, name: str, arguments: Arguments, call: str) -> str:
        """Returns the diff of a call, for the user who must approve it. Raises ToolError."""
        return await self._opened().preview(name, arguments, call)

    async def witness(self, name: str, arguments: Arguments) -> str:
        """Returns a text from which `happened` can later tell whether a change was made. Raises ToolError."""
        return await self._opened().witness(name, arguments)

    async def happened(self, name: str, witness: str) -> bool | None:
        return await self._opened().happened(witness)

    async def undo(self, id: str = "") -> str:
        """Undoes the last edit, or the given one; describes it. Raises ToolError."""
        return await self._opened().undo(id)

    async def kept_edits(self) -> Sequence[Kept]:
        """Returns the edits that can be undone, newest first."""
        return await self._opened().kept_edits()

    def _opened(self) -> Ide:
        try:
            self._ide = self._ide or self._make()
        except OSError as exc:
            raise ToolError(f"the workspace cannot be opened: {exc.strerror}") from exc
        return self._ide

    async def aclose(self) -> None:
        if self._ide is not None:
            await self._ide.aclose()
