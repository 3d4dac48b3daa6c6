"""The real small model, constrained: whatever it says is a valid call of a tool that it was offered, or an answer."""

from __future__ import annotations

import json

import jsonschema_rs

from aish.net.http.client import HttpClient
from aish.providers.embedded.provider import EmbeddedProvider, EmbeddedSettings
from aish.providers.endpoint import Endpoint
from aish.providers.model_store.cache import ModelCache
from aish.providers.openai.provider import OpenAIProvider
from aish.providers.tool_calling.provider import ToolCallingProvider
from aish.types.chunks import CallFragment, Chunk
from aish.types.events import TextDelta
from aish.types.messages import AssistantMessage, Message, TextPart, ToolCall, ToolMessage, user
from aish.types.requests import Sampling, StepRequest, ToolChoice
from aish.types.tools import Effect, ToolSpec
from support.models import THREADS, model_cache  # noqa: F401  a fixture

WORD = {"type": "string", "maxLength": 30}
TOOLS = {
    "get_weather": {"city": WORD, "unit": {"enum": ["celsius", "fahrenheit"]}},
    "add_numbers": {"a": {"type": "integer", "minimum": 0}, "b": {"type": "integer", "minimum": 0}},
    "set_light": {"room": WORD, "on": {"type": "boolean"}},
}
SPECS = tuple(
    ToolSpec(
        name,
        f"Does {name.replace('_', ' ')}.",
        {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False},
        Effect.READ,
        "test",
    )
    for name, properties in TOOLS.items()
)
QUESTIONS = ("How is the weather in Rome?", "Add 3 and 4.", "Tell me a joke!")


async def say(provider: ToolCallingProvider, messages: tuple[Message, ...], choice: ToolChoice) -> list[Chunk]:
    sampling = Sampling(max_tokens=120, temperature=0.0, seed=1)
    request = StepRequest("smollm2", messages, tools=SPECS, tool_choice=choice, sampling=sampling, deadline_s=100)
    async with provider.stream(request) as batches:
        return [chunk async for batch in batches for chunk in batch]


def check_call(chunks: list[Chunk]) -> None:
    fragments = [chunk for chunk in chunks if isinstance(chunk, CallFragment)]
    name = "".join(fragment.name for fragment in fragments)
    spec = next(spec for spec in SPECS if spec.name == name)
    arguments = json.loads("".join(fragment.arguments for fragment in fragments))
    assert jsonschema_rs.is_valid(spec.schema, arguments), arguments
    assert not any(isinstance(chunk, TextDelta) for chunk in chunks)


async def test_the_small_model_makes_valid_calls_and_streams_its_answers(model_cache: ModelCache):  # noqa: F811
    call = AssistantMessage("", (ToolCall("c", "add_numbers", '{"a": 3, "b": 4}'),))
    result = ToolMessage("c", "add_numbers", (TextPart("7"),))
    async with HttpClient() as http:
        inner = EmbeddedProvider(
            model_cache,
            lambda url, key: OpenAIProvider("embedded", Endpoint(url=url, key=key), http),
            EmbeddedSettings(context_size=1024, threads=THREADS),
        )
        provider = ToolCallingProvider(inner)
        try:
            for question in QUESTIONS:
                check_call(await say(provider, (user(question),), ToolChoice("required")))
            answer = await say(provider, (user("Add 3 and 4."), call, result, call, result), ToolChoice())
            said = [chunk.text for chunk in answer if isinstance(chunk, TextDelta)]
            assert not any(isinstance(chunk, CallFragment) for chunk in answer)
            assert said and not "".join(said).startswith("{")
        finally:
            await provider.aclose()
