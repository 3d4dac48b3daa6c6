"""Keys in the store.

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

KIND = "key"
PREFIX = "aish-"
_MAX_KEYS = 1_000_000  # all of them: a key that is not listed cannot be revoked


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


def key_digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


async def create_key(store: Store, name: str, **scope: object) -> tuple[str, KeyRecord]:
    """Returns the key itself, which is shown once and never stored."""
    key = PREFIX + secrets.token_urlsafe(32)
    digest, now_ms = key_digest(key), time.time_ns() // 1_000_000
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
