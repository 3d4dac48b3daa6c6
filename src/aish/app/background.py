"""Finds background for a turn, within a token budget: remembered facts that fit the question, and the project's
files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from aish.config.schema.config import Config
from aish.engine.engine import Background
from aish.engine.prompt.token_counts import BYTES_PER_TOKEN, byte_length
from aish.frontends.file_tree import tree_lines
from aish.frontends.terminal import visible
from aish.ports import Store
from aish.types.facts import Fact
from aish.types.messages import UserMessage
from aish.types.requests import TurnRequest

_MAX_FACTS = 50
_TREE_ENTRIES = 200


async def find_background(request: TurnRequest, store: Store, config: Config, cwd: Path) -> Background:
    memory = await _find_facts(request, store, config.memory.max_tokens) if request.memory else ""
    project = ""
    if request.project:
        lines = await asyncio.to_thread(tree_lines, cwd, _TREE_ENTRIES)
        project = "\n".join(lines)
    return Background(memory, project)


async def _find_facts(request: TurnRequest, store: Store, max_tokens: int) -> str:
    """The facts that match the question best, then the newest ones."""
    question = " ".join(message.text for message in request.input if isinstance(message, UserMessage))
    matching = await store.search_facts(question, limit=_MAX_FACTS)
    newest = await store.list_facts(limit=_MAX_FACTS)
    return "\n".join(_take_lines(dict.fromkeys((*matching, *newest)), max_tokens * BYTES_PER_TOKEN))


def _take_lines(facts: Iterable[Fact], max_bytes: int) -> list[str]:
    lines: list[str] = []
    for fact in facts:
        line = f"- {' '.join(visible(fact.text).split())}"
        max_bytes -= byte_length(line) + 1
        if max_bytes < 0:
            break
        lines.append(line)
    return lines
