"""`contextlib.aclosing` for answers, which nearly always end by themselves. Then there is nothing to close, and to ask
for it all the same would cost as much as to read a small one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import TracebackType

import msgspec

from aish.types.chunks import Batch


class Closing(msgspec.Struct, eq=False):
    _batches: AsyncGenerator[Batch, None]

    async def __aenter__(self) -> AsyncGenerator[Batch, None]:
        return self._batches

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._batches.ag_frame is not None:  # type: ignore[attr-defined]
            await self._batches.aclose()
