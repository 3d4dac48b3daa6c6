"""Removes quotes and escapes as the shell does. Pure text, no expansion."""

from __future__ import annotations

import re

_SIMPLE = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n",
    "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ANSI = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_IN_QUOTES = re.compile(r'\\([$`"\\\n])')


def decode_ansi(text: str) -> str:
    """Decodes the inside of `$'…'`."""
    return _ANSI.sub(_decode_escape, text)


def _decode_escape(match: re.Match[str]) -> str:
    body = match[1]
    if body in _SIMPLE:
        return _SIMPLE[body]
    if body[0] in "xuU" and len(body) > 1:
        code = int(body[1:], 16)
        return chr(code) if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF else "\ufffd"
    if body[0] in "01234567":
        return chr(int(body, 8) & 0xFF)
    return "" if body[0] == "c" else match[0]


def unescape_quoted(text: str) -> str:
    """Decodes the inside of a double-quoted string, where a backslash escapes only a few characters."""
    return _IN_QUOTES.sub(lambda match: "" if match[1] == "\n" else match[1], text) if "\\" in text else text


def unescape_backticks(text: str) -> str:
    return re.sub(r"\\([`$\\])", r"\1", text)


def split_bare(text: str) -> list[tuple[str, bool]]:
    """Splits unquoted text into pieces (text, quoted): characters escaped by a backslash count as quoted."""
    if "\\" not in text:
        return [(text, False)]
    pieces: list[tuple[str, bool]] = []
    start = 0
    while (at := text.find("\\", start)) >= 0:
        if at > start:
            pieces.append((text[start:at], False))
        protected = text[at + 1 : at + 2]
        if protected and protected != "\n":
            pieces.append((protected, True))
        start = at + 2
    if start < len(text):
        pieces.append((text[start:], False))
    return pieces or [("", True)]
