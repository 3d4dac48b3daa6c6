"""The canonical requests: of a frontend to the engine (a turn), of the engine to a provider (a step); embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from aish.types.decisions import Answer, Mode
from aish.types.messages import Message
from aish.types.runs import Planning
from aish.types.tools import ToolSpec
from aish.types.usage import Category, KeyBudget, Usage


class TurnLimits(msgspec.Struct, frozen=True):
    """What one turn may spend. Zero or less means none at all; None means no limit."""

    max_steps: int = 8
    max_tool_calls: int = 32
    wall_s: float = 600.0
    max_tokens: int | None = None
    max_cost: float | None = None
    # A result longer than this is cut with a visible mark; about 8 000 tokens, a quarter of a common 32 K window.
    result_max_chars: int = 32_000
    # Same call, same arguments, this many times in a turn: ask, or stop.
    repeat_limit: int = 3


ToolMode = Literal["auto", "native", "constrained", "prompted"]
_Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]  # the range of the C type that backends use


class Knobs(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sampling options of local backends beyond OpenAI's, in llama.cpp's names; each backend knows some of them.
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
    """Sampling options. None leaves the backend's own default."""

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
    logprobs: int | None = None  # report the probability of each token, and of so many alternatives
    knobs: Knobs | None = None  # nearly always None, which costs nothing


class ToolChoice(msgspec.Struct, frozen=True):
    """Whether the model must call a tool. `named` is the one tool that it has to call, if any. `among` are globs of
    those it may call, () meaning any."""

    mode: Literal["auto", "none", "required"] = "auto"
    named: str = ""
    among: tuple[str, ...] = ()


class EarlierAttempts(msgspec.Struct, frozen=True):
    """The calls and results of attempts that broke off. `had_effect`: some of them did more than read. `unknown` are
    the tools that may or may not have had their effect. `turns` are the attempts that are over."""

    messages: tuple[Message, ...]
    had_effect: bool = False
    unknown: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()


class TurnRequest(msgspec.Struct, frozen=True):
    """One user request. `input` is its new part.

    Conversation: an empty `session` makes a new session; a named one must exist, unless it `may_be_new`. `context` is
    the conversation so far if the client keeps it; None takes the session's own. `fit`: turns of a client's
    conversation may be dropped to fit the window. `kept` False: the turn belongs to no session.

    Tools: `tools` are globs of ours, () offers none. `dynamic_mcp` names the MCP servers that this request has brought.
    `client_tools` are the client's own: a call of one ends the turn and is left to the client. `tool_mode` None leaves
    the model's own. `repair` False takes calls as they are written. `ask_about` are globs of tools that are asked about
    even if the gate allows them. `answers` are decisions on calls that an earlier turn left open, by call id.

    Retries: `retry_key` is the same when the same request is sent again; a turn that broke off after tools had run is
    then resumed, and they do not run again. `resumed` is what it had done.

    More: `charged_to` is the session that pays, if not its own, and `payer` the key that pays, if any. `memory` and
    `project`: facts and project files go along. `environment`: the model is told of the machine and the project.
    `may_fall_back`: another model may answer if this one cannot be reached. `planner`: plan first, then work; `run` is
    the run of a plan to resume. `stream` False: events may come late, since the client wants the whole answer.
    `live_output`: what running tools print is shown. `traceparent` is the caller's W3C trace context, "" if there is
    none. `owner` is the key of a tenant, "" for the local user and for administrators. `models` are globs of the models
    that it may name. `mode` None: that of the configuration. `agent` is the agent as which the model answers, `parent`
    the turn, or the session of the user, that has started it.
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
    resumed: EarlierAttempts | None = None
    category: Category = Category.MAIN
    charged_to: str = ""
    payer: KeyBudget | None = None
    memory: bool = False
    project: bool = False
    environment: bool = False
    may_fall_back: bool = True
    planner: Planning | None = None
    run: str = ""
    sampling: Sampling = Sampling()
    limits: TurnLimits = TurnLimits()
    stream: bool = True
    live_output: bool = False
    traceparent: str = ""
    owner: str = ""
    models: tuple[str, ...] = ("*",)
    mode: Mode | None = None
    agent: str = ""
    parent: str = ""

    @property
    def is_autonomous(self) -> bool:
        """Whether this is a step towards a goal. Its model is told the goal, and no summary of earlier turns."""
        return self.category is Category.NORRIS


class Tuning(msgspec.Struct, frozen=True):
    """The slot of llama.cpp to use, the scale of its adapter there (None: it has none), and a bias of tokens."""

    scale: float | None
    slot: int
    bias: dict[str, float] = {}


class StepRequest(msgspec.Struct, frozen=True):
    """One model call. `deadline_s` bounds all of it, from connecting to the last byte.

    `session` is for what must stay the same within one, such as placeholders for secrets. `stream` False: the answer
    may come as one. `picks_tool`: the answer only names the tool to call, or says that none fits, for which a model may
    have an adapter; `tuning` is what its provider makes of that. `traceparent` as in a TurnRequest. `plans_calls`: the
    answer is a list of calls, not text for a reader. `is_side_call`: it is no part of a conversation, and must not take
    the place of one in the backend's cache.
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
    is_side_call: bool = False

    @property
    def conversation(self) -> str:
        """The session; "" for a turn of no session, which has its own id in place of one."""
        return "" if self.session.startswith("turn_") else self.session


Ids = Sequence[int]  # token ids of the model's own tokenizer
Inputs = Sequence[str] | Sequence[Ids]


def texts_of(inputs: Inputs) -> Sequence[str] | None:
    """The inputs as texts, or None if they are token ids."""
    texts = [given for given in inputs if isinstance(given, str)]
    return texts if len(texts) == len(inputs) else None


class EmbeddingResult(msgspec.Struct, frozen=True):
    """A vector for each input, in order. `usage` None: the backend did not report it."""

    vectors: Sequence[Sequence[float]]
    usage: Usage | None = None
