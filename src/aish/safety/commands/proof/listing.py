"""Recognises pipelines that list names below the workspace, so that `xargs` may read those files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from aish.safety.commands.path_kinds import absolute_path
from aish.safety.commands.proof.exposure import is_plain_name
from aish.safety.commands.shell_state import NO_LISTING, Listing, Scope
from aish.safety.commands.syntax.expansion import Field, expand
from aish.safety.commands.syntax.model import Block, BlockKind, Node

_WILDCARD = re.compile(r"[*?\[]")
# Options of find before its starting points.
_LEADING = re.compile(r"-P|-O[0-3]")
EXACT = "exact"  # each name ends with NUL
LINES = "lines"
# Tests of find. The patterns of paths match slashes, so they say nothing about names.
NAME_TESTS = ("-name", "-iname")
PATH_TESTS = ("-path", "-ipath", "-wholename", "-iwholename")
# Options with which these still print whole names, one for each input: letters and long options.
_FILTERS = {
    "sort": ("urnzVf", ()),
    "uniq": ("z", ()),
    "head": ("z0123456789", ()),
    "tail": ("z0123456789", ()),
    "grep": ("viEFwz", ()),
    "shuf": ("z", ()),
}
_FINDERS = {
    "grep": ("lriEFwZIs", ("--null", "--files-with-matches")),
    "rg": ("liFw0", ("--files", "--null", "--files-with-matches")),
}
_VERBS = {
    "ls-files": ("zcmodi", ("--cached", "--modified", "--others", "--exclude-standard", "--deleted")),
    "diff": ("z", ("--name-only", "--cached", "--staged")),
    "grep": ("lziwFE", ("--name-only", "--files-with-matches", "--null")),
}


def find_listing(node: Node, scope: Scope) -> Listing:
    """Returns the names that the command lists; none if it prints anything else, or names from outside."""
    if isinstance(node, Block) or node.assignments or node.redirects:
        return NO_LISTING
    fields = [field for word in node.words for field in expand(word, scope)]
    if not fields or not all(field.exact or field.glob for field in fields):
        return NO_LISTING
    name, arguments = fields[0].text, fields[1:]
    if name in _FILTERS and scope.fed.separator:
        return scope.fed if _passes_names(name, arguments, scope) else NO_LISTING
    if name == "which":
        is_one = len(arguments) == 1 and not arguments[0].text.startswith("-")
        return Listing(LINES) if is_one else NO_LISTING
    if name == "find":
        return _read_find(arguments, scope)
    here = (Field(".", fields[0].span, "."),)
    if name == "git" and arguments and arguments[0].text in _VERBS:
        named = tuple(field for field in arguments[1:] if field.text[:1] != "-" and field.exact)
        is_plain = arguments[0].text == "ls-files" and not any(_WILDCARD.search(field.text) for field in named)
        return Listing(_check_git(arguments[0].text, arguments[1:]), named if named and is_plain else here)
    return Listing(_check_finder(name, arguments, scope), here) if name in _FINDERS else NO_LISTING


def _find_operands(arguments: Sequence[Field], letters: str, longs: Sequence[str]) -> list[Field] | None:
    """Returns the words that are not options; None if an option is not listed."""
    operands: list[Field] = []
    for field in arguments:
        text = field.text
        if text[:1] != "-" or text == "-":
            operands.append(field)
        elif text not in longs and (text[:2] == "--" or not set(text[1:]) <= set(letters)):
            return None
    return operands


def _has_option(arguments: Sequence[Field], letter: str, *longs: str) -> bool:
    texts = [field.text for field in arguments if field.text[:1] == "-"]
    return any(text in longs or (text[:2] != "--" and letter in text) for text in texts)


def lists_names(script: Block, scope: Scope) -> bool:
    """Whether `$(…)` yields names of files in the workspace, or of installed programs."""
    nodes: tuple[Node, ...] = script.body
    inner = scope.copy()
    inner.fed = NO_LISTING
    if len(nodes) == 1 and isinstance(nodes[0], Block) and nodes[0].kind is BlockKind.PIPELINE:
        nodes = nodes[0].body
    elif len(nodes) != 1:
        return False
    for node in nodes:
        inner.fed = find_listing(node, inner)
    return bool(inner.fed.separator)


def _passes_names(name: str, arguments: Sequence[Field], scope: Scope) -> bool:
    """A filter that splits lines, or reads a file of its own, does not list names."""
    operands = _find_operands(arguments, *_FILTERS[name])
    limit = 1 if name == "grep" else 0
    if operands is None or len(operands) > limit or not all(field.exact for field in operands):
        return False
    return _has_option(arguments, "z") or scope.fed.separator == LINES


def _read_find(arguments: list[Field], scope: Scope) -> Listing:
    texts = [field.text for field in arguments]
    prints = next((at for at, text in enumerate(texts) if text in ("-print", "-print0")), len(texts))
    if any(text in ("-printf", "-exec", "-execdir", "-ls", "-follow", "-L", "-H") for text in texts):
        return NO_LISTING
    starts: list[Field] = []
    before = next((at for at, text in enumerate(texts) if not _LEADING.fullmatch(text)), 0)
    for field in arguments[before:]:
        if field.text[:1] in ("-", "(", "!"):
            break
        starts.append(field)
    if not _stay_inside(starts, scope) or ("-print0" in texts and "-print" in texts):
        return NO_LISTING
    tests = [(test.text, value.text.rpartition("/")[2]) for test, value in pairwise(arguments[:prints])]
    names = tuple(name for test, name in tests if test in NAME_TESTS)
    asked_for = tuple(name for test, name in tests if test in NAME_TESTS or test in PATH_TESTS)
    is_alternative = any(text in ("-o", "-or", "!", "-not", ",") for text in texts)
    start = tuple(starts) or (Field(".", (0, 1), "."),)
    return Listing(EXACT if "-print0" in texts else LINES, start, () if is_alternative else names, asked_for)


def _check_git(verb: str, arguments: Sequence[Field]) -> str:
    """Magic in a path (`:/`) may lead above the workspace, as `..` does."""
    operands = _find_operands(arguments, *_VERBS[verb])
    lists = verb == "ls-files" or _has_option(arguments, "l", "--name-only", "--files-with-matches")
    if operands is None or not lists or any(field.text[:1] == ":" or ".." in field.text for field in operands):
        return ""
    return EXACT if _has_option(arguments, "z", "--null") else LINES


def _check_finder(name: str, arguments: Sequence[Field], scope: Scope) -> str:
    operands = _find_operands(arguments, *_FINDERS[name])
    if operands is None:
        return ""
    is_plain = name == "rg" and _has_option(arguments, "\0", "--files")
    if not is_plain and not _has_option(arguments, "l", "--files-with-matches"):
        return ""
    if not _stay_inside(operands if is_plain else operands[1:], scope):
        return ""
    return EXACT if _has_option(arguments, "0" if name == "rg" else "Z", "--null") else LINES


def _stay_inside(fields: list[Field], scope: Scope) -> bool:
    for field in fields:
        if field.text.startswith("-"):
            continue
        path = absolute_path(field.text, scope)
        if path is None or not is_plain_name(path, scope, glob=field.glob):
            return False
    return True
