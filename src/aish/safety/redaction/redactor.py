"""Takes secrets out of text: for good before it is stored, logged or shown; for the way to a model and back.

Known are the values that were configured or that stand in environment variables named like secrets, and the common key
formats. `Redactor` replaces them by a mark. A `Vault` replaces them by placeholders that a model can repeat, and puts
the secrets back into what it says, also when a placeholder arrives in pieces.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from aish.safety.redaction.secret_formats import find_begun, groups

MARK = "[redacted]"
# Shorter values ("1234", "true") would black out ordinary text.
MIN_SECRET_CHARS = 6

# For the first character of a secret and for each other one; no text that can be stored has them.
_FIRST, _REST = "\ud800", "\ud801"

# In our own JSON: names of fields, and what stands in those that say what something is.
_OUR_WORD = re.compile(r"[a-z][a-z_.]*")
TAGS = frozenset(
    {"type", "role", "status", "object", "kind", "state", "reason", "end", "effect", "verdict", "category"}
)
_OTHERS = frozenset({"arguments", "metadata"})  # where the words are somebody else's
_CONTROL = re.compile(r"[\x00-\x1f]")  # which no string of JSON has
PLACEHOLDER = re.compile(r"<secret-[0-9a-f]{12}>")
_PLACEHOLDER_CHARS = len("<secret-") + 12 + len(">")
_PLACEHOLDER_START = "<secret-"


def has_placeholder(arguments: Any) -> bool:
    """Whether a placeholder stands anywhere in the arguments of a call, however deep they are."""
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
    """Knows the values and shows none: its repr has only their number."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        long_enough = {value for value in values if len(value) >= MIN_SECRET_CHARS}
        # Longest first, so that a secret which contains another goes as a whole.
        self._values = sorted(long_enough, key=lambda value: (-len(value), value))
        # In a line of JSON a value stands escaped, and within the JSON text of a call's arguments twice. There the
        # model may have spelt out what is not ASCII.
        once = [form for value in self._values for form in (_escaped(value), _escaped(value, spelt_out=True))]
        self._escaped = list(dict.fromkeys(form for value in once for form in (_escaped(value), value)))
        # A text may hold JSON. Most values have one form, and are looked for once.
        self._spoken = sorted({*self._values, *once}, key=lambda form: (-len(form), form))

    def text(self, text: str) -> str:
        """Also where the text is JSON, or holds some, and a value stands in it escaped."""
        return self._replace(text, self._spoken, _mark)

    def json(self, line: bytes) -> bytes:
        """The same for JSON of others, whatever it is there: a number, too, and then it is no JSON any more."""
        text = line.decode()
        redacted = self._replace(text, self._escaped, _mark)
        return line if redacted is text else redacted.encode()

    def line(self, line: bytes) -> bytes:
        """The same for a line of our own JSON: what it says, not the words it is built of, though one be a password."""
        redacted = self.json(line)
        if redacted is line:
            return line
        try:
            told = msgspec.json.encode(self._told(msgspec.json.decode(line)))
        except (msgspec.MsgspecError, RecursionError):  # more than one line, or none
            return redacted
        return told + b"\n" if line.endswith(b"\n") else told

    def _told(self, value: Any, name: str = "", *, ours: bool = True) -> Any:
        if isinstance(value, str):
            return value if ours and name in TAGS and _OUR_WORD.fullmatch(value) else self.text(value)
        if isinstance(value, list):
            return [self._told(item, name, ours=ours) for item in value]
        if isinstance(value, dict):
            return {self._key(key, ours=ours): self._member(key, item, ours=ours) for key, item in value.items()}
        return value

    def _member(self, key: str, item: Any, *, ours: bool) -> Any:
        if ours and key == "logprobs" and isinstance(item, list | dict):
            return type(item)()  # how likely its tokens were spells a secret out once more
        return self._told(item, key, ours=ours and key not in _OTHERS)

    def _key(self, key: str, *, ours: bool) -> str:
        return key if ours and _OUR_WORD.fullmatch(key) else self.text(key)

    def pieces(self, pieces: Sequence[str]) -> Sequence[str]:
        """The same for a text in pieces, or for JSON in pieces. Of a secret that several of them share, the first has
        the mark and the others nothing. The same object if there is none."""
        text = "".join(pieces)
        masked = self._replace(text, self._spoken, _mask)
        if masked is text:
            return pieces
        told, start = [], 0
        for piece in pieces:
            told.append(masked[start : start + len(piece)].replace(_REST, "").replace(_FIRST, MARK))
            start += len(piece)
        return told

    def open_chars(self, text: str) -> int:
        """How much of its end may be part of a secret, were the text to go on: that cannot be told from it yet."""
        start = find_begun(text)
        for form in self._spoken:
            start = min(start, _begun_at(text, form))
        return len(text) - start

    def replace(self, text: str, stand_in: Callable[[str], str]) -> str:
        """Every secret in the text replaced by what `stand_in` makes of it as it stands there, escaped within JSON. The
        same object if there is none."""
        return self._replace(text, self._spoken, stand_in)

    def within_json(self, found: str) -> str:
        """What was found in a text, as it stands in a string of JSON; as it is, if that is where it was found."""
        is_plain = found in self._values or _CONTROL.search(found)
        return _escaped(found) if is_plain else found

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


def _begun_at(text: str, form: str) -> int:
    """Where the text breaks off in it; its length where it does not."""
    place = text.find(form[0], max(0, len(text) - len(form) + 1))
    while place >= 0 and not form.startswith(text[place:]):
        place = text.find(form[0], place + 1)
    return place if place >= 0 else len(text)


def _mark(secret: str) -> str:
    return MARK


def _mask(secret: str) -> str:
    return _FIRST + _REST * (len(secret) - 1)


def _escaped(value: str, *, spelt_out: bool = False) -> str:
    import json  # only for those who have secrets

    return json.dumps(value, ensure_ascii=spelt_out)[1:-1]


class Vault:
    """Placeholders for one session, made from its id and the secret, so that they need no memory.

    The same secret has the same placeholder in every turn, and another one in every other session.
    """

    def __init__(self, redactor: Redactor, session: str) -> None:
        self._redactor = redactor
        self._session = session.encode()
        self._secrets: dict[str, str] = {}

    def scrub(self, text: str) -> str:
        return self._redactor.replace(text, self._placeholder)

    def restore(self, text: str) -> str:
        """Placeholders that were never given out stay as they are."""
        return self._put_back(text, str)

    def restore_json(self, text: str) -> str:
        """The same for JSON, where what the model was told of in words stands escaped."""
        return self._put_back(text, self._redactor.within_json)

    def _put_back(self, text: str, form: Callable[[str], str]) -> str:
        if _PLACEHOLDER_START not in text:
            return text
        known = self._secrets
        return PLACEHOLDER.sub(lambda match: form(known[match[0]]) if match[0] in known else match[0], text)

    def _placeholder(self, secret: str) -> str:
        digest = hmac.digest(self._session, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()
        placeholder = f"<secret-{digest[:12]}>"
        self._secrets[placeholder] = self.restore(secret)  # one that holds another has its placeholder already
        return placeholder


class Restorer:
    """Puts secrets back into a stream. Text is held only while it could still be the start of a placeholder.

    `restore` is the vault's for text, or the one for JSON.
    """

    def __init__(self, restore: Callable[[str], str]) -> None:
        self._restore = restore
        self._held = ""

    def feed(self, text: str) -> str:
        text = self._held + text
        keep = _held_chars(text)
        self._held = text[len(text) - keep :] if keep else ""
        return self._restore(text[: len(text) - keep] if keep else text)

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held


def _held_chars(text: str) -> int:
    """How much of the end may be a placeholder begun: at most all but its last character."""
    start = text.rfind("<", max(0, len(text) - _PLACEHOLDER_CHARS + 1))
    if start < 0:
        return 0
    tail = text[start:]
    could_be = _PLACEHOLDER_START.startswith(tail[: len(_PLACEHOLDER_START)]) and all(
        char in "0123456789abcdef" for char in tail[len(_PLACEHOLDER_START) :]
    )
    return len(tail) if could_be else 0
