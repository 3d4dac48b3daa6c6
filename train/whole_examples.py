"""Whole requests as examples: the call, the same with its tool taken away, and what a tool only seems to serve.

It draws requests and the tools beside them; what a prompt looks like around them, it does not know.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from aish.types.tools import ToolSpec
from train.frames import Asked
from train.likeness import stems, words_of
from train.natural import spaced
from train.recast import recast
from train.revalued import renumbered, revalued
from train.voices import spoken
from train.whole import Whole, tongue_of

Strangers = Callable[[int], list[ToolSpec]]

_VOICED = 0.15
_MAX_TRIES = 30


class Drawn(NamedTuple):
    """A request and the tools on offer; `given` is the call to the first of them, None where no tool fits."""

    said: str
    tools: tuple[ToolSpec, ...]
    given: dict[str, Any] | None
    tongue: str


class WholeRequests:
    def __init__(self, tools: Sequence[Whole], strangers: Strangers, rng: random.Random) -> None:
        self._rng = rng
        self._strangers = strangers
        self._tools = list(tools)
        self._asked = [(whole, text, given) for whole in tools for text, given in whole.asks]
        self._refused = [(whole, text) for whole in tools for text in whole.refused]
        self._fields: dict[str, list[Whole]] = {}
        for whole in tools:
            self._fields.setdefault(whole.field, []).append(whole)

    def __bool__(self) -> bool:
        return bool(self._asked and self._refused)

    def call(self, size: int) -> Drawn:
        """A request among sisters of its tool, tools of other fields and open ones."""
        whole, said, given = self._drawn()
        version, called = recast(whole.spec, said, given, self._rng)
        others = self._beside(whole, said, size - 1)
        return Drawn(self._voiced(said, given), (version, *others), called, tongue_of(said))

    def refused(self, size: int) -> Drawn:
        """What the tool only seems to serve, with it, alone or beside others that have nothing to do with it."""
        whole, text = self._rng.choice(self._refused)
        said = renumbered(text, self._rng)
        version, _ = recast(whole.spec, said, {}, self._rng)
        others = self._unlike(whole, said, size - 1)
        return Drawn(self._voiced(said, {}), (version, *others), None, tongue_of(said))

    def elsewhere(self) -> Drawn | None:
        """A good request without its tool: a sister that lacks what the request names, or tools of other kinds."""
        whole, said, given = self._drawn()
        count = self._rng.choice((1, 1, 1, 2, 3, 4))
        sisters = self._sisters(whole, said)[:1] if self._rng.random() < 0.75 else []
        offered = [recast(sister.spec, "", {}, self._rng)[0] for sister in sisters]
        offered += self._unlike(whole, said, count - len(offered), sisters)
        return Drawn(self._voiced(said, given), tuple(offered), None, tongue_of(said)) if offered else None

    def _drawn(self) -> tuple[Whole, str, dict[str, Any]]:
        whole, text, given = self._rng.choice(self._asked)
        said, values = revalued(text, given, whole.spec.schema["properties"], self._rng)
        return whole, said, values

    def _beside(self, whole: Whole, said: str, count: int) -> list[ToolSpec]:
        """What could be meant as well is left out: a tool all of whose name is said, or is in the right one's."""
        own = stems(f"{spaced(whole.spec.name)} {said}")
        result: list[ToolSpec] = []
        taken = [whole]
        for _ in range(count):
            chance = self._rng.random()
            if chance < 0.3:
                result += self._strangers(1)
                continue
            other = self._rng.choice(self._fields[whole.field] if chance < 0.75 else self._tools)
            if other not in taken and stems(_words(other.spec.name)) - own:
                taken.append(other)
                result.append(recast(other.spec, "", {}, self._rng)[0])
        return result

    def _sisters(self, whole: Whole, said: str) -> list[Whole]:
        """Of the same field, about something else, and without something that the request names."""
        named, field = stems(said), self._fields[whole.field]
        own = stems(f"{_words(whole.spec.name)} {whole.spec.description}")
        result = []
        for other in self._rng.sample(field, min(12, len(field))):
            lacking = (own & named) - _all_words(other.spec)
            if other is not whole and lacking and stems(_words(other.spec.name)) - named - own:
                result.append(other)
        return result

    def _unlike(self, whole: Whole, said: str, count: int, sisters: Sequence[Whole] = ()) -> list[ToolSpec]:
        """Tools that share no word with the request or with its own tool."""
        own = stems(said) | words_of(whole.spec)
        result: list[ToolSpec] = []
        taken = [whole, *sisters]
        for _ in range(_MAX_TRIES):
            if len(result) >= count:
                break
            if self._rng.random() < 0.3:
                result += [spec for spec in self._strangers(1) if not own & _all_words(spec)]
                continue
            other = self._rng.choice(self._fields[whole.field] if self._rng.random() < 0.4 else self._tools)
            if other not in taken and not own & _all_words(other.spec):
                taken.append(other)
                result.append(recast(other.spec, "", {}, self._rng)[0])
        return result

    def _voiced(self, said: str, given: dict[str, Any]) -> str:
        """Now and then typed as people type; values that are said as they are wanted stay."""
        if self._rng.random() > _VOICED or tongue_of(said) != "en":
            return said
        values = sorted({v for v in _texts(list(given.values())) if v and v in said}, key=len, reverse=True)
        if not values:
            return spoken(Asked([said], []), self._rng)
        parts = re.split(f"({'|'.join(map(re.escape, values))})", said)
        return spoken(Asked(parts[::2], parts[1::2]), self._rng)


def _texts(values: list[Any]) -> list[str]:
    result: list[str] = []
    for value in values:
        if isinstance(value, dict | list):
            result += _texts(list(value.values()) if isinstance(value, dict) else value)
        elif isinstance(value, str):
            result.append(value)
    return result


def _words(name: str) -> str:
    return re.sub(r"\W", " ", spaced(name))


def _all_words(spec: ToolSpec) -> set[str]:
    return words_of(spec) | stems(" ".join(_words(name) for name in spec.schema["properties"]))
