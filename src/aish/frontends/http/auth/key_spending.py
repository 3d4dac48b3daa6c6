"""What each key came to today, over all processes that share the store.

Each process keeps its own share in a document of its own, so that none overwrites another's; the sum of the others' is
looked up again every few seconds. Within those a key may spend a little more than it has, on each process.
"""

from __future__ import annotations

import secrets
import time

import msgspec

from aish.ports import Store
from aish.types.records import Document
from aish.types.usage import Usage

KIND = "spent"
_REMEMBERED_S = 5.0
_DAY_S = 86_400
# Processes that answered for one key on one day, restarts included.
_MAX_SHARES = 10_000


class Spent(msgspec.Struct):
    tokens: int = 0
    dollars: float = 0.0


class _Shares(msgspec.Struct):
    own: Spent
    others: Spent
    until_s: float = 0.0


_decoder = msgspec.json.Decoder(Spent)


class KeySpending:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._me = secrets.token_hex(8)
        self._shares: dict[tuple[str, int], _Shares] = {}

    async def today(self, key: str) -> Spent:
        shares = await self._find(key, _today())
        return Spent(shares.own.tokens + shares.others.tokens, shares.own.dollars + shares.others.dollars)

    async def add(self, key: str, usage: Usage) -> None:
        day = _today()
        own = (await self._find(key, day)).own
        own.tokens += usage.total_tokens
        own.dollars += usage.cost or 0.0
        expires_ms = (day + 3) * _DAY_S * 1000
        whose = f"{key}:{day}"
        document = Document(KIND, f"{whose}:{self._me}", msgspec.json.encode(own), whose, expires_ms=expires_ms)
        await self._store.put(document, wait=False)

    async def _find(self, key: str, day: int) -> _Shares:
        shares = self._shares.get((key, day))
        if shares is None:
            self._shares = {place: value for place, value in self._shares.items() if place[1] == day}
            shares = self._shares.setdefault((key, day), _Shares(Spent(), Spent()))
        if shares.until_s <= time.monotonic():
            shares.others = await self._others(f"{key}:{day}")
            shares.until_s = time.monotonic() + _REMEMBERED_S
        return shares

    async def _others(self, whose: str) -> Spent:
        found = await self._store.list_documents(KIND, owner=whose, limit=_MAX_SHARES)
        spent = [_decoder.decode(document.body) for document in found if not document.id.endswith(self._me)]
        return Spent(sum(each.tokens for each in spent), sum(each.dollars for each in spent))


def _today() -> int:
    return int(time.time() // _DAY_S)
