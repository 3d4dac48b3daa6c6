"""How much of a prompt a backend has to read again, by the bytes of the requests.

Of the tools and messages that an earlier request held, those count that are not in the longest beginning that this
request shares with any earlier one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]


def share_of_bytes(bodies: Iterable[Json]) -> float:
    """Percent of the bytes sent before that a backend has to read again."""
    prompts: list[str] = []
    seen: set[str] = set()
    again = before = 0
    for body in bodies:
        pieces = _pieces(body)
        prompt = "".join(pieces)
        known = sum(len(piece) for piece in pieces if piece in seen)
        common = max((_common_chars(prompt, other) for other in prompts), default=0)
        before += known
        again += max(0, known - common)
        prompts.append(prompt)
        seen.update(pieces)
    return 100 * again / max(1, before)


def _common_chars(one: str, other: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _pieces(body: Json) -> list[str]:
    """The parts of a prompt in the order in which backends read them."""
    messages = body.get("messages") or body.get("input") or []
    return [json.dumps(body.get("tools") or []), str(body.get("instructions", "")), *map(json.dumps, messages)]
