"""Settings for what the model sees, what it costs, what is remembered, and which model is asked. Part of the schema."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from aish.config.schema.section import Count, NotNegative, Section


class ContextConfig(Section, frozen=True, forbid_unknown_fields=True):
    """How much of a conversation goes along. Turns that do not fit are left out whole, oldest first."""

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
        Meta(description="What becomes of one message that is larger than all the room there is."),
    ] = "cut"
    summarize_on_evict: Annotated[
        bool, Meta(description="Whether turns that no longer fit go into a rolling summary, made by a model.")
    ] = False
    summary_model: Annotated[str, Meta(description="The model that summarises; unset: the one that answers.")] = ""
    summary_tokens: Annotated[Count, Meta(description="How long that summary may get.")] = 400
    project_tree: Annotated[
        bool, Meta(description="Whether the shell tells the model which files there are in the project.")
    ] = False


class CostConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Limits on money. A cap is checked before each call, with the most that call may cost."""

    cap_per_session: Annotated[NotNegative | None, Meta(description="Dollars one session may cost.")] = None
    cap_per_day: Annotated[
        NotNegative | None, Meta(description="Dollars a day, over all sessions and processes on this store.")
    ] = None
    warn_at_dollars: Annotated[NotNegative | None, Meta(description="Say so once a session has cost this much.")] = None
    warn_at_tokens: Annotated[Count | None, Meta(description="Say so once a session has used this many tokens.")] = None


class PriceConfig(Section, frozen=True, forbid_unknown_fields=True):
    """What a model costs, by `provider:model` or its bare name; `*` is anything. Comes before what is built in."""

    prompt: Annotated[NotNegative, Meta(description="Dollars for a million tokens sent.")] = 0.0
    completion: Annotated[NotNegative, Meta(description="Dollars for a million tokens received.")] = 0.0
    cached: Annotated[
        NotNegative | None, Meta(description="Dollars for a million tokens read from the backend's cache.")
    ] = None


class MemoryConfig(Section, frozen=True, forbid_unknown_fields=True):
    """What outlives a session."""

    inject: Annotated[bool, Meta(description="Whether it goes along with questions in the shell.")] = True
    max_tokens: Annotated[Count, Meta(description="At most so much of it, the most relevant first.")] = 400


class RoutingConfig(Section, frozen=True, forbid_unknown_fields=True):
    """Which model is asked."""

    auto: Annotated[
        bool, Meta(description="Whether a question for no model in particular goes to the preset for its kind.")
    ] = False
    fallback: Annotated[
        str, Meta(description="The model or preset to ask once instead when one cannot be reached.")
    ] = ""
    debug: Annotated[str, Meta(description="For questions with an error or a traceback.")] = ""
    code: Annotated[str, Meta(description="For questions about code.")] = ""
    reasoning: Annotated[str, Meta(description="For questions that ask for reasons.")] = ""
    long: Annotated[str, Meta(description="For very long questions.")] = ""
    quick: Annotated[str, Meta(description="For short, plain questions.")] = ""

    def classes(self) -> dict[str, str]:
        kinds = ("debug", "code", "reasoning", "long", "quick")
        return {kind: preset for kind in kinds if (preset := getattr(self, kind))}
