"""Error messages at the prompt. Where a hint names a command of `aish`, the prompt's own `:` command is shown
instead."""

from __future__ import annotations

import re

from aish.errors import AishError

_PROMPT_COMMANDS = {
    "models": ":models", "models list": ":models", "runs list": ":runs", "plan": ":plan", "sessions list": ":sessions",
    "doctor": ":doctor", "config trust": ":trust",
}  # fmt: skip
# Commands without a `:` form, such as `aish models pull`, stay as they are: they can be typed at the prompt, too.
_AISH_COMMAND = re.compile(
    r"\baish (models list|models(?! (?:pull|rm)\b)|runs list|plan(?! delete\b)|sessions list|doctor|config trust)\b"
)


def error_text(error: AishError) -> str:
    return f"aish: {error.message}" + (f"\n  {in_prompt_words(error.hint)}" if error.hint else "")


def in_prompt_words(hint: str) -> str:
    return _AISH_COMMAND.sub(lambda match: _PROMPT_COMMANDS[match[1]], hint)
