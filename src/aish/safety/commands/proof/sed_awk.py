"""Reads sed and awk programs far enough to prove that they only print."""

from __future__ import annotations

import re

# A bracket with the delimiter or an unusual class is read differently by different seds, so it is not proved.
_BRACKET = r"\[\^?\]?(?:\[:[a-z]+:\]|[^\[\]/\n])*\]"
_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n\[]|\\.|{_BRACKET})*/[IM]*|\+\d+|~\d+)"
_ADDRESSES = re.compile(rf"\s*(?:{_ADDRESS}(?:\s*,\s*{_ADDRESS})?)?\s*!?\s*")
_WHOLE_BRACKET = re.compile(_BRACKET)
_PLAIN = frozenset("pPdDqQ=nNgGhHxl{}z")
_BRANCH = re.compile(r"[btT]\s*\w*\s*(?=[;\n}]|$)|:\s*\w+\s*(?=[;\n}]|$)|#[^\n]*")
_FLAGS = re.compile(r"[gpiIM0-9]*")
_SUBSTITUTE_RUN = re.compile(r"s(.)((?:(?!\1).)*)\1((?:(?!\1).)*)\1[gpiIM0-9]*e")
_SUBSTITUTE_WRITE = re.compile(r"s(.)((?:(?!\1).)*)\1((?:(?!\1).)*)\1[gpiIMe0-9]*w[ \t]*([^\n]+)")
_SED_WRITE = re.compile(r"(?:^|[;{\n\d$/!,])[ \t]*[wW][ \t]*([^\s;}][^\n]*)")
_EXECUTE = re.compile(r"(?:^|[;{\n\d$/])\s*e\s+([^\n]+)")


def sed_is_pure(script: str) -> bool:
    """True if every command of the script only edits the stream: no w, e, r, W, R, F and no unknown flag."""
    position = 0
    while position < len(script):
        match = _ADDRESSES.match(script, position)
        position = match.end() if match else position
        if position >= len(script):
            return True
        end = _sed_command(script, position)
        if end is None:
            return False
        rest = script[end:].lstrip(" \t")
        if rest and rest[0] not in ";\n}" and script[position] not in "{}":
            return False
        position = len(script) - len(rest.lstrip(";\n \t"))
    return True


def _sed_command(script: str, position: int) -> int | None:
    """Returns where the command ends, or None if it may do more than print."""
    command = script[position]
    if command in _PLAIN:
        digits = re.compile(r"\s*\d*").match(script, position + 1) if command in "qQl" else None
        return digits.end() if digits else position + 1
    if command in "sy":
        return _sed_substitute(script, position)
    branch = _BRANCH.match(script, position)
    return branch.end() if branch else None


def _sed_substitute(script: str, position: int) -> int | None:
    separator = script[position + 1 : position + 2]
    if not separator or separator in "\\\n" or separator.isalnum() or separator.isspace():
        return None
    at = position + 2
    for _ in range(2):
        while at < len(script) and script[at] != separator:
            if script[at] == "[":
                bracket = _WHOLE_BRACKET.match(script, at)
                if bracket is None or separator in bracket[0]:
                    return None
                at = bracket.end()
                continue
            at += 2 if script[at] == "\\" else 1
        if at >= len(script):
            return None
        at += 1
    flags = _FLAGS.match(script, at)
    return flags.end() if flags else at


def sed_writes(script: str) -> list[str]:
    """Returns files that a sed script may write with `w`, `W` or a substitution flag. Used only to raise danger."""
    if "w" not in script.lower() or sed_is_pure(script):
        return []
    found = _SED_WRITE.findall(script) + [match[4] for match in _SUBSTITUTE_WRITE.finditer(script)]
    return [name.strip() for name in found if name.strip()][:16]


def sed_commands(arguments: list[str]) -> list[str]:
    """Returns the shell commands that a sed script would run with `e`."""
    found: list[str] = []
    for text in arguments:
        if "e" in text and not text.startswith("--"):
            found += [match[3] for match in _SUBSTITUTE_RUN.finditer(text)] + _EXECUTE.findall(text)
    return found[:16]


def awk_is_pure(program: str) -> bool:
    """True if the program cannot run a command, write a file, or read one that no argument names.

    Certain words are refused everywhere, also in strings, and so is `>` after a print: simple, and never wrong.
    """
    if re.search(r"system|getline|@|\||ARGV|ARGC|SYMTAB|FUNCTAB|/inet", program.replace("||", "")):
        return False
    printing = re.search(r"print", program)
    return printing is None or ">" not in program[printing.start() :]
