"""Whole requests, written by hand for one tool each with the call that is right: read from `whole/*.jsonl`.

Nothing in them is a slot: they are as people write. What comes near a request or a tool that is measured is left out
here, before anything is made of it: `Apart` knows these by their words, and says only how many it found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aish.types.tools import ToolSpec
from train.measured import measured_cases, measured_tools
from train.render import tool

WHOLE = Path(__file__).parent / "whole"
_RUN = 8  # words in a row that two requests share only if one was made after the other
_MIN_WORDS = 4  # of a run: rows of numbers are everybody's
_TONGUES = {
    "zh": r"[\u4e00-\u9fff]",
    "de": r"(?i)\b(?:ich|ist|und|der|das|für|mir|wie|bitte|einen?|nicht|mein|wird|welche|gibt|vom|bis|mit|auf|zu)\b",
    "es": r"(?i)[¿¡ñ]|\b(?:qué|cuál|para|una|los|las|por|cuánto|con|del|el)\b",
    "fr": r"(?i)\b(?:est|les|des|pour|quel|quelle|une|avec|dans|combien|je|du|au|le|cherche|mon)\b",
}


@dataclass(frozen=True)
class Whole:
    """A tool with the requests for it, and those it cannot serve. `field` is the file: its tools are of a kind."""

    spec: ToolSpec
    asks: tuple[tuple[str, dict[str, Any]], ...]
    refused: tuple[str, ...]
    field: str


@dataclass
class Apart:
    """Names of tools and words of requests that are measured, and what was left out for their sake."""

    names: frozenset[str]
    runs: frozenset[tuple[str, ...]]
    dropped: dict[str, int] = field(default_factory=lambda: {"tools": 0, "requests": 0})

    @classmethod
    def of(cls, paths: Iterable[Path] = ()) -> Apart:
        """Of the cases that are measured here, and of further files of cases."""
        cases = [*measured_cases(), *(json.loads(line) for path in paths for line in path.read_text().splitlines())]
        said = [message["content"] for case in cases for message in case["messages"]]
        tools = [row if isinstance(row, str) else row["name"] for case in cases for row in case.get("tools", ())]
        names = frozenset(_bare(name) for name in [*tools, *measured_tools()])
        return cls(names, frozenset(run for text in said for run in _runs(text)))

    def has_tool(self, name: str) -> bool:
        is_known = _bare(name) in self.names
        self.dropped["tools"] += is_known
        return is_known

    def has_request(self, text: str) -> bool:
        is_known = any(run in self.runs for run in _runs(text))
        self.dropped["requests"] += is_known
        return is_known


def read_whole(apart: Apart, folder: Path = WHOLE) -> list[Whole]:
    rows = [
        (json.loads(line), path.stem)
        for path in sorted(folder.glob("*.jsonl"))
        for line in path.read_text().splitlines()
        if line.strip()
    ]
    return [_whole(row, stem, apart) for row, stem in rows if not apart.has_tool(row["name"])]


def tongue_of(text: str) -> str:
    """English unless two words, or one sign, are of another tongue."""
    for tongue, marks in _TONGUES.items():
        found = {mark.casefold() for mark in re.findall(marks, text)}
        if len(found) > 1 or any(mark in "¿¡ñ" or ord(mark[0]) > 0x2E80 for mark in found):
            return tongue
    return "en"


def _whole(row: dict[str, Any], stem: str, apart: Apart) -> Whole:
    schema = {"type": "object", "properties": row["args"], "required": list(row.get("required", ()))}
    asks = tuple((text, given) for text, given in row["asks"] if not apart.has_request(text))
    refused = tuple(text for text in row.get("refused", ()) if not apart.has_request(text))
    return Whole(tool(row["name"], row["about"], schema), asks, refused, stem)


def _bare(name: str) -> str:
    return re.sub(r"[\W_]", "", name.casefold())


def _runs(text: str) -> Sequence[tuple[str, ...]]:
    """Runs of words, whatever the numbers between them are; what is shorter is one run."""
    words = ["0" if word[0].isdigit() else word for word in re.findall(r"\w+", text.casefold())]
    runs = [tuple(words[at : at + _RUN]) for at in range(max(1, len(words) - _RUN + 1))]
    return [run for run in runs if len(run) - run.count("0") >= min(len(run), _MIN_WORDS)]
