"""Finds the files among a permitted program's arguments. `Proof.read` then checks what they reveal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from aish.safety.commands.options import Flag, Grammar, Scan, grammar, scan
from aish.safety.commands.program_tables import Permit
from aish.safety.commands.proof.evidence import CONTENTS, FOLDER, NAMES_ONLY, Proof
from aish.safety.commands.proof.exposure import name_pattern_is_secret
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.expansion import DYNAMIC, INSIDE, NAMES, Field
from aish.safety.commands.verdict import Read

_WILDCARD = re.compile(r"[*?\[]")
_MIN_ABBREVIATION = 3  # `--f`
_MAY_BE_LIST = frozenset("@*?[" + DYNAMIC)
# `:(top,icase)x`, `:/x` and `:!x`, without the colon.
_PATH_MAGIC = re.compile(r"^(?:\([^)]*\)|[/!^]+)")
_ROOTED = re.compile(r"[/~]")


def check_operands(
    name: str, permit: Permit, arguments: Sequence[Field], scope: Scope, proof: Proof, flags: str = ""
) -> None:
    rules = grammar(flags or permit.flags, single=permit.single)
    found = scan(arguments, rules)
    names_only = permit.operands == "names" or found.has(*permit.lists.split())
    contents = NAMES_ONLY if names_only else CONTENTS
    if refused := _find_refused(permit, found, arguments):
        proof.doubt(f"{name} with {refused.shown} may read what is not named", refused.span, "not-permitted")
        return
    if name.startswith("git ") and (above := next((f for f in found.positionals if _leads_above(f.text)), None)):
        proof.doubt(f"{name} {above.shown} may read above the workspace", above.span, "outside", "outside")
        return
    filters = _find_filters(permit, found)
    if any(name_pattern_is_secret(text) for text in filters) and not names_only:
        proof.doubt(f"{name} looks for files that hold secrets", arguments[0].span, "secret", "secret")
    if permit.shows_remote:
        proof.read_repository_settings(arguments, scope)
    for field in _find_option_files(permit, found, rules):
        proof.read(field, scope, contents)
    if permit.operands == "text":
        _check_text(found, scope, proof)
        return
    _check_option_values(found, arguments, scope, proof, contents)
    how = _find_manner(permit, found, filters, contents)
    files = _find_files(permit, found)
    for field in files:
        if field.text != "-":
            if how.deep and not names_only and name.startswith("git ") and _WILDCARD.search(field.text):
                # Git's wildcards match slashes.
                proof.read(Field(".", field.span, field.raw), scope, FOLDER)
            for named in _with_committed_file(name, field):
                proof.read(named, scope, replace(how, deep=True) if permit.folders else how)
    if not files and (permit.here or how.deep):
        here = (found.positionals or arguments or (Field(".", (0, 1), "."),))[0]
        proof.read(Field(".", here.span, "."), scope, how)


def _find_manner(permit: Permit, found: Scan, filters: Sequence[str], contents: Read) -> Read:
    """Returns how the program reads folders with these options."""
    follows = permit.follows == "*" or found.has(*permit.follows.split())
    ignores_links = permit.ignores_links == "*" or found.has(*permit.ignores_links.split())
    return replace(
        contents,
        deep=permit.deep == "*" or found.has(*permit.deep.split()),
        follows=follows,
        ignores_links=ignores_links and not follows,
        tracked_only=permit.tracked and not found.has("--no-index"),
        skips_hidden=bool(permit.shows_hidden) and not found.has(*permit.shows_hidden.split()),
        filters=() if _has_other_filters(found) else tuple(text for text in filters if not text.startswith("!")),
    )


def _leads_above(text: str) -> bool:
    """Whether it is git's magic for a path from the top of the repository: `:/x`, `:(top)x`."""
    return text.startswith(":/") or (text.startswith(":(") and "top" in text.partition(")")[0])


def _has_other_filters(found: Scan) -> bool:
    """Whether options with another order or meaning decide, too, which files are read."""
    return any(flag.name.startswith(("--exclude", "--iglob")) and flag.name != "--exclude-dir" for flag in found.flags)


def _with_committed_file(name: str, field: Field) -> Iterator[Field]:
    """Yields the operand, and for git the file after a revision: `HEAD:.env`. Git expands wildcards itself."""
    if not name.startswith("git "):
        yield field
        return
    glob = field.glob or _WILDCARD.search(field.text) is not None
    yield Field(field.text, field.span, field.raw, glob, field.split)
    if ":" in field.text:
        path = _PATH_MAGIC.sub("", field.text.rpartition(":")[2])
        yield Field(path, field.span, field.raw, glob, field.split)


def _check_option_values(found: Scan, arguments: Sequence[Field], scope: Scope, proof: Proof, contents: Read) -> None:
    """Reads what an option's value may add: as several words it is a file, too (`x='a .env'; grep -e $x f`)."""
    operands = {id(field) for field in found.positionals}
    for field in arguments:
        if id(field) in operands or not (field.split or field.glob):
            continue
        if field.split or field.text[:1] != "-":  # `-n$x` may be `-n1 .env`
            rest = Field(DYNAMIC, field.span, field.raw, split=True) if field.text[:1] == "-" else field
            proof.read(rest, scope, contents)


def _find_files(permit: Permit, found: Scan) -> tuple[Field, ...]:
    """Returns the operands without the pattern, which is not a file. A pattern that may expand to several words may
    contain one."""
    operands = found.positionals
    if permit.operands != "pattern" or found.has(*permit.given.split()):
        return operands
    return operands[1:] if operands and not (operands[0].split or operands[0].glob) else operands


def _find_refused(permit: Permit, found: Scan, arguments: Sequence[Field]) -> Field | None:
    """Returns an option that names files elsewhere, also abbreviated (`--fil`), or an operand that does (`@list`)."""
    refused = permit.refuse.split()
    if "@" in refused and (field := next((f for f in arguments if f.text[:1] in _MAY_BE_LIST), None)):
        return field
    if not permit.any:
        return None
    if (permit.deep or refused or permit.paths) and (field := _find_possible_option(found)):
        return field
    special = {*refused, *permit.paths.split(), *permit.given.split(), *permit.filters.split(), *permit.deep.split()}
    for flag in found.flags:
        if flag.name in refused or (flag.name not in special and _is_abbreviation(flag.name, special)):
            return flag.field
    return None


def _find_possible_option(found: Scan) -> Field | None:
    """Returns a word that may turn out to be an option, such as `-r`. Names that are found or of a loop do not."""
    unsure = found.positionals[: len(found.positionals) - found.literal]
    return next((f for f in unsure if f.text[:1] == DYNAMIC and f.text[1:2] not in (INSIDE, NAMES)), None)


def _is_abbreviation(name: str, options: set[str]) -> bool:
    return len(name) >= _MIN_ABBREVIATION and name[:2] == "--" and any(option.startswith(name) for option in options)


def _find_filters(permit: Permit, found: Scan) -> list[str]:
    return [text.rpartition("/")[2] for text in found.values(*permit.filters.split())]


def _find_option_files(permit: Permit, found: Scan, rules: Grammar) -> Iterator[Field]:
    """Yields option values that are files; for unlisted options, values that look like an outside path."""
    listed = permit.paths.split()
    for flag in found.flags:
        if flag.name in listed and flag.value is not None:
            yield _as_field(flag, flag.value)
        elif permit.any and not rules.knows(flag.name) and permit.operands != "text":
            match = _ROOTED.search(flag.field.text)
            if match and match.start() > 1:
                yield _as_field(flag, flag.field.text[match.start() :])


def _as_field(flag: Flag, value: str) -> Field:
    return Field(value, flag.field.span, value.replace(DYNAMIC, "…"), glob=_WILDCARD.search(value) is not None)


def _check_text(found: Scan, scope: Scope, proof: Proof) -> None:
    """Text is not read, but `echo *` lists names."""
    for field in found.positionals:
        if field.glob:
            proof.read(field, scope, NAMES_ONLY)


def fed_field(field: Field, listing: str) -> Field:
    """Returns the argument that `xargs` adds, marked by how the fed names are separated."""
    marks = {"exact": INSIDE, "lines": NAMES}
    return Field(DYNAMIC + marks.get(listing, ""), field.span, "…", split=True)
