"""Checks one command against the tables of permitted programs and options."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import zip_longest

from msgspec.structs import replace

from aish.safety.commands import program_tables
from aish.safety.commands.options import Scan, grammar, scan
from aish.safety.commands.path_kinds import absolute_path
from aish.safety.commands.program_tables import Permit, Wrapper
from aish.safety.commands.proof.evidence import NAMES_ONLY, Proof
from aish.safety.commands.proof.listing import EXACT, NAME_TESTS, PATH_TESTS
from aish.safety.commands.proof.operands import check_operands, fed_field
from aish.safety.commands.proof.program_checks import CHECKS
from aish.safety.commands.shell_state import Listing, Scope
from aish.safety.commands.syntax.expansion import DYNAMIC, INSIDE, Field

# Programs are trusted by bare name or in the system's folders, not in any folder that a line names.
_TRUSTED = re.compile(r"(?:/usr)?(?:/local)?/s?bin/")
_XARGS = (
    "-0 -r -t -x -n: -P: -I: -L: -d: -s: --null --no-run-if-empty --max-args= --max-procs= --delimiter= --verbose "
    "--replace="
)
_MAX_WRAPPERS = 6
_SIGNATURE = re.compile(r"%[-+ ]?G|%\(\*?signature")
_HERE = (Field(".", (0, 1), "."),)
_NAME_TESTS = ("-v", "-R")
# These are always numbers.
_COUNT = re.compile(r"\$[#?$!]|\$\{#\w+\}")
# What find does to files or runs; also as words that a wildcard may match.
_FIND_ACTIONS = (
    *("-delete", "-exec", "-execdir", "-ok", "-okdir", "-fprint", "-fprint0", "-fprintf", "-fls", "-files0-from"),
    *("-o", "-or", "-a", "-not", "!", ",", "(", ")"),
)
# For these the table has only the kind of host; the arguments have its name.
_NAMED_HOSTS = frozenset({"the remote", "the host it is given"})


def check_command(fields: Sequence[Field], scope: Scope, proof: Proof) -> None:
    """Adds doubts about the command, what it reads, and which hosts it contacts to the proof."""
    span = fields[0].span[0], fields[-1].span[1]
    try:
        _check(fields, scope, proof, 0)
    except _Unproved as exc:
        proof.doubt(str(exc), span, "not-permitted")


class _Unproved(Exception):
    """Raised with the reason why a command is not proved harmless."""


def _check(fields: Sequence[Field], scope: Scope, proof: Proof, depth: int) -> None:
    name = _trusted_name(fields[0])
    if name is None:
        raise _Unproved(f"{fields[0].shown} may do more than read")
    if depth and name in ("cd", "pushd", "popd"):
        raise _Unproved(f"{name} behind another word changes the directory")
    arguments = fields[1:]
    wrapped = _find_wrapped(name, arguments, scope)
    if wrapped is not None:
        _check_wrapped(name, wrapped, scope, proof, depth)
        return
    if name in ("[", "test"):
        if doubt := find_test_doubt(arguments[:-1] if name == "[" else arguments):
            raise _Unproved(doubt)
        return
    permit = program_tables.read_only().permits.get(name)
    if permit is None:
        raise _Unproved(f"{name} may do more than read")
    if permit.verbs:
        _check_verb(name, permit, arguments, scope, proof)
    else:
        _check_permit(name, name, permit, arguments, scope, proof, depth)


def find_test_doubt(arguments: Sequence[Field]) -> str:
    """Returns why a word of `[` may become `-v` or `-R` with a name after it: `-v 'a[$(…)]'` runs the command in it."""
    for field, following in zip_longest(arguments, arguments[1:]):
        if field.text in _NAME_TESTS or (field.glob and any(fnmatchcase(test, field.text) for test in _NAME_TESTS)):
            return "tests a name that may run a command"
        leads = following is not None and _may_be_option(field) and (not following.exact or "[" in following.text)
        if leads or (field.split and not _COUNT.fullmatch(field.raw)):
            return f"{field.shown} may become an operator of the test"
    return ""


def _may_be_option(field: Field) -> bool:
    """Whether its unknown value may begin with a dash. A found name or one of a loop does not."""
    return field.text[:1] == DYNAMIC and field.text[1:2] != INSIDE


def _trusted_name(field: Field) -> str | None:
    """Returns the program's bare name, or None if its path is not trusted."""
    text = field.text
    if not field.exact or not text.isascii():
        return None
    if "/" not in text:
        return text
    match = _TRUSTED.match(text)
    return text[match.end() :] if match and "/" not in text[match.end() :] else None


def _find_wrapped(name: str, arguments: Sequence[Field], scope: Scope) -> Sequence[Field] | None:
    """Returns the command inside a wrapper that has no effects itself."""
    if name == "command" and arguments and arguments[0].text in ("-v", "-V"):
        return [Field("type", arguments[0].span, "type")]
    if name == "xargs":
        found = scan(arguments, grammar(_XARGS), stop=True)
        if found.strange or not found.positionals or not all(field.exact for field in arguments):
            return None
        if found.has("-0", "--null") and found.has("-d", "--delimiter"):
            return None
        ended = found.has("-0", "--null")
        listing = scope.fed.separator if scope.fed.separator == "lines" or ended else ""
        fed = fed_field(arguments[-1], listing)
        return [*_replace_mark(found, fed.text), fed]
    for wrapper in program_tables.wrappers().find(name):
        inner = _find_inner(wrapper, arguments)
        if inner is not None:
            return inner
    return None


def _replace_mark(found: Scan, fed: str) -> list[Field]:
    mark = found.value("-I", "--replace")
    words = found.positionals
    if not mark:
        return list(words)
    return [_fill_mark(word, mark, fed) for word in words]


def _fill_mark(word: Field, mark: str, value: str) -> Field:
    """Replaces the mark with a name that was found. Within a longer word its value counts as unknown: `.` may be found,
    and `{}env` is then a secret."""
    return Field(value if word.text == mark else word.text.replace(mark, DYNAMIC), word.span, word.raw)


def _find_inner(wrapper: Wrapper, arguments: Sequence[Field]) -> Sequence[Field] | None:
    if wrapper.permitted is None:
        return None
    found = scan(arguments, grammar(wrapper.permitted), stop=True)
    rest = found.positionals[wrapper.skip :]
    before = arguments[: found.rest + wrapper.skip]
    if found.strange or not rest or not all(field.exact for field in before):
        return None
    return None if wrapper.assignments and "=" in rest[0].text else rest


def _check_wrapped(name: str, inner: Sequence[Field], scope: Scope, proof: Proof, depth: int) -> None:
    if depth >= _MAX_WRAPPERS:
        raise _Unproved("is wrapped too deeply to follow")
    if inner[0].text in scope.functions:
        raise _Unproved(f"{inner[0].text} is a function here")
    if name == "time" and inner[0].text in scope.aliases:
        raise _Unproved(f"{inner[0].text} is an alias here")
    _check(inner, scope, proof, depth + 1)


def _check_verb(name: str, program: Permit, arguments: Sequence[Field], scope: Scope, proof: Proof) -> None:
    verbs = program_tables.verbs(name)
    found = scan(arguments, grammar(verbs.options, single=verbs.single), stop=True)
    if found.strange:
        # Some programs take `--version` in place of a subcommand.
        if not (_find_verb(name, found.strange[0].text) and len(arguments) == 1):
            raise _Unproved(_unlisted_text(name, found))
        return
    if not found.positionals:
        return
    if program.here:
        scope = _scope_of_git(found, scope, proof)
    for count in (3, 2, 1):
        words = found.positionals[:count]
        if len(words) == count and all(field.exact for field in words):
            permit = _find_verb(name, " ".join(field.text for field in words))
            if permit is not None:
                if program.here:
                    proof.read(Field(".", words[0].span, "."), scope, NAMES_ONLY)
                shown = f"{name} {words[0].text}"
                _check_permit(name, shown, permit, found.positionals[count:], scope, proof, 0)
                return
    raise _Unproved(f"{name} {found.positionals[0].shown} may do more than read")


def _scope_of_git(found: Scan, scope: Scope, proof: Proof) -> Scope:
    """Returns the scope of `git -C folder`. Git reads a repository there, not only names."""
    for folder in found.values("-C"):
        field = Field(folder, found.positionals[0].span, folder)
        proof.read(field, scope)
        scope = scope.copy()
        scope.cwd = absolute_path(folder, scope)
    return scope


@functools.lru_cache(maxsize=1024)
def _find_verb(name: str, words: str) -> Permit | None:
    return next((permit for pattern, permit in program_tables.verbs(name).entries if pattern.fullmatch(words)), None)


def _check_permit(
    program: str, name: str, permit: Permit, arguments: Sequence[Field], scope: Scope, proof: Proof, depth: int
) -> None:
    if permit.check == "find":
        _check_find(arguments, scope, proof, depth)
        return
    if program == "git" and (signing := next((field for field in arguments if _SIGNATURE.search(field.text)), None)):
        raise _Unproved(f"{signing.shown} may run a program that checks signatures")
    flags = program_tables.read_only().flags(permit)
    if not permit.any:
        _check_listed(name, permit, arguments, flags)
    if (check := CHECKS.get(permit.check)) is not None and (doubt := check(name, arguments)):
        proof.doubt(doubt.text, arguments[0].span if arguments else (0, 1), "not-permitted", doubt.kind)
        return
    span = (arguments[0] if arguments else Field("", (0, 1), "")).span
    if permit.secret:
        proof.doubt(f"{name} shows {permit.secret}", span, "secret", "secret")
    elif permit.network and (arguments or name != "git remote"):
        _check_network(name, permit, arguments, proof)
    else:
        check_operands(name, permit, arguments, scope, proof, flags)


def _check_network(name: str, permit: Permit, arguments: Sequence[Field], proof: Proof) -> None:
    """Unknown arguments may send any data to the host."""
    if unclear := [field for field in arguments if not field.exact]:
        raise _Unproved(f"{name} sends {unclear[0].shown} to {permit.network}")
    named = [field.text for field in arguments if not field.text.startswith("-")]
    host = next((text for text in named if "://" in text), "")
    if permit.network in _NAMED_HOSTS and named:
        host = host or named[-1]
    proof.network(name, host or permit.network, arguments[0].span if arguments else (0, 1))


def _check_listed(name: str, permit: Permit, arguments: Sequence[Field], flags: str) -> None:
    if permit.check == "tar":
        return
    found = scan(arguments, grammar(flags, single=permit.single))
    if found.strange:
        raise _Unproved(_unlisted_text(name, found))
    uncertain = _find_uncertain_option(found, arguments)
    if uncertain is not None:
        raise _Unproved(f"{uncertain.shown} may become an option of {name}")
    if permit.require and not found.has(*permit.require.split()):
        raise _Unproved(f"{name} may do more than read")
    allowed = permit.max
    if permit.listing and not found.has(*permit.listing.split()):
        allowed = 0
    if (allowed is not None or permit.positional) and any(field.glob or field.split for field in found.positionals):
        raise _Unproved(f"{name} may get more words than stand here")
    if allowed is not None and len(found.positionals) > allowed:
        raise _Unproved(f"{name} {found.positionals[allowed].shown} may do more than read")
    if permit.positional:
        strange = [field for field in found.positionals if not re.fullmatch(permit.positional, field.text)]
        if strange:
            raise _Unproved(f"{name} {strange[0].shown} may do more than read")


def _unlisted_text(name: str, found: Scan) -> str:
    return f"{name} with {found.strange[0].shown} may do more than read"


def _find_uncertain_option(found: Scan, arguments: Sequence[Field]) -> Field | None:
    """Returns an argument whose unknown value could be an option: it has no certain beginning and no `--` before it."""
    safe = {id(field) for field in found.positionals[len(found.positionals) - found.literal :]}
    for field in arguments:
        if field.exact or id(field) in safe:
            continue
        head = field.text[:1]
        if field.split or head in ("", "-", DYNAMIC, "*", "?", "["):
            return field
    return None


def _check_find(arguments: Sequence[Field], scope: Scope, proof: Proof, depth: int) -> None:
    """Checks find. Its starting points are read: names only, unless it runs a command on what it finds."""
    table = program_tables.read_only()
    starts: list[Field] = []
    names: list[str] = []
    paths: list[str] = []
    runs = is_alternative = follows = False
    index = 0
    while index < len(arguments):
        field = arguments[index]
        text = field.text
        index += 1
        if text in table.find_valued:
            if index < len(arguments) and text in (*NAME_TESTS, *PATH_TESTS):
                (names if text in NAME_TESTS else paths).append(arguments[index].text.rpartition("/")[2])
            if index < len(arguments) and _may_be_action(arguments[index]):
                raise _Unproved(f"{arguments[index].shown} may become an action of find")
            index += 1
        elif text == "-execdir":
            raise _Unproved("find runs a command in folders of its own")
        elif text == "-exec":
            found = Listing(EXACT, tuple(starts) or _HERE, () if is_alternative else tuple(names), (*names, *paths))
            index = _check_exec(arguments, index, found, scope, proof, depth)
            runs = True
        elif text in table.find_plain or re.fullmatch(r"-O[0-3]|-newer[aBcm][aBcmt]", text):
            index += text.startswith("-newer")
            follows = follows or text in ("-L", "-follow")
            is_alternative = is_alternative or text in ("-o", "-or", "!", "-not", ",")
        elif not field.exact and (field.split or text[:1] in ("", "-", DYNAMIC, "*", "?", "[")):
            raise _Unproved(f"{field.shown} may become an action of find")
        elif text.startswith("-") or text in ("(", ")", "!"):
            raise _Unproved(f"find with {field.shown} may do more than read")
        else:
            starts.append(field)
    if runs and follows:
        raise _Unproved("find follows links, which may lead anywhere")
    for start in starts or _HERE:
        proof.read(start, scope, replace(NAMES_ONLY, deep=True, follows=follows))


def _may_be_action(field: Field) -> bool:
    """Whether the value of a test may become several words, one of them an action."""
    return field.split or (field.glob and any(fnmatchcase(action, field.text) for action in _FIND_ACTIONS))


def _check_exec(
    arguments: Sequence[Field], index: int, listing: Listing, scope: Scope, proof: Proof, depth: int
) -> int:
    """Checks the command that find runs. Paths from find begin with the starting point, never with a dash."""
    end = next((at for at in range(index, len(arguments)) if arguments[at].text in (";", "+")), None)
    if end is None or end == index:
        raise _Unproved("find runs a command")
    found = f"./{DYNAMIC}{INSIDE}"
    inner = [_fill_mark(word, "{}", found) for word in arguments[index:end]]
    scope = scope.copy()
    scope.fed = listing
    proof.read_listed(arguments[index], scope)
    _check(inner, scope, proof, depth + 1)
    return end + 1
