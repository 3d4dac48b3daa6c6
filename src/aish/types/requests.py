"""The canonical request: what a face hands to the engine, and what the engine hands to a provider."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from aish.types.limits import Limits
from aish.types.messages import Message, UserMessage
from aish.types.tools import ToolSpec

ToolMode = Literal["auto", "native", "constrained", "prompted"]


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the model is to choose its words. None leaves the backend's own default."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    json_schema: dict[str, Any] | None = None  # constrain the answer to this


class TurnRequest(msgspec.Struct, frozen=True):
    """One user request. `session` empty makes a new session; `tools` are name globs, () offers none."""

    message: UserMessage
    model: str = ""
    session: str = ""
    system: str = ""
    tools: tuple[str, ...] = ()
    sampling: Sampling = Sampling()
    limits: Limits = Limits()


class StepRequest(msgspec.Struct, frozen=True):
    """One model call. `deadline_s` bounds the whole of it, from connecting to the last byte.

    `session` is for what must be the same within one, such as placeholders for secrets.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    sampling: Sampling = Sampling()
    deadline_s: float = 600.0
    session: str = ""
