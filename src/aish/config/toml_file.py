"""Reads TOML: a file of settings, with the line of each key in it, and the table of prices that ships with aish."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from aish.config.schema.config import PriceConfig
from aish.config.schema.tree import KeyPath
from aish.types.usage import Price

# A settings file is a page or two; a larger file is something else.
MAX_FILE_BYTES = 1024 * 1024
# No key is searched in longer lines: patterns take long over them.
_MAX_LINE_CHARS = 1000

_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=(.*)")
_AT = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)")
_QUOTES = ('"""', "'''")


class Unreadable(Exception):
    """Says why a file cannot be used. `line` is 0 if the problem has no line."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class TomlFile:
    def __init__(self, path: Path, content: bytes, values: dict[str, Any]) -> None:
        self.path = path
        self.content = content
        self.values = values

    def locate(self, key: KeyPath) -> str:
        """Returns `file:line` of the key, or of the nearest table around it that is found."""
        for length in range(len(key), 0, -1):
            if key[:length] in self._lines:
                return f"{self.path}:{self._lines[key[:length]]}"
        return str(self.path)

    @cached_property
    def _lines(self) -> dict[KeyPath, int]:
        return _index(self.content.decode("utf-8-sig"))


def read_toml(path: Path) -> TomlFile | None:
    """None if there is no such file. Raises Unreadable."""
    try:
        content = read_bounded(path)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise Unreadable(f"cannot be read: {exc.strerror}") from exc
    return TomlFile(path, content, _parse(content))


def read_bounded(path: Path) -> bytes:
    """Raises OSError and Unreadable."""
    # Checked before opening: to open a pipe would wait for its other end.
    if not stat.S_ISREG(path.stat().st_mode):
        raise Unreadable("is not a file")
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise Unreadable("is larger than 1 MiB")
    return content


def _parse(content: bytes) -> dict[str, Any]:
    import tomllib  # only needed if there is a file

    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as exc:
        raise Unreadable("is not UTF-8 text", content.count(b"\n", 0, exc.start) + 1) from exc
    except RecursionError:
        raise Unreadable("is nested too deeply") from None
    except ValueError as exc:
        raise Unreadable(f"is not valid TOML: {_AT.sub('', str(exc))}", _line_of(exc, content)) from exc


def _line_of(error: ValueError, content: bytes) -> int:
    found = _AT.search(str(error))
    if found is None:
        return 0
    return int(found[1]) if found[1] else len(content.splitlines())


def _index(text: str) -> dict[KeyPath, int]:
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    quote = ""
    for number, line in enumerate(text.split("\n"), 1):
        if quote:
            quote = "" if quote in line else quote
        elif len(line) > _MAX_LINE_CHARS:
            continue
        elif header := _HEADER.match(line):
            table = _split(header[1])
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_split(key[1])), number)
            quote = next((mark for mark in _QUOTES if key[2].count(mark) % 2), "")
    return lines


def _split(dotted: str) -> KeyPath:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))


class PriceTable(msgspec.Struct, frozen=True):
    date: str
    source: str
    prices: dict[str, Price]


def shipped_prices() -> PriceTable:
    import tomllib  # loaded only when prices are needed

    text = Path(__file__).with_name("prices.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), PriceTable, strict=False)


def configured_prices(configured: Mapping[str, PriceConfig]) -> dict[str, Price]:
    return {name: Price(price.prompt, price.completion, price.cached) for name, price in configured.items()}


def price_table(configured: Mapping[str, PriceConfig]) -> dict[str, Price]:
    return {**shipped_prices().prices, **configured_prices(configured)}
