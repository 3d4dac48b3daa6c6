"""Says to a backend which conversation a request belongs to, so that it finds there what it has read already.

- Any backend: the header `x-session-id`, by which routers choose an endpoint.
- llama.cpp: `cache_prompt`, and, where it has several slots, the last one for calls outside of the conversation.
- Services elsewhere: `prompt_cache_key`, as OpenAI and OpenRouter take it. Local backends find the beginning by
  themselves.
- Models of Anthropic behind this API (OpenRouter, LiteLLM): `cache_control` at the end of the system message and of the
  newest message.

A field that a backend refuses is left out from then on, see `Dialect`.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from aish.providers.openai.request import Dialect, Json, encode_message
from aish.types.messages import AssistantMessage, Message, SystemMessage
from aish.types.requests import StepRequest

CacheHintRule = Literal["auto", "always", "never"]

SESSION_HEADER = "x-session-id"
_ID_CHARS = 32
_EPHEMERAL: Json = {"type": "ephemeral"}
_ANTHROPIC = re.compile(r"(?:^|/)(?:anthropic/|claude)", re.IGNORECASE)


@lru_cache(maxsize=1024)
def session_id(session: str) -> str:
    """An id of the session for others. It does not tell who owns the session."""
    return hashlib.sha256(session.encode()).hexdigest()[:_ID_CHARS]


class CacheHints:
    """The hints for one backend. `slots` is how many llama.cpp has; 0 if the backend is another."""

    def __init__(self, url: str, rule: CacheHintRule) -> None:
        self._is_off = rule == "never"
        self._sends_fields = rule == "always" or (rule == "auto" and not is_local(url))
        self.slots = 0

    def header(self, request: StepRequest) -> tuple[tuple[str, str], ...]:
        if self._is_off or not request.conversation:
            return ()
        return ((SESSION_HEADER, session_id(request.conversation)),)

    def add(self, body: Json, request: StepRequest, dialect: Dialect) -> None:
        """Adds the fields that the backend is known to take and has not refused."""
        if not (self.slots or self._sends_fields):
            return
        fields = self._fields(request)
        refused = dialect.unknown_fields.get(request.model, ())
        body.update({name: value for name, value in fields.items() if name not in refused and name not in body})
        if self._sends_fields and dialect.cache_control and _ANTHROPIC.search(request.model):
            body["messages"] = _with_marks(body["messages"], request.messages)

    def _fields(self, request: StepRequest) -> Json:
        if self.slots and not self._is_off:
            has_own_slot = request.is_side_call and self.slots > 1
            return {"cache_prompt": True, **({"id_slot": self.slots - 1} if has_own_slot else {})}
        if self._sends_fields and request.conversation:
            return {"prompt_cache_key": session_id(request.conversation)}
        return {}


def is_local(url: str) -> bool:
    """Whether the backend is on this machine or in this network."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".lan", ".internal", ".localhost"))
    return address.is_private or address.is_loopback or address.is_link_local


def _with_marks(encoded: Sequence[Json | msgspec.Raw], messages: Sequence[Message]) -> Sequence[Json | msgspec.Raw]:
    """Marks the end of the system message and of the newest message: up to there the prompt is worth caching."""
    if len(encoded) != len(messages):  # images of tool results became messages of their own
        return encoded
    marked = list(encoded)
    for index in {0, len(messages) - 1}:
        message = messages[index]
        if (isinstance(message, SystemMessage) or index) and not isinstance(message, AssistantMessage):
            marked[index] = _with_mark(message)
    return marked


def _with_mark(message: Message) -> Json:
    encoded = encode_message(message)
    content = encoded["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    if not parts or not parts[-1].get("text"):
        return encoded
    return {**encoded, "content": [*parts[:-1], {**parts[-1], "cache_control": _EPHEMERAL}]}
