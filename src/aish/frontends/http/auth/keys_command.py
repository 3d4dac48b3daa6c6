"""`aish keys create|list|revoke`."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime

import msgspec

from aish.errors import UsageError
from aish.frontends.http.auth.keys import KeyRecord, create_key, list_keys, revoke_key
from aish.frontends.runtime import Runtime
from aish.frontends.signals import run_until_done
from aish.frontends.terminal import visible
from aish.ports import Store


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    if not runtime.config.store.enabled:
        raise UsageError("keys are kept in the store, which is off", hint="set store.enabled, or `aish serve --key`")
    return run_until_done(_run(arguments, runtime.store))


async def _run(arguments: argparse.Namespace, store: Store) -> int:
    try:
        match arguments.action:
            case "create":
                return await _create(arguments, store)
            case "revoke":
                return await _revoke(arguments.key, store)
            case _:
                return await _list(store, as_json=getattr(arguments, "json", False))
    finally:
        await store.aclose()


_OPEN = "no keys: the server is open to this machine, and to no other"


async def _create(arguments: argparse.Namespace, store: Store) -> int:
    if not arguments.name.strip():
        raise UsageError("a key needs a name", hint="one that tells whose it is: aish keys create laptop")
    if any(record.name == arguments.name for record in await list_keys(store)):
        raise UsageError(f"there is already a key named {arguments.name}", hint="choose another name, or revoke it")
    for name in ("per_minute", "tokens_per_day", "dollars_per_day"):
        if (value := getattr(arguments, name)) is not None and value <= 0:
            raise UsageError(f"--{name.replace('_', '-')} must be more than zero")
    default = () if arguments.metrics and not arguments.admin else ("*",)
    key, record = await create_key(
        store,
        arguments.name,
        models=tuple(arguments.models or default),
        tools=tuple(arguments.tools or default),
        admin=arguments.admin,
        metrics=arguments.metrics,
        per_minute=arguments.per_minute,
        tokens_per_day=arguments.tokens_per_day,
        dollars_per_day=arguments.dollars_per_day,
    )
    print(key)
    print(f"This is {record.id}. It is shown this once: keep it where it is safe.", file=sys.stderr)
    if len(await list_keys(store)) == 1:
        print("It is the first: running servers ask for a key within seconds.", file=sys.stderr)
    return 0


async def _list(store: Store, *, as_json: bool) -> int:
    records = await list_keys(store)
    for record in records:
        print(msgspec.json.encode(_public(record)).decode() if as_json else _line(record))
    if not records:
        print(_OPEN, file=sys.stderr)
    return 0


async def _revoke(key: str, store: Store) -> int:
    if not await revoke_key(store, key):
        raise UsageError(f"there is no key {key}", hint="`aish keys list` shows them")
    print("revoked; running servers notice within seconds", file=sys.stderr)
    if not await list_keys(store):
        print(_OPEN, file=sys.stderr)
    return 0


def _public(record: KeyRecord) -> dict[str, object]:
    shown: dict[str, object] = msgspec.to_builtins(record)
    shown.pop("digest")
    return shown


def _line(record: KeyRecord) -> str:
    made = datetime.fromtimestamp(record.created_ms / 1000, UTC).strftime("%Y-%m-%d")
    limits = {"a minute": record.per_minute, "tokens a day": record.tokens_per_day, "$ a day": record.dollars_per_day}
    scope = [f"models {','.join(record.models) or 'none'}", f"tools {','.join(record.tools) or 'none'}"]
    scope += [f"{value} {what}" for what, value in limits.items() if value is not None]
    powers = "".join(f"  {power}" for power in ("admin", "metrics") if getattr(record, power))
    return visible(f"{record.id}  {made}  {record.name}{powers}  {'; '.join(scope)}")
