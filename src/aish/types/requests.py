"""The canonical request: what a frontend hands to the engine, and what the engine hands to a provider."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from aish.types.decisions import Answer
from aish.types.limits import Limits
from aish.types.messages import Message
from aish.types.plans import Planning
from aish.types.tools import ToolSpec
from aish.types.usage import Category

ToolMode = Literal["auto", "native", "constrained", "prompted"]
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]  # what backends in C keep such a number in


class Knobs(msgspec.Struct, frozen=True, omit_defaults=True):
    """What local backends let an asker turn besides what OpenAI has, in llama.cpp's names: each knows some of it.
    `repeat_penalty` is `repetition_penalty` elsewhere; `min_tokens` is vLLM's."""

    top_k: _Int32 | None = None
    min_p: float | None = None
    typical_p: float | None = None
    top_n_sigma: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: _Int32 | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    mirostat: _Int32 | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: _Int32 | None = None
    dry_penalty_last_n: _Int32 | None = None
    dry_sequence_breakers: tuple[str, ...] | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    min_tokens: _Int32 | None = None
    ignore_eos: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the model is to choose its words. None leaves the backend's own default."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    json_schema: dict[str, Any] | None = None  # constrain the answer to this
    json_object: bool = False  # any JSON object will do
    reasoning_effort: str = ""
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: int | None = None  # tell how likely each token was, and so many others in its place
    knobs: Knobs | None = None  # nearly always; so they cost nobody anything who has none


class ToolChoice(msgspec.Struct, frozen=True):
    """Whether the model must call: `named` is the one tool it has to call, if any; `among` are globs of those it may
    call, () meaning any."""

    mode: Literal["auto", "none", "required"] = "auto"
    named: str = ""
    among: tuple[str, ...] = ()


class Done(msgspec.Struct, frozen=True):
    """What attempts at a request have done before they broke off: calls and their results. `had_effect`: not all of
    them only read."""

    messages: tuple[Message, ...]
    had_effect: bool = False


class TurnRequest(msgspec.Struct, frozen=True):
    """One user request: `input` is what is new in it.

    `session` empty makes a new session; one that is named has to be there, unless it `may_be_new`. `context` is the
    conversation so far where the asker keeps it; None takes the session's own. `fit`: what the asker brings may lose
    turns to the window, too. `kept` False: the turn belongs to no session. `tools` are name globs of ours, () offers
    none; `guests` names sources that only this request has; `client_tools` are the asker's own: a call of one ends the
    turn and is left to the asker. `tool_mode` None leaves the model's own; `repair` False takes calls as they are
    written. `ask_about` are globs of ours that are asked about even where the gate would not. `answers` are decisions
    on calls that an earlier turn left open, by call id.
    `retry_key` is the same when the same request comes again: a turn that broke off after tools had run is then gone on
    with, and they are not run again; `resumed` is what it had done. `charged_to` is the session that pays, if not its
    own. `memory`: what is known of the user goes along; `project`: the files do. `may_fall_back`: another model may
    answer where this one cannot be reached. `planner`: plan first, then work; `run` is the run of a plan to go on with.
    `stream` False: nobody looks before a step has ended. `traceparent` is the asker's own trace, as W3C Trace Context
    has it; "" if it has none. `owner` is the key of a tenant, "" for the local user and for administrators.
    """

    input: tuple[Message, ...]
    model: str = ""
    session: str = ""
    kept: bool = True
    may_be_new: bool = False
    context: tuple[Message, ...] | None = None
    fit: bool = False
    system: str = ""
    tools: tuple[str, ...] = ()
    dynamic_mcp: str = ""
    client_tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_calls: bool | None = None
    tool_mode: ToolMode | None = None
    repair: bool = True
    ask_about: tuple[str, ...] = ()
    answers: dict[str, Answer] = {}
    retry_key: str = ""
    resumed: Done | None = None
    category: Category = Category.MAIN
    charged_to: str = ""
    memory: bool = False
    project: bool = False
    may_fall_back: bool = True
    planner: Planning | None = None
    run: str = ""
    sampling: Sampling = Sampling()
    limits: Limits = Limits()
    stream: bool = True
    traceparent: str = ""
    owner: str = ""

    @property
    def is_autonomous(self) -> bool:
        """A step of work towards a goal: it is told of that, and of nothing from earlier."""
        return self.category is Category.NORRIS


class Tuning(msgspec.Struct, frozen=True):
    """How a backend with an adapter is to use it: how much of it, in which slot, and with what bias of tokens."""

    scale: float
    slot: int
    bias: dict[str, float] = {}


class StepRequest(msgspec.Struct, frozen=True):
    """One model call. `deadline_s` bounds the whole of it, from connecting to the last byte.

    `session` is for what must be the same within one, such as placeholders for secrets. `stream` False: nobody waits
    for the pieces, so the answer may come as one. `picks_tool`: the answer is to say which tool to call, or that none
    fits, for which a model may have an adapter; `tuning` is what its provider makes of that. `traceparent` as in a
    TurnRequest. `plans_calls`: the text of the answer is calls to be made, not words for a reader.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    parallel_calls: bool | None = None
    tool_mode: ToolMode = "auto"
    repair: bool = True
    sampling: Sampling = Sampling()
    deadline_s: float = 600.0
    session: str = ""
    stream: bool = True
    picks_tool: bool = False
    tuning: Tuning | None = None
    traceparent: str = ""
    plans_calls: bool = False
