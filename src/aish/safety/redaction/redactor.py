"""Removes secrets from text: permanently before it is stored, logged or shown, and temporarily on the way to a model.

Secrets are configured values, values of environment variables named like secrets, and common key formats. `Redactor`
replaces them by a mark. A `Vault` replaces them by placeholders that a model can repeat, and restores the secrets in
its output, even if a placeholder arrives in several pieces.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from aish.safety.redaction.secret_formats import find_beginning, groups

MARK = "[redacted]"
# Shorter values ("1234", "true") would redact ordinary text.
MIN_SECRET_CHARS = 6

# For the first character of a secret and for each further one; they cannot occur in stored text.
_FIRST, _REST = "\ud800", "\ud801"

# In our own JSON: field names, and values of the fields that say what something is.
_OUR_WORD = re.compile(r"[a-z][a-z_.]*")
TAGS = frozenset(
    {"type", "role", "status", "object", "kind", "state", "reason", "end", "effect", "verdict", "category"}
)
_EXTERNAL_FIELDS = frozenset({"arguments", "metadata"})  # their contents come from others
_CONTROL = re.compile(r"[\x00-\x1f]")  # not allowed in JSON strings
PLACEHOLDER = re.compile(r"<secret-[0-9a-f]{12}>")
_PLACEHOLDER_CHARS = len("<secret-") + 12 + len(">")
_PLACEHOLDER_START = "<secret-"


def has_placeholder(arguments: Any) -> bool:
    """Whether a placeholder occurs anywhere in the arguments of a call, at any depth."""
    waiting = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and _PLACEHOLDER_START in value and PLACEHOLDER.search(value):
            return True
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            waiting += value
    return False


class Redactor:
    """Its repr shows only the number of values."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        long_enough = {value for value in values if len(value) >= MIN_SECRET_CHARS}
        # Longest first, so that a secret that contains another one is replaced as a whole.
        self._values = sorted(long_enough, key=lambda value: (-len(value), value))
        # In JSON a value is escaped, and in the JSON text of a call's arguments twice. There a model may have used
        # escapes for characters beyond ASCII.
        once = [form for value in self._values for form in (_escape(value), _escape(value, ascii_only=True))]
        self._escaped_forms = list(dict.fromkeys(form for value in once for form in (_escape(value), value)))
        # Text may contain JSON. Most values look the same there and are searched once.
        self._text_forms = sorted({*self._values, *once}, key=lambda form: (-len(form), form))

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

    def within_json(self, found: str) -> str:
        """Returns the found text as it is written in a JSON string; unchanged if it was found in one."""
        is_plain = found in self._values or _CONTROL.search(found)
        return _escape(found) if is_plain else found

    def _replace(self, text: str, values: list[str], stand_in: Callable[[str], str]) -> str:
        for value in values:
            if value in text:
                text = text.replace(value, stand_in(value))
        for rare, formats in groups():
            if rare in text:
                for marker, pattern in formats:
                    if marker in text:
                        text = pattern.sub(lambda match: stand_in(match[0]), text)
        return text

    def __repr__(self) -> str:
        return f"Redactor({len(self._values)} values)"


def _find_prefix(text: str, form: str) -> int:
    """Returns where the text ends with a prefix of `form`; its length if it does not."""
    position = text.find(form[0], max(0, len(text) - len(form) + 1))
    while position >= 0 and not form.startswith(text[position:]):
        position = text.find(form[0], position + 1)
    return position if position >= 0 else len(text)


def _mark(secret: str) -> str:
    return MARK


def _mask(secret: str) -> str:
    return _FIRST + _REST * (len(secret) - 1)


def _escape(value: str, *, ascii_only: bool = False) -> str:
    import json  # only needed with secrets

    return json.dumps(value, ensure_ascii=ascii_only)[1:-1]


class Vault:
    """Placeholders of one session, derived from its id and the secret, so that they need not be stored.

    A secret has the same placeholder in every turn, and another one in every other session.
    """

    def __init__(self, redactor: Redactor, session: str) -> None:
        self._redactor = redactor
        self._session = session.encode()
        self._secrets: dict[str, str] = {}

    def scrub(self, text: str) -> str:
        return self._redactor.replace(text, self._placeholder)

    def restore(self, text: str) -> str:
        """Unknown placeholders stay as they are."""
        return self._restore_with(text, str)

    def restore_json(self, text: str) -> str:
        """Restores inside JSON, where values must be escaped."""
        return self._restore_with(text, self._redactor.within_json)

    def _restore_with(self, text: str, form: Callable[[str], str]) -> str:
        if _PLACEHOLDER_START not in text:
            return text
        known = self._secrets
        return PLACEHOLDER.sub(lambda match: form(known[match[0]]) if match[0] in known else match[0], text)

    def _placeholder(self, secret: str) -> str:
        digest = hmac.digest(self._session, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()
        placeholder = f"<secret-{digest[:12]}>"
        # a secret that contains another one has that one's placeholder already
        self._secrets[placeholder] = self.restore(secret)
        return placeholder


class Restorer:
    """Restores secrets in a stream. Text is kept back only as long as it may be the start of a placeholder.

    `restore` is the vault's method for text, or the one for JSON.
    """

    def __init__(self, restore: Callable[[str], str]) -> None:
        self._restore = restore
        self._pending = ""

    def feed(self, text: str) -> str:
        text = self._pending + text
        keep = _pending_chars(text)
        self._pending = text[len(text) - keep :] if keep else ""
        return self._restore(text[: len(text) - keep] if keep else text)

    def finish(self) -> str:
        pending, self._pending = self._pending, ""
        return pending


def _pending_chars(text: str) -> int:
    """Returns how many characters at the end may begin a placeholder: at most all but its last one."""
    start = text.rfind("<", max(0, len(text) - _PLACEHOLDER_CHARS + 1))
    if start < 0:
        return 0
    tail = text[start:]
    could_be = _PLACEHOLDER_START.startswith(tail[: len(_PLACEHOLDER_START)]) and all(
        char in "0123456789abcdef" for char in tail[len(_PLACEHOLDER_START) :]
    )
    return len(tail) if could_be else 0
