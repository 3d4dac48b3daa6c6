"""How alike tools and requests are, by the stems of their words: enough to say that one tool cannot serve another's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aish.types.tools import ToolSpec

_COMMON = {
    word[:5]
    for word in (
        "with", "from", "that", "this", "what", "information", "about", "details", "specific", "given", "based",
        "number", "find", "retrieve", "calculate", "name", "much", "many", "have", "which", "list", "date", "type",
        "your",
    )
}  # fmt: skip


def stems(text: str) -> set[str]:
    """Of words with a meaning of their own."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", text)
    return {word[:5] for word in re.findall(r"[a-z]{4,}", spaced.lower())} - _COMMON


def words_of(spec: ToolSpec) -> set[str]:
    """Of its name, its description and its choices: any of them may make it fit."""
    choices = [str(inner.get("enum", "")) for inner in spec.schema["properties"].values()]
    return stems(f"{spec.name} {spec.description} {' '.join(choices)}")


def distinct(tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Of those with the same name the first."""
    return tuple({spec.name: spec for spec in reversed(tools)}.values())[::-1]
