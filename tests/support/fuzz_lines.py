"""Lines of shell for the fuzzer: everyday ones, taken apart and put together with whatever readers disagree about."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
MAX_CHARS = 400


class LineMaker:
    """The same seed gives the same lines."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._corpus = _corpus()
        pieces = _read("fuzz.toml")
        self._programs, self._words, self._redirects = pieces["programs"], pieces["words"], pieces["redirects"]
        self._joints, self._harms, self._odd = pieces["joints"], pieces["harms"], pieces["odd"]
        self._wraps: list[tuple[str, str]] = pieces["wraps"]

    def lines(self, count: int) -> Iterator[str]:
        for _ in range(count):
            yield self._line()

    def _line(self) -> str:
        kind = self._random.random()
        if kind < 0.45:
            return self._built()
        return self._mutated(self._pick(self._corpus) if kind < 0.8 else self._built())

    def _pick(self, *choices: Sequence[str]) -> str:
        return self._random.choice(self._random.choice(choices))

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _command(self) -> str:
        words = [self._pick(self._programs)]
        words += [self._pick(self._words) for _ in range(self._random.choice((0, 0, 1, 1, 2)))]
        if self._chance(0.15):
            words.append(self._pick(self._redirects))
        return " ".join(words)

    def _built(self) -> str:
        parts = [self._command()]
        for _ in range(self._random.choice((0, 0, 1, 1, 2, 3))):
            parts += [self._pick(self._joints), self._command()]
        if self._chance(0.5):
            odd = " ".join(self._pick(self._odd) for _ in range(self._random.choice((1, 1, 2, 3))))
            parts.insert(self._random.randrange(len(parts) + 1), odd)
        if self._chance(0.5):
            parts += [self._pick(self._joints, self._odd), self._pick(self._harms)]
            parts.append(self._pick(self._odd) if self._chance(0.5) else "")
        line = "".join(parts)
        return self._wrapped(line) if self._chance(0.15) else line

    def _wrapped(self, line: str) -> str:
        before, after = self._random.choice(self._wraps)
        return before + line + after

    def _mutated(self, line: str) -> str:
        for _ in range(self._random.choice((1, 1, 2, 3))):
            at = self._random.randrange(len(line) + 1)
            kind = self._random.random()
            if kind < 0.45:
                line = line[:at] + self._pick(self._odd, self._odd, self._joints) + line[at:]
            elif kind < 0.6:
                line += self._pick(self._joints) + self._pick(self._harms, self._programs)
            elif kind < 0.7:
                line = line[:at] + self._pick(self._joints) + self._pick(self._harms) + line[at:]
            elif kind < 0.8:
                line = line[:at] + line[at + self._random.choice((1, 2, 5)) :]
            elif kind < 0.9:
                line += self._pick(self._joints) + self._pick(self._corpus)
            else:
                line = self._wrapped(line)
        return line[:MAX_CHARS]


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((DATA / name).read_text("utf-8"))


def _corpus() -> list[str]:
    """Of the lines of the tests, mostly those that are proved safe: what is never proved is never run."""
    entries = [entry for name in ("commands.toml", "commands_held_out.toml") for entry in _read(name)["line"]]
    safe = [entry["text"] for entry in entries if "safe" in entry["levels"]]
    misread = [line.replace("CMD", "touch pwned") for line in _read("misread.toml")["lines"]]
    return [*safe, *safe, *(entry["text"] for entry in entries), *misread]
