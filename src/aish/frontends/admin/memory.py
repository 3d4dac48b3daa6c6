"""`aish memory list|add|forget|import|export`: facts that outlive a session."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from aish.errors import UsageError
from aish.frontends.memory_service import MAX_FACTS, MemoryService, short_id
from aish.frontends.runtime import Runtime
from aish.frontends.signals import run_until_done
from aish.frontends.terminal import visible
from aish.ports import Store
from aish.types.facts import FactKind

_MAX_BYTES = 64 * 1024 * 1024


def run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    return run_until_done(_run(arguments, runtime))


async def _run(arguments: argparse.Namespace, runtime: Runtime) -> int:
    store = runtime.store
    memory = MemoryService(store, time.time_ns() // 1_000_000, runtime.redacted)
    try:
        match arguments.action:
            case "add":
                fact = await memory.add(" ".join(arguments.text), FactKind(arguments.kind))
                print(f"[{short_id(fact)}] {visible(fact.text)}")
            case "forget":
                print(f"forgotten: {visible((await memory.forget(arguments.id)).text)}")
            case "import":
                print(f"{await memory.load(_read_lines(arguments.file))} imported")
            case "export":
                for line in await memory.dump():
                    sys.stdout.write(line.decode())
            case _:
                await _list(store, " ".join(arguments.words_))
    finally:
        await store.aclose()
    return 0


async def _list(store: Store, words: str) -> None:
    found = await (store.search_facts(words, limit=100) if words else store.list_facts(limit=MAX_FACTS))
    for fact in found:
        tags = "".join(f" #{tag}" for tag in fact.tags)
        print(f"[{short_id(fact)}] {fact.kind:<10} {visible(fact.text)}{tags}")
    if not found:
        print(
            "nothing is remembered" if not words else f"nothing remembered has a word of {words[:80]!r}",
            file=sys.stderr,
        )


def _read_lines(name: str) -> list[bytes]:
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as exc:
        raise UsageError(f"{name} cannot be read: {exc.strerror or exc}") from exc
    if len(data) > _MAX_BYTES:
        raise UsageError(f"{name} is larger than {_MAX_BYTES >> 20} MiB")
    return data.splitlines()
