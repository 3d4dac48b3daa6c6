"""What a project file may do before it is trusted: make things stricter, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from aish.config.schema.config import Config
from aish.config.schema.tree import KeyPath
from aish.types.decisions import Verdict

_STRICTNESS = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}
_EFFECTS = ("read", "write", "exec", "network")

Rule = Callable[[Any, Any], Any]  # (the setting below, the project's) -> what holds


def tighten(base: Config, project: Mapping[str, Any]) -> tuple[dict[str, Any], list[KeyPath]]:
    """The values of an untrusted file that hold over `base`, and the keys in it that are ignored."""
    kept: dict[str, Any] = {}
    ignored: list[KeyPath] = []
    for path, value in _flatten(project):
        rule = _rule(path)
        below = _get(base, path) if rule else None
        holds = rule(below, value) if rule else below
        if rule is None or (rule is not _with and holds == below and not _same(below, value)):
            ignored.append(path)
        elif holds != below:
            kept.setdefault(path[0], {})[path[1]] = holds
    return kept, ignored


def _rule(path: KeyPath) -> Rule | None:
    if len(path) != 2:
        return None
    if path[0] == "limits" or path in (("cost", "cap_per_session"), ("cost", "cap_per_day")):
        return _lower
    if path[0] == "gate" and path[1] in _EFFECTS:
        return _stricter
    return {("gate", "deny"): _with, ("tools", "offer"): _narrowed}.get(path)


def _lower(below: float | None, value: float) -> float:
    """None is no limit; a file cannot say it."""
    return value if below is None else min(below, value)


def _stricter(below: Verdict, value: str) -> Verdict:
    return max(below, Verdict(value), key=_STRICTNESS.__getitem__)


def _with(below: Sequence[str], value: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*below, *value)))


def _narrowed(below: Sequence[str], value: Sequence[str]) -> tuple[str, ...]:
    """What both offer."""
    ours = [glob for glob in value if any(covers(wide, glob) for wide in below)]
    theirs = [glob for glob in below if any(covers(wide, glob) for wide in value)]
    return tuple(dict.fromkeys((*ours, *theirs)))


def covers(wide: str, narrow: str) -> bool:
    """Whether every name that `narrow` matches is surely matched by `wide`.

    A `*` takes in whatever stands in its place, wildcards too; of other wildcards nothing is assumed.
    """
    if wide == narrow:
        return True
    return not set(wide) & set("?[") and "[" not in narrow and fnmatchcase(narrow, wide)


def _same(below: Any, value: Any) -> bool:
    return tuple(value) == below if isinstance(value, list) else bool(value == below)


def _get(config: Config, path: KeyPath) -> Any:
    return getattr(getattr(config, path[0]), path[1])


def _flatten(values: Mapping[str, Any], path: KeyPath = ()) -> list[tuple[KeyPath, Any]]:
    leaves: list[tuple[KeyPath, Any]] = []
    for name, value in values.items():
        here = (*path, name)
        if isinstance(value, Mapping) and (value or not path):
            leaves += _flatten(value, here)
        else:
            leaves.append((here, value))
    return leaves
