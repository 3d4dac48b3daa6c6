"""Makes text from servers safe to show: no escape codes, hidden characters or secrets, and a bounded length."""

from __future__ import annotations

import re
from collections.abc import Iterable

# `re` compiles and caches patterns at first use; compiling them here would be most of this module's import time.

# Terminal sequences: CSI, then OSC and similar up to their end, then any other escape with one character.
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?|\x9b[0-?]*[ -/]*[@-~]"
# Control characters, bidirectional overrides, zero-width characters and the invisible "tag" alphabet. The joiner U+200D
# stays, because emoji need it.
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
    """Removes escape sequences and hidden characters, and cuts the text."""
    # Cut before matching, because patterns cost time.
    text = text[: 4 * max_chars + 1024].replace("\r\n", "\n")
    return _shorten(re.sub(_HIDDEN, "", re.sub(_ESCAPES, "", text)).strip(), max_chars)


def _shorten(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


class Sanitiser:
    """Redacts the configured secrets and everything that has the form of a key."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        from aish.safety.redaction.redactor import (  # late: compiling its key formats takes a while
            MARK,
            Redactor,
        )

        self._mark = MARK
        self._known = Redactor(values)

    def redact(self, text: str) -> str:
        return re.sub(_KEY_FORMATS, self._mark, self._known.text(text))

    def show(self, text: str, max_chars: int) -> str:
        """Cleans before redacting, because an escape code may split a secret; cuts last, because a cut may, too."""
        return _shorten(self.redact(clean(text, 4 * max_chars)), max_chars)

    def show_line(self, text: str, max_chars: int) -> str:
        return " ".join(self.show(text, max_chars).split())
