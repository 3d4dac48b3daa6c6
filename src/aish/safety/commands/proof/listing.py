"""Pipelines that list names from below the workspace, so that `xargs` may read what they name."""

from __future__ import annotations

from aish.safety.commands.options import grammar, scan
from aish.safety.commands.places import resolve
from aish.safety.commands.proof.exposure import is_plain_name
from aish.safety.commands.scope import Scope
from aish.safety.commands.syntax.expansion import Field, expand
from aish.safety.commands.syntax.model import Block, Kind, Node

EXACT = "exact"  # each name ended by NUL
LINES = "lines"
_FILTERS = frozenset({"sort", "uniq", "head", "tail", "grep", "egrep", "fgrep", "shuf"})
_MATCHING = frozenset({"grep", "egrep", "fgrep", "rg", "ag"})
_LISTING_VERBS = frozenset({"ls-files", "ls-tree", "diff", "grep"})


def listing_of(node: Node, scope: Scope) -> str:
    """How the names come that the command prints; "" where it prints anything else, or names from elsewhere."""
    if isinstance(node, Block) or node.assignments or node.redirects:
        return ""
    fields = [field for word in node.words for field in expand(word, scope)]
    if not fields or not all(field.exact or field.glob for field in fields):
        return ""
    name, arguments = fields[0].text, fields[1:]
    if name in _FILTERS and scope.fed_names:
        return _filtered(arguments, scope)
    texts = {field.text for field in arguments}
    if name == "which":
        return LINES if len(arguments) == 1 and not arguments[0].text.startswith("-") else ""
    if name == "find":
        return _found(arguments, scope)
    if name == "git" and arguments and arguments[0].text in _LISTING_VERBS:
        return _of_git(arguments[0].text, texts)
    if name in _MATCHING and _lists_matches(name, arguments):
        return (EXACT if texts & {"-Z", "--null", "-0"} else LINES) if _stays(arguments[1:], scope) else ""
    return ""


def lists_names(script: Block, scope: Scope) -> bool:
    """Of `$(…)`: whether it gives names of files in the workspace, or of installed programs."""
    nodes: tuple[Node, ...] = script.body
    inner = scope.copy()
    inner.fed_names = ""
    if len(nodes) == 1 and isinstance(nodes[0], Block) and nodes[0].kind is Kind.PIPELINE:
        nodes = nodes[0].body
    elif len(nodes) != 1:
        return False
    for node in nodes:
        inner.fed_names = listing_of(node, inner)
    return bool(inner.fed_names)


def _filtered(arguments: list[Field], scope: Scope) -> str:
    """What takes lines apart, or makes others of them (`-o`, `-n`), lists no names."""
    flags = {flag.name for flag in scan(arguments, grammar("-n: -e: -A: -B: -C: -m:")).flags}
    if flags & {"-o", "--only-matching", "-A", "-B", "-C", "-H", "-k", "-c", "-r"} or not _takes_input(arguments):
        return ""
    ended = bool(flags & {"-z", "--null-data", "--zero-terminated"})
    return scope.fed_names if ended or scope.fed_names == LINES else ""


def _takes_input(arguments: list[Field]) -> bool:
    return sum(not field.text.startswith("-") for field in arguments) <= 1


def _found(arguments: list[Field], scope: Scope) -> str:
    texts = [field.text for field in arguments]
    if any(text in ("-printf", "-exec", "-execdir", "-ls", "-follow", "-L") for text in texts):
        return ""
    starts: list[Field] = []
    for field in arguments:
        if field.text[:1] in ("-", "(", "!"):
            break
        starts.append(field)
    if not _stays(starts, scope):
        return ""
    return EXACT if "-print0" in texts and "-print" not in texts else "" if "-print0" in texts else LINES


def _of_git(verb: str, texts: set[str]) -> str:
    if verb in ("diff", "grep") and not texts & {"--name-only", "-l", "--files-with-matches"}:
        return ""
    if texts & {"-s", "--stage", "--format", "-C", "--no-index"} or (verb == "ls-tree" and "--name-only" not in texts):
        return ""
    return EXACT if texts & {"-z", "--null"} else LINES


def _lists_matches(name: str, arguments: list[Field]) -> bool:
    flags = {flag.name for flag in scan(arguments, grammar("-e: -g: -t: -m: -A: -B: -C: --include= --glob=")).flags}
    return bool(flags & {"-l", "--files-with-matches", "-L", "--files-without-match"}) or (
        name == "rg" and "--files" in flags
    )


def _stays(fields: list[Field], scope: Scope) -> bool:
    for field in fields:
        if field.text.startswith("-"):
            continue
        path = resolve(field.text, scope)
        if path is None or not is_plain_name(path, scope, glob=field.glob):
            return False
    return True
