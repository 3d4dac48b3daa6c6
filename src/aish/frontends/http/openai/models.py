"""`GET /v1/models`, and how many tokens a request has.

Presets come first in the list: they are the names that the operator chose. Agents follow. Tokens are counted by the
backend's own tokenizer where it has one, else estimated from the characters.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from aish.config.schema.models import PresetConfig
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.server.http_errors import HttpProblem
from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.tool_fields import RequestTools
from aish.types.messages import AssistantMessage, Message
from aish.types.models import AGENT_MODEL, ModelProfile


class ModelRoutes:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._since_s = int(time.time())

    async def reply_with_models(self, exchange: Exchange, caller: Caller) -> None:
        infos = await self._service.engine.router.list_models()
        named = {name: _meant(preset, infos) for name, preset in self._service.runtime.config.presets.items()}
        agents = self._service.runtime.agents.offered
        named |= {f"{AGENT_MODEL}{agent.name}": _find_listed(agent.model, infos) for agent in agents}
        named |= {info.name: info for info in infos}
        shown = [self._object(info, name) for name, info in named.items() if caller.may_use_model(name)]
        await exchange.reply(200, msgspec.json.encode({"object": "list", "data": shown}))

    async def get(self, exchange: Exchange, caller: Caller, model: str) -> None:
        try:
            self._service.check_model(caller, model)
        except HttpProblem as exc:
            raise HttpProblem(404, f"no model named {model}", code="model_not_found") from exc
        route = await self._service.engine.router.resolve(model)
        await exchange.reply(200, msgspec.json.encode(self._object(route.info, model)))

    def _object(self, info: ModelProfile, name: str) -> dict[str, Any]:
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


def _meant(preset: PresetConfig, infos: Sequence[ModelProfile]) -> ModelProfile:
    info = _find_listed(preset.model, infos)
    return msgspec.structs.replace(info, context_size=preset.context_size or info.context_size)


def _find_listed(name: str, infos: Sequence[ModelProfile]) -> ModelProfile:
    """Uses what the providers have listed, without asking again."""
    found = next((info for info in infos if name in (info.name, info.id)), None)
    provider, colon, model = name.partition(":")
    return found or (ModelProfile(provider, model) if colon else ModelProfile("", name))


_CHARS_A_TOKEN = 4
_A_MESSAGE = 4  # what a chat template adds around each


class Count(msgspec.Struct, frozen=True):
    tokens: int
    estimated: bool
    window: int | None = None


async def count_text(service: Service, model: str, text: str) -> Count:
    route = await service.engine.router.resolve(model)
    counted = await route.provider.count_tokens(route.info.id, text) if text else 0
    window = route.info.context_size
    if counted is None:
        return Count(-(-len(text) // _CHARS_A_TOKEN), estimated=True, window=window)
    return Count(counted, estimated=False, window=window)


async def count_request(service: Service, model: str, messages: Sequence[Message], tools: RequestTools) -> Count:
    texts = [_text(message) for message in messages]
    known = [spec for spec in service.engine.tools_for(tools.dynamic_name).specs() if spec.name in tools.ours]
    texts += [
        msgspec.json.encode([spec.name, spec.description, spec.schema]).decode() for spec in (*known, *tools.clients)
    ]
    count = await count_text(service, model, "\n".join(texts))
    return msgspec.structs.replace(count, tokens=count.tokens + _A_MESSAGE * len(messages))


def _text(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        return message.text + "".join(call.name + call.arguments for call in message.tool_calls)
    return message.text
