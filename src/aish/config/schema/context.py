"""Settings for the prompt, cost, memory and routing."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from aish.config.schema.section import Count, NotNegative, Section


class ContextConfig(Section, frozen=True, forbid_unknown_fields=True):
    """How much of a conversation is sent. Turns that do not fit are left out whole, oldest first."""

    max_turns: Annotated[Count | None, Meta(description="At most so many earlier turns; unset: as many as fit.")] = None
    token_budget: Annotated[
        Count | None, Meta(description="Tokens for a whole request; unset: the model's window less `answer_room`.")
    ] = None
    answer_room: Annotated[
        Count | None,
        Meta(description="Tokens kept free for the answer; unset: a quarter of the window, at most 4096."),
    ] = None
    oversized: Annotated[
        Literal["cut", "refuse"],
        Meta(description="What happens to a message that is larger than the whole budget."),
    ] = "cut"
    summarize_on_evict: Annotated[
        bool, Meta(description="Whether turns that no longer fit go into a rolling summary, made by a model.")
    ] = False
    summary_model: Annotated[str, Meta(description="The model that summarises; unset: the one that answers.")] = ""
    summary_tokens: Annotated[Count, Meta(description="The longest summary, in tokens.")] = 400
    project_tree: Annotated[
        bool, Meta(description="Whether the shell tells the model which files there are in the project.")
    ] = False


class CostConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Limits on money. A cap is checked before each call, with the most that call may cost."""

    cap_per_session: Annotated[NotNegative | None, Meta(description="Dollars one session may cost.")] = None
    cap_per_day: Annotated[
        NotNegative | None, Meta(description="Dollars a day, over all sessions and processes on this store.")
    ] = None
    warn_at_dollars: Annotated[NotNegative | None, Meta(description="Warn once a session has cost this much.")] = None
    warn_at_tokens: Annotated[Count | None, Meta(description="Warn once a session has used this many tokens.")] = None


class PriceConfig(Section, frozen=True, forbid_unknown_fields=True):
    """What a model costs, by `provider:model` or its bare name; `*` matches anything. Overrides the built-in prices."""

    prompt: Annotated[NotNegative, Meta(description="Dollars for a million tokens sent.")] = 0.0
    completion: Annotated[NotNegative, Meta(description="Dollars for a million tokens received.")] = 0.0
    cached: Annotated[
        NotNegative | None, Meta(description="Dollars for a million tokens read from the backend's cache.")
    ] = None


class MemoryConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Facts that are remembered across sessions."""

    inject: Annotated[bool, Meta(description="Whether facts are sent with questions in the shell.")] = True
    max_tokens: Annotated[
        Count, Meta(description="The most tokens of facts that are sent, the most relevant first.")
    ] = 400


class RoutingConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Which model answers a question."""

    auto: Annotated[
        bool, Meta(description="Whether a question that names no model goes to the preset for its kind.")
    ] = False
    fallback: Annotated[
        str, Meta(description="The model or preset that is asked once when the chosen one cannot be reached.")
    ] = ""
    debug: Annotated[str, Meta(description="For questions with an error or a traceback.")] = ""
    code: Annotated[str, Meta(description="For questions about code.")] = ""
    reasoning: Annotated[str, Meta(description="For questions that ask for reasons.")] = ""
    long: Annotated[str, Meta(description="For very long questions.")] = ""
    quick: Annotated[str, Meta(description="For short, plain questions.")] = ""

    def classes(self) -> dict[str, str]:
        kinds = ("debug", "code", "reasoning", "long", "quick")
        return {kind: preset for kind in kinds if (preset := getattr(self, kind))}
