"""The console's page and its files, as they lie in the package. They contain no data, so they need no key.

A file is read when it is first requested, cached with its compressed form, and read again after it has changed.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from pathlib import Path

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.http_errors import HttpProblem
from aish.frontends.http.server.routes import HttpRoute

FOLDER = Path(__file__).with_name("static")

# Only our own files run, and no other page may frame ours. `data:` and `blob:` are pictures in a chat.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".json": b"application/json",
    ".png": b"image/png",
    ".svg": b"image/svg+xml",
    ".txt": b"text/plain; charset=utf-8",
    ".webmanifest": b"application/manifest+json",
    ".woff2": b"font/woff2",
}
_PACKED = frozenset({".png", ".woff2"})  # compressed already
_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"cache-control", b"no-cache"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"vary", b"accept-encoding"),
)
# One part of a path. It cannot begin with a dot, so no path leads out of the folder or to a hidden file.
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_MAX_PARTS = 4


class _File(msgspec.Struct, frozen=True):
    stamp: tuple[int, int]
    kind: bytes
    plain: bytes
    packed: bytes  # b"" where that would not be smaller
    etag: bytes


class ConsoleFiles:
    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._files: dict[str, _File] = {}

    def routes(self) -> list[HttpRoute]:
        return [
            HttpRoute("GET", "/", self.page, "The console", open=True),
            HttpRoute("GET", "/console/{*path}", self.file, "A file of the console", open=True),
        ]

    async def page(self, exchange: Exchange, caller: Caller) -> None:
        await self.file(exchange, caller, "index.html")

    async def file(self, exchange: Exchange, caller: Caller, path: str) -> None:
        parts = path.split("/")
        kind = _TYPES.get(Path(parts[-1]).suffix)
        if kind is None or len(parts) > _MAX_PARTS or not all(_PART.fullmatch(part) for part in parts):
            raise _missing(path)
        await _reply(exchange, await asyncio.to_thread(self._get, path, kind))

    def _get(self, path: str, kind: bytes) -> _File:
        file = self._folder / path
        try:
            stat = file.stat()
            stamp = (stat.st_mtime_ns, stat.st_size)
            known = self._files.get(path)
            if known is None or known.stamp != stamp:
                known = self._files[path] = _make_file(file.read_bytes(), stamp, kind, packed=file.suffix in _PACKED)
        except (OSError, ValueError):
            raise _missing(path) from None
        return known


def _make_file(plain: bytes, stamp: tuple[int, int], kind: bytes, *, packed: bool) -> _File:
    small = b"" if packed else gzip.compress(plain, 9, mtime=0)
    etag = b'"%s"' % hashlib.sha256(plain).hexdigest()[:20].encode()
    return _File(stamp, kind, plain, small if len(small) < len(plain) else b"", etag)


async def _reply(exchange: Exchange, file: _File) -> None:
    headers = [*_HEADERS, (b"etag", file.etag)]
    if file.etag.decode() in (exchange.headers.get("if-none-match") or ""):
        await exchange.reply(304, b"", headers)
        return
    headers.append((b"content-type", file.kind))
    if file.packed and "gzip" in (exchange.headers.get("accept-encoding") or ""):
        await exchange.reply(200, file.packed, [*headers, (b"content-encoding", b"gzip")])
    else:
        await exchange.reply(200, file.plain, headers)


def _missing(path: str) -> HttpProblem:
    return HttpProblem(404, f"the console has no file {path[:100]}", code="not_found")
