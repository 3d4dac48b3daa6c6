"""Programs that run other programs: finds the inner commands."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import msgspec

from aish.safety.commands import program_tables
from aish.safety.commands.danger.code import find_applescript_commands
from aish.safety.commands.danger.rules import Call
from aish.safety.commands.options import Scan, grammar, scan
from aish.safety.commands.program_tables import Wrapper
from aish.safety.commands.syntax.expansion import DYNAMIC, Field

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_EXEC = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_XARGS = (
    "-a: -d: -E: -I: -i? -L: -l? -n: -P: -s: --arg-file= --delimiter= --max-args= --max-procs= --max-lines= --replace? "
    "--max-chars= --eof? -J: -R: -S:"
)
_PARALLEL = (
    "-j: -n: -N: -L: -I: -a: -C: -d: -S: --jobs= --max-args= --arg-file= --colsep= --joblog= --results= --delay= "
    "--timeout= --tagstring= --sshlogin= --workdir= --halt="
)


class Inner(msgspec.Struct, frozen=True):
    """A command inside another one: as words, or as text for a shell."""

    words: tuple[Field, ...] = ()
    text: str | None = None
    span: tuple[int, int] = (0, 0)
    fed: str = ""
    guess: bool = False  # the wrapper had unknown options, so the command may start elsewhere


def find_inner_commands(call: Call, stdin: str | None) -> Iterator[Inner]:
    if call.name in ("xargs", "gxargs"):
        yield from _xargs(call, stdin)
    elif call.name == "parallel":
        yield from _parallel(call)
    elif call.name in ("find", "gfind", "bfs"):
        yield from _find(call)
    for wrapper in program_tables.wrappers().find(call.name):
        yield from _through(wrapper, call)


def _through(wrapper: Wrapper, call: Call) -> Iterator[Inner]:
    rules = grammar(wrapper.options)
    # A subcommand comes after the program's options and before its own options.
    found = scan(call.arguments, rules, stop=not (wrapper.verb or wrapper.only_scripts or wrapper.after))
    arguments = _after_verb(wrapper, call, found) if wrapper.verb else call.arguments
    if arguments is None:
        return
    if wrapper.verb:
        found = scan(arguments, rules, stop=not (wrapper.only_scripts or wrapper.after))
    yield from _scripts(wrapper, scan(call.arguments, rules, stop=False), call)
    if wrapper.only_scripts or wrapper.scripts == "0":
        return
    if wrapper.after:
        yield from _after_marker(wrapper, arguments)
        return
    rest = list(found.positionals[wrapper.skip :])
    if rest and rest[0].text == "--":
        del rest[0]
    while wrapper.assignments and rest and _ASSIGNMENT.match(rest[0].text):
        del rest[0]
    if not rest:
        return
    if wrapper.text:
        yield Inner(text=" ".join(_shell_text(field) for field in rest), span=call.span)
    else:
        yield Inner(words=tuple(rest))
    if found.strange:
        yield from (Inner(words=tuple(rest[start:]), guess=True) for start in range(1, min(4, len(rest))))


def _shell_text(field: Field) -> str:
    """Returns what a shell that joins its arguments gets; unknown parts become a variable, so that they stay
    unknown."""
    return field.text.replace(DYNAMIC, "$UNKNOWN")


def _after_verb(wrapper: Wrapper, call: Call, found: Scan) -> tuple[Field, ...] | None:
    """Returns the arguments after the subcommand, or None if it is another one."""
    words = found.positionals[:3]
    for count in range(len(words), 0, -1):
        if _pattern(wrapper.verb).fullmatch(" ".join(field.text for field in words[:count])):
            last = words[count - 1]
            return call.arguments[call.arguments.index(last) + 1 :]
    return None


@functools.lru_cache(maxsize=128)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _scripts(wrapper: Wrapper, found: Scan, call: Call) -> Iterator[Inner]:
    if wrapper.scripts == "0":
        texts = [field.text for field in found.positionals[:1]]
    else:
        texts = found.values(*wrapper.scripts.split())
    for text in texts:
        if wrapper.applescript:
            yield from (Inner(text=command, span=call.span) for command in find_applescript_commands(text))
            continue
        if wrapper.bang:
            if "!" not in text:
                continue
            text = text.partition("!")[2]
        yield Inner(text=text.removeprefix("exec=").replace(DYNAMIC, "$UNKNOWN"), span=call.span)


def _after_marker(wrapper: Wrapper, arguments: tuple[Field, ...]) -> Iterator[Inner]:
    markers = wrapper.after.split("|")
    for index, field in enumerate(arguments):
        if field.text in markers:
            rest = arguments[index + 1 :]
            if rest:
                yield Inner(words=rest, fed="fd" if wrapper.each else "")
            return


def _with_fed_words(words: tuple[Field, ...], mark: str, stdin: str | None, call: Call) -> tuple[Field, ...]:
    """Returns the command with its fed arguments: in place of the mark, or at the end."""
    known = stdin is not None and DYNAMIC not in stdin
    text = stdin.strip() if stdin is not None and known else DYNAMIC
    if mark:
        return tuple(msgspec.structs.replace(word, text=word.text.replace(mark, text)) for word in words)
    more = text.split()[:32] if known else [DYNAMIC]
    return (*words, *(Field(item, call.span, item.replace(DYNAMIC, "…"), split=not known) for item in more))


def _xargs(call: Call, stdin: str | None) -> Iterator[Inner]:
    found = scan(call.arguments, grammar(_XARGS), stop=True)
    mark = found.value("-I", "-J", "-i", "--replace") or ("{}" if found.has("-i", "--replace") else "")
    if found.positionals:
        yield Inner(words=_with_fed_words(found.positionals, mark, stdin, call), fed="xargs")


def _parallel(call: Call) -> Iterator[Inner]:
    found = scan(call.arguments, grammar(_PARALLEL), stop=True)
    words = list(found.positionals)
    markers = [index for index, field in enumerate(words) if field.text in (":::", "::::", ":::+")]
    words = words[: markers[0]] if markers else words
    if len(words) == 1:
        yield Inner(text=words[0].text.replace("{}", "$UNKNOWN") + " $UNKNOWN", span=call.span, fed="parallel")
    elif words:
        yield Inner(
            words=_with_fed_words(tuple(words), "{}" if any("{" in w.text for w in words) else "", None, call),
            fed="parallel",
        )


def _find(call: Call) -> Iterator[Inner]:
    words = call.arguments
    index = 0
    while index < len(words):
        if words[index].text in _EXEC:
            end = next((at for at in range(index + 1, len(words)) if words[at].text in (";", "+")), len(words))
            command = words[index + 1 : end]
            if command:
                yield Inner(words=_with_fed_words(command, "{}", None, call), fed="find")
            index = end
        index += 1
