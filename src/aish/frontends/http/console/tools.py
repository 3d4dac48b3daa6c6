"""The tools a caller may offer to a model: `/v1/tools`."""

from __future__ import annotations

from typing import Any

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.server.routes import Route
from aish.frontends.http.server.service import Service
from aish.types.tools import ToolSpec


class ConsoleTools:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        return [Route("GET", "/v1/tools", self.list, "The tools that may be offered to a model")]

    async def list(self, exchange: Exchange, caller: Caller) -> None:
        asked = self._service.ask(caller) is not None
        offered = self._service.engine.offered(caller.tools, interactive=asked, owner=caller.owner)
        await exchange.reply(200, msgspec.json.encode({"object": "list", "data": [shown(spec) for spec in offered]}))


def shown(spec: ToolSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "effect": spec.effect.value,
        "server": spec.source,
        "schema": spec.schema,
    }
