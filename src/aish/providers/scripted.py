"""Models that follow a script, with exact chunks from a file or a list: for demos, tests and regressions.

A script is a list of steps, and a step a list of items that are played in order: `{"text": …}`, `{"reasoning": …}`,
`{"call": {"index", "id", "name", "arguments"}}`, `{"usage": {…}}`, `{"status": …}`, `{"wait_s": …}`, `{"error":
{"status", "message"}}`, `{"finish": "stop"}`. The step follows from the conversation alone: it is the number of
assistant messages in it. So a script has no state, and the same request always gets the same answer.

`fake-tool` is built in: it calls one tool, then answers with its result.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from aish.errors import ConfigError, ModelNotFound, ProviderError, ProviderTimeout
from aish.ports import TextRelay
from aish.types.chunks import Batch, CallFragment, Chunk, StepEnd, StepFinished, UsageChunk
from aish.types.events import ReasoningDelta, Status, TextDelta
from aish.types.messages import AssistantMessage, ToolMessage, UserMessage
from aish.types.models import Capabilities, ModelProfile
from aish.types.requests import EmbeddingResult, Inputs, StepRequest
from aish.types.usage import Usage

# Scripts are written by hand or by a test. Anything larger is a mistake.
MAX_FILE_BYTES = 16 * 1024 * 1024
CONTEXT_SIZE = 8192
MAX_REQUESTS = 256  # it may serve for days

Item = Chunk | ProviderError | float  # a float is a pause in seconds
Script = Callable[[StepRequest], Sequence[Item]]


class ScriptedProvider:
    def __init__(self, name: str, scripts: Mapping[str, Script]) -> None:
        self._name = name
        self._scripts = dict(scripts)
        self.requests: list[StepRequest] = []  # the latest requests, for tests

    @property
    def name(self) -> str:
        return self._name

    async def list_models(self) -> Sequence[ModelProfile]:
        return [self._info(model) for model in self._scripts]

    async def describe(self, model: str) -> ModelProfile:
        if model not in self._scripts:
            raise ModelNotFound(f"{self._name} has no script {model}", hint=f"it has {', '.join(self._scripts)}")
        return self._info(model)

    @asynccontextmanager
    async def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AsyncIterator[AsyncGenerator[Batch, None]]:
        async with aclosing(self._play(request, relay)) as batches:
            yield batches

    def prepare(self, request: StepRequest) -> StepRequest:
        return request

    async def count_tokens(self, model: str, text: str) -> int | None:
        return len(text.split())

    async def count_prompt(self, request: StepRequest) -> int | None:
        """The number of words, and three for each message and one for each tool."""
        words = sum(len(message.text.split()) + 3 for message in request.messages)
        calls = [call for m in request.messages if isinstance(m, AssistantMessage) for call in m.tool_calls]
        return words + len(request.tools) + sum(1 + len(call.arguments.split()) for call in calls)

    async def embed(self, model: str, inputs: Inputs) -> EmbeddingResult:
        raise ProviderError(f"{self._name} has no embeddings")

    async def aclose(self) -> None:
        """Nothing to close."""

    async def _play(self, request: StepRequest, relay: TextRelay | None) -> AsyncGenerator[Batch, None]:
        await self.describe(request.model)
        self.requests = [*self.requests[1 - MAX_REQUESTS :], request]
        left_s, begun = request.deadline_s, False
        if left_s <= 0:
            raise ProviderTimeout(f"{self._name}: the deadline passed", is_deadline=True)
        finished = StepFinished(StepEnd.STOP)
        for item in self._scripts[request.model](request):
            if isinstance(item, ProviderError):
                raise item.with_traceback(None)  # the same object may be raised many times
            if isinstance(item, float):
                await asyncio.sleep(min(item, left_s))
                left_s -= item
                if left_s <= 0:
                    raise ProviderTimeout(f"{self._name}: the deadline passed", is_deadline=True)
            elif isinstance(item, StepFinished):
                finished = item
            elif not (begun and relay is not None and _is_relayed(item, relay)):
                begun = True
                yield [item]
        yield [finished]

    def _info(self, model: str) -> ModelProfile:
        return ModelProfile(self._name, model, CONTEXT_SIZE, Capabilities(tokenize=True))


def _is_relayed(item: Item, relay: TextRelay) -> bool:
    return isinstance(item, TextDelta) and relay.accept(item.text)


def from_steps(steps: Sequence[Sequence[Item]]) -> Script:
    """Step n answers a conversation with n assistant messages. After the last step, that one is repeated."""

    def play(request: StepRequest) -> Sequence[Item]:
        answered = sum(isinstance(message, AssistantMessage) for message in request.messages)
        return steps[min(answered, len(steps) - 1)]

    return play


def load_script(path: Path) -> Script:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError(f"the script {path} is larger than {MAX_FILE_BYTES} bytes")
        steps = [[_read_item(item) for item in step] for step in msgspec.json.decode(path.read_bytes())]
    except OSError as exc:
        raise ConfigError(f"cannot read the script {path}: {exc.strerror}") from exc
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, AttributeError) as exc:
        raise ConfigError(
            f"the script {path} is not a JSON list of steps: {exc}", hint="see docs/providers.md"
        ) from exc
    if not steps:
        raise ConfigError(f"the script {path} has no steps")
    return from_steps(steps)


def _read_item(item: dict[str, Any]) -> Item:
    match item:
        case {"text": str(text)}:
            return TextDelta(text)
        case {"reasoning": str(text)}:
            return ReasoningDelta(text)
        case {"status": str(text)}:
            return Status(text)
        case {"call": dict(call)}:
            return msgspec.convert({"index": None, **call}, CallFragment)
        case {"usage": dict(usage)}:
            from aish.providers.openai.response import read_usage

            return UsageChunk(read_usage(usage))
        case {"wait_s": int() | float() as seconds}:
            return float(seconds)
        case {"error": dict(error)}:
            from aish.providers.http_errors import error_for

            return error_for("scripted", "scripted", int(error.get("status", 500)), str(error.get("message", "")))
        case {"finish": str(end)}:
            return StepFinished(StepEnd(end))
        case _:
            raise ValueError(f"unknown item {item!r}")


def fake_tool(request: StepRequest) -> Sequence[Item]:
    """Calls one tool with values from the question, then answers with the result."""
    last = request.messages[-1]
    usage = UsageChunk(Usage(prompt_tokens=12, completion_tokens=8))
    if isinstance(last, ToolMessage):
        answer = f"The result of {last.name} is {last.text}."
        return [*(TextDelta(word) for word in re.split(r"(?<= )", answer)), usage]
    question = last.text if isinstance(last, UserMessage) else ""
    name, arguments = _choose_tool(question, [tool.name for tool in request.tools])
    if not name:
        return [TextDelta("There is no tool I could call."), usage]
    return [
        CallFragment(0, "call_fake", name, ""),
        *(CallFragment(0, arguments=piece) for piece in re.findall(r".{1,8}", arguments, re.DOTALL)),
        usage,
        StepFinished(StepEnd.TOOL_CALLS),
    ]


def _choose_tool(question: str, tools: Sequence[str]) -> tuple[str, str]:
    numbers = re.findall(r"-?\d+(?:\.\d+)?", question)
    if "runtime__add" in tools and len(numbers) >= 2:
        return "runtime__add", f'{{"a": {numbers[0]}, "b": {numbers[1]}}}'
    if "runtime__echo" in tools:
        return "runtime__echo", msgspec.json.encode({"text": question}).decode()
    return (tools[0], "{}") if tools else ("", "")


_calls = count(1)


def call(tool: str, /, **arguments: Any) -> Item:
    """A call that the model makes in a step."""
    return CallFragment(0, f"call_{next(_calls)}", tool, msgspec.json.encode(arguments).decode())


class Scripted(ScriptedProvider):
    """Each step is what the model says in answer to one request: a text, a `call`, or a list of them. After the last
    step, that one is repeated. `requests` are the requests that it got."""

    def __init__(self, *steps: str | Item | Sequence[str | Item], name: str = "scripted-test") -> None:
        super().__init__(name, {"model": from_steps([_read_step(step) for step in steps] or [[]])})

    @property
    def model(self) -> str:
        """The full name of the model."""
        return f"{self.name}:model"


def _read_step(step: str | Item | Sequence[str | Item]) -> list[Item]:
    given = [step] if isinstance(step, str) or not isinstance(step, Sequence) else list(step)
    items: list[Item] = [TextDelta(item) if isinstance(item, str) else item for item in given]
    has_call = any(isinstance(item, CallFragment) for item in items)
    return [*items, StepFinished(StepEnd.TOOL_CALLS)] if has_call else items
