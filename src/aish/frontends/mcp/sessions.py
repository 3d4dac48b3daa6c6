"""What clients of the handshake era call sessions: a name under which a request can be cancelled from another one.

Only what is running and what was ended is kept, so a session needs no memory and survives a restart.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MAX_ENDED = 10_000  # a client that still uses one after as many others have ended may be answered
_NAME = re.compile(r"[\x21-\x7e]{1,128}")


class Sessions:
    def __init__(self) -> None:
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._running: dict[tuple[str, str | int], asyncio.Future[Any]] = {}

    def new_name(self) -> str:
        return secrets.token_hex(16)

    def is_usable(self, name: str) -> bool:
        return name not in self._ended and _NAME.fullmatch(name) is not None

    def end(self, name: str) -> None:
        """Stops what runs in it."""
        self._ended[name] = None
        if len(self._ended) > _MAX_ENDED:
            self._ended.popitem(last=False)
        for (session, _), work in list(self._running.items()):
            if session == name:
                work.cancel()

    @contextmanager
    def running(self, name: str | None, id: str | int, work: asyncio.Future[Any]) -> Iterator[None]:
        """For as long as this lasts, `cancel` finds it. Without a session nobody can name it."""
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
