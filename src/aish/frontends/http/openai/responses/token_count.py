"""How many tokens an input has: by the backend's own count, or a guess of four characters each."""

from __future__ import annotations

import msgspec

from aish.engine.prompt.system_message import compose_system
from aish.frontends.http.openai.responses.plan import Plan
from aish.frontends.http.server.service import Service
from aish.types.messages import AssistantMessage, Message

CHARS_A_TOKEN = 4


async def count_input(service: Service, plan: Plan) -> int:
    request, engine = plan.request, service.engine
    route = await engine.router.resolve(request.model)
    messages = (*(request.context or ()), *request.input)
    offered = (
        engine.offered(request.tools, interactive=False, guests=request.guests, owner=request.owner)
        if request.tools
        else ()
    )
    tools = [*request.client_tools, *offered]
    texts = [compose_system(route.system, request.system), *(_text(message) for message in messages)]
    texts += [msgspec.json.encode([tool.name, tool.description, tool.schema]).decode() for tool in tools]
    text = "\n".join(filter(None, texts))
    counted = await route.provider.count_tokens(route.info.id, text)
    return counted if counted is not None else -(-len(text) // CHARS_A_TOKEN)


def _text(message: Message) -> str:
    if isinstance(message, AssistantMessage):
        calls = "\n".join(f"{call.name} {call.arguments}" for call in message.tool_calls)
        return "\n".join(filter(None, (message.text, calls)))
    return message.text
