"""Which way tools go to a model: what it is asked for, what it can, and what its backend has refused so far.

The ways are tried in order, from the backend's own tools down to a prompt. One that is refused is not tried again for
that model while this process lives. Only `auto` looks for another way: who names a mode wants that one or the error.
"""

from __future__ import annotations

import re
from enum import StrEnum

from aish.errors import ProviderError, ProviderRejected, ProviderUnavailable
from aish.types.messages import AssistantMessage, ToolMessage
from aish.types.models import ModelInfo
from aish.types.requests import StepRequest

_MAX_KEPT = 1000  # models; a server's clients may name any

_ABOUT_TOOLS = re.compile(r"\btools?\b|tool_choice|tool_call|function", re.I)
_ABOUT_SCHEMAS = re.compile(r"grammar|schema|pattern|regex|gbnf|\$ref", re.I)
_ABOUT_FORMAT = re.compile(r"response_format|json_schema|schema|grammar|guided|structured|\bformat\b|regex", re.I)
_ABOUT_ROLES = re.compile(r"\brole|alternat", re.I)


class Way(StrEnum):
    NATIVE = "native"
    PLAIN = "native_plain"  # the backend's own tools, with schemas of names and types only
    CONSTRAINED = "constrained"
    PROMPTED = "prompted"


_SAYINGS = {
    Way.PLAIN: "rejects the schema of a tool; sending simpler ones",
    Way.CONSTRAINED: "takes no tools; describing them and constraining the answer instead",
    Way.PROMPTED: "neither takes tools nor constrains answers; describing tools in the prompt instead",
}


class Ways:
    """What is known of each model."""

    def __init__(self) -> None:
        self._infos: dict[str, ModelInfo] = {}
        self._learned: dict[str, Way] = {}
        self._native: set[str] = set()

    def know(self, model: str, info: ModelInfo) -> None:
        if len(self._infos) >= _MAX_KEPT:
            self._infos.clear()
        self._infos[model] = info

    def info(self, model: str) -> ModelInfo | None:
        return self._infos.get(model)

    def choose(self, request: StepRequest) -> Way:
        if request.tool_mode != "auto":
            return Way(request.tool_mode)
        if learned := self._learned.get(request.model):
            return learned
        info = self._infos.get(request.model)
        if info is None or info.capabilities.native_tools:
            return Way.NATIVE
        return Way.CONSTRAINED if info.capabilities.constrained else Way.PROMPTED

    def find_other(self, request: StepRequest, way: Way, error: ProviderError) -> Way | None:
        """Another way after a refusal, remembered from now on; None if the refusal is about something else."""
        if request.tool_mode != "auto" or not isinstance(error, ProviderRejected | ProviderUnavailable):
            return None
        other = _after(way, error, request)
        if other is not None:
            self.learn(request.model, other)
        return other

    def note_native_call(self, model: str) -> None:
        if len(self._native) >= _MAX_KEPT:
            self._native.clear()
        self._native.add(model)

    def calls_natively(self, model: str) -> bool:
        """Whether it has been seen to make calls of its own, which is when it does not need to write them as text."""
        return model in self._native

    def learn(self, model: str, way: Way) -> None:
        if len(self._learned) >= _MAX_KEPT:
            self._learned.clear()
        self._learned[model] = way


def saying(name: str, way: Way) -> str:
    return f"{name} {_SAYINGS[way]}"


def _after(way: Way, error: ProviderError, request: StepRequest) -> Way | None:
    said = error.message.partition(" answered ")[2]  # not the provider's name, and only what a backend said
    if request.sampling.logprobs is not None and "logprobs" in said:
        return None  # llama.cpp tells none while it streams with tools; without them it takes tools as ever
    if way in (Way.NATIVE, Way.PLAIN):
        if _ABOUT_ROLES.search(said) and has_calls(request):
            return None  # the engine has another rendering for that
        if way is Way.NATIVE and request.tools and _ABOUT_SCHEMAS.search(said):
            return Way.PLAIN
        refused = request.tools and (_ABOUT_TOOLS.search(said) or (way is Way.PLAIN and _ABOUT_SCHEMAS.search(said)))
        return Way.CONSTRAINED if refused else None
    return Way.PROMPTED if way is Way.CONSTRAINED and _ABOUT_FORMAT.search(said) else None


def has_calls(request: StepRequest) -> bool:
    """Whether the conversation holds calls or results."""
    for message in request.messages:
        if type(message) is ToolMessage or (type(message) is AssistantMessage and message.tool_calls):
            return True
    return False
