"""What the console draws: the last hour (`/v1/metrics.json`) and what was spent (`/v1/spending`)."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from aish.engine.model.ledger import day_start_ms
from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller, require_admin
from aish.frontends.http.server.http_errors import bad_field, read_number
from aish.frontends.http.server.routes import HttpRoute
from aish.frontends.http.server.service import Service
from aish.frontends.spending_table import By, group_spending, total_spending
from aish.types.usage import SpendingTotal

_DAY_MS = 86_400_000
_MAX_DAYS = 3660
_BY: dict[str, By] = {"day": "day", "model": "model", "category": "category"}


class ConsoleFigures:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[HttpRoute]:
        return [
            HttpRoute("GET", "/v1/metrics.json", self.metrics, "The last hour of this process, for charts"),
            HttpRoute("GET", "/v1/spending", self.spending, "What model calls cost, and the caps"),
        ]

    async def metrics(self, exchange: Exchange, caller: Caller) -> None:
        require_admin(caller)
        shown = {**self._service.metrics.series.to_object(), "under_way": self._service.active_requests}
        await exchange.reply(200, msgspec.json.encode(shown))

    async def spending(self, exchange: Exchange, caller: Caller) -> None:
        by = _by(exchange.query.get("by", "day"))
        days = read_number("days", exchange.query.get("days", "30"), most=_MAX_DAYS)
        shown = await self._all(by, days) if caller.admin else await self._of_key(caller)
        await exchange.reply(200, msgspec.json.encode({"by": by, "days": days, **shown}))

    async def _all(self, by: By, days: int) -> dict[str, Any]:
        store, caps = self._service.store, self._service.engine.ledger.caps
        today_ms = day_start_ms(self._service.now_ms())
        rows = await store.list_spent(since_ms=max(0, today_ms - (days - 1) * _DAY_MS))
        groups = group_spending(rows, (by,))
        return {
            "rows": [{by: key, **_spending_object(spent)} for (key,), spent in groups.items()],
            "total": _spending_object(total_spending(rows)),
            "today": _spending_object(await store.sum_spending(since_ms=today_ms)),
            "cap_day": caps.day,
            "cap_session": caps.session,
        }

    async def _of_key(self, caller: Caller) -> dict[str, Any]:
        """A key sees only its own day: the store has spending by session and model, not by key."""
        spent, cap = await self._service.keys.spending_today(caller)
        today = {"tokens": spent.tokens, "cost": spent.dollars}
        caps = self._service.engine.ledger.caps
        return {"rows": [], "today": today, "cap_day": cap, "cap_session": caps.session}


def _spending_object(spent: SpendingTotal) -> dict[str, Any]:
    """`cost` is null where no price is known; `unknown` is the number of calls that it leaves out."""
    cost = None if spent.calls and spent.unknown == spent.calls else spent.cost
    return {
        "calls": spent.calls,
        "tokens": spent.tokens,
        "tokens_in": spent.prompt_tokens,
        "tokens_out": spent.completion_tokens,
        "cost": cost if cost is None or math.isfinite(cost) else None,
        "unknown": spent.unknown,
    }


def _by(given: str) -> By:
    if given not in _BY:
        raise bad_field("by", "must be day, model or category")
    return _BY[given]
