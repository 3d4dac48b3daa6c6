"""`GET /v1/models` and one of them. Presets come first: they are what whoever runs the server has names for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from aish.config.schema.config import PresetConfig
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.caller import Caller
from aish.frontends.http.server.http_errors import Problem
from aish.frontends.http.server.service import Service
from aish.types.models import ModelInfo


class Models:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._since_s = int(time.time())

    async def list(self, exchange: Exchange, caller: Caller) -> None:
        infos = await self._service.engine.router.list_models()
        named = {name: _meant(preset, infos) for name, preset in self._service.runtime.config.presets.items()}
        named |= {info.name: info for info in infos}
        shown = [self._object(info, name) for name, info in named.items() if caller.may_use_model(name)]
        await exchange.reply(200, msgspec.json.encode({"object": "list", "data": shown}))

    async def get(self, exchange: Exchange, caller: Caller, model: str) -> None:
        try:
            self._service.check_model(caller, model)
        except Problem as exc:
            raise Problem(404, f"no model named {model}", code="model_not_found") from exc
        route = await self._service.engine.router.resolve(model)
        await exchange.reply(200, msgspec.json.encode(self._object(route.info, model)))

    def _object(self, info: ModelInfo, name: str) -> dict[str, Any]:
        capabilities = info.capabilities
        return {
            "id": name,
            "object": "model",
            "created": self._since_s,
            "owned_by": info.provider,
            "context_length": info.context_size,
            "capabilities": {
                "tools": capabilities.native_tools,
                "vision": capabilities.vision,
                "embeddings": capabilities.embeddings,
            },
        }


def _meant(preset: PresetConfig, infos: Sequence[ModelInfo]) -> ModelInfo:
    """By what the providers list: nobody is asked anew for a list."""
    found = next((info for info in infos if preset.model in (info.name, info.id)), None)
    provider, colon, model = preset.model.partition(":")
    info = found or (ModelInfo(provider, model) if colon else ModelInfo("", preset.model))
    return msgspec.structs.replace(info, context_size=preset.context_size or info.context_size)
