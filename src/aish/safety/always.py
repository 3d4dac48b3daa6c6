"""From a consent to a rule: "always" means the narrowest rule that would have let this through.

How many words tell one use of a program from another, and which programs get no rule because they can do anything
("always allow python" would allow everything), is data: always.toml.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources

import msgspec

from aish.safety.rules import Rule, Words
from aish.types.decisions import Verdict
from aish.types.tools import ToolSpec


class _Table(msgspec.Struct, frozen=True):
    arity: dict[str, int]
    never: tuple[tuple[str, ...], ...]


def rule_for_tool(tool: ToolSpec) -> Rule:
    return Rule(Verdict.ALLOW, name=f"always {tool.name}", tools=(tool.name,))


def rule_for_command(words: Words) -> Rule | None:
    """None where no rule would be narrow enough to offer."""
    prefix = _prefix(words)
    if prefix is None:
        return None
    text = " ".join(prefix)
    return Rule(Verdict.ALLOW, name=f"always {text}", tools=("shell__run",), commands=(text,), match=(text,))


def _prefix(words: Words) -> tuple[str, ...] | None:
    known = tuple(word for word in words if word is not None)
    table = _table()
    if not known or len(known) < len(words) or "/" in known[0]:
        return None
    if any(known[: len(begin)] == begin for begin in table.never):
        return None
    arity = table.arity.get(" ".join(known[:2])) or table.arity.get(known[0]) or len(known)
    prefix = known[:arity]
    return prefix if len(prefix) == arity and _is_plain(prefix) else None


def _is_plain(prefix: tuple[str, ...]) -> bool:
    """An option before the subcommand (`git -C x status`) hides what is done; blanks and `*` would widen the rule."""
    return not any(word.startswith("-") for word in prefix[1:]) and not any(
        set(word) & set(" \t\n*") for word in prefix
    )


@cache
def _table() -> _Table:
    raw = tomllib.loads(resources.files("aish.safety").joinpath("always.toml").read_text("utf-8"))
    never = tuple(tuple(line.split()) for line in raw["never"]["begins"].split("\n") if line.strip())
    return _Table(raw["arity"], never)
