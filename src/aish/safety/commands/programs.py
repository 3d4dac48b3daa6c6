"""One command held against the tables of permitted programs and options."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

from aish.safety.commands import tables
from aish.safety.commands.filters import awk_is_pure, sed_is_pure
from aish.safety.commands.options import Scan, grammar, scan
from aish.safety.commands.scope import Scope
from aish.safety.commands.tables import Permit, Wrapper
from aish.safety.commands.words import DYNAMIC, Field

# Programs are trusted by bare name or from where the system keeps them, not from wherever a line says.
_TRUSTED = re.compile(r"(?:/usr)?(?:/local)?/s?bin/")
_XARGS = (
    "-0 -r -t -x -n: -P: -I: -L: -d: -s: --null --no-run-if-empty --max-args= --max-procs= --delimiter= --verbose "
    "--replace="
)
_TAR_LISTING = re.compile(r"-?[tvzjJf]*t[tvzjJf]*")
_MAX_WRAPPERS = 6


def find_doubt(fields: Sequence[Field], scope: Scope, depth: int = 0) -> str | None:
    """Why the command is not proved read-only, or None when it is."""
    name = _name(fields[0])
    if name is None:
        return f"{fields[0].shown} is not known to be read-only"
    arguments = fields[1:]
    wrapped = _wrapped(name, arguments)
    if wrapped is not None:
        return _wrapped_doubt(name, wrapped, scope, depth)
    if name in ("[", "test"):
        return "tests a name that may run a command" if any(field.text in ("-v", "-R") for field in arguments) else None
    table = tables.read_only()
    if name in table.harmless:
        return None
    permit = table.permits.get(name)
    if permit is None:
        return f"{name} is not known to be read-only"
    if permit.verbs:
        return _verb_doubt(name, arguments, scope, depth)
    return _permit_doubt(name, permit, arguments, scope, depth)


def _name(field: Field) -> str | None:
    """The program's bare name, or None when the path to it is not one we trust."""
    text = field.text
    if not field.exact or not text.isascii():
        return None
    if "/" not in text:
        return text
    match = _TRUSTED.match(text)
    return text[match.end() :] if match and "/" not in text[match.end() :] else None


def _wrapped(name: str, arguments: Sequence[Field]) -> Sequence[Field] | None:
    """The command inside a wrapper that changes nothing itself."""
    if name == "command" and arguments and arguments[0].text in ("-v", "-V"):
        return [Field("type", arguments[0].span, "type")]
    if name == "xargs":
        found = scan(arguments, grammar(_XARGS), stop=True)
        if found.strange or not found.positionals or not all(field.exact for field in arguments):
            return None
        fed = Field(DYNAMIC, arguments[-1].span, "…", split=True)
        return [*_unmarked(found), fed]
    for wrapper in tables.wrappers().find(name):
        inner = _inner(wrapper, arguments)
        if inner is not None:
            return inner
    return None


def _unmarked(found: Scan) -> list[Field]:
    mark = found.value("-I", "--replace")
    words = found.positionals
    if not mark:
        return list(words)
    return [Field(word.text.replace(mark, DYNAMIC), word.span, word.raw) for word in words]


def _inner(wrapper: Wrapper, arguments: Sequence[Field]) -> Sequence[Field] | None:
    if wrapper.permitted is None:
        return None
    found = scan(arguments, grammar(wrapper.permitted), stop=True)
    rest = found.positionals[wrapper.skip :]
    before = arguments[: found.rest + wrapper.skip]
    if found.strange or not rest or not all(field.exact for field in before):
        return None
    return None if wrapper.assignments and "=" in rest[0].text else rest


def _wrapped_doubt(name: str, inner: Sequence[Field], scope: Scope, depth: int) -> str | None:
    if depth >= _MAX_WRAPPERS:
        return "is wrapped too deeply to follow"
    if inner[0].text in scope.functions:
        return f"{inner[0].text} is a function here"
    if name == "time" and inner[0].text in scope.aliases:
        return f"{inner[0].text} is an alias here"
    return find_doubt(inner, scope, depth + 1)


def _verb_doubt(name: str, arguments: Sequence[Field], scope: Scope, depth: int) -> str | None:
    verbs = tables.verbs(name)
    found = scan(arguments, grammar(verbs.options, single=verbs.single), stop=True)
    if found.strange:
        # Some programs take `--version` where others want a word.
        return None if _find_verb(name, found.strange[0].text) and len(arguments) == 1 else _unlisted(name, found)
    if not found.positionals:
        return None
    for count in (3, 2, 1):
        words = found.positionals[:count]
        if len(words) == count and all(field.exact for field in words):
            permit = _find_verb(name, " ".join(field.text for field in words))
            if permit is not None:
                shown = f"{name} {words[0].text}"
                return _permit_doubt(shown, permit, found.positionals[count:], scope, depth)
    return f"{name} {found.positionals[0].shown} is not known to be read-only"


@functools.lru_cache(maxsize=1024)
def _find_verb(name: str, words: str) -> Permit | None:
    return next((permit for pattern, permit in tables.verbs(name).entries if pattern.fullmatch(words)), None)


def _permit_doubt(name: str, permit: Permit, arguments: Sequence[Field], scope: Scope, depth: int) -> str | None:
    check = _CHECKS.get(permit.check)
    if check is not None and permit.check in ("find", "tar", "aws"):
        return check(name, arguments, scope, depth)
    found = scan(arguments, grammar(tables.read_only().flags(permit), single=permit.single))
    if found.strange:
        return _unlisted(name, found)
    loose = _loose_argument(found, arguments)
    if loose is not None:
        return f"{loose.shown} may become an option of {name}"
    if permit.require and not found.has(*permit.require.split()):
        return f"{name} without {' or '.join(permit.require.split()[:3])} is not known to be read-only"
    allowed = permit.max
    if permit.listing and not found.has(*permit.listing.split()):
        allowed = 0
    if allowed is not None and len(found.positionals) > allowed:
        return f"{name} {found.positionals[allowed].shown} is not known to be read-only"
    if permit.positional:
        strange = [field for field in found.positionals if not re.fullmatch(permit.positional, field.text)]
        if strange:
            return f"{name} {strange[0].shown} is not known to be read-only"
    return check(name, arguments, scope, depth) if check is not None else None


def _unlisted(name: str, found: Scan) -> str:
    return f"{name} with {found.strange[0].shown} is not known to be read-only"


def _loose_argument(found: Scan, arguments: Sequence[Field]) -> Field | None:
    """An argument whose unknown value could be read as an option: nothing certain before it, and no `--`."""
    safe = {id(field) for field in found.positionals[len(found.positionals) - found.literal :]}
    for field in arguments:
        if field.exact or id(field) in safe:
            continue
        head = field.text[:1]
        if field.split or head in ("", "-", DYNAMIC, "*", "?", "["):
            return field
    return None


def _check_find(name: str, arguments: Sequence[Field], scope: Scope, depth: int) -> str | None:
    table = tables.read_only()
    index = 0
    while index < len(arguments):
        field = arguments[index]
        text = field.text
        index += 1
        if text in table.find_valued:
            index += 1
        elif text in ("-exec", "-execdir"):
            end = next((at for at in range(index, len(arguments)) if arguments[at].text in (";", "+")), None)
            if end is None or end == index:
                return "find runs a command"
            # A path that find gives starts as its starting point does, never with a dash.
            inner = [
                Field(word.text.replace("{}", f"./{DYNAMIC}"), word.span, word.raw) for word in arguments[index:end]
            ]
            doubt = find_doubt(inner, scope, depth + 1)
            if doubt is not None:
                return doubt
            index = end + 1
        elif text in table.find_plain or re.fullmatch(r"-O[0-3]|-newer[aBcm][aBcmt]", text):
            index += text.startswith("-newer")
        elif not field.exact and (field.split or text[:1] in ("", "-", DYNAMIC, "*", "?", "[")):
            return f"{field.shown} may become an action of find"
        elif text.startswith("-") or text in ("(", ")", "!"):
            return f"find with {field.shown} is not known to be read-only"
    return None


def _check_sed(name: str, arguments: Sequence[Field], scope: Scope, depth: int) -> str | None:
    found = scan(arguments, grammar(tables.read_only().flags(tables.read_only().permits["sed"])))
    scripts = found.values("-e", "--expression") or [field.text for field in found.positionals[:1]]
    if scripts and all(DYNAMIC not in script and sed_is_pure(script) for script in scripts):
        return None
    return "the sed script is not proved to only print"


def _check_awk(name: str, arguments: Sequence[Field], scope: Scope, depth: int) -> str | None:
    found = scan(arguments, grammar("-F: -v:"))
    program = found.positionals[0].text if found.positionals else ""
    if program and DYNAMIC not in program and awk_is_pure(program):
        return None
    return "the awk program is not proved to only print"


def _check_tar(name: str, arguments: Sequence[Field], scope: Scope, depth: int) -> str | None:
    if arguments and _TAR_LISTING.fullmatch(arguments[0].text):
        rest = [field for field in arguments[1:] if not field.exact or field.text.startswith("-") or ":" in field.text]
        if not rest:
            return None
    return "tar is not proved to only list"


def _check_aws(name: str, arguments: Sequence[Field], scope: Scope, depth: int) -> str | None:
    strange = [
        field
        for field in arguments
        if not field.exact or field.text.startswith(("--endpoint", "--cli-input", "--ca-bundle"))
    ]
    return f"{name} with {strange[0].shown} is not known to be read-only" if strange else None


def _check_names(name: str, arguments: Sequence[Field], scope: Scope, depth: int) -> str | None:
    return None if all(field.exact for field in arguments) else f"{name} sets a variable that is not known"


def _check_printf(name: str, arguments: Sequence[Field], scope: Scope, depth: int) -> str | None:
    """`%n` sets a variable."""
    if arguments and arguments[0].exact and not re.search(r"%[^%a-zA-Z]*n", arguments[0].text.replace("%%", "")):
        return None
    return "printf with this format may set a variable"


_CHECKS: dict[str, Callable[[str, Sequence[Field], Scope, int], str | None]] = {
    "find": _check_find,
    "sed": _check_sed,
    "awk": _check_awk,
    "tar": _check_tar,
    "aws": _check_aws,
    "names": _check_names,
    "printf": _check_printf,
}
