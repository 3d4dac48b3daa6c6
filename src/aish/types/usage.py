"""Tokens and cost of one model call."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None  # dollars, as the provider reported them; None means unknown
    estimated: bool = False  # counted by us because the provider said nothing

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        if self is NOTHING_USED:
            return other
        costs = [usage.cost for usage in (self, other) if usage.cost is not None]
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost=sum(costs) if costs else None,
            estimated=self.estimated or other.estimated,
        )


NOTHING_USED = Usage()


class Category(StrEnum):
    """The purpose of a model call."""

    MAIN = "main"
    DELEGATE = "delegate"
    SUMMARIZE = "summarize"
    MEMORY = "memory"
    PROBE = "probe"
    NORRIS = "norris"
    PREPLAN = "preplan"
    PLANNER = "planner"
    EMBED = "embed"
    AGENT = "agent"


class Price(msgspec.Struct, frozen=True):
    """Dollars for a million tokens. `cached` None: tokens read from the backend's cache cost as much as others."""

    prompt: float
    completion: float
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        fresh = usage.prompt_tokens - cached
        cached_price = self.prompt if self.cached is None else self.cached
        return (fresh * self.prompt + cached * cached_price + usage.completion_tokens * self.completion) / 1_000_000


class KeyBudget(msgspec.Struct, frozen=True, omit_defaults=True):
    """The key that pays for model calls, and what it may spend in a day. None means no limit."""

    key: str
    tokens_per_day: int | None = None
    dollars_per_day: float | None = None

    @property
    def is_limited(self) -> bool:
        return self.tokens_per_day is not None or self.dollars_per_day is not None


class UsageRecord(msgspec.Struct, frozen=True):
    """One model call that was paid for. `estimate` is our own count of its prompt, 0 if there is none."""

    id: str
    at_ms: int
    session: str
    model: str
    category: Category
    usage: Usage
    estimate: int = 0


class SpendingTotal(msgspec.Struct, frozen=True):
    """The cost of several calls. Calls of models without a price are in `unknown`, not in `cost`."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unknown: int = 0
    estimates: int = 0  # our own counts of prompts, for the calls that have one
    estimated_of: int = 0  # the provider's counts of the same prompts

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class SpentRow(msgspec.Struct, frozen=True):
    """`day` is local, as YYYY-MM-DD."""

    day: str
    model: str
    category: Category
    spent: SpendingTotal


class Reservation(msgspec.Struct, frozen=True):
    """The most that a call about to be made may cost. It counts as spent until the call is booked or `expires_ms`
    passes."""

    id: str
    at_ms: int
    expires_ms: int
    session: str
    model: str
    category: Category
    cost: float
