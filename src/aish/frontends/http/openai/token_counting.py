"""How many tokens something is: by the backend's own tokenizer where it has one, else by characters."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from aish.frontends.http.server.service import Service
from aish.frontends.http.turns.request_fields import Tools
from aish.types.messages import AssistantMessage, Message

_CHARS_A_TOKEN = 4
_A_MESSAGE = 4  # what a chat template puts around each


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


async def count_request(service: Service, model: str, messages: Sequence[Message], tools: Tools) -> Count:
    texts = [_text(message) for message in messages]
    known = [spec for spec in service.engine.tools_for(tools.guest_name).specs() if spec.name in tools.ours]
    texts += [
        msgspec.json.encode([spec.name, spec.description, spec.schema]).decode() for spec in (*known, *tools.clients)
    ]
    count = await count_text(service, model, "\n".join(texts))
    return msgspec.structs.replace(count, tokens=count.tokens + _A_MESSAGE * len(messages))


def _text(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        return message.text + "".join(call.name + call.arguments for call in message.tool_calls)
    return message.text
