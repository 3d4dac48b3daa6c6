"""Prices model calls, books them, and checks them against the caps.

The price of a call is what the provider says, else what the table says, else unknown; it is never guessed. Where a cap
holds, the most that a call may cost is reserved in the store before the call, so that several processes share one cap.
The real cost replaces the reservation. A call that never returns keeps its reservation until its deadline has passed.
What a key may spend in a day is reserved likewise (`key_spending`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cached_property

import msgspec

from aish.engine.model.key_spending import KeyReservation, KeySpending
from aish.errors import AishError, BudgetExceeded
from aish.ports import Clock, Store
from aish.types.ids import new_id
from aish.types.usage import Category, KeyBudget, Price, Reservation, Usage, UsageRecord

# The reservation of a process that died expires so long after the deadline of its call.
_GRACE_MS = 10_000
_LEAST_ANSWER = 128  # tokens; a shorter answer is not worth what its question costs
_DATE = re.compile(r"-20\d\d-?\d\d-?\d\d$")
_WILD = frozenset("*?[")
_BEFORE = "(before)"  # in place of a model: spent in a store that cannot be written any more
_FREE = Price(0.0, 0.0)
# Sessions and models for which a warning was given; beyond this, a warning may be repeated.
_MAX_WARNED = 10_000


class Caps(msgspec.Struct, frozen=True):
    """Limits in dollars; None means no limit. Each warning is given once in a session. `is_shared`: the store knows
    what other processes have spent, and what was spent before this one began."""

    session: float | None = None
    day: float | None = None
    warn_dollars: float | None = None
    warn_tokens: int | None = None
    is_shared: bool = True

    @property
    def any(self) -> bool:
        return self.session is not None or self.day is not None


class Prices:
    """Finds prices by `provider:model` or by the model's name alone. The longest pattern that matches wins.

    `table` may be a function that reads the table when a price is first needed. For models that are `free`, such as
    local ones, only prices the user has set (`own`) count: a price in the table is that of another provider's model.
    """

    def __init__(
        self,
        table: Mapping[str, Price] | Callable[[], Mapping[str, Price]],
        free: Callable[[str], bool] = lambda provider: False,
        own: Mapping[str, Price] | None = None,
    ) -> None:
        self._given = table
        self._free = free
        self._own = _longest_first(own or {})
        self._found: dict[str, Price | None] = {}

    @cached_property
    def _table(self) -> dict[str, Price]:
        return _longest_first(self._given() if callable(self._given) else self._given)

    def find(self, name: str) -> Price | None:
        if name not in self._found:
            if len(self._found) >= _MAX_WARNED:
                self._found.clear()
            self._found[name] = self._look_up(name)
        return self._found[name]

    def _look_up(self, name: str) -> Price | None:
        provider, _, model = name.partition(":")
        undated = _DATE.sub("", model)
        names = (name, model, f"{provider}:{undated}", undated, undated.rpartition("/")[2])
        is_free = self._free(provider)
        for pattern, price in (self._own if is_free else self._table).items():
            if pattern in names or (_WILD & set(pattern) and any(fnmatchcase(name, pattern) for name in names)):
                return price
        return Price(0.0, 0.0) if is_free else None


def _longest_first(table: Mapping[str, Price]) -> dict[str, Price]:
    return dict(sorted(table.items(), key=lambda entry: -len(entry[0])))


class AdmittedCall(msgspec.Struct, frozen=True):
    """A call that may be made. `estimate` are the tokens of its prompt, 0 if they were not counted."""

    id: str
    session: str
    model: str
    category: Category
    estimate: int
    payer: KeyBudget | None = None
    answer_tokens: int = 0  # the longest answer that is paid for, if anything is reserved
    is_reserved: bool = False  # of the caps
    of_key: KeyReservation | None = None


class _Today(msgspec.Struct):
    """What is known of today's spending without the store: the sum when it was read last, and what this process has
    spent since."""

    start_ms: int = 0
    read: float = 0.0
    own: float = 0.0


class Ledger:
    def __init__(self, store: Store, clock: Clock, prices: Prices, caps: Caps) -> None:
        self._store = store
        self._now_ms = clock.now_ms
        self.prices = prices
        self.caps = caps
        self.has_cap = caps.any
        self.has_warning = caps.warn_dollars is not None or caps.warn_tokens is not None
        self.keys = KeySpending(store, clock)
        self._warned: set[tuple[str, str]] = set()
        self._today = _Today()

    async def spent_today(self) -> float:
        """What the store says; if it cannot be read, what is known of it without it."""
        start_ms = day_start_ms(self._now_ms())
        try:
            total = await self._store.sum_spending(since_ms=start_ms)
        except AishError:
            today = self._today
            return today.read + today.own if today.start_ms == start_ms else 0.0
        self._today = _Today(start_ms, total.cost)
        return total.cost

    def carry_over(self, cost: float) -> None:
        """Counts for today what was spent in another store."""
        usage = Usage(cost=cost)
        self._store.record_usage(UsageRecord(new_id("use"), self._now_ms(), "", _BEFORE, Category.MAIN, usage, 0))

    async def admit(self, call: AdmittedCall, *, answer_tokens: int, deadline_s: float) -> AdmittedCall:
        """Reserves what the call may cost, and what it may take of its key's budget. Raises BudgetExceeded, with the
        numbers, if a cap leaves less than that, or the key next to nothing."""
        expires_ms = self._now_ms() + int(deadline_s * 1000) + _GRACE_MS
        call = msgspec.structs.replace(call, answer_tokens=answer_tokens)
        if call.payer is not None and call.payer.is_limited:
            call = await self._reserve_of_key(call, call.payer, expires_ms)
        try:
            return await self._reserve(call, expires_ms)
        except BaseException:
            self.drop(call)
            raise

    def is_limited(self, payer: KeyBudget | None) -> bool:
        """Whether a cap, or the budget of the key, holds the calls."""
        return self.has_cap or (payer is not None and payer.is_limited)

    async def _reserve_of_key(self, call: AdmittedCall, payer: KeyBudget, expires_ms: int) -> AdmittedCall:
        price = self.prices.find(call.model) or _FREE
        reserved, answer_tokens = await self.keys.reserve(payer, call.estimate, call.answer_tokens, price, expires_ms)
        return msgspec.structs.replace(call, of_key=reserved, answer_tokens=answer_tokens)

    async def _reserve(self, call: AdmittedCall, expires_ms: int) -> AdmittedCall:
        answer_tokens = call.answer_tokens
        price = self.prices.find(call.model) if self.has_cap else None
        if price is None or not (price.prompt or price.completion):
            return call
        most = price.of(Usage(call.estimate, answer_tokens))
        now_ms = self._now_ms()
        wanted = Reservation(call.id, now_ms, expires_ms, call.session, call.model, call.category, most)
        day_ms = day_start_ms(now_ms)
        if self.caps.day is not None and self._today.start_ms != day_ms:
            await self.spent_today()  # in case the store cannot be read later
        spent = await self._store.reserve(
            wanted, day_start_ms=day_ms, day_cap=self.caps.day, session_cap=self.caps.session
        )
        if spent is not None:
            raise _budget_error(call.model, most, call.estimate, answer_tokens, spent, self.caps)
        return msgspec.structs.replace(call, is_reserved=True)

    def affordable(self, model: str, left: float, prompt_tokens: int, answer_tokens: int) -> int:
        """How many answer tokens the rest of a turn's budget pays for, at most the wanted number. Raises BudgetExceeded
        if that is next to nothing. If the price is unknown, the last call may pass the limit."""
        price = self.prices.find(model)
        if price is None or not (price.prompt or price.completion):
            return answer_tokens
        for_answer = left - price.of(Usage(prompt_tokens, 0))
        most = int(for_answer * 1_000_000 / price.completion) if price.completion else answer_tokens
        if for_answer < 0 or most < min(_LEAST_ANSWER, answer_tokens):
            raise BudgetExceeded(
                f"not asked: {dollars(max(left, 0.0))} are left of what this may cost, and {model} takes "
                f"{dollars(price.of(Usage(prompt_tokens, 0)))} to read {prompt_tokens} tokens before it answers",
                hint="ask for less, use a cheaper model, or allow more",
            )
        return min(most, answer_tokens)

    def book(self, call: AdmittedCall, usage: Usage) -> Usage:
        """Books what the call cost. Returns the usage with its price, if that is known."""
        if usage.cost is None and (price := self.prices.find(call.model)) is not None:
            usage = msgspec.structs.replace(usage, cost=price.of(usage))
        self._today.own += usage.cost or 0.0
        self._store.record_usage(
            UsageRecord(call.id, self._now_ms(), call.session, call.model, call.category, usage, call.estimate)
        )
        if call.payer is not None:
            self.keys.book(call.payer.key, usage, call.of_key)
        return usage

    def drop(self, call: AdmittedCall) -> None:
        """Releases the reservation of a call that was not made or cost nothing."""
        if call.is_reserved:
            self._store.release(call.id)
        if call.of_key is not None:
            self.keys.release(call.of_key)

    def is_capless(self, model: str) -> str:
        """Warns, once, about a model whose price is unknown, since no cap can hold it, and about a cap for a day that
        nothing is stored for."""
        if self.caps.day is not None and not self.caps.is_shared and self._first("day", ""):
            return "nothing is stored, so the cap for a day counts only what this aish spends"
        if self.prices.find(model) is not None or ("price", model) in self._warned:
            return ""
        self._warned.add(("price", model))
        return f"the price of {model} is unknown, so no cap can hold what it costs; set it under [prices]"

    async def warning(self, session: str) -> str:
        """Warns, once in a session, when its cost or its tokens pass a limit."""
        caps = self.caps
        if ("dollars", session) in self._warned and ("tokens", session) in self._warned:
            return ""
        spent = await self._store.sum_spending(session=session)
        if caps.warn_dollars is not None and spent.cost >= caps.warn_dollars and self._first("dollars", session):
            return f"this session has cost {dollars(spent.cost)} so far"
        if caps.warn_tokens is not None and spent.tokens >= caps.warn_tokens and self._first("tokens", session):
            return f"this session has used {spent.tokens} tokens so far"
        return ""

    def _first(self, kind: str, session: str) -> bool:
        if len(self._warned) >= _MAX_WARNED:
            self._warned.clear()
        is_first = (kind, session) not in self._warned
        self._warned.add((kind, session))
        return is_first


def day_start_ms(now_ms: int) -> int:
    """Midnight in local time."""
    return int(
        datetime.fromtimestamp(now_ms / 1000).replace(hour=0, minute=0, second=0, microsecond=0).timestamp() * 1000
    )


def dollars(cost: float) -> str:
    return f"${cost:.2f}" if cost >= 1 else f"${cost:.4f}"


def _budget_error(
    model: str, most: float, prompt: int, answer: int, spent: tuple[float, float], caps: Caps
) -> BudgetExceeded:
    day, session = spent
    over_day = caps.day is not None and day + most > caps.day
    limit, used, what = (caps.day, day, "today's") if over_day else (caps.session, session, "this session's")
    return BudgetExceeded(
        f"not asked: {model} could cost up to {dollars(most)} for this ({prompt} tokens in, up to {answer} out), and "
        f"{dollars(used)} of {what} {dollars(limit or 0.0)} is spent or set aside",
        hint="ask for less, use a cheaper model, or raise the cap under [cost]",
    )
