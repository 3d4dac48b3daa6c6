"""A weak model is offered the tools that a question is about; a strong one all of them."""

from __future__ import annotations

import msgspec
import pytest

from aish.process.clock import SystemClock
from aish.providers.tool_calling.provider import ToolCallingProvider
from aish.providers.tool_calling.weak_models import select_relevant
from aish.tools.builtin.runtime import RuntimeTools
from aish.types.messages import SystemMessage, user
from aish.types.models import Capabilities, Constraint, ModelProfile
from aish.types.requests import StepRequest, ToolChoice
from aish.types.tools import Effect, ToolSpec

RUN = ToolSpec(
    "shell__run", "Run a command in the shell.",
    {"type": "object", "properties": {"command": {"type": "string"}, "timeout_s": {"type": "number"}}},
    Effect.EXEC, "shell",
)  # fmt: skip
RUNTIME = [
    msgspec.structs.replace(spec, name=f"runtime__{spec.name.rpartition('__')[2]}")
    for spec in RuntimeTools(SystemClock()).specs()
]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("What is the capital of France?", set()),
        ("tell me a joke", set()),
        ("what time is it?", {"runtime__time"}),
        ("add 17 and 25", {"runtime__add"}),
        ("what is 17 plus 25", {"runtime__add"}),
        ("run the command ls", {"shell__run"}),
    ],
)
def test_the_tools_a_question_is_about(question, names):
    found = {tool.name for tool in select_relevant([*RUNTIME, RUN], [SystemMessage("x"), user(question)])}
    assert found == names


class Known:
    """Of a provider only what the wrapper asks before it sends."""

    name = "up"

    def __init__(self, parameters: int | None) -> None:
        able = Capabilities(native_tools=False, constrained=frozenset({Constraint.JSON_SCHEMA}))
        self.info = ModelProfile("up", "m", 8192, able, parameters)

    async def describe(self, model: str) -> ModelProfile:
        return self.info

    def prepare(self, request: StepRequest) -> StepRequest:
        return request


async def told(parameters: int | None, question: str, **fields) -> str:
    provider = ToolCallingProvider(Known(parameters))  # type: ignore[arg-type]
    await provider.describe("m")
    sent = provider.prepare(StepRequest("m", (user(question),), (*RUNTIME, RUN), **fields))
    return "\n".join(message.text for message in sent.messages)


async def test_only_weak_models_are_offered_less():
    assert "shell__run" not in await told(135_000_000, "what time is it?")
    assert "runtime__time" in await told(135_000_000, "what time is it?")
    for parameters in (None, 7_000_000_000):
        assert "shell__run" in await told(parameters, "what time is it?")


async def test_who_demands_a_call_or_a_mode_gets_all_tools():
    assert "shell__run" in await told(135_000_000, "hello", tool_choice=ToolChoice("required"))
    assert "shell__run" in await told(135_000_000, "hello", tool_mode="constrained")
    assert await told(135_000_000, "hello") == "hello"
