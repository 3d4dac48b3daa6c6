"""Errors as they are told at the prompt: what a hint calls by its name on the command line has one of its own here."""

from __future__ import annotations

import re

from aish.errors import AishError

_HERE = {
    "models": ":models", "models list": ":models", "runs list": ":runs", "plan": ":plan", "sessions list": ":sessions",
    "doctor": ":doctor", "config trust": ":trust",
}  # fmt: skip
# Without what only the command line has, such as `aish models pull`: that can be typed here as well.
_CALLED = re.compile(
    r"\baish (models list|models(?! (?:pull|rm)\b)|runs list|plan(?! delete\b)|sessions list|doctor|config trust)\b"
)


def error_text(error: AishError) -> str:
    return f"aish: {error.message}" + (f"\n  {in_prompt_words(error.hint)}" if error.hint else "")


def in_prompt_words(hint: str) -> str:
    return _CALLED.sub(lambda called: _HERE[called[1]], hint)
