"""Identifies callers: by a key in the request, or by the cookie that the console got for a key.

Keys are looked up in the store and cached for a few seconds, so a revoked key stops working soon. Without any key the
server is open to this machine.

The cookie is a random token. The store holds its hash together with the hash of the key it was made with, so the key's
rights are checked again for each request, and a revoked key ends its console sessions. A request with the cookie that
changes anything must also send a CSRF token in a header. Only our own page can have read it. Where no keys are set
there is no cookie: requests from pages of other sites are refused by their Origin (`frontends.origin_guard`).
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Awaitable, Sequence
from http.cookies import CookieError, SimpleCookie

import msgspec

from aish.engine.model.key_spending import KeySpending, KeySpent
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.keys import KIND, KeyRecord, decode_record, key_digest, list_keys
from aish.frontends.http.server.http_errors import INVALID, HttpProblem
from aish.ports import Store
from aish.types.globs import globs_of
from aish.types.usage import KeyBudget

RUN_KEY_ID = "given"  # the id of keys that were given for this run only
CONSOLE_KIND = "console"
CONSOLE_COOKIE = "aish_console"
CSRF_HEADER = "x-aish-csrf"
_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_CACHE_S = 5.0
_MAX_CACHED_KEYS = 10_000
_ALL = ("*",)


class Caller(msgspec.Struct, frozen=True):
    """The sender of a request and what it may do. `models` and `tools` are globs.

    `key` is the id of its key ("" where no key is needed), `digest` the hash of a key in the store. `admin`: may also
    see and answer what belongs to others. `metrics`: may read the counters of all callers. `payer` is
    charged for its model calls.
    """

    key: str = ""
    models: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    admin: bool = False
    metrics: bool = False
    digest: str = ""
    payer: KeyBudget | None = None

    @property
    def owner(self) -> str:
        """The owner of its "always" rules and commands: those of an administrator apply to everyone."""
        return "" if self.admin else self.key

    def may_use_model(self, name: str) -> bool:
        return self.models == _ALL or name in globs_of(self.models)

    def filter_tools(self, tools: Sequence[str]) -> tuple[str, ...]:
        """The tools among these names that the key covers."""
        if self.tools == _ALL:
            return tuple(tools)
        covered = globs_of(self.tools)
        return tuple(name for name in tools if name in covered)

    def may_see(self, session: str) -> bool:
        """Whether this stored session is visible to it."""
        return self.admin or session.startswith(f"{self.key}/")

    def session(self, name: str) -> str:
        """The stored name of a session: each key has its own namespace."""
        return f"{self.key}/{name}" if self.key and name else name


def require_admin(caller: Caller) -> None:
    if not caller.admin:
        raise HttpProblem(403, "this is for keys of administrators", code="forbidden")


# The caller where no key is required.
_LOCAL_CALLER = Caller(admin=True)


class _CachedKey(msgspec.Struct):
    record: KeyRecord | None
    until_s: float


class ConsoleSession(msgspec.Struct, frozen=True):
    """A stored sign-in. `key` is the hash of the key."""

    key: str


_session_decoder = msgspec.json.Decoder(ConsoleSession)


class KeyRing:
    """`given` are keys of this run only, which may do everything. `always`: a key is required even when the last one
    has been revoked."""

    def __init__(self, store: Store, spending: KeySpending, given: Sequence[str] = (), *, always: bool = False) -> None:
        self._store = store
        self._spending = spending
        self._always = always
        self._given = frozenset(key_digest(key) for key in given)
        self._cached: dict[str, _CachedKey] = {}
        self._required_until_s = 0.0
        self._required = True
        self._minutes: dict[str, tuple[int, int]] = {}

    def authenticate(self, exchange: Exchange, *, spends: bool = True) -> Awaitable[Caller]:
        """Returns the caller: by a key in the request, else by the console's cookie, else the local caller.

        Raises HttpProblem 401 for an unknown caller, 429 for too many requests, 402 for a spent budget. With a spent
        budget (`spends` False) a key may still read, stop and delete what it has paid for.
        """
        if b"cookie" not in exchange.headers.raw or key_in(exchange):
            return self.authenticate_by_key(exchange, spends=spends)
        return self._authenticate_by_cookie(exchange, spends=spends)

    async def _authenticate_by_cookie(self, exchange: Exchange, *, spends: bool) -> Caller:
        token = cookie_token(exchange)
        session = await self.find_session(token)
        if session is None:
            return await self.authenticate_by_key(exchange, spends=spends)
        if exchange.method in _READ_METHODS:
            return await self._authenticate_digest(session.key, limited=False)
        check_csrf(exchange, token)
        return await self._authenticate_digest(session.key, spends=spends)

    async def authenticate_by_key(self, exchange: Exchange, *, spends: bool = True) -> Caller:
        """The same, without the cookie."""
        if key := key_in(exchange):
            return await self._authenticate_digest(key_digest(key), spends=spends)
        if await self.are_required():
            raise _unauthorised_error("send a key: Authorization: Bearer aish-…", "missing_api_key")
        return _LOCAL_CALLER

    async def _authenticate_digest(self, digest: str, *, limited: bool = True, spends: bool = True) -> Caller:
        """`limited` False: the rate and the budget do not apply, since a page that is open reads often."""
        if digest in self._given:
            return Caller(RUN_KEY_ID, admin=True)
        record = await self._find(digest)
        if record is None:
            if await self.are_required():
                raise _unauthorised_error("this key is not known, or no longer", "invalid_api_key")
            return _LOCAL_CALLER  # many clients always send a key; where none is needed any key will do
        if limited:
            self._check_rate(record)
        if limited and spends:
            await self._check_budget(record)
        payer = KeyBudget(record.id, record.tokens_per_day, record.dollars_per_day)
        return Caller(record.id, record.models, record.tools, record.admin, record.metrics, record.digest, payer)

    async def find_session(self, token: str) -> ConsoleSession | None:
        document = await self._store.find(CONSOLE_KIND, key_digest(token)) if token else None
        return None if document is None else _session_decoder.decode(document.body)

    async def is_known(self, digest: str) -> bool:
        return digest in self._given or await self._find(digest) is not None

    async def are_required(self) -> bool:
        """Whether a request needs a key."""
        if time.monotonic() > self._required_until_s:
            now_s = time.monotonic()
            self._required = self._always or await self.has_keys()
            self._required_until_s = now_s + _CACHE_S
        return self._required

    async def is_still_admitted(self, caller: Caller) -> bool:
        """Whether the caller of a long request would be let in now: its key may have been revoked, or the first key may
        have been created."""
        if caller.digest:
            return await self._find(caller.digest) is not None
        return caller.key == RUN_KEY_ID or not await self.are_required()

    async def save_spending(self, key: str) -> None:
        """Writes what the model calls that were charged to the key have cost."""
        if key and key != RUN_KEY_ID:
            await self._spending.save(key)

    async def check_budget(self, caller: Caller) -> None:
        """For background work. Raises HttpProblem 402, and 401 if the key has been revoked."""
        if not caller.key or caller.key == RUN_KEY_ID:
            return
        record = await self._find_by_id(caller.key)
        if record is None:
            raise _unauthorised_error("the key that this was begun with has been revoked", "invalid_api_key")
        await self._check_budget(record)

    async def spending_today(self, caller: Caller) -> tuple[KeySpent, float | None]:
        """What the key spent today, and its limit in dollars."""
        if not caller.key or caller.key == RUN_KEY_ID:
            return KeySpent(), None
        record = await self._find_by_id(caller.key)
        return await self._spending.today(caller.key), record.dollars_per_day if record else None

    async def has_keys(self) -> bool:
        return bool(self._given or await self._store.list_documents(KIND, limit=1))

    async def _find_by_id(self, id: str) -> KeyRecord | None:
        return next((record for record in await list_keys(self._store) if record.id == id), None)

    async def _find(self, digest: str) -> KeyRecord | None:
        now_s = time.monotonic()
        cached = self._cached.get(digest)
        if cached is not None and cached.until_s > now_s:
            return cached.record
        document = await self._store.find(KIND, digest)
        record = None if document is None else decode_record(document.body)
        if len(self._cached) >= _MAX_CACHED_KEYS:
            self._cached.clear()
        self._cached[digest] = _CachedKey(record, now_s + _CACHE_S)
        return record

    def _check_rate(self, record: KeyRecord) -> None:
        if record.per_minute is None:
            return
        minute = int(time.time() // 60)
        counted, count = self._minutes.get(record.id, (minute, 0))
        count = count + 1 if counted == minute else 1
        self._minutes[record.id] = (minute, count)
        if count > record.per_minute:
            wait_s = 60 - int(time.time() % 60)
            raise HttpProblem(
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
            raise _budget_exceeded(f"{spent.tokens} of {record.tokens_per_day} tokens")
        if record.dollars_per_day is not None and spent.dollars >= record.dollars_per_day:
            raise _budget_exceeded(f"${spent.dollars:.4f} of ${record.dollars_per_day:.4f}")


def key_in(exchange: Exchange) -> str:
    """The key as OpenAI's clients send it, or as Anthropic's do; "" for none."""
    headers = exchange.headers
    if b"authorization" in headers.raw:
        scheme, _, key = (headers.get("authorization") or "").partition(" ")
        if scheme.lower() == "bearer":
            return key.strip()
    return (headers.get("x-api-key") or "") if b"x-api-key" in headers.raw else ""


def cookie_token(exchange: Exchange) -> str:
    """The token in the console's cookie. Counts only on requests of our own page: browsers say where one came from."""
    header = exchange.headers.get("cookie") or ""
    if CONSOLE_COOKIE not in header or exchange.headers.get("sec-fetch-site") not in (None, "same-origin", "none"):
        return ""
    try:
        found = SimpleCookie(header).get(CONSOLE_COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def csrf_token(token: str) -> str:
    return hmac.digest(token.encode(), b"csrf", hashlib.sha256).hex()


def check_csrf(exchange: Exchange, token: str) -> None:
    given = (exchange.headers.get(CSRF_HEADER) or "").encode()
    if not hmac.compare_digest(given, csrf_token(token).encode()):
        raise HttpProblem(403, f"send the header {CSRF_HEADER} with what GET /v1/console says", code="csrf")


def _unauthorised_error(text: str, code: str) -> HttpProblem:
    return HttpProblem(401, text, code=code, headers=[(b"www-authenticate", b"Bearer")])


def _budget_exceeded(what: str) -> HttpProblem:
    return HttpProblem(
        402, f"the budget of this key is used up for today: {what}", type=INVALID, code="budget_exceeded"
    )
