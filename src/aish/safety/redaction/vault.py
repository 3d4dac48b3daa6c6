"""Placeholders for secrets on the way to a model, which can repeat them, and the secrets again on the way back."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Sequence
from typing import Any

from aish.safety.redaction.redactor import Redactor

PLACEHOLDER = re.compile(r"<secret-[0-9a-f]{12}>")
_PLACEHOLDER_CHARS = len("<secret-") + 12 + len(">")
_PLACEHOLDER_START = "<secret-"
_NOT_IN_NAMES = str.maketrans("", "", "<>")


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


class Vault:
    """Placeholders of one session, derived from its id and the secret, so that they need not be stored.

    A secret has the same placeholder in every turn, and another one in every other session.
    """

    def __init__(self, redactor: Redactor, session: str) -> None:
        self._redactor = redactor
        self._session = session.encode()
        self._secrets: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def scrub(self, text: str) -> str:
        """Returns the same object if there is no secret."""
        return self._redactor.replace_everywhere(text, self._placeholder)

    def scrub_joined(self, texts: Sequence[str]) -> Sequence[str]:
        """Also finds secrets that are split over texts which follow each other. The first part becomes the placeholder,
        the others nothing."""
        scrubbed = [self.scrub(text) for text in texts]
        if not any(map(self._redactor.open_chars, scrubbed[:-1])):
            return scrubbed
        return self._scrub_split(scrubbed)

    def _scrub_split(self, texts: Sequence[str]) -> Sequence[str]:
        spans = self._redactor.find_in_pieces(texts)
        joined, scrubbed, start = "".join(texts), [], 0
        for text in texts:
            end, done, kept = start + len(text), start, []
            for first, last in spans:
                if first < end and last > start:
                    kept.append(joined[done : max(first, done)])
                    kept += [self._placeholder(joined[first:last])] if first >= start else []
                    done = min(last, end)
            scrubbed.append("".join([*kept, joined[done:end]]) if done > start else text)
            start = end
        return scrubbed

    def scrub_name(self, name: str) -> str:
        """For names of tools and ids of calls, in which backends allow few characters."""
        scrubbed = self.scrub(name)
        if scrubbed is name:
            return name
        scrubbed = scrubbed.translate(_NOT_IN_NAMES)
        self._names[scrubbed] = name
        return scrubbed

    def restore_name(self, name: str) -> str:
        return self._names.get(name, name)

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
