"""Whether it lives, and whether it takes work."""

from __future__ import annotations

import msgspec

from aish import __version__
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.server.service import Service


class Health:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def alive(self, exchange: Exchange, caller: Caller) -> None:
        await exchange.reply(200, msgspec.json.encode({"status": "ok", "version": __version__}))

    async def ready(self, exchange: Exchange, caller: Caller) -> None:
        service = self._service
        status = "draining" if service.draining else "starting" if service.starting else "ready"
        await exchange.reply(200 if status == "ready" else 503, msgspec.json.encode({"status": status}))
