"""Limits how much a key may store: `serve.max_stored_bytes`.

What is stored is counted in the store itself, so deleting frees it at once and all processes see the same. Counting
takes milliseconds to a second, so its result is used for a minute, or until the requests that have come since then
could have filled the rest. A key may go over its limit by what comes within that time, and by what its running requests
still store.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.http_errors import NO_RETRY, HttpProblem
from aish.ports import Store

_COUNT_EVERY_S = 60.0
_COUNT_AT_MOST_EVERY_S = 1.0
# What a request stores, in relation to its body: as input, as messages, and in events.
_STORED_PER_BYTE = 4
_MAX_KEYS = 10_000
_MAX_DIGITS = 18


class HasStore(Protocol):
    """The server. Its store may change when the configuration is read anew."""

    @property
    def store(self) -> Store: ...


class _Counted:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.stored = 0
        self.at_s = float("-inf")
        self.come = 0  # bytes of requests since then

    def is_stale(self, limit: int) -> bool:
        age_s = time.monotonic() - self.at_s
        may_be_full = self.stored + _STORED_PER_BYTE * self.come > limit
        return age_s > (_COUNT_AT_MOST_EVERY_S if may_be_full else _COUNT_EVERY_S)


class StorageQuota:
    def __init__(self, stores: HasStore) -> None:
        self._stores = stores
        self._keys: dict[str, _Counted] = {}

    async def check(self, caller: Caller, exchange: Exchange, limit: int) -> None:
        """Raises HttpProblem 429 if the key has stored more than `limit`; 0 is no limit. Administrators have none."""
        if not limit or caller.admin:
            return
        if len(self._keys) >= _MAX_KEYS:
            self._keys.clear()
        counted = self._keys.setdefault(caller.key, _Counted())
        if counted.is_stale(limit):
            await self._count(caller.key, counted, limit)
        length = exchange.headers.get("content-length") or ""
        counted.come += int(length) if length.isdigit() and len(length) < _MAX_DIGITS else 0
        if counted.stored > limit:
            raise HttpProblem(
                429,
                f"this key has stored {_in_mb(counted.stored)}, and may store {_in_mb(limit)}: delete sessions, "
                "responses or conversations that are no longer needed",
                type="insufficient_quota",
                code="storage_quota_exceeded",
                headers=[NO_RETRY],
            )

    async def _count(self, key: str, counted: _Counted, limit: int) -> None:
        async with counted.lock:
            if counted.is_stale(limit):
                counted.come = 0
                counted.stored = await self._stores.store.stored_bytes(key)
                counted.at_s = time.monotonic()


def _in_mb(size: int) -> str:
    return f"{size / 1024**2:.1f} MiB"
