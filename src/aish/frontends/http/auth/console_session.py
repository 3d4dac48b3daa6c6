"""Signing in to the console: a key once, then a cookie.

The cookie is a random token. The store keeps its hash and the hash of the key it was made with, so what the key may do
is asked anew each time, and a revoked key takes its sessions with it. A request that comes with the cookie and changes
anything must also say, in a header, what only a page of ours can have read: the CSRF word, made from the token.

Where no keys are set there is no cookie and no such word: a page of another site is refused by its Origin already
(`frontends.origin_guard`), for every request, and whoever can reach the server may use it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any

import msgspec

from aish import __version__
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.auth.keys import digest_of, key_in
from aish.frontends.http.server.bodies import decode_body
from aish.frontends.http.server.http_errors import Problem
from aish.frontends.http.server.routes import Route
from aish.types.records import Document

if TYPE_CHECKING:
    from aish.frontends.http.server.service import Service

KIND = "console"
COOKIE = "aish_console"
CSRF = "x-aish-csrf"
LASTS_S = 12 * 3600
_MAX_BODY_BYTES = 16 * 1024
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


class SignIn(msgspec.Struct, frozen=True):
    key: str


class _Kept(msgspec.Struct, frozen=True):
    """`key` is the hash of the key."""

    key: str


_sign_in_decoder = msgspec.json.Decoder(SignIn)
_kept_decoder = msgspec.json.Decoder(_Kept)


class ConsoleSessions:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        path = "/v1/console/session"
        return [
            Route("GET", "/v1/console", self.show, "What the console begins with", open=True),
            Route("POST", path, self.sign_in, "A key for a cookie", open=True, body=SignIn),
            Route("DELETE", path, self.sign_out, "Forget the cookie", open=True),
        ]

    def admit(self, exchange: Exchange, *, spends: bool) -> Awaitable[Caller]:
        """Who asks: by a key in the request, else by the cookie, else whoever may come in without. Raises Problem."""
        by_cookie = b"cookie" in exchange.headers.raw
        return (self._admit if by_cookie else self._service.keys.admit)(exchange, spends=spends)

    async def _admit(self, exchange: Exchange, *, spends: bool) -> Caller:
        token = _token_in(exchange)
        kept = await self._find(token) if token and not key_in(exchange) else None
        if kept is None:
            return await self._service.keys.admit(exchange, spends=spends)
        if exchange.method in _READS:
            return await self._service.keys.admit_digest(kept.key, asks=False)
        _check_csrf(exchange, token)
        return await self._service.keys.admit_digest(kept.key, spends=spends)

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        keys = await self._service.keys.are_needed()
        shown: dict[str, Any] = {"version": __version__, "keys": keys, "signed_in": False}
        try:
            known = await self.admit(exchange, spends=False)
        except Problem as exc:
            if exc.status not in (401, 429):  # nobody we know, or nobody who may ask now
                raise
        else:
            token, runtime = _token_in(exchange), self._service.runtime
            shown |= {
                "signed_in": True,
                "admin": known.admin,
                "csrf": csrf_of(token) if token else "",
                "workspace": str(runtime.process_environment.cwd),
                "models_default": runtime.config.model,
            }
        await exchange.reply(200, msgspec.json.encode(shown), [(b"cache-control", b"no-store")])

    async def sign_in(self, exchange: Exchange, caller: Caller) -> None:
        given = decode_body(await exchange.body(_MAX_BODY_BYTES), _sign_in_decoder)
        digest = digest_of(given.key.strip())
        if not await self._service.keys.is_known(digest):
            raise Problem(401, "this key is not known, or no longer", code="invalid_api_key")
        token, now_ms = secrets.token_urlsafe(32), self._service.now_ms()
        body = msgspec.json.encode(_Kept(digest))
        expires_ms = now_ms + LASTS_S * 1000
        await self._service.store.put(Document(KIND, digest_of(token), body, "", now_ms, expires_ms))
        answer = {"signed_in": True, "csrf": csrf_of(token), "expires_ms": expires_ms}
        await exchange.reply(200, msgspec.json.encode(answer), [_cookie(exchange, token, LASTS_S)])

    async def sign_out(self, exchange: Exchange, caller: Caller) -> None:
        token = _token_in(exchange)
        if await self._find(token) is not None:
            _check_csrf(exchange, token)
            await self._service.store.delete(KIND, digest_of(token))
        await exchange.reply(200, msgspec.json.encode({"signed_in": False}), [_cookie(exchange, "", 0)])

    async def _find(self, token: str) -> _Kept | None:
        document = await self._service.store.find(KIND, digest_of(token)) if token else None
        return None if document is None else _kept_decoder.decode(document.body)


def csrf_of(token: str) -> str:
    return hmac.digest(token.encode(), b"csrf", hashlib.sha256).hex()


def _check_csrf(exchange: Exchange, token: str) -> None:
    given = (exchange.headers.get(CSRF) or "").encode()
    if not hmac.compare_digest(given, csrf_of(token).encode()):
        raise Problem(403, f"send the header {CSRF} with what GET /v1/console says", code="csrf")


def _token_in(exchange: Exchange) -> str:
    """Only what our own page sends counts: a browser says where a request came from."""
    header = exchange.headers.get("cookie") or ""
    if COOKIE not in header or exchange.headers.get("sec-fetch-site") not in (None, "same-origin", "none"):
        return ""
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _cookie(exchange: Exchange, token: str, lasts_s: int) -> tuple[bytes, bytes]:
    """`Secure` where the page came by https, which its Origin tells also behind a proxy."""
    secure = "; Secure" if (exchange.headers.get("origin") or "").startswith("https://") else ""
    text = f"{COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lasts_s}{secure}"
    return b"set-cookie", text.encode()
