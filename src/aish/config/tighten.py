"""Applies a project file that is not trusted: it may make settings stricter, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from aish.config.schema.config import Config
from aish.config.schema.tree import KeyPath
from aish.types.decisions import Verdict

_STRICTNESS = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}
_EFFECTS = ("read", "write", "exec", "network")

Rule = Callable[[Any, Any], Any]  # (the setting of the lower layers, the project's) -> the effective one


def tighten(base: Config, project: Mapping[str, Any]) -> tuple[dict[str, Any], list[KeyPath]]:
    """Returns the values of an untrusted file that override `base`, and the keys in it that are ignored."""
    effective: dict[str, Any] = {}
    ignored: list[KeyPath] = []
    for path, value in _flatten(project):
        rule = _find_rule(path)
        if rule is None:
            ignored.append(path)
            continue
        below = getattr(getattr(base, path[0]), path[1])
        result = rule(below, value)
        if result != below:
            effective.setdefault(path[0], {})[path[1]] = result
        elif rule is not _union and not _is_same(below, value):
            ignored.append(path)
    return effective, ignored


def _find_rule(path: KeyPath) -> Rule | None:
    if len(path) != 2:
        return None
    if path[0] == "limits" or path in (("cost", "cap_per_session"), ("cost", "cap_per_day")):
        return _lower_limit
    if path[0] == "gate" and path[1] in _EFFECTS:
        return _stricter_verdict
    return {("gate", "deny"): _union, ("tools", "offer"): _intersection}.get(path)


def _lower_limit(below: float | None, value: float) -> float:
    """None means no limit; a file cannot set it."""
    return value if below is None else min(below, value)


def _stricter_verdict(below: Verdict, value: str) -> Verdict:
    return max(below, Verdict(value), key=_STRICTNESS.__getitem__)


def _union(below: Sequence[str], value: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*below, *value)))


def _intersection(below: Sequence[str], value: Sequence[str]) -> tuple[str, ...]:
    """Returns the patterns that both lists cover."""
    ours = [glob for glob in value if any(covers(wide, glob) for wide in below)]
    theirs = [glob for glob in below if any(covers(wide, glob) for wide in value)]
    return tuple(dict.fromkeys((*ours, *theirs)))


def covers(wide: str, narrow: str) -> bool:
    """Whether `wide` certainly matches every name that `narrow` matches. Only `*` in `wide` is understood."""
    if wide == narrow:
        return True
    return not set(wide) & set("?[") and "[" not in narrow and fnmatchcase(narrow, wide)


def _is_same(below: Any, value: Any) -> bool:
    return tuple(value) == below if isinstance(value, list) else bool(value == below)


def _flatten(values: Mapping[str, Any], path: KeyPath = ()) -> list[tuple[KeyPath, Any]]:
    leaves: list[tuple[KeyPath, Any]] = []
    for name, value in values.items():
        here = (*path, name)
        if isinstance(value, Mapping) and (value or not path):
            leaves += _flatten(value, here)
        else:
            leaves.append((here, value))
    return leaves
