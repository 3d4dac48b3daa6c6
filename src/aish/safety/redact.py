"""Takes known secret values out of text before it is stored, logged or shown."""

from __future__ import annotations

import json
from collections.abc import Iterable

MARK = "[redacted]"
# Shorter values ("1234", "true") would black out ordinary text.
MIN_SECRET_CHARS = 6


class Redactor:
    """Knows the values; forgets nothing, shows nothing: its repr has only their number."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        long_enough = {value for value in values if len(value) >= MIN_SECRET_CHARS}
        # Longest first, so that a secret which contains another goes as a whole.
        self._values = sorted(long_enough, key=len, reverse=True)
        self._encoded = [json.dumps(value, ensure_ascii=False)[1:-1].encode() for value in self._values]

    def text(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, MARK)
        return text

    def line(self, line: bytes) -> bytes:
        """The same for a line of JSON."""
        for value in self._encoded:
            line = line.replace(value, MARK.encode())
        return line

    def __repr__(self) -> str:
        return f"Redactor({len(self._values)} values)"
