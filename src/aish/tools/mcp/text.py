"""Makes text from servers harmless to show: no escape codes, no hidden characters, no secrets, bounded length."""

from __future__ import annotations

import re
from collections.abc import Iterable

# `re` compiles and keeps patterns when they are first used; compiled here they would be most of what this import costs.

# Terminal sequences: CSI, then OSC and its kind up to their end, then any other escape with one character.
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?|\x9b[0-?]*[ -/]*[@-~]"
# Control characters, bidirectional overrides, zero-width characters and the invisible "tag" alphabet. The joiner U+200D
# stays: emoji need it.
_HIDDEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)
_KEY_FORMATS = (
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{10,}|\bgh[opsru]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bxox[abeoprs]-[\w-]{10,}|\bAKIA[A-Z0-9]{12,}|\bAIza[\w-]{30,}|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
    r"|(?i:(?<=bearer )[\w.~+/-]{8,}=*(?![\w=\"]))"
)


def clean(text: str, max_chars: int) -> str:
    """What a person sees is what there is."""
    # Cut before looking closely: patterns cost time, and nobody reads the rest.
    text = text[: 4 * max_chars + 1024].replace("\r\n", "\n")
    return _cut(re.sub(_HIDDEN, "", re.sub(_ESCAPES, "", text)).strip(), max_chars)


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


class Sanitiser:
    """Takes out of text what must not be shown: the configured values, and whatever has the form of a key."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        from aish.safety.redaction.redactor import (  # late: compiling its many formats of keys takes a while
            MARK,
            Redactor,
        )

        self._mark = MARK
        self._known = Redactor(values)

    def redact(self, text: str) -> str:
        return re.sub(_KEY_FORMATS, self._mark, self._known.text(text))

    def show(self, text: str, max_chars: int) -> str:
        """Cleaned before it is redacted, since an escape code may part a secret; cut last, since a cut may too."""
        return _cut(self.redact(clean(text, 4 * max_chars)), max_chars)

    def show_line(self, text: str, max_chars: int) -> str:
        return " ".join(self.show(text, max_chars).split())
