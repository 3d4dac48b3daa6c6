"""Judges calls of tools other than the shell: by rules, by effect, and by the files that the arguments name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from aish.safety.path_names import BadPath, relative_path
from aish.safety.policy.always_rules import is_current, make_tool_rule
from aish.safety.policy.judgement import JudgedCall, Judgement, find_strictest
from aish.safety.policy.rules import Rule, matches_path
from aish.types.decisions import Verdict
from aish.types.tools import Arguments, Effect, ToolSpec

_PHRASES = {
    Effect.READ: "read",
    Effect.WRITE: "change things",
    Effect.EXEC: "run programs",
    Effect.NETWORK: "reach the network",
}
_PATH_ARGUMENTS = frozenset({
    "path", "paths", "file", "files", "file_path", "filename", "uri", "directory", "source", "destination", "target",
})  # fmt: skip

Paths = Sequence[str | None]  # None is an unknown path


def judge_tool(case: JudgedCall, paths: Paths = ()) -> Judgement:
    tool = case.tool
    about = [rule for rule in case.rules if not (rule.commands or rule.reads)]
    matching = [rule for rule in about if is_current(rule, tool) and _fits_paths(rule, tool, paths)]
    rule = find_strictest(matching)
    verdict = rule.verdict if rule else case.default
    is_named = any(rule.paths for rule in matching)
    if verdict is Verdict.ALLOW and not is_named and (path := _find_secret(case, paths)):
        return Judgement(Verdict.ASK, "secret", f"{tool.name} would read {path}, which holds a secret")
    if verdict is Verdict.ALLOW and not is_named and (path := _find_delicate(case, paths)):
        reason = f"{tool.name} would change {path}, which starts programs or holds keys"
        return Judgement(Verdict.ASK, "destructive", reason)
    if rule:
        return Judgement(verdict, rule.title, rule.why or f"{tool.name}: {rule.title}")
    reason = f"{tool.name} can {_PHRASES[tool.effect]}"
    if lapsed := [rule for rule in about if not is_current(rule, tool)]:
        reason = f"{reason}; {_lapse_text(tool, lapsed)}"
    return Judgement(verdict, f"gate.{tool.effect}", reason, always=make_tool_rule(tool), like=tool.name)


def paths_in(tool: ToolSpec, arguments: Arguments, root: PurePosixPath) -> list[str | None]:
    """Returns every text that names a file, or may: relative below the root, else absolute, or None if unknown."""
    return [_below(text, root) for name, text in _find_texts(arguments) if _may_be_path(tool, name, text)]


def _find_secret(case: JudgedCall, paths: Paths) -> str:
    """Returns a path that a reading tool names and that holds a secret, by its place or name."""
    if case.tool.effect is not Effect.READ or not any(paths):
        return ""
    from aish.safety.commands.proof.exposure import is_secret
    from aish.safety.commands.scope import Scope

    scope = Scope(case.shell)
    known = (path for path in paths if path)
    return next((path for path in known if is_secret(str(case.root / path), scope)), "")


def _find_delicate(case: JudgedCall, paths: Paths) -> str:
    """Returns a path of keys or start-up files, which need a rule that names them, as for commands."""
    if case.tool.effect is Effect.READ or not paths:
        return ""
    from aish.safety.commands.path_kinds import PathKind, kind_of_path
    from aish.safety.commands.scope import Scope

    scope = Scope(case.shell)
    known = (path for path in paths if path is not None)
    kinds = ((path, kind_of_path(str(case.root / path), scope)) for path in known)
    return next((path for path, kind in kinds if kind in (PathKind.KEYS, PathKind.STARTUP)), "")


def _lapse_text(tool: ToolSpec, lapsed: Sequence[Rule]) -> str:
    if any(rule.digest for rule in lapsed):
        return f"{tool.name} has changed since you allowed it always"
    return f"{tool.name} was allowed always before aish kept what it was: answer once more"


def _fits_paths(rule: Rule, tool: ToolSpec, paths: Paths) -> bool:
    """An allowing rule must cover every path; other rules apply if one path matches."""
    if not rule.paths:
        return True
    if rule.verdict is Verdict.ALLOW:
        if tool.beyond:
            return False
        inside = [path for path in paths if path is not None and not path.startswith("/")]
        return bool(paths) and len(inside) == len(paths) and all(matches_path(rule, path) for path in inside)
    return any(path is None or matches_path(rule, path.lstrip("/")) for path in paths)


def _may_be_path(tool: ToolSpec, name: str, text: str) -> bool:
    if tool.paths:
        return name in tool.paths
    return name in _PATH_ARGUMENTS or "/" in text or text[:1] == "."


def _find_texts(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _find_texts(item, str(key))
    elif isinstance(value, Sequence):
        for item in value:
            yield from _find_texts(item, name)


def _below(text: str, root: PurePosixPath) -> str | None:
    try:
        return str(relative_path(text, root))
    except BadPath:
        return text if text.startswith("/") and ".." not in text.split("/") else None
