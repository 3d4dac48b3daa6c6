"""Sessions of the handshake era: names under which one request can cancel another.

Only running requests and ended sessions are remembered, so an open session needs no memory and survives a restart.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MAX_ENDED = 10_000  # an ended session that is pushed out by others is usable again
_NAME = re.compile(r"[\x21-\x7e]{1,128}")


class McpSessions:
    def __init__(self) -> None:
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._running: dict[tuple[str, str | int], asyncio.Future[Any]] = {}

    def new_name(self) -> str:
        return secrets.token_hex(16)

    def is_usable(self, name: str) -> bool:
        return name not in self._ended and _NAME.fullmatch(name) is not None

    def end(self, name: str) -> None:
        """Ends a session and cancels its requests."""
        self._ended[name] = None
        if len(self._ended) > _MAX_ENDED:
            self._ended.popitem(last=False)
        for (session, _), work in list(self._running.items()):
            if session == name:
                work.cancel()

    @contextmanager
    def running(self, name: str | None, id: str | int, work: asyncio.Future[Any]) -> Iterator[None]:
        """Inside, `cancel` can cancel the work. A request without a session cannot be cancelled."""
        if name is None:
            yield
            return
        self._running[name, id] = work
        try:
            yield
        finally:
            if self._running.get((name, id)) is work:
                del self._running[name, id]

    def cancel(self, name: str, id: str | int) -> None:
        if (work := self._running.get((name, id))) is not None:
            work.cancel()
