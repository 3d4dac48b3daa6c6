"""What each key spends in a day, over all processes that share the store.

Each process stores its own share, spent and reserved, in a document of its own, so no process overwrites another's. A
reservation is written before the shares of the others are read. So of two processes that reserve the rest of a budget
at the same time, at least one sees the other. The budget is never overdrawn, but both may be refused.
"""

from __future__ import annotations

import asyncio
import os

import msgspec

from aish.errors import BudgetExceeded
from aish.ports import Clock, Store
from aish.types.records import Document
from aish.types.usage import KeyBudget, Price, Usage

_LEAST_ANSWER = 16  # tokens; a key with less than that has used up its budget
_KIND = "spent"
_OTHERS_CACHE_MS = 5_000
_DAY_MS = 86_400_000
# Processes that answered for one key on one day, restarts included.
_MAX_SHARES = 10_000


class KeySpent(msgspec.Struct):
    """The share of one process. What is reserved counts until `reserved_until_ms`, in case the process dies."""

    tokens: int = 0
    dollars: float = 0.0
    reserved_tokens: int = 0
    reserved_dollars: float = 0.0
    reserved_until_ms: int = 0

    def without_expired(self, now_ms: int) -> KeySpent:
        return self if self.reserved_until_ms > now_ms else KeySpent(self.tokens, self.dollars)


class KeyReservation(msgspec.Struct, frozen=True):
    key: str
    day: int
    tokens: int
    dollars: float


class _Account(msgspec.Struct):
    """One key on one day. `others` is the sum of the other processes."""

    own: KeySpent
    others: KeySpent
    lock: asyncio.Lock
    until_ms: int = 0


_decode = msgspec.json.Decoder(KeySpent).decode


class KeySpending:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._now_ms = clock.now_ms
        self._process_id = os.urandom(8).hex()
        self._accounts: dict[tuple[str, int], _Account] = {}

    async def today(self, key: str) -> KeySpent:
        """What the key has spent, without what is reserved. The shares of other processes may be a few seconds old."""
        day = self._today()
        account = self._account(key, day)
        if account.until_ms <= self._now_ms():
            await self._read_others(key, day, account)
        own, others = account.own, account.others
        return KeySpent(own.tokens + others.tokens, own.dollars + others.dollars)

    async def reserve(
        self, payer: KeyBudget, prompt_tokens: int, answer_tokens: int, price: Price, expires_ms: int
    ) -> tuple[KeyReservation, int]:
        """Reserves a call. Returns how long its answer may be, too: a budget that is nearly used up pays for a shorter
        one. Raises BudgetExceeded if it pays for next to nothing."""
        day = self._today()
        account = self._account(payer.key, day)
        async with account.lock:
            wanted = _cost_of(payer.key, day, prompt_tokens, answer_tokens, price)
            account.own.reserved_until_ms = max(account.own.reserved_until_ms, expires_ms)
            _change(account, wanted, 1)
            try:
                await self._write(payer.key, day, account, wait=True)
                await self._read_others(payer.key, day, account)
            except BaseException:
                _change(account, wanted, -1)
                raise
            _change(account, wanted, -1)
            spent = self._spent_or_reserved(account)
            affordable = _affordable(payer, spent, prompt_tokens, answer_tokens, price)
            if affordable < min(_LEAST_ANSWER, answer_tokens):
                raise _budget_error(payer, spent, wanted)
            granted = _cost_of(payer.key, day, prompt_tokens, affordable, price)
            _change(account, granted, 1)
            return granted, affordable

    def release(self, reserved: KeyReservation) -> None:
        account = self._account(reserved.key, reserved.day)
        _change(account, reserved, -1)

    def book(self, key: str, usage: Usage, reserved: KeyReservation | None) -> None:
        """Counts what a call has cost, in place of its reservation. `save` makes it durable."""
        if reserved is not None:
            self.release(reserved)
        own = self._account(key, self._today()).own
        own.tokens += usage.total_tokens
        own.dollars += usage.cost or 0.0

    async def save(self, key: str) -> None:
        """Writes the share of this process. Waits until other processes can read it if the key has a budget: its next
        request may reach any of them, and must not find the reservation of this one."""
        day = self._today()
        if (account := self._accounts.get((key, day))) is not None:
            await self._write(key, day, account, wait=account.own.reserved_until_ms > 0)

    def _today(self) -> int:
        return self._now_ms() // _DAY_MS

    def _account(self, key: str, day: int) -> _Account:
        account = self._accounts.get((key, day))
        if account is None:
            # Calls that began before midnight are still booked.
            self._accounts = {id: value for id, value in self._accounts.items() if id[1] >= day - 1}
            account = self._accounts[(key, day)] = _Account(KeySpent(), KeySpent(), asyncio.Lock())
        return account

    def _spent_or_reserved(self, account: _Account) -> KeySpent:
        shares = (account.own.without_expired(self._now_ms()), account.others)
        return KeySpent(
            sum(share.tokens + share.reserved_tokens for share in shares),
            sum(share.dollars + share.reserved_dollars for share in shares),
        )

    async def _write(self, key: str, day: int, account: _Account, *, wait: bool) -> None:
        owner = f"{key}:{day}"
        id, body = f"{owner}:{self._process_id}", msgspec.json.encode(account.own)
        await self._store.put(Document(_KIND, id, body, owner, expires_ms=(day + 3) * _DAY_MS), wait=wait)

    async def _read_others(self, key: str, day: int, account: _Account) -> None:
        found = await self._store.list_documents(_KIND, owner=f"{key}:{day}", limit=_MAX_SHARES)
        now_ms = self._now_ms()
        decoded = [_decode(each.body) for each in found if not each.id.endswith(self._process_id)]
        shares = [share.without_expired(now_ms) for share in decoded]
        account.others = KeySpent(
            sum(share.tokens for share in shares),
            sum(share.dollars for share in shares),
            sum(share.reserved_tokens for share in shares),
            sum(share.reserved_dollars for share in shares),
        )
        account.until_ms = now_ms + _OTHERS_CACHE_MS


def _cost_of(key: str, day: int, prompt_tokens: int, answer_tokens: int, price: Price) -> KeyReservation:
    dollars = price.of(Usage(prompt_tokens, answer_tokens))
    return KeyReservation(key, day, prompt_tokens + answer_tokens, dollars)


def _change(account: _Account, reserved: KeyReservation, sign: int) -> None:
    own = account.own
    own.reserved_tokens += sign * reserved.tokens
    own.reserved_dollars += sign * reserved.dollars


def _affordable(payer: KeyBudget, spent: KeySpent, prompt_tokens: int, answer_tokens: int, price: Price) -> int:
    """How many answer tokens the rest of the budget pays for; less than 0 if it does not even pay for the prompt."""
    affordable = answer_tokens
    if payer.tokens_per_day is not None:
        affordable = min(affordable, payer.tokens_per_day - spent.tokens - prompt_tokens)
    if payer.dollars_per_day is not None:
        left = payer.dollars_per_day - spent.dollars - price.of(Usage(prompt_tokens, 0))
        if left < 0:
            return -1
        if price.completion:
            affordable = min(affordable, int(left * 1_000_000 / price.completion))
    return affordable


def _budget_error(payer: KeyBudget, spent: KeySpent, wanted: KeyReservation) -> BudgetExceeded:
    limits = [] if payer.tokens_per_day is None else [f"{spent.tokens} of {payer.tokens_per_day} tokens"]
    if payer.dollars_per_day is not None:
        limits.append(f"${spent.dollars:.4f} of ${payer.dollars_per_day:.4f}")
    return BudgetExceeded(
        f"not asked: the call could take {wanted.tokens} tokens (${wanted.dollars:.4f}), and "
        f"{' and '.join(limits)} of this key are spent or set aside for today",
        hint="ask for less, or wait until other requests of the key are done, or until tomorrow",
    )
