"""Signs in to the console: a key once, then a cookie (see `authentication`)."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from aish import __version__
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import (
    CONSOLE_COOKIE,
    CONSOLE_KIND,
    Caller,
    ConsoleSession,
    check_csrf,
    cookie_token,
    csrf_token,
)
from aish.frontends.http.auth.keys import key_digest
from aish.frontends.http.server.http_errors import HttpProblem, decode_body
from aish.frontends.http.server.routes import HttpRoute
from aish.frontends.http.server.service import Service
from aish.types.records import Document

LIFETIME_S = 12 * 3600
_MAX_BODY_BYTES = 16 * 1024


class SignIn(msgspec.Struct, frozen=True):
    key: str


_sign_in_decoder = msgspec.json.Decoder(SignIn)


class ConsoleSessions:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[HttpRoute]:
        path = "/v1/console/session"
        return [
            HttpRoute("GET", "/v1/console", self.show, "What the console begins with", open=True),
            HttpRoute("POST", path, self.sign_in, "A key for a cookie", open=True, body=SignIn),
            HttpRoute("DELETE", path, self.sign_out, "Forget the cookie", open=True),
        ]

    async def show(self, exchange: Exchange, caller: Caller) -> None:
        required = await self._service.keys.are_required()
        shown: dict[str, Any] = {"version": __version__, "keys": required, "signed_in": False}
        try:
            known = await self._service.keys.authenticate(exchange, spends=False)
        except HttpProblem as exc:
            if exc.status not in (401, 429):  # unknown, or over its rate
                raise
        else:
            token, runtime = cookie_token(exchange), self._service.runtime
            shown |= {
                "signed_in": True,
                "admin": known.admin,
                "csrf": csrf_token(token) if token else "",
                "workspace": str(runtime.launch_context.cwd),
                "models_default": runtime.config.model,
            }
        await exchange.reply(200, msgspec.json.encode(shown), [(b"cache-control", b"no-store")])

    async def sign_in(self, exchange: Exchange, caller: Caller) -> None:
        given = decode_body(await exchange.body(_MAX_BODY_BYTES), _sign_in_decoder)
        digest = key_digest(given.key.strip())
        if not await self._service.keys.is_known(digest):
            raise HttpProblem(401, "this key is not known, or no longer", code="invalid_api_key")
        token, now_ms = secrets.token_urlsafe(32), self._service.now_ms()
        body = msgspec.json.encode(ConsoleSession(digest))
        expires_ms = now_ms + LIFETIME_S * 1000
        await self._service.store.put(Document(CONSOLE_KIND, key_digest(token), body, "", now_ms, expires_ms))
        answer = {"signed_in": True, "csrf": csrf_token(token), "expires_ms": expires_ms}
        await exchange.reply(200, msgspec.json.encode(answer), [_cookie(exchange, token, LIFETIME_S)])

    async def sign_out(self, exchange: Exchange, caller: Caller) -> None:
        token = cookie_token(exchange)
        if await self._service.keys.find_session(token) is not None:
            check_csrf(exchange, token)
            await self._service.store.delete(CONSOLE_KIND, key_digest(token))
        await exchange.reply(200, msgspec.json.encode({"signed_in": False}), [_cookie(exchange, "", 0)])


def _cookie(exchange: Exchange, token: str, lifetime_s: int) -> tuple[bytes, bytes]:
    """`Secure` where the page came by https. Its Origin says so also behind a proxy."""
    secure = "; Secure" if (exchange.headers.get("origin") or "").startswith("https://") else ""
    text = f"{CONSOLE_COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={lifetime_s}{secure}"
    return b"set-cookie", text.encode()
