"""Splits the part of a line that is completed into words, as bash does for completion functions."""

from __future__ import annotations

import re

import msgspec

_SEPARATORS = "|&;()\n"
_BLANK = " \t"
_BREAKS = "=:<>"  # the rest of COMP_WORDBREAKS: they are words of their own
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[[^]]*\])?\+?=")
_SPECIAL = re.compile(r"([\s\"'\\$`!&|;()<>*?\[\]{}#~])")


class Split(msgspec.Struct, frozen=True):
    """`words` of the command at the cursor, of which the last is completed; `plain` is that word without quotes."""

    words: tuple[str, ...]
    plain: str
    start: int
    quote: str
    command_start: int

    @property
    def current(self) -> str:
        word = self.words[-1]
        return "" if word and word[-1] in _BREAKS and len(word) == 1 else word


class _Word(msgspec.Struct):
    start: int
    raw: str = ""
    plain: str = ""
    quote: str = ""
    assignment: bool = False


def split(line: str, cursor: int) -> Split:
    text = line[:cursor]
    words, command_start = _words(text)
    while len(words) > 1 and words[0].assignment:
        words.pop(0)
        command_start = words[0].start
    last = words[-1]
    return Split(tuple(word.raw for word in words), last.plain, last.start, last.quote, command_start)


def _words(text: str) -> tuple[list[_Word], int]:
    words: list[_Word] = []
    word: _Word | None = None
    command_start, at = 0, 0
    while at < len(text):
        character = text[at]
        if word is not None and word.quote:
            at += _in_quote(word, text, at)
        elif character in _SEPARATORS:
            words, word, command_start = [], None, at + 1
            at += 1
        elif character in _BLANK:
            word = None
            at += 1
        elif character in _BREAKS and not _is_assigning(words, word, text, at):
            words.append(_Word(at, character, ""))
            word = None
            at += 1
        else:
            if word is None:
                word = _Word(at)
                words.append(word)
            at += _in_word(word, text, at)
    return _with_current(words, word, text), command_start


def _with_current(words: list[_Word], word: _Word | None, text: str) -> list[_Word]:
    """There is always a word at the cursor, which may be empty."""
    if word is None and words and words[-1].raw in _BREAKS and text[-1:] not in _BLANK:
        words[-1].start = len(text)  # `--x=`: the text after the break is completed
    elif word is None:
        words.append(_Word(len(text)))
    return words


def _is_assigning(words: list[_Word], word: _Word | None, text: str, at: int) -> bool:
    before = all(each.assignment for each in words[:-1])
    if text[at] != "=" or word is None or not before or not _ASSIGNMENT.fullmatch(text[word.start : at + 1]):
        return False
    word.assignment = True
    return True


def _in_word(word: _Word, text: str, at: int) -> int:
    character = text[at]
    if character == "\\" and at + 1 < len(text):
        word.raw += text[at : at + 2]
        word.plain += text[at + 1]
        return 2
    word.raw += character
    if character in "\"'":
        word.quote = character
    else:
        word.plain += character
    return 1


def _in_quote(word: _Word, text: str, at: int) -> int:
    character = text[at]
    if character == word.quote:
        word.quote = ""
    elif word.quote == '"' and character == "\\" and text[at + 1 : at + 2] in ("$", "`", '"', "\\"):
        word.raw += text[at : at + 2]
        word.plain += text[at + 1]
        return 2
    else:
        word.plain += character
    word.raw += character
    return 1


def quote_name(text: str, quote: str) -> str:
    """Returns a name as it must be written in the line, after the opening quote if there is one."""
    if quote == "'":
        return "'" + text.replace("'", "'\\''")
    if quote == '"':
        return '"' + re.sub(r'(["\\$`])', r"\\\1", text)
    if text.startswith("~/"):
        return "~" + _SPECIAL.sub(r"\\\1", text[1:])
    return _SPECIAL.sub(r"\\\1", text)
