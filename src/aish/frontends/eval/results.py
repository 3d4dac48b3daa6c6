"""The result of a case for each model, mode and repetition, and the report of a run, which `--json` writes and
`--baseline` reads."""

from __future__ import annotations

from typing import Literal

import msgspec

from aish.types.requests import ToolMode

FORMAT = 1

Outcome = Literal["right", "wrong", "error", "skipped"]


RAW = "-raw"


class Setting(msgspec.Struct, frozen=True):
    """A model in a mode. With `repair` False, calls are graded as the model wrote them."""

    model: str
    mode: ToolMode
    repair: bool = True

    @property
    def mode_name(self) -> str:
        return self.mode if self.repair else self.mode + RAW


class GotCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that the model made. `fault` says why it could not be executed, or is ""."""

    name: str
    arguments: str
    fault: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`right_tool` and `wants_call` are about cases that expect calls; `error` is a failure of the backend."""

    case: str
    suite: str
    model: str
    mode: str
    digest: str
    repeat: int = 0
    outcome: Outcome
    wants_call: bool = False
    wants_none: bool = False
    right_tool: bool = False
    calls: tuple[GotCall, ...] = ()
    text: str = ""
    reason: str = ""
    error: str = ""
    rounds: int = 0
    repairs: int = 0
    retries: int = 0
    seconds: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    question: str = ""
    expected: str = ""

    @property
    def key(self) -> tuple[str, str, str, int]:
        return (self.case, self.model, self.mode, self.repeat)


class Report(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    aish: str
    python: str
    platform: str
    started: str
    options: dict[str, object]
    complete: bool
    results: tuple[Result, ...]
