"""Judges calls of tools other than the shell: by rules, by effect, and by the files that the arguments name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

import msgspec

from aish.safety.policy.always_rules import is_current, make_tool_rule
from aish.safety.policy.judgement import JudgedCall, Judgement, Nature, find_strictest
from aish.safety.policy.rules import Rule, matches_path
from aish.safety.workspace_paths import BadPath, relative_path
from aish.types.decisions import Verdict
from aish.types.globs import plain_glob
from aish.types.tools import Arguments, Effect, ToolSpec

_PHRASES = {
    Effect.READ: "read",
    Effect.WRITE: "change things",
    Effect.EXEC: "run programs",
    Effect.NETWORK: "reach the network",
}
_CODE_SOURCE = "ide"  # its tools quote files in their errors, also those that write
_PATH_ARGUMENTS = frozenset({
    "path", "paths", "file", "files", "file_path", "filename", "uri", "directory", "source", "destination", "target",
})  # fmt: skip

_GLOB_ARGUMENTS = frozenset({"glob", "globs", "include"})

Paths = Sequence[str | None]  # None is an unknown path


class NamedFiles(msgspec.Struct, frozen=True):
    """What the arguments of a call name: files or folders, and patterns of files."""

    paths: Paths = ()
    globs: Sequence[str] = ()


_NOTHING = NamedFiles()


LIKE_EDITS = "all edits of files in the project"


def judge_tool(case: JudgedCall, named: NamedFiles = _NOTHING) -> Judgement:
    judged = _judge_by_rules(case, named)
    if case.tool.effect is Effect.READ:
        return msgspec.structs.replace(judged, nature=Nature.READ)
    if judged.verdict is not Verdict.ASK or not judged.is_default:
        return judged
    if case.tool.undoable:
        is_inside = _stays_inside(case, named)
        return msgspec.structs.replace(judged, nature=Nature.EDIT, like=LIKE_EDITS) if is_inside else judged
    is_outside = any(path is not None and path.startswith("/") for path in named.paths)
    if is_outside or _find_secret(case, named) or _find_delicate(case, named.paths):
        return judged
    return msgspec.structs.replace(judged, like=f"all calls of {case.tool.name}")


def _stays_inside(case: JudgedCall, named: NamedFiles) -> bool:
    """Whether an edit names only files of the workspace that are no secrets, keys or start-up files. The edits of a
    tool that touches further files are not known: where rules protect paths, they are asked about."""
    if any(path is None or path.startswith("/") for path in named.paths):
        return False
    if case.tool.beyond and any(rule.paths and rule.verdict is not Verdict.ALLOW for rule in case.rules):
        return False
    return not _find_secret(case, named) and not _find_delicate(case, named.paths)


def _judge_by_rules(case: JudgedCall, named: NamedFiles) -> Judgement:
    tool, paths = case.tool, named.paths
    about = [rule for rule in case.rules if not (rule.commands or rule.reads)]
    matching = [rule for rule in about if is_current(rule, tool) and _fits_paths(rule, tool, paths)]
    rule = find_strictest(matching)
    verdict = rule.verdict if rule else case.default
    is_named = any(rule.paths for rule in matching)
    if verdict is Verdict.ALLOW and not is_named and (secret := _find_secret(case, named)):
        return Judgement(Verdict.ASK, "secret", f"{tool.name} would read {secret}")
    if verdict is Verdict.ALLOW and not is_named and (path := _find_delicate(case, paths)):
        reason = f"{tool.name} would change {path}, which starts programs or holds keys"
        return Judgement(Verdict.ASK, "destructive", reason)
    if rule:
        return Judgement(verdict, rule.title, rule.why or f"{tool.name}: {rule.title}")
    reason = f"{tool.name} can {_PHRASES[tool.effect]}"
    if lapsed := [rule for rule in about if not is_current(rule, tool)]:
        reason = f"{reason}; {_lapse_text(tool, lapsed)}"
    return Judgement(verdict, f"gate.{tool.effect}", reason, always=make_tool_rule(tool), is_default=True)


def find_named_files(tool: ToolSpec, arguments: Arguments, root: PurePosixPath) -> NamedFiles:
    """Finds every text that names a file, or may: relative below the root, else absolute, or None if unknown."""
    texts = list(_find_texts(arguments))
    paths = [_below(text, root) for name, text in texts if _may_be_path(tool, name, text)]
    return NamedFiles(paths, [text for name, text in texts if name in _GLOB_ARGUMENTS])


def _find_secret(case: JudgedCall, named: NamedFiles) -> str:
    """Returns what a reading tool, or any tool for code, names and that holds a secret, by its place or name; "" if
    there is none. A link counts as what it leads to."""
    is_reading = case.tool.effect is Effect.READ or case.tool.source == _CODE_SOURCE
    known = [path for path in named.paths if path]
    if not is_reading or not (known or named.globs):
        return ""
    from aish.safety.commands.proof.exposure import is_secret
    from aish.safety.commands.shell_state import Scope

    scope = Scope(case.shell)
    folders = [str(case.root)] if not known else []
    for path in known:
        for place in case.places_of(str(case.root / path)):
            if is_secret(place, scope):
                is_link = place != str(case.root / path)
                return f"{path}, which leads to {place}, a secret" if is_link else f"{path}, which holds a secret"
            folders.append(place)
    wanted = ((glob, f"{folder}/{plain_glob(glob)}") for glob in named.globs for folder in folders)
    return next((f"{glob}, which means secrets" for glob, whole in wanted if is_secret(whole, scope, glob=True)), "")


def _find_delicate(case: JudgedCall, paths: Paths) -> str:
    """Returns a path of keys or start-up files, which need a rule that names them, as for commands. A
    link counts as what it leads to."""
    if case.tool.effect is Effect.READ or not paths:
        return ""
    from aish.safety.commands.path_kinds import PathKind, kind_of_path
    from aish.safety.commands.shell_state import Scope

    scope = Scope(case.shell)
    known = ((path, place) for path in paths if path is not None for place in case.places_of(str(case.root / path)))
    kinds = ((path, kind_of_path(place, scope)) for path, place in known)
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
