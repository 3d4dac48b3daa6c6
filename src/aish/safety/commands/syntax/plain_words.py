"""Reads words as bash does, for the unambiguous part of its grammar: quotes, escapes, plain expansions.

Written from bash's own rules and independently of the parser's tree, so that the two can be compared. The text is
Latin-1, one character for each byte, so that positions are bytes as in the tree. Everything that is not listed here is
outside the grammar and cannot be proved.
"""

from __future__ import annotations

import re

from aish.safety.commands.syntax.model import Block, Opaque, Parameter, Part, Substitution, Text, Word
from aish.safety.commands.syntax.quoting import unescape_quoted

MAX_SUBSTITUTIONS = 8  # nested; deeper ones are rare

# Unquoted characters of a word. Bytes that some systems count as blanks (0x85, 0xA0) are excluded.
_BARE = re.compile(r"[\w./:@%+,=^~*?\[\]{}#\x80-\x84\x86-\x9f\xa1-\xff-]+", re.ASCII)
# The same without characters that the shell would change or treat specially, up to the end of the word.
_INERT = re.compile(r"[\w./:@%+,^-][\w./:@%+,=^-]*(?=[ \t\n;|&)]|$)", re.ASCII)
_WORD_ENDS = frozenset(" \t\n;|&()<>")
_SINGLE = re.compile(r"'([^']*)'")
_DOUBLE_TEXT = re.compile(r'(?:[^"\\$`!\n]|\n|\\[^\n\x80-\xff])+')
# Only the escapes of blanks in `$'…'`, and no quote or backslash besides.
_ANSI = re.compile(r"\$'((?:[\w ./:@%+,=|-]|\\[tn])*)'", re.ASCII)
_PARAMETER = re.compile(r"\$(?:([A-Za-z_]\w*)|([0-9])(?![0-9])|([?#$@*-]))", re.ASCII)
_ARITHMETIC = re.compile(r"\$\(\([0-9 +*/%-]*[0-9][0-9 +*/%-]*\)\)", re.ASCII)
_LENGTH = re.compile(r"\$\{#[A-Za-z_]\w*\}", re.ASCII)
_OPERATORS = r":-|:\+|:\?|-|\+|\?|##|#|%%|%|//|/#|/%|/|\^\^|\^|,,|,"
_BRACED = re.compile(rf"\$\{{([A-Za-z_]\w*|[0-9@*?])(?:({_OPERATORS})([\w./:@%+,=^~*?\[\]# \t-]*))?\}}", re.ASCII)
# A literal dollar: at the end of a word, or before a character that begins no expansion.
_DOLLAR_ENDS_WORD = re.compile(r"\$(?=[ \t\n;|&)]|$)")
_DOLLAR_IN_QUOTES = re.compile(r'\$(?=[" \t/.,:;|)%^+=~&<>\]}])')
# History: `!` is literal only before these.
_PLAIN_BANG = re.compile(r"!(?=[ \t\n=]|$)")
_PLAIN_QUOTED_BANG = re.compile(r'!(?=[ \t\n="])')
_HISTORY = re.compile(r"!(?![ \t\n=(\"']|$)")
# One list or range in a word without quotes, or braces that the shell leaves alone.
_BRACES = re.compile(
    r"[^{}]*\{(?:[\w./-]+(?:,[\w./-]+){1,15}|(?:0|[1-9]\d{0,2})\.\.(?:0|[1-9]\d{0,2})|[a-z]\.\.[a-z]|[\w-]*)\}[^{}]*",
    re.ASCII,
)
_HOME = re.compile(r"~(?:[A-Za-z_][\w.-]*)?", re.ASCII)
_SPECIAL = frozenset("{}~=")
# Changed before a program gets it.
_ALIVE = frozenset("*?[]{}~")


class Outside(ValueError):
    """The line is not in the plain grammar; the message says why."""


class PlainWordReader:
    """Reads words at a position. `operators` are the tokens between them, with their positions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.operators: list[tuple[int, str]] = []
        self._quotes = 0  # double quotes around the current command
        self._substitutions = 0

    def script(self, start: int) -> Block:
        """Reads the commands up to the closing parenthesis."""
        raise NotImplementedError

    @property
    def is_inside(self) -> bool:
        return self._substitutions > 0

    def word(self) -> Word:
        start = self.at
        inert = _INERT.match(self.text, start)
        if inert is not None:
            self.at = inert.end()
            raw = inert[0]
            return Word((Text(raw, quoted=False),), raw, (start, self.at), raw)
        parts: list[Part] = []
        while self.at < len(self.text) and (char := self.text[self.at]) not in _WORD_ENDS:
            parts += self._parts(char)
        if self.at == start:
            raise Outside("a word is missing")
        if self.text[self.at : self.at + 1] == "(" or self.text.startswith(("<(", ">("), self.at):
            raise Outside("a parenthesis touches a word")
        word = Word(tuple(parts), _decode(self.text[start : self.at]), (start, self.at), _literal(parts))
        if not _SPECIAL.isdisjoint(word.raw):
            _check_unquoted(word)
        return word

    def process_substitution(self) -> Word:
        """Reads `<(…)` as a whole word."""
        start = self.at
        part = self._substitution(2, "<")
        if self.text[self.at : self.at + 1] not in _WORD_ENDS and self.at < len(self.text):
            raise Outside("a word touches a process substitution")
        return Word((part,), part.raw, (start, self.at))

    def check_comment(self, comment: str) -> None:
        if self._substitutions:
            raise Outside("a comment within a substitution")
        if _HISTORY.search(comment):
            raise Outside("an exclamation mark in a comment")

    def _parts(self, char: str) -> list[Part]:
        text, at = self.text, self.at
        if (bare := _BARE.match(text, at)) is not None:
            self.at = bare.end()
            return [Text(_decode(bare[0]), quoted=False)]
        if char == "'":
            return [self._single_quoted()]
        if char == '"':
            return self._double_quoted()
        if char == "\\":
            return [self._read_escaped()]
        if char == "$":
            return [self._unquoted_expansion()]
        if char == "!" and _PLAIN_BANG.match(text, at) and not self._quotes:
            self.at += 1
            return [Text("!", quoted=False)]
        raise Outside(f"the character {char!r} here")

    def _single_quoted(self) -> Part:
        match = _SINGLE.match(self.text, self.at)
        if match is None:
            raise Outside("a quote that is not closed")
        # History expansion handles quotes line by line, and ignores double quotes.
        if "!" in match[1] and (self._quotes or "\n" in match[1]) and _HISTORY.search(match[1]):
            raise Outside("an exclamation mark that may not be quoted")
        self.at = match.end()
        return Text(_decode(match[1]), quoted=True)

    def _read_escaped(self) -> Part:
        char = self.text[self.at + 1 : self.at + 2]
        if not char or char == "\n" or char >= "\x80":
            raise Outside("a backslash before the end of a line")
        self.at += 2
        return Text(char, quoted=True)

    def _double_quoted(self) -> list[Part]:
        self.at += 1
        parts: list[Part] = []
        while True:
            match = _DOUBLE_TEXT.match(self.text, self.at)
            if match is not None:
                self.at = match.end()
                parts.append(Text(_decode(unescape_quoted(match[0])), quoted=True))
            char = self.text[self.at : self.at + 1]
            if char == '"':
                self.at += 1
                return parts or [Text("", quoted=True)]
            if char == "$":
                parts.append(self._quoted_expansion())
            elif char == "!" and _PLAIN_QUOTED_BANG.match(self.text, self.at):
                self.at += 1
                parts.append(Text("!", quoted=True))
            else:
                raise Outside("quoting that is not plain")

    def _unquoted_expansion(self) -> Part:
        if (match := _DOLLAR_ENDS_WORD.match(self.text, self.at)) is not None:
            self.at = match.end()
            return Text("$", quoted=False)
        if (match := _ANSI.match(self.text, self.at)) is not None and not self._quotes:
            self.at = match.end()
            return Text(match[1].replace("\\t", "\t").replace("\\n", "\n"), quoted=True)
        return self._expansion(quoted=False)

    def _quoted_expansion(self) -> Part:
        if (match := _DOLLAR_IN_QUOTES.match(self.text, self.at)) is not None:
            self.at = match.end()
            return Text("$", quoted=True)
        self._quotes += 1
        part = self._expansion(quoted=True)
        self._quotes -= 1
        return part

    def _expansion(self, *, quoted: bool) -> Part:
        text, at = self.text, self.at
        if (match := _PARAMETER.match(text, at)) is not None:
            self.at = match.end()
            return Parameter(match[0][1:], quoted, match[0])
        if (match := _ARITHMETIC.match(text, at)) is not None:
            self.at = match.end()
            return Opaque(match[0], quoted, (), arithmetic=True)
        if (match := _LENGTH.match(text, at)) is not None:
            self.at = match.end()
            return Opaque(match[0], quoted)
        if (match := _BRACED.match(text, at)) is not None and (quoted or not set(" \t") & set(match[0])):
            self.at = match.end()
            return Parameter(match[1], quoted, match[0], match[2] or "")
        if text.startswith("$(", at) and not text.startswith("$((", at):
            return self._substitution(2, "", quoted=quoted)
        raise Outside("an expansion that is not plain")

    def _substitution(self, width: int, direction: str, *, quoted: bool = False) -> Substitution:
        start = self.at
        self._substitutions += 1
        if self._substitutions > MAX_SUBSTITUTIONS:
            raise Outside("substitutions nested deeply")
        self.operators.append((start, self.text[start : start + width]))
        self.at += width
        script = self.script(start)
        if self.text[self.at : self.at + 1] != ")":
            raise Outside("a parenthesis that is not closed")
        self.operators.append((self.at, ")"))
        self.at += 1
        self._substitutions -= 1
        return Substitution(script, quoted, _decode(self.text[start : self.at]), direction)


def _check_unquoted(word: Word) -> None:
    """Checks other changes of a word by the shell, braces and tildes, and words that other parsers misread."""
    bare = "".join(part.text if isinstance(part, Text) and not part.quoted else "\0" for part in word.parts)
    if ("{" in bare or "}" in bare) and ("\0" in bare or not _BRACES.fullmatch(bare)) and bare not in ("{", "}"):
        raise Outside("braces that are not plain")
    if bare.startswith("==") or "=~" in bare or (":~" in bare and "=" in bare):
        raise Outside("a comparison as a word")
    if bare[:1] == "~":
        home = bare.partition("/")[0]
        if not _HOME.fullmatch(home):
            raise Outside("a tilde that is not plain")


def _decode(text: str) -> str:
    if text.isascii():
        return text
    try:
        return text.encode("latin-1").decode()
    except UnicodeDecodeError as exc:
        raise Outside("a character that some systems take for a blank") from exc


def _literal(parts: list[Part]) -> str | None:
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, Text) or not (part.quoted or _ALIVE.isdisjoint(part.text)):
            return None
        texts.append(part.text)
    return "".join(texts)
