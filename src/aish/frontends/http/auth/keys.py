"""Keys: who may call, and how much. Only their hashes are kept.

A key is random and long, so a plain hash of it is enough. Without any key the server is open, and listens on this
machine only. Keys are looked up in the store and remembered for a few seconds, so that one revoked stops working soon.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Sequence

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.auth.key_spending import KeySpending, Spent
from aish.frontends.http.server.http_errors import INVALID, Problem
from aish.ports import Store
from aish.types.ids import new_id
from aish.types.records import Document
from aish.types.usage import Usage

KIND = "key"
PREFIX = "aish-"
GIVEN = "given"  # the id of keys of this run
_REMEMBERED_S = 5.0
_MAX_REMEMBERED = 10_000
_ANYBODY = Caller(admin=True)  # where no key is needed
_MAX_KEYS = 1_000_000  # all of them: one that is not listed cannot be revoked


class KeyRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a key. `models` and `tools` are globs; None for a limit means none."""

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

    def caller(self) -> Caller:
        return Caller(self.id, self.models, self.tools, self.admin, self.metrics, self.digest)


class _Known(msgspec.Struct):
    record: KeyRecord | None
    until_s: float


_decoder = msgspec.json.Decoder(KeyRecord)


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


async def create_key(store: Store, name: str, **scope: object) -> tuple[str, KeyRecord]:
    """The key itself, which is shown once and never kept."""
    key = PREFIX + secrets.token_urlsafe(32)
    digest, now_ms = digest_of(key), time.time_ns() // 1_000_000
    given = {"id": new_id("key"), "name": name, "digest": digest, "created_ms": now_ms, **scope}
    record = msgspec.convert(given, KeyRecord)
    await store.put(Document(KIND, digest, msgspec.json.encode(record), created_ms=now_ms))
    return key, record


async def list_keys(store: Store) -> Sequence[KeyRecord]:
    return [_decoder.decode(document.body) for document in await store.list_documents(KIND, limit=_MAX_KEYS)]


async def revoke_key(store: Store, id: str) -> bool:
    """By id or name."""
    found = [record for record in await list_keys(store) if id in (record.id, record.name)]
    return any([await store.delete(KIND, record.digest) for record in found])


class KeyRing:
    """`given` are keys of this run only, which may do everything. `always`: nobody comes in without a key, even if
    the last one has been revoked."""

    def __init__(self, store: Store, given: Sequence[str] = (), *, always: bool = False) -> None:
        self._store = store
        self._always = always
        self._given = frozenset(digest_of(key) for key in given)
        self._known: dict[str, _Known] = {}
        self._needed_until_s = 0.0
        self._needed = True
        self._minutes: dict[str, tuple[int, int]] = {}
        self._spending = KeySpending(store)

    async def admit(self, exchange: Exchange, *, spends: bool = True) -> Caller:
        """Who asks. Problem 401 for nobody we know, 429 for too often, 402 for what is spent: then a key may still
        look at what it has paid for, stop it and delete it."""
        if key := key_in(exchange):
            return await self.admit_digest(digest_of(key), spends=spends)
        if time.monotonic() > self._needed_until_s:
            await self._look()
        if self._needed:
            raise _unknown("send a key: Authorization: Bearer aish-…", "missing_api_key")
        return _ANYBODY

    async def admit_digest(self, digest: str, *, asks: bool = True, spends: bool = True) -> Caller:
        """The same for a key of which only the hash is known. One who does not ask but looks, at a page that looks
        often, is not held to how often a key may ask and how much it may spend."""
        if digest in self._given:
            return Caller(GIVEN, admin=True)
        record = await self._find(digest)
        if record is None:
            if await self.are_needed():
                raise _unknown("this key is not known, or no longer", "invalid_api_key")
            return _ANYBODY  # many clients cannot do without a key; where none is needed any will do
        if asks:
            self._check_rate(record)
        if asks and spends:
            await self._check_budget(record)
        return record.caller()

    async def is_known(self, digest: str) -> bool:
        return digest in self._given or await self._find(digest) is not None

    async def are_needed(self) -> bool:
        """Whether nobody comes in without."""
        if time.monotonic() > self._needed_until_s:
            await self._look()
        return self._needed

    async def _look(self) -> None:
        now_s = time.monotonic()
        self._needed = self._always or await self.are_there()
        self._needed_until_s = now_s + _REMEMBERED_S

    async def still_admits(self, caller: Caller) -> bool:
        """Whether one who stays would be let in now: keys are revoked meanwhile, or the first is made."""
        if caller.digest:
            return await self._find(caller.digest) is not None
        return caller.key == GIVEN or not await self.are_needed()

    async def spend(self, caller: Caller, usage: Usage) -> None:
        if not caller.key or caller.key == GIVEN:
            return
        await self._spending.add(caller.key, usage)

    async def check_budget(self, caller: Caller) -> None:
        """For work that goes on without being asked for. Problem 402, and 401 where its key has been revoked."""
        if not caller.key or caller.key == GIVEN:
            return
        record = next((record for record in await list_keys(self._store) if record.id == caller.key), None)
        if record is None:
            raise _unknown("the key that this was begun with has been revoked", "invalid_api_key")
        await self._check_budget(record)

    async def day_of(self, caller: Caller) -> tuple[Spent, float | None]:
        """What a key came to today, and the dollars it may."""
        if not caller.key or caller.key == GIVEN:
            return Spent(), None
        records = [record for record in await list_keys(self._store) if record.id == caller.key]
        return await self._spending.today(caller.key), records[0].dollars_per_day if records else None

    async def _find(self, digest: str) -> KeyRecord | None:
        now_s = time.monotonic()
        known = self._known.get(digest)
        if known is not None and known.until_s > now_s:
            return known.record
        document = await self._store.find(KIND, digest)
        record = None if document is None else _decoder.decode(document.body)
        if len(self._known) >= _MAX_REMEMBERED:
            self._known.clear()
        self._known[digest] = _Known(record, now_s + _REMEMBERED_S)
        return record

    async def are_there(self) -> bool:
        """Whether there is any."""
        return bool(self._given or await self._store.list_documents(KIND, limit=1))

    def _check_rate(self, record: KeyRecord) -> None:
        if record.per_minute is None:
            return
        minute = int(time.time() // 60)
        counted, count = self._minutes.get(record.id, (minute, 0))
        count = count + 1 if counted == minute else 1
        self._minutes[record.id] = (minute, count)
        if count > record.per_minute:
            wait_s = 60 - int(time.time() % 60)
            raise Problem(
                429,
                f"this key may ask {record.per_minute} times a minute",
                code="rate_limit_exceeded",
                headers=[(b"retry-after", b"%d" % wait_s)],
            )

    async def _check_budget(self, record: KeyRecord) -> None:
        if record.tokens_per_day is None and record.dollars_per_day is None:
            return
        spent = await self._spending.today(record.id)
        if record.tokens_per_day is not None and spent.tokens >= record.tokens_per_day:
            raise _used_up(f"{spent.tokens} of {record.tokens_per_day} tokens")
        if record.dollars_per_day is not None and spent.dollars >= record.dollars_per_day:
            raise _used_up(f"${spent.dollars:.4f} of ${record.dollars_per_day:.4f}")


def _unknown(text: str, code: str) -> Problem:
    return Problem(401, text, code=code, headers=[(b"www-authenticate", b"Bearer")])


def _used_up(what: str) -> Problem:
    return Problem(402, f"the budget of this key is used up for today: {what}", type=INVALID, code="budget_exceeded")


def key_in(exchange: Exchange) -> str:
    """As OpenAI's clients send it, or as Anthropic's do."""
    headers = exchange.headers
    if b"authorization" in headers.raw:
        scheme, _, key = (headers.get("authorization") or "").partition(" ")
        if scheme.lower() == "bearer":
            return key.strip()
    return (headers.get("x-api-key") or "") if b"x-api-key" in headers.raw else ""
