"""Removes secrets from text: permanently before it is stored, logged or shown, and temporarily on the way to a model.

Secrets are configured values, values of environment variables named like secrets, and common key formats. `Redactor`
replaces them by a mark. A `Vault` (see `vault`) replaces them by placeholders, and restores the secrets.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from aish.safety.redaction.secret_formats import GROUPS, find_beginning

MARK = "[redacted]"
# Shorter values ("1234", "true") would redact ordinary text.
MIN_SECRET_CHARS = 6
# A line of a value that has several, such as a private key, is a secret of its own. A shorter one says little.
_MIN_LINE_CHARS = 16

# For the first character of a secret and for each further one; they cannot occur in stored text.
_FIRST, _REST = "\ud800", "\ud801"

# In our own JSON: field names, and values of the fields that say what something is.
_OUR_WORD = re.compile(r"[a-z][a-z_.]*")
TAGS = frozenset(
    {"type", "role", "status", "object", "kind", "state", "reason", "end", "effect", "verdict", "category"}
)
_EXTERNAL_FIELDS = frozenset({"arguments", "metadata"})  # their contents come from others
_SPACE = re.compile(r"\s")
_ESCAPES = re.compile(r"(?:\\+(?:u[0-9A-Fa-f]{4}|/))+")
_BACKSLASHES = re.compile(r"\\+")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
_URL_SAFE = str.maketrans("+/", "-_")
_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~")  # what percent-encoding leaves as it is
_MASKED = re.compile(f"{_FIRST}{_REST}*")
_CONTROL = re.compile(r"[\x00-\x1f]")  # not allowed in JSON strings


class Redactor:
    """Its repr shows only the number of values."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        long_enough = {value for value in values if len(value) >= MIN_SECRET_CHARS}
        long_enough.update([line for value in long_enough for line in _secret_lines(value)])
        # Longest first, so that a secret that contains another one is replaced as a whole.
        self._values = sorted(long_enough, key=lambda value: (-len(value), value))
        # In JSON a value is escaped, and in the JSON text of a call's arguments twice. There a model may have used
        # escapes for characters beyond ASCII.
        once = [form for value in self._values for form in (_escape(value), _escape(value, ascii_only=True))]
        self._escaped_forms = list(dict.fromkeys(form for value in once for form in (_escape(value), value)))
        # Text may contain JSON. Most values look the same there and are searched once.
        self._text_forms = sorted({*self._values, *once}, key=lambda form: (-len(form), form))
        self._encoded_forms: list[str] | None = None  # made at first use, only with `redact`

    def text(self, text: str) -> str:
        """Redacts text that may be or contain JSON, where values are escaped."""
        return self._replace(text, self._text_forms, _mark)

    def json(self, line: bytes) -> bytes:
        """Redacts external JSON completely. If a number is redacted, the result is no longer valid JSON."""
        text = line.decode()
        redacted = self._replace(text, self._escaped_forms, _mark)
        return line if redacted is text else redacted.encode()

    def line(self, line: bytes) -> bytes:
        """Redacts a line of our own JSON, but not field names and type words, even if a secret equals one of them."""
        redacted = self.json(line)
        if redacted is line:
            return line
        try:
            redacted_line = msgspec.json.encode(self._redact_value(msgspec.json.decode(line)))
        except (msgspec.MsgspecError, RecursionError):  # not exactly one line
            return redacted
        return redacted_line + b"\n" if line.endswith(b"\n") else redacted_line

    def _redact_value(self, value: Any, name: str = "", *, is_ours: bool = True) -> Any:
        if isinstance(value, str):
            return value if is_ours and name in TAGS and _OUR_WORD.fullmatch(value) else self.text(value)
        if isinstance(value, list):
            return [self._redact_value(item, name, is_ours=is_ours) for item in value]
        if isinstance(value, dict):
            return {
                self._redact_key(key, is_ours=is_ours): self._redact_member(key, item, is_ours=is_ours)
                for key, item in value.items()
            }
        return value

    def _redact_member(self, key: str, item: Any, *, is_ours: bool) -> Any:
        if is_ours and key == "logprobs" and isinstance(item, list | dict):
            return type(item)()  # token probabilities would spell a secret out again
        return self._redact_value(item, key, is_ours=is_ours and key not in _EXTERNAL_FIELDS)

    def _redact_key(self, key: str, *, is_ours: bool) -> str:
        return key if is_ours and _OUR_WORD.fullmatch(key) else self.text(key)

    def pieces(self, pieces: Sequence[str]) -> Sequence[str]:
        """Redacts text or JSON that comes in pieces. The first piece of a secret gets the mark, its other pieces
        nothing. Returns the same object if there is no secret."""
        text = "".join(pieces)
        masked = self._replace(text, self._text_forms, _mask)
        if masked is text:
            return pieces
        redacted_line, start = [], 0
        for piece in pieces:
            redacted_line.append(masked[start : start + len(piece)].replace(_REST, "").replace(_FIRST, MARK))
            start += len(piece)
        return redacted_line

    def open_chars(self, text: str) -> int:
        """Returns how many characters at the end may be the beginning of a secret."""
        start = find_beginning(text)
        for form in self._text_forms:
            start = min(start, _find_prefix(text, form))
        return len(text) - start

    def replace(self, text: str, stand_in: Callable[[str], str]) -> str:
        """Replaces every secret by `stand_in` of the found text, which is escaped inside JSON. Returns the same
        object if there is none."""
        return self._replace(text, self._text_forms, stand_in)

    def replace_everywhere(self, text: str, stand_in: Callable[[str], str]) -> str:
        """Like `replace`, and also finds values in base64, percent-encoded, or written with JSON's escapes."""
        if self._encoded_forms is None:
            self._encoded_forms = list(dict.fromkeys(form for value in self._values for form in _encode(value)))
        text = self.replace(text, stand_in)
        for form in self._encoded_forms:
            if form in text:
                text = text.replace(form, stand_in(form))
        if "\\" not in text or (plain := _ESCAPES.sub(_unescape, text)) == text:
            return text
        replaced = self.replace(plain, stand_in)
        return text if replaced is plain else replaced

    def text_everywhere(self, text: str) -> str:
        return self.replace_everywhere(text, _mark)

    def find_in_pieces(self, pieces: Sequence[str]) -> list[tuple[int, int]]:
        """Returns where the secrets of the joined pieces begin and end."""
        masked = self._replace("".join(pieces), self._text_forms, _mask)
        return [match.span() for match in _MASKED.finditer(masked)]

    def within_json(self, found: str) -> str:
        """Returns the found text as it is written in a JSON string; unchanged if it was found in one."""
        is_plain = found in self._values or _CONTROL.search(found)
        return _escape(found) if is_plain else found

    def _replace(self, text: str, values: list[str], stand_in: Callable[[str], str]) -> str:
        for value in values:
            if value in text:
                text = text.replace(value, stand_in(value))
        for rare, formats in GROUPS:
            if rare in text:
                for format in formats:
                    if format.marker in text:
                        text = format.sub(lambda match: stand_in(match[0]), text)
        return text

    def __repr__(self) -> str:
        return f"Redactor({len(self._values)} values)"


def _find_prefix(text: str, form: str) -> int:
    """Returns where the text ends with a prefix of `form`; its length if it does not."""
    position = text.find(form[0], max(0, len(text) - len(form) + 1))
    while position >= 0 and not form.startswith(text[position:]):
        position = text.find(form[0], position + 1)
    return position if position >= 0 else len(text)


def _secret_lines(value: str) -> list[str]:
    """The lines of a value that has several; not those that a file of this kind always has, nor sentences."""
    lines = [line.strip() for line in value.splitlines()]
    return [line for line in lines if len(line) >= _MIN_LINE_CHARS and line[:5] != "-----" and not _SPACE.search(line)]


def _encode(value: str) -> list[str]:
    """Returns the value as base64 and percent-encoded. In base64 it depends on what stands before it: of the three
    ways, only the characters that hold nothing else."""
    from base64 import b64encode  # only needed with `redact`

    data = value.encode("utf-8", "surrogatepass")
    encoded = []
    for before in range(3):
        first, end = (before * 8 + 5) // 6, (before + len(data)) * 8 // 6
        core = b64encode(b"\0" * before + data).decode()[first:end]
        encoded += [core, core.translate(_URL_SAFE)]
    percent = "".join([chr(byte) if chr(byte) in _UNRESERVED else f"%{byte:02X}" for byte in data])
    return encoded if percent == value else [*encoded, percent]


def _unescape(match: re.Match[str]) -> str:
    """Decodes escapes of JSON. A quote, a backslash or a control character becomes its usual escape."""
    import json

    text: str = json.loads('"' + _BACKSLASHES.sub(r"\\", match[0]) + '"')
    return match[0] if _LONE_SURROGATE.search(text) else _escape(text)


def _mark(secret: str) -> str:
    return MARK


def _mask(secret: str) -> str:
    return _FIRST + _REST * (len(secret) - 1)


def _escape(value: str, *, ascii_only: bool = False) -> str:
    import json  # only needed with secrets

    return json.dumps(value, ensure_ascii=ascii_only)[1:-1]
