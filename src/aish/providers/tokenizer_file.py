"""Counts tokens with the user's own `tokenizer.json`, for backends that cannot count. Loaded at the first use.

Needs the extra `tokenizer`. It computes, so it is called in a thread.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from aish.errors import ConfigError


class TokenizerFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._broken = False

    def count(self, text: str) -> int | None:
        """Returns None if the file cannot be used; `check` says why."""
        if self._broken:
            return None
        try:
            return len(self._tokenizer.encode(text, add_special_tokens=False).ids)
        except ConfigError:
            self._broken = True
            return None

    def check(self) -> None:
        """Raises ConfigError if the file cannot be used."""
        _ = self._tokenizer

    @cached_property
    def _tokenizer(self) -> Any:
        try:
            from tokenizers import Tokenizer
        except ImportError as exc:
            raise ConfigError(
                "a tokenizer file needs the package tokenizers", hint="pip install 'aish-runtime[tokenizer]'"
            ) from exc
        try:
            return Tokenizer.from_file(str(self._path))
        except Exception as exc:  # it raises bare Exceptions
            raise ConfigError(
                f"{self._path} is no tokenizer: {exc}", hint="it is usually called tokenizer.json"
            ) from exc
