"""From a consent to a rule: "always" means the narrowest rule that would have let this through.

How many words tell one use of a program from another, and which programs get no rule because they can do anything
("always allow python" would allow everything), is data: always.toml.
"""

from __future__ import annotations

from functools import cache

import msgspec

from aish.safety.rules import Rule, Words
from aish.types.decisions import Verdict
from aish.types.tools import ToolSpec


class _Table(msgspec.Struct, frozen=True):
    arity: dict[str, int]
    never: tuple[tuple[str, ...], ...]


def rule_for_tool(tool: ToolSpec) -> Rule:
    return Rule(Verdict.ALLOW, name=f"always {tool.name}", tools=(tool.name,))


def rule_for_command(words: Words, *, whole: bool = False) -> Rule | None:
    """None where no rule would be narrow enough to offer. `whole`: for no more than these very words."""
    prefix = _prefix(words, whole=whole)
    if prefix is None:
        return None
    text = " ".join(prefix)
    return Rule(Verdict.ALLOW, name=f"always {text}", tools=("shell__run",), commands=(text,), match=(text,))


def edited(rule: Rule, text: str) -> Rule | None:
    """The rule as the person changed what it covers; None if it would cover nearly everything."""
    if not text or rule.name == f"always {text}":
        return rule
    if is_too_wide(text, command=bool(rule.commands)):
        return None
    if not rule.commands:
        return Rule(Verdict.ALLOW, name=f"always {text}", tools=(text,))
    return Rule(Verdict.ALLOW, name=f"always {text}", tools=rule.tools, commands=(text,))


def is_too_wide(text: str, *, command: bool) -> bool:
    """Whether a rule for it would cover nearly everything: it is not kept."""
    words = tuple(text.split())
    return any(_covers(words, begin) for begin in _table().never) if command else not text.strip("*?")


def _covers(words: tuple[str, ...], begin: tuple[str, ...]) -> bool:
    """Whether a rule of these words would let through something that begins so."""
    return all(word in (other, "*") for word, other in zip(words, begin, strict=False))


def _prefix(words: Words, *, whole: bool) -> tuple[str, ...] | None:
    known = tuple(word for word in words if word is not None)
    table = _table()
    if not known or len(known) < len(words) or "/" in known[0]:
        return None
    if any(known[: len(begin)] == begin for begin in table.never):
        return None
    arity = 0 if whole else table.arity.get(" ".join(known[:2])) or table.arity.get(known[0])
    arity = arity or len(known)
    prefix = known[:arity]
    return prefix if len(prefix) == arity and _is_plain(prefix) else None


def _is_plain(prefix: tuple[str, ...]) -> bool:
    """An option before the subcommand (`git -C x status`) hides what is done; blanks and `*` would widen the rule."""
    return not any(word.startswith("-") for word in prefix[1:]) and not any(
        set(word) & set(" \t\n*") for word in prefix
    )


@cache
def _table() -> _Table:
    import tomllib  # with the first question, not with the first prompt
    from importlib import resources

    raw = tomllib.loads(resources.files("aish.safety").joinpath("always.toml").read_text("utf-8"))
    never = tuple(tuple(line.split()) for line in raw["never"]["begins"].split("\n") if line.strip())
    return _Table(raw["arity"], never)
