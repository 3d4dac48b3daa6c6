"""`aish cost`: what model calls cost over all sessions, by day, model and category."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from datetime import datetime

import msgspec

from aish.engine.model.ledger import day_start_ms
from aish.errors import UsageError
from aish.frontends.runtime import Runtime
from aish.frontends.signals import run_until_done
from aish.frontends.spending_table import (
    By,
    chart_lines,
    format_calls,
    format_cost,
    group_spending,
    table_lines,
    total_spending,
)
from aish.ports import Store
from aish.types.usage import Spent

_SPAN = re.compile(r"(\d{1,5})([dhw])")
_HOURS = {"h": 1, "d": 24, "w": 168}


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    by = _parse_fields(arguments.by)
    since_ms = _parse_since(arguments.since)
    return run_until_done(_run(runtime.store, arguments, by, since_ms))


async def _run(store: Store, arguments: argparse.Namespace, by: tuple[By, ...], since_ms: int) -> int:
    try:
        rows = await store.list_spent(since_ms=since_ms, session=arguments.session or None)
    finally:
        await store.aclose()
    groups = group_spending(rows, by)
    if arguments.json:
        for key, spent in groups.items():
            print(json.dumps({**dict(zip(by, key, strict=True)), **_json_fields(spent)}))
        return 0
    if not groups:
        print("no calls are recorded", file=sys.stderr)
        return 0
    for line in table_lines(groups, by):
        print(line)
    if bars := chart_lines(group_spending(rows, by[:1])):
        print("", *bars, sep="\n")
    whole = total_spending(rows)
    print(
        f"\n{format_calls(whole)}, {whole.prompt_tokens} tokens in, {whole.completion_tokens} out; {format_cost(whole)}"
    )
    return 0


def _json_fields(spent: Spent) -> dict[str, object]:
    """`cost` is null if the cost of no call is known; `unknown` counts the calls that it does not include."""
    fields = msgspec.structs.asdict(spent)
    if spent.calls and spent.unknown == spent.calls:
        fields["cost"] = None
    return fields


def _parse_fields(text: str) -> tuple[By, ...]:
    known: dict[str, By] = {"day": "day", "model": "model", "category": "category"}
    wanted = [field.strip() for field in text.split(",") if field.strip()]
    if not wanted or any(field not in known for field in wanted):
        raise UsageError(f"--by {text!r} is not known", hint="day, model and category, with commas between them")
    return tuple(dict.fromkeys(known[field] for field in wanted))


def _parse_since(text: str) -> int:
    if not text:
        return 0
    if span := _SPAN.fullmatch(text):
        return int((time.time() - int(span[1]) * _HOURS[span[2]] * 3600) * 1000)
    now_ms = time.time_ns() // 1_000_000
    try:
        return day_start_ms(now_ms) if text == "today" else int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):  # no date, or one out of range
        raise UsageError(f"--since {text!r} is no time", hint="for example 7d, 12h, today or 2026-11-01") from None
