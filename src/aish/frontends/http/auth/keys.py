"""Keys in the store, and what each has spent today.

A key is random and long, so a plain hash of it is enough. Only the hash is stored.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence

import msgspec

from aish.ports import Store
from aish.types.ids import new_id
from aish.types.records import Document
from aish.types.usage import Usage

KIND = "key"
PREFIX = "aish-"
_MAX_KEYS = 1_000_000  # all of them: a key that is not listed cannot be revoked
_SPENT_KIND = "spent"
_OTHERS_CACHE_S = 5.0
_DAY_S = 86_400
# Processes that answered for one key on one day, restarts included.
_MAX_SHARES = 10_000


class KeyRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored key. `models` and `tools` are globs; None for a limit means none."""

    id: str
    name: str
    digest: str
    created_ms: int
    models: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    admin: bool = False
    metrics: bool = False
    per_minute: int | None = None
    tokens_per_day: int | None = None
    dollars_per_day: float | None = None


decode_record = msgspec.json.Decoder(KeyRecord).decode


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


async def create_key(store: Store, name: str, **scope: object) -> tuple[str, KeyRecord]:
    """Returns the key itself, which is shown once and never stored."""
    key = PREFIX + secrets.token_urlsafe(32)
    digest, now_ms = digest_of(key), time.time_ns() // 1_000_000
    given = {"id": new_id("key"), "name": name, "digest": digest, "created_ms": now_ms, **scope}
    record = msgspec.convert(given, KeyRecord)
    await store.put(Document(KIND, digest, msgspec.json.encode(record), created_ms=now_ms))
    return key, record


async def list_keys(store: Store) -> Sequence[KeyRecord]:
    return [decode_record(document.body) for document in await store.list_documents(KIND, limit=_MAX_KEYS)]


async def revoke_key(store: Store, id: str) -> bool:
    """Deletes the key with this id or name. Returns whether there was one."""
    found = [record for record in await list_keys(store) if id in (record.id, record.name)]
    return any([await store.delete(KIND, record.digest) for record in found])


class KeySpent(msgspec.Struct):
    tokens: int = 0
    dollars: float = 0.0


class _Shares(msgspec.Struct):
    own: KeySpent
    others: KeySpent
    until_s: float = 0.0


_decode_spent = msgspec.json.Decoder(KeySpent).decode


class KeySpending:
    """What each key spent today, over all processes that share the store.

    Each process stores its own share in a document of its own, so no process overwrites another's. The sum of the
    others is read again every few seconds. Within those a key may spend a little more than it has, on each process.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._process_id = secrets.token_hex(8)
        self._shares: dict[tuple[str, int], _Shares] = {}

    async def today(self, key: str) -> KeySpent:
        shares = await self._find(key, _today())
        return KeySpent(shares.own.tokens + shares.others.tokens, shares.own.dollars + shares.others.dollars)

    async def add(self, key: str, usage: Usage) -> None:
        day = _today()
        own = (await self._find(key, day)).own
        own.tokens += usage.total_tokens
        own.dollars += usage.cost or 0.0
        expires_ms = (day + 3) * _DAY_S * 1000
        owner = f"{key}:{day}"
        id, body = f"{owner}:{self._process_id}", msgspec.json.encode(own)
        await self._store.put(Document(_SPENT_KIND, id, body, owner, expires_ms=expires_ms), wait=False)

    async def _find(self, key: str, day: int) -> _Shares:
        shares = self._shares.get((key, day))
        if shares is None:
            self._shares = {id: value for id, value in self._shares.items() if id[1] == day}
            shares = self._shares.setdefault((key, day), _Shares(KeySpent(), KeySpent()))
        if shares.until_s <= time.monotonic():
            shares.others = await self._others(f"{key}:{day}")
            shares.until_s = time.monotonic() + _OTHERS_CACHE_S
        return shares

    async def _others(self, owner: str) -> KeySpent:
        found = await self._store.list_documents(_SPENT_KIND, owner=owner, limit=_MAX_SHARES)
        spent = [_decode_spent(document.body) for document in found if not document.id.endswith(self._process_id)]
        return KeySpent(sum(each.tokens for each in spent), sum(each.dollars for each in spent))


def _today() -> int:
    return int(time.time() // _DAY_S)
