"""The held-out cases as examples, so that training can say how it does on tools and voices it has never seen.

`aish eval train/held_out/*.jsonl` measures the same cases in the product; what is counted here is stricter, since only
the first of the values that are right is known to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aish.engine.prompt.composer import BASE
from aish.types.messages import SystemMessage, user
from train.render import Example, answer, call, tool
from train.replies import NO_TOOL

HELD_OUT = Path(__file__).parent / "held_out"
_SHORT = 13
_SUITES = Path(__file__).parents[1] / "src/aish/faces/eval/suites"


def measured_requests() -> frozenset[str]:
    """All that the held-out cases and the suites that ship ask: a slot filled by chance may hit one of them."""
    return frozenset(plain(message["content"]) for case in measured_cases() for message in case["messages"])


def measured_cases() -> list[dict[str, Any]]:
    paths = [*HELD_OUT.glob("*.jsonl"), *_SUITES.glob("*.jsonl")]
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def measured_tools() -> list[str]:
    """The names of all tools that the cases may offer."""
    paths = [folder / "tools.json" for folder in (HELD_OUT, _SUITES)]
    return [row["name"] for path in paths if path.exists() for row in json.loads(path.read_text())]


def is_measured(ask: str, measured: frozenset[str]) -> bool:
    """Whether a request that is measured is one of those that a written one stands for, whatever fills its slots.
    What is as short as `call {name}` is everybody's, and stays."""
    body = plain(re.sub(r"^\w\w: ", "", ask).partition(" ::")[0])
    texts = re.split(r"\{\w+\}", body)
    if sum(_weight(char) for text in texts for char in text) < _SHORT:
        return False
    pattern = re.compile(".+".join(re.escape(text) for text in texts))
    return any(pattern.fullmatch(request) for request in measured)


def _weight(char: str) -> int:
    """A Chinese character says as much as two or three letters."""
    return 0 if not char.isalnum() else 1 if ord(char) < 0x2E80 else 3


def plain(text: str) -> str:
    return text.casefold().strip(" ?!.")


def held_out_examples(folder: Path = HELD_OUT) -> Iterator[Example]:
    listed = json.loads((folder / "tools.json").read_text())
    specs = {row["name"]: tool(row["name"], row["description"], row["parameters"]) for row in listed}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            case = json.loads(line)
            calls = case["expect"].get("calls")
            right = answer(NO_TOOL) if calls is None else call(specs[calls[0]["name"]], _first(calls[0]["arguments"]))
            messages = (SystemMessage(BASE), user(case["messages"][0]["content"]))
            offered = tuple(specs[name] for name in case["tools"])
            yield Example("refusal" if calls is None else "call", messages, offered, right)


def _first(arguments: dict[str, list[Any]]) -> dict[str, Any]:
    return {name: _value(values[0]) for name, values in arguments.items()}


def _value(value: Any) -> Any:
    return next(iter(value.values())) if isinstance(value, dict) and next(iter(value)).startswith("$") else value
