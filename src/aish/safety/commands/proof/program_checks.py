"""Proofs in code for programs that need more than a table of options."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from aish.safety.commands import program_tables
from aish.safety.commands.options import grammar, scan
from aish.safety.commands.proof.sed_awk import awk_is_pure, sed_is_pure
from aish.safety.commands.syntax.expansion import DYNAMIC, Field
from aish.safety.redaction.secret_formats import looks_secret

_TAR_LISTING = re.compile(r"-?[tvzjJf]*t[tvzjJf]*")


class ProgramDoubt(msgspec.Struct, frozen=True):
    text: str
    kind: str = "unproved"


def _check_sed(name: str, arguments: Sequence[Field]) -> ProgramDoubt | None:
    found = scan(arguments, grammar(program_tables.read_only().flags(program_tables.read_only().permits["sed"])))
    scripts = found.values("-e", "--expression") or [field.text for field in found.positionals[:1]]
    if scripts and all(DYNAMIC not in script and sed_is_pure(script) for script in scripts):
        return None
    return ProgramDoubt("the sed script is not proved to only print")


def _check_awk(name: str, arguments: Sequence[Field]) -> ProgramDoubt | None:
    found = scan(arguments, grammar("-F: -v:"))
    program = found.positionals[0].text if found.positionals else ""
    if (doubt := _check_environment(_AWK_VARIABLE, program)) is not None:
        return doubt
    if program and DYNAMIC not in program and awk_is_pure(program):
        return None
    return ProgramDoubt("the awk program is not proved to only print")


def _check_tar(name: str, arguments: Sequence[Field]) -> ProgramDoubt | None:
    if arguments and _TAR_LISTING.fullmatch(arguments[0].text):
        rest = [field for field in arguments[1:] if not field.exact or field.text.startswith("-") or ":" in field.text]
        if not rest:
            return None
    return ProgramDoubt("tar is not proved to only list")


def _check_aws(name: str, arguments: Sequence[Field]) -> ProgramDoubt | None:
    strange = [
        field
        for field in arguments
        if not field.exact or field.text.startswith(("--endpoint", "--cli-input", "--ca-bundle"))
    ]
    return ProgramDoubt(f"{name} with {strange[0].shown} may do more than read") if strange else None


def _check_names(name: str, arguments: Sequence[Field]) -> ProgramDoubt | None:
    return (
        None if all(field.exact for field in arguments) else ProgramDoubt(f"{name} sets a variable that is not known")
    )


def _check_printf(name: str, arguments: Sequence[Field]) -> ProgramDoubt | None:
    """`%n` sets a variable."""
    if (
        arguments
        and arguments[0].exact
        and not re.search(r"%[^%a-zA-Z]*[hlLqjzt]*n", arguments[0].text.replace("%%", ""))
    ):
        return None
    return ProgramDoubt("printf with this format may set a variable")


_JQ_READS = re.compile(r"\b(import|include|modulemeta|input_filename|get_search_list)\b")


def _check_jq(name: str, arguments: Sequence[Field]) -> ProgramDoubt | None:
    """A filter may import files that no argument names."""
    filters = [field for field in arguments if not field.exact or _JQ_READS.search(field.text)]
    if filters:
        return ProgramDoubt("the jq filter is not proved to read only what is named")
    doubts = (_check_environment(_JQ_VARIABLE, field.text) for field in arguments)
    return next((doubt for doubt in doubts if doubt is not None), None)


# Mentions of the environment, each with the variable's name if that stands there as it is.
_AWK_VARIABLE = re.compile(r"ENVIRON(?:\[\s*\"(\w+)\"\s*\])?")
_JQ_VARIABLE = re.compile(r"(?:(?<![\w.])ENV|(?<![\w.$])env)\b(?:\s*\.\s*(\w+)\b)?")


def _check_environment(mention: re.Pattern[str], program: str) -> ProgramDoubt | None:
    """A name that is put together, or none, may be that of a secret."""
    for name in mention.findall(program):
        if not name or looks_secret(name):
            return ProgramDoubt(f"shows {name or 'all variables'}, which may hold a secret", "secret")
    return None


def _check_lsof(name: str, arguments: Sequence[Field]) -> ProgramDoubt | None:
    """A host in `-i@host` is resolved over the network, and so are the other ends of all connections without `-n`.
    A port on this machine is what people ask about."""
    hosts = [field for field in arguments if "@" in field.text or not field.exact]
    asks_port = any(_LSOF_PORT.fullmatch(field.text) for field in arguments)
    shows_hosts = not asks_port and not any(_LSOF_NUMBERS.fullmatch(field.text) for field in arguments)
    return ProgramDoubt("lsof may look up the name of a host") if hosts or shows_hosts else None


_LSOF_PORT = re.compile(r"(-[A-Za-z]*i)?[46]?(tcp|udp|TCP|UDP)?:[\w,-]+")
_LSOF_NUMBERS = re.compile(r"-[A-Za-z]*n[A-Za-z]*|-p\d*|\+D|-U|-t")


# Cautious: if ps cannot read its options in one style it tries another, in which an `e` shows the variables of all
# processes.
_PS_PLAIN = re.compile(
    r"-?[aux]+|a?xo|ao|-?(a?uxw+|auxf|axj?f?|l)|-[aAdfFjlLHMTwyN]+|\d[\d,]*|--(forest|no-headers?|sort=[\w%,+-]+)|-[pqC]"
)
_PS_EVERY = re.compile(r"-e[fFlLjHywTM]*o?|-A[fFlLjHywTM]*o?|--(forest|no-headers?|sort=[\w%,+-]+)|-o|--format")
_PS_FORMAT = re.compile(
    r"(pid|ppid|pgid|sid|user|uid|group|gid|ruser|cmd|args|command|comm|ucmd|ucomm|%cpu|%mem|pcpu|pmem|rss|rssize|vsz|sz|size|stat|state|s"
    r"|etime|etimes|time|cputime|tty|tt|ni|nice|pri|psr|nlwp|lwp|start|lstart|start_time|stime|wchan|cgroup|,|=)+"
)


def _check_ps(name: str, arguments: Sequence[Field]) -> ProgramDoubt | None:
    texts = ["0" if field.raw in ("$$", "$!", "$PPID") else field.text for field in arguments]
    if any(DYNAMIC in text for text in texts):
        return ProgramDoubt("ps may show the variables of processes", "secret")
    plain = all(_PS_PLAIN.fullmatch(text) or text == "-o" or _PS_FORMAT.fullmatch(text) for text in texts)
    formats = [
        text
        for index, text in enumerate(texts)
        if index and re.fullmatch(r"-[eA]?o|a?xo|ao|--format", texts[index - 1])
    ]
    known = all(_PS_FORMAT.fullmatch(text) for text in formats)
    every = all(_PS_EVERY.fullmatch(text) or text in formats for text in texts)
    return None if known and (every or plain) else ProgramDoubt("ps may show the variables of processes", "secret")


def _check_variables(name: str, arguments: Sequence[Field]) -> ProgramDoubt | None:
    names = [field for field in arguments if not field.text.startswith("-")]
    if not names:
        return ProgramDoubt("shows all variables, which may hold a secret", "secret")
    secret = [field.text for field in names if not field.exact or looks_secret(field.text)]
    return ProgramDoubt(f"shows {secret[0]}, which holds a secret", "secret") if secret else None


_LOCAL_DATABASES = frozenset({"shells", "protocols", "rpc"})


def _check_getent(name: str, arguments: Sequence[Field]) -> ProgramDoubt | None:
    is_known = all(field.exact for field in arguments)
    if is_known and arguments and arguments[0].text in _LOCAL_DATABASES:
        return None
    return ProgramDoubt("getent asks name servers for what it is given", "network" if is_known else "unproved")


CHECKS: dict[str, Callable[[str, Sequence[Field]], ProgramDoubt | None]] = {
    "getent": _check_getent,
    "lsof": _check_lsof,
    "jq": _check_jq,
    "ps": _check_ps,
    "variables": _check_variables,
    "sed": _check_sed,
    "awk": _check_awk,
    "tar": _check_tar,
    "aws": _check_aws,
    "names": _check_names,
    "printf": _check_printf,
}
