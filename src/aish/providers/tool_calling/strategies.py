"""Chooses how a model gets its tools: by the request, by what the model supports, and by what its backend has refused.

The strategies are tried in order, from native tools down to a prompt. A refused one is not tried again for that model
while this process lives. Only the mode `auto` looks for another strategy: an explicit mode never falls back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from aish.errors import ProviderError, ProviderRejected, ProviderUnavailable
from aish.types.messages import (
    AssistantMessage,
    ToolMessage,
)
from aish.types.models import ModelProfile
from aish.types.requests import StepRequest, ToolChoice
from aish.types.tools import ToolSpec

_MAX_MODELS = 1000  # models; a server's clients may name any

_ABOUT_TOOLS = re.compile(r"\btools?\b|tool_choice|tool_call|function", re.I)
_ABOUT_SCHEMAS = re.compile(r"grammar|schema|pattern|regex|gbnf|\$ref", re.I)
_ABOUT_FORMAT = re.compile(r"response_format|json_schema|schema|grammar|guided|structured|\bformat\b|regex", re.I)
_ABOUT_ROLES = re.compile(r"\brole|alternat", re.I)


class Strategy(StrEnum):
    NATIVE = "native"
    PLAIN = "native_plain"  # the backend's own tools, with schemas of names and types only
    CONSTRAINED = "constrained"
    PROMPTED = "prompted"


_NOTICES = {
    Strategy.PLAIN: "rejects the schema of a tool; sending simpler ones",
    Strategy.CONSTRAINED: "takes no tools; describing them and constraining the answer instead",
    Strategy.PROMPTED: "neither takes tools nor constrains answers; describing tools in the prompt instead",
}


class Strategies:
    """What is known about each model."""

    def __init__(self) -> None:
        self._infos: dict[str, ModelProfile] = {}
        self._learned: dict[str, Strategy] = {}
        self._native: set[str] = set()

    def remember(self, model: str, info: ModelProfile) -> None:
        if len(self._infos) >= _MAX_MODELS:
            self._infos.clear()
        self._infos[model] = info

    def info(self, model: str) -> ModelProfile | None:
        return self._infos.get(model)

    def choose(self, request: StepRequest) -> Strategy:
        if request.tool_mode != "auto":
            return Strategy(request.tool_mode)
        if learned := self._learned.get(request.model):
            return learned
        info = self._infos.get(request.model)
        if info is None or info.capabilities.native_tools:
            return Strategy.NATIVE
        return Strategy.CONSTRAINED if info.capabilities.constrained else Strategy.PROMPTED

    def find_fallback(self, request: StepRequest, strategy: Strategy, error: ProviderError) -> Strategy | None:
        """Returns another strategy after a refusal, and remembers it; None if the refusal is about something else."""
        if request.tool_mode != "auto" or not isinstance(error, ProviderRejected | ProviderUnavailable):
            return None
        other = _fallback_after(strategy, error, request)
        if other is not None:
            self.learn(request.model, other)
        return other

    def note_native_call(self, model: str) -> None:
        if len(self._native) >= _MAX_MODELS:
            self._native.clear()
        self._native.add(model)

    def calls_natively(self, model: str) -> bool:
        """Whether the model has made a native call, so that it does not need to write calls as text."""
        return model in self._native

    def learn(self, model: str, strategy: Strategy) -> None:
        if len(self._learned) >= _MAX_MODELS:
            self._learned.clear()
        self._learned[model] = strategy


def strategy_notice(name: str, strategy: Strategy) -> str:
    return f"{name} {_NOTICES[strategy]}"


def _fallback_after(strategy: Strategy, error: ProviderError, request: StepRequest) -> Strategy | None:
    refusal = error.message.partition(" answered ")[2]  # the backend's own words, without the provider's name
    if request.sampling.logprobs is not None and "logprobs" in refusal:
        return None  # llama.cpp has none while it streams with tools, so the refusal is not about tools
    if strategy in (Strategy.NATIVE, Strategy.PLAIN):
        if _ABOUT_ROLES.search(refusal) and has_calls(request):
            return None  # the engine renders the conversation in another form then
        if strategy is Strategy.NATIVE and request.tools and _ABOUT_SCHEMAS.search(refusal):
            return Strategy.PLAIN
        refused = request.tools and (
            _ABOUT_TOOLS.search(refusal) or (strategy is Strategy.PLAIN and _ABOUT_SCHEMAS.search(refusal))
        )
        return Strategy.CONSTRAINED if refused else None
    return Strategy.PROMPTED if strategy is Strategy.CONSTRAINED and _ABOUT_FORMAT.search(refusal) else None


def has_calls(request: StepRequest) -> bool:
    """Whether the conversation contains calls or results."""
    for message in request.messages:
        if type(message) is ToolMessage or (type(message) is AssistantMessage and message.tool_calls):
            return True
    return False


def tools_to_call(tools: Sequence[ToolSpec], choice: ToolChoice) -> list[ToolSpec]:
    """The tools that may be called: only the named one, if it exists."""
    if choice.mode == "none":
        return []
    named = [tool for tool in tools if tool.name == choice.named]
    return named or list(tools)
