"""Expands words to the fields that a program would get: braces, tildes, known variables, splitting.

Values that are only known when the line runs stay in the text as DYNAMIC, so that `"$X/"*` still begins with something
unknown and ends in a glob.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import msgspec

from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.model import Block, Parameter, Part, Span, Substitution, Text, Word

DYNAMIC = "\0"
# After DYNAMIC: the value names something below the workspace. Twice: also if it is split.
INSIDE = "\x03"
# After DYNAMIC: names below the workspace, as lines. A blank in a name makes two words, and the second may lead
# elsewhere.
NAMES = "\x04"
SUBSTITUTED = "/dev/fd/63"  # the file that stands for `<(…)` and `>(…)`
# More fields from one word are not a usual command line but an attack.
MAX_FIELDS = 64

Evaluate = Callable[[Block, Scope], str | None]

_SPLIT = "\x02"
_SPECIAL = "*?[]{},~\x02"
_MASK = {ord(char): 0xF0000 + ord(char) for char in _SPECIAL}
_UNMASK = {masked: char for char, masked in _MASK.items()}
# A value that stays one argument even if it is unquoted.
_UNSPLIT = re.compile(r"[\w./:@%+=,-]+")
_USER = re.compile(r"[\w.-]+")
_OPEN = re.compile(r"(?<!\$)\{")
_MAX_BRACES = 16
_MAX_BRACED_CHARS = 1024
_RANGE = re.compile(r"(-?\d{1,6}|[A-Za-z])\.\.(-?\d{1,6}|[A-Za-z])(?:\.\.(-?\d{1,6}))?")


class Field(msgspec.Struct, frozen=True, gc=False):
    """One argument. `split` means that the unknown part may become any number of arguments."""

    text: str
    span: Span
    raw: str
    glob: bool = False
    split: bool = False

    @property
    def exact(self) -> bool:
        return not self.glob and DYNAMIC not in self.text

    @property
    def shown(self) -> str:
        return self.raw if DYNAMIC in self.text else self.text


def expand(word: Word, scope: Scope, evaluate: Evaluate | None = None) -> list[Field]:
    """With `evaluate`, likely values are used, too: only to raise danger, never to prove safety."""
    if word.literal is not None:
        return [Field(word.literal, word.span, word.raw)]
    marked = "".join(_mark_part(part, scope, evaluate) for part in word.parts)
    quoted = any((not isinstance(part, Text) and part.quoted) or isinstance(part, Text) for part in word.parts)
    split = any(not isinstance(part, Text) and not part.quoted for part in word.parts)
    pieces = [piece for piece in marked.split(_SPLIT) if piece or quoted]
    expanded = itertools.chain.from_iterable(expand_braces(piece) for piece in pieces)
    return [_field(text, word, scope, split=split) for text in itertools.islice(expanded, MAX_FIELDS)]


def _field(marked: str, word: Word, scope: Scope, *, split: bool) -> Field:
    if marked[:1] == "~":
        marked = _expand_tilde(marked, scope)
    glob = "*" in marked or "?" in marked or "[" in marked
    return Field(marked.translate(_UNMASK), word.span, word.raw, glob, split and DYNAMIC in marked)


def _expand_tilde(marked: str, scope: Scope) -> str:
    user, slash, rest = marked[1:].partition("/")
    if user == "":
        return scope.home + slash + rest
    if user in ("+", "-"):
        return (scope.cwd if user == "+" and scope.cwd is not None else DYNAMIC) + slash + rest
    return f"/home/{user}{slash}{rest}" if _USER.fullmatch(user) else marked


def _mark_part(part: Part, scope: Scope, evaluate: Evaluate | None) -> str:
    if isinstance(part, Text):
        return part.text.translate(_MASK) if part.quoted else part.text
    value = _value(part, scope, evaluate)
    if value is None:
        return DYNAMIC
    if value.startswith(DYNAMIC):
        if value.endswith(NAMES):
            return value
        return DYNAMIC + INSIDE if part.quoted or value.endswith(INSIDE * 2) else DYNAMIC
    if part.quoted:
        return value.translate(_MASK)
    if evaluate is None and not _UNSPLIT.fullmatch(value):
        return DYNAMIC
    ifs = scope.value("IFS") or ""
    return "".join(_SPLIT if char in ifs else char for char in value) if ifs else value


def _value(part: Part, scope: Scope, evaluate: Evaluate | None) -> str | None:
    if isinstance(part, Parameter):
        return _parameter(part, scope, evaluate)
    if isinstance(part, Substitution):
        if part.direction:
            return SUBSTITUTED
        if evaluate is None:
            return DYNAMIC + NAMES if scope.lists_names is not None and scope.lists_names(part.script, scope) else None
        return evaluate(part.script, scope)
    return None


def _parameter(part: Parameter, scope: Scope, evaluate: Evaluate | None) -> str | None:
    value = scope.value(part.name)
    if not part.operator:
        return value
    if part.operator == "[@]" and evaluate is not None:
        return value
    if evaluate is None or part.operand is None:
        return None
    if part.operator in (":-", "-", ":=", "=") and not value:
        return _expand_operand(part.operand, scope, evaluate)
    if part.operator in (":+", "+"):
        return _expand_operand(part.operand, scope, evaluate)
    return value if part.operator in (":-", "-", ":=", "=", ":?", "?") else None


def _expand_operand(word: Word, scope: Scope, evaluate: Evaluate) -> str | None:
    text = "".join(_mark_part(part, scope, evaluate) for part in word.parts).translate(_UNMASK).replace(_SPLIT, " ")
    return None if DYNAMIC in text else text


def expand_braces(text: str) -> list[str]:
    """Expands like bash, but returns at most MAX_FIELDS results."""
    results = [text] if "{" not in text else _braces(text, 0)
    return results[:MAX_FIELDS]


def _braces(text: str, depth: int) -> list[str]:
    found = _find_brace(text) if depth < 8 else None
    if found is None:
        return [text]
    start, end, choices = found
    heads = [text[:start] + inner for choice in choices for inner in _braces(choice, depth + 1)][:MAX_FIELDS]
    tails = _braces(text[end:], depth + 1)
    return [head + tail for head in heads for tail in tails][:MAX_FIELDS]


def _find_brace(text: str) -> tuple[int, int, list[str]] | None:
    """Returns the first brace list or range: start, end and alternatives."""
    starts = (match.start() for match in _OPEN.finditer(text))
    for start in itertools.islice(starts, _MAX_BRACES):
        level, commas = 0, [start]
        for index in range(start, min(len(text), start + _MAX_BRACED_CHARS)):
            char = text[index]
            level += (char == "{") - (char == "}")
            if char == "," and level == 1:
                commas.append(index)
            if level == 0:
                choices = _choices(text, commas, index)
                if choices:
                    return start, index + 1, choices
                break
    return None


def _choices(text: str, commas: list[int], end: int) -> list[str]:
    if len(commas) > 1:
        stops = [*commas[1:], end]
        return [text[begin + 1 : stop] for begin, stop in zip(commas, stops, strict=True)]
    match = _RANGE.fullmatch(text, commas[0] + 1, end)
    return _range(match[1], match[2], int(match[3] or 1)) if match else []


def _range(first: str, last: str, step: int) -> list[str]:
    if first.isalpha() != last.isalpha():
        return []
    low, high = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    stride = max(1, abs(step)) * (1 if high >= low else -1)
    numbers = itertools.islice(range(low, high + (1 if stride > 0 else -1), stride), MAX_FIELDS)
    return [chr(number) if first.isalpha() else str(number) for number in numbers]
