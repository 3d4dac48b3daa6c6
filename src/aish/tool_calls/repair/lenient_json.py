"""Reads JSON as models write it: Python's literals and quotes, trailing commas, comments, raw newlines, missing
brackets.

Only deviations with a certain meaning are accepted, and each is recorded. A value that is cut off, or that could be
read in two ways, is never completed but raises UnreadableJson. Knows no schemas and no tools.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from aish.tool_calls.schema.validator import MAX_LEVELS, TOO_DEEP, is_too_deep
from aish.types.tools import Repair, RepairKind

MAX_DEPTH = 64
_MAX_RESPELT = 256  # each is recorded separately

INVISIBLE = r"\ufeff\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069"
_SPACE = re.compile(rf"[\s{INVISIBLE}]*")
_INVISIBLE = re.compile(f"[{INVISIBLE}]")
_COMMENT = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.S)
_BEFORE_COMMENT = re.compile(rf"[\s{INVISIBLE}]*(?://|#|/\*)")
_CLOSERS = {"{": "}", "[": "]", "(": ")"}
# Each opening quote with those that close it.
QUOTES = {
    '"': '"', "'": "'", "`": "`", "“": "”“", "”": "”", "„": "“”", "‘": "’‘", "’": "’", "«": "»", "‹": "›",
    "「": "」", "＂": "＂",
}  # fmt: skip
COMMAS = ",;，；"
_TRIPLE = re.compile(r'"""(.*?)"""|\'\'\'(.*?)\'\'\'', re.S)
_WORD = re.compile(rf"[^\s:：{COMMAS}{{}}\[\]()\"'`=“”„‘’«»‹›「」＂{INVISIBLE}]+")
_IDENTIFIER = re.compile(r"[^\W\d][\w$.-]*")
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9]\d*(?:_\d{3})*)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_STRICT_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_SEPARATOR = re.compile(r":=|:|=>|=|：")
_BARE_KEY = re.compile(r"[^\W\d][\w$.-]*\s*[:=]")
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,64}")
_KNOWN_ESCAPES = frozenset('"\\/bfnrtu')
_DOUBTFUL_ESCAPES = _KNOWN_ESCAPES - {'"'}
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r"\\(.)", re.S)
_ESCAPED_CONTROL = re.compile(r"(?<!\\)(?:\\\\)*\\[\x00-\x1f]")


@cache
def _string_pattern(opening: str) -> re.Pattern[str]:
    """A string that this quote opens. Compiled when one is met, since most calls are standard JSON."""
    closing = QUOTES[opening]
    return re.compile(rf"{opening}([^{closing}\\]*(?:\\.[^{closing}\\]*)*)[{closing}]", re.S)


class UnreadableJson(Exception):
    """The message gives the reason, so that a model can correct it."""


class CutOff(UnreadableJson):
    """The text ends in the middle of a value."""


class DuplicateKey(UnreadableJson):
    """One key has two values."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key[:40]!r} is given twice")


class TooDeep(UnreadableJson):
    def __init__(self) -> None:
        super().__init__(TOO_DEEP)


def read_strictly(text: str) -> Any:
    """Reads standard JSON. A key with two different values is an error, since either could be meant."""
    try:
        value = msgspec.json.decode(text)
        if text.count(":") > 1:
            import json  # reads pairs, which the other does not; most calls have one

            json.loads(text, object_pairs_hook=_check_members)
    except RecursionError as exc:
        raise TooDeep from exc
    except (msgspec.DecodeError, ValueError) as exc:
        raise UnreadableJson(str(exc)) from exc
    if text.count("{") + text.count("[") > MAX_LEVELS and is_too_deep(value):
        raise TooDeep
    return value


def _check_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs) and any(members[key] != value for key, value in pairs):
        raise DuplicateKey(next(key for key, value in pairs if members[key] != value))
    return members


class Reader:
    """Reads values from `pos` on. `is_complete`: the text was not cut off, so brackets may be missing at its end.
    `outer_may_miss`: the outermost bracket may be missing after an inner one."""

    def __init__(self, text: str, pos: int = 0, *, is_complete: bool = False, outer_may_miss: bool = False) -> None:
        self.text = text
        self.pos = pos
        self.noted: dict[RepairKind, None] = {}  # the kinds of repairs, in order
        self._respelt: dict[str, str] = {}  # how whole numbers were written: `0x10` for 16
        self._is_complete = is_complete
        self._outer_may_miss = outer_may_miss
        self._open: list[str] = []

    def value(self) -> Any:
        char = self._peek()
        if char == "{":
            return self._object()
        if char in ("[", "("):
            return self._list()
        return self._string() if char in QUOTES else self._word()

    def repairs(self, before: str = "") -> list[Repair]:
        return [*(Repair(kind, "", before) for kind in self.noted), *self.respelt()]

    def respelt(self) -> list[Repair]:
        """Numbers in another notation, one by one, because their digits differ from the text."""
        return [Repair(RepairKind.LITERAL, "", word, number) for number, word in self._respelt.items()]

    def python_call(self) -> tuple[str, dict[str, Any]]:
        """Reads `name(key=value, …)`, as in Python."""
        self.space()
        name = _IDENTIFIER.match(self.text, self.pos)
        if name is None or self.text[name.end() : name.end() + 1] != "(":
            raise UnreadableJson("a call has to look like name(argument=value)")
        self.pos = name.end()
        return name[0], self._members("(", self._keyword)

    def space(self) -> None:
        while True:
            found = _SPACE.match(self.text, self.pos)
            if found and found.end() > self.pos:
                if _INVISIBLE.search(found[0]):
                    self._note(RepairKind.SURROUNDINGS)
                self.pos = found.end()
            comment = _COMMENT.match(self.text, self.pos)
            if comment is None:
                return
            self._note(RepairKind.COMMENT)
            self.pos = comment.end()

    def _note(self, kind: RepairKind) -> None:
        self.noted[kind] = None

    def _peek(self) -> str:
        self.space()
        return self.text[self.pos : self.pos + 1]

    def _object(self) -> dict[str, Any]:
        return self._members("{", self._key)

    def _members(self, opener: str, read_key: Any) -> dict[str, Any]:
        self._enter(opener)
        members: dict[str, Any] = {}
        while not self._ends_here(opener):
            key = read_key()
            value = self.value()
            if key in members and members[key] != value:
                raise DuplicateKey(key)
            members[key] = value
            if self._ends_after(opener, value):
                break
        return members

    def _ends_after(self, opener: str, value: Any) -> bool:
        """Returns whether nothing follows after a member. The comma may be missing before a quoted key, since
        nothing else can begin there."""
        char = self._peek()
        if char and char in COMMAS:
            self._comma(opener)
        elif self._ends_here(opener):
            return True
        elif len(self._open) == 1 and self._outer_may_miss and isinstance(value, dict):
            self._note(RepairKind.BRACKET)
            self._open.pop()
            return True
        elif opener == "{" and (char in QUOTES or self._on_new_line()):
            self._note(RepairKind.COMMA)
        else:
            raise self._unexpected_error()
        return False

    def _on_new_line(self) -> bool:
        """Whether a key without quotes begins a line here."""
        line = self.text.rfind("\n", 0, self.pos)
        begins = line >= 0 and not self.text[line : self.pos].strip()
        return begins and _BARE_KEY.match(self.text, self.pos) is not None

    def _comma(self, opener: str) -> None:
        """Reads a comma, superfluous ones, or a semicolon instead. Python allows one before the closing bracket."""
        if self.text[self.pos] != ",":
            self._note(RepairKind.COMMA)
        self.pos += 1
        while (char := self._peek()) and char in COMMAS:
            self._note(RepairKind.COMMA)
            self.pos += 1
        if char == _CLOSERS[opener] and opener != "(":
            self._note(RepairKind.COMMA)

    def _list(self) -> list[Any]:
        opener = self._peek()
        self._enter(opener)
        items: list[Any] = []
        commas = 0
        while not self._ends_here(opener):
            items.append(self.value())
            if (char := self._peek()) and char in COMMAS:
                commas += 1
                self._comma(opener)
            elif self._ends_here(opener):
                break
            elif opener == "[" and self._begins_item():
                self._note(RepairKind.COMMA)
            else:
                raise self._unexpected_error()
        if opener == "(":
            if len(items) == 1 and not commas:
                raise UnreadableJson("one value in parentheses may be a value or a list")
            self._note(RepairKind.LITERAL)
        return items

    def _begins_item(self) -> bool:
        """Whether another item begins here without a comma: there is white space, or brackets, in between."""
        before, here = self.text[self.pos - 1], self.text[self.pos]
        return before.isspace() or (before in "}]" and here in "{[")

    def _enter(self, opener: str) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise UnreadableJson("it is nested too deeply")
        self._open.append(opener)
        self.pos += 1

    def _ends_here(self, opener: str) -> bool:
        """Whether the value ends here: by its bracket, by an outer bracket, or with the text where that is allowed."""
        char = self._peek()
        if not char:
            if not (self._is_complete or (self._outer_may_miss and len(self._open) == 1 and self._after_bracket())):
                raise CutOff("the text ends in the middle of it")
            self._note(RepairKind.BRACKET)
        elif char == _CLOSERS[opener]:
            self.pos += 1
        elif any(char == _CLOSERS[outer] for outer in self._open[:-1]):
            self._note(RepairKind.BRACKET)
        else:
            return False
        self._open.pop()
        return True

    def _after_bracket(self) -> bool:
        return self.text[: self.pos].rstrip()[-1:] in ("}", "]")

    def _key(self) -> str:
        char = self._peek()
        if char in QUOTES:
            key = self._string()
        elif found := _IDENTIFIER.match(self.text, self.pos):
            key = found[0]
            self.pos = found.end()
            self._note(RepairKind.BARE_WORD)
        else:
            raise self._unexpected_error()
        self.space()
        separator = _SEPARATOR.match(self.text, self.pos)
        if separator is None:
            raise self._unexpected_error()
        if separator[0] != ":":
            self._note(RepairKind.SEPARATOR)
        self.pos = separator.end()
        return key

    def _keyword(self) -> str:
        self.space()
        found = _IDENTIFIER.match(self.text, self.pos)
        if found is None:
            raise UnreadableJson("arguments have to be named: name(argument=value)")
        self.pos = found.end()
        if self._peek() != "=":
            raise UnreadableJson("arguments have to be named: name(argument=value)")
        self.pos += 1
        return found[0]

    def _string(self) -> str:
        if triple := _TRIPLE.match(self.text, self.pos):
            return self._triple(triple)
        quote = self.text[self.pos]
        found = _string_pattern(quote).match(self.text, self.pos)
        if found is None:
            raise CutOff("a text in it is not closed")
        self.pos = found.end()
        if quote != '"':
            self._note(RepairKind.QUOTES)
        if quote == "`" and "\\" in found[1]:
            raise UnreadableJson("a text in backticks has escapes")
        return self._decode(found[1], quote)

    def _triple(self, found: re.Match[str]) -> str:
        content: str = found[1] if found[1] is not None else found[2]
        if "\\" in content:
            raise UnreadableJson("a text in triple quotes has escapes")
        self.pos = found.end()
        self._note(RepairKind.QUOTES)
        return content

    def _decode(self, content: str, quote: str) -> str:
        if _CONTROL.search(content):
            if _ESCAPED_CONTROL.search(content):
                raise UnreadableJson("a line in it ends with a backslash")
            self._note(RepairKind.NEWLINE)
            content = _CONTROL.sub(lambda control: f"\\u{ord(control[0]):04x}", content)
        if "\\'" in content:
            content = _unescape(content, "'")
            self._note(RepairKind.QUOTES)
        content = self._with_raw_backslashes(content)
        if quote != '"':
            content = re.sub(r'(\\.)|"', lambda found: found[1] or '\\"', content, flags=re.S)
        try:
            decoded: str = msgspec.json.decode(f'"{content}"', type=str)
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise UnreadableJson("a text in it has an escape that JSON does not know") from None
        return decoded

    def _with_raw_backslashes(self, content: str) -> str:
        """Escapes backslashes before characters that JSON does not escape. If the text has real escapes, too, it is
        ambiguous."""
        escapes = set(_ESCAPE.findall(content))
        if escapes <= _KNOWN_ESCAPES:
            return content
        if escapes & _DOUBTFUL_ESCAPES:
            raise UnreadableJson("a text in it has backslashes that are not escaped; write \\\\ for one")
        self._note(RepairKind.QUOTES)
        return _ESCAPE.sub(lambda found: found[0] if found[1] in _KNOWN_ESCAPES else f"\\{found[0]}", content)

    def _word(self) -> Any:
        found = _WORD.match(self.text, self.pos)
        if found is None:
            raise self._unexpected_error()
        self.pos = found.end()
        if self.pos == len(self.text) and not (self._is_complete and found[0] in _LITERALS):
            raise CutOff("the text ends in the middle of a value")
        return self._meant(found[0])

    def _meant(self, word: str) -> Any:
        if word in _LITERALS:
            if word[0].isupper():
                self._note(RepairKind.LITERAL)
            return _LITERALS[word]
        if _NUMBER.fullmatch(word):
            return self._number(word)
        if _HEX.fullmatch(word):
            return self._in_other_notation(word, int(word, 16))
        if _IDENTIFIER.fullmatch(word):
            if _BEFORE_COMMENT.match(self.text, self.pos):
                raise UnreadableJson(f"{word[:40]!r} has no quotes, and what follows may belong to it")
            self._note(RepairKind.BARE_WORD)
            return word
        raise UnreadableJson(f"{word[:40]!r} is neither a number nor a quoted text")

    def _number(self, word: str) -> int | float:
        try:
            number = int(word) if word.lstrip("+-").replace("_", "").isdecimal() else float(word)
        except ValueError:
            raise UnreadableJson(f"the number {word[:40]} is too long") from None
        if number in (float("inf"), float("-inf")):
            raise UnreadableJson(f"the number {word[:40]} is too large")
        if isinstance(number, int) and str(number) != word:
            return self._in_other_notation(word, number)
        if not _STRICT_NUMBER.fullmatch(word):
            self._note(RepairKind.LITERAL)
        return number

    def _in_other_notation(self, word: str, number: int) -> int:
        if len(self._respelt) >= _MAX_RESPELT:
            raise UnreadableJson("too many of its numbers are not written as JSON writes them")
        self._respelt[str(number)] = word
        return number

    def _unexpected_error(self) -> UnreadableJson:
        if self.pos >= len(self.text):
            return CutOff("the text ends in the middle of it")
        return UnreadableJson(f"{self.text[self.pos : self.pos + 12]!r} is not expected at character {self.pos + 1}")


def _unescape(content: str, quote: str) -> str:
    return re.sub(r"\\(.)", lambda found: found[1] if found[1] == quote else found[0], content, flags=re.S)
