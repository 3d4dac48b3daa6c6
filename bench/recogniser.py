"""What looking for calls in a model's text costs, for each chunk; and whether long calls cost more than their length.

    .venv/bin/python bench/recogniser.py

Text is fed in pieces of four characters, about a token of a model, and in pieces of random length. The bar is 5 us for
each chunk of text that holds no call. Exit code 1 when it is missed.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from aish.providers.tool_calling.reader import ToolCallReader
from aish.tool_calls.detect.detector import CallDetector
from aish.types.chunks import Chunk
from aish.types.events import TextDelta
from aish.types.tools import Effect, ToolSpec

TOKEN_CHARS = 4
RUNS = 5
BAR_US = 5.0

PROSE = "The weather in Rome is fine today, and it will stay so until the end of the week, or so they say.\n" * 400
MARKDOWN = """## How it works

The **engine** takes a request, asks the `Provider` for a *stream*, and hands each [event](https://example.com) on.

- messages [1], and {options}
- the results of tools <b>in order</b>

```python
def turn(request: dict[str, int]) -> list[str]:
    return [f"{key}: {value}" for key, value in request.items() if value < 3]
```

"""
DATA = json.dumps([{"name": f"Person {n}", "age": n, "tags": ["a", "b"], "at": {"x": 1}} for n in range(500)])
CHINESE = "世界你好，这是一个测试。" * 3000
CONTENT = 'some {text} [with] "quotes"\n' * 2000
CALL = {"name": "files__write", "arguments": {"path": "a.txt", "content": CONTENT}}
BAR_CASES = {"prose": PROSE, "Chinese": CHINESE, "markdown and code": MARKDOWN * 60, "JSON that is no call": DATA}
CALL_CASES = {
    "a call of 60 kB": json.dumps(CALL),
    "a tagged call of 60 kB": f"<tool_call>{json.dumps(CALL)}</tool_call>",
    "a call of 600 kB": json.dumps({**CALL, "arguments": {"path": "a", "content": CONTENT * 10}}),
}
TOOLS = [
    ToolSpec(name, "", {"type": "object", "properties": {"path": {"type": "string"}}}, Effect.READ, "bench")
    for name in ("files__write", "files__read", "get_weather", "runtime__add", "shell__run", "search")
]


def pieces(text: str, rng: random.Random | None) -> Iterator[str]:
    pos = 0
    while pos < len(text):
        step = rng.randint(1, 12) if rng else TOKEN_CHARS
        yield text[pos : pos + step]
        pos += step


def fed_to_recogniser(chunks: list[str]) -> None:
    recogniser = CallDetector({tool.name: tool.schema for tool in TOOLS})
    passes, feed = recogniser.passes, recogniser.feed
    for chunk in chunks:
        if not passes(chunk):
            feed(chunk)
    recogniser.finish(is_complete=True)


def read_as_batches(batches: list[list[Chunk]]) -> None:
    reading = ToolCallReader(TOOLS, constrained=False, repair=True)
    for batch in batches:
        if not reading.passes(batch):
            reading.read(batch)


def microseconds(work: Callable[[list[Any]], None], chunks: list[Any]) -> float:
    """For each chunk, the median of some runs. Processor time: others may use the machine, too."""
    times = []
    for _ in range(RUNS):
        began = time.process_time()
        work(chunks)
        times.append((time.process_time() - began) / len(chunks) * 1e6)
    return statistics.median(times)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> int:
    missed = 0
    say(f"{'text':<28}{'chunks':>9}{'recogniser':>13}{'random cuts':>13}{'as batches':>13}   us a chunk")
    for name, text in {**BAR_CASES, **CALL_CASES}.items():
        tokens, cut = list(pieces(text, None)), list(pieces(text, random.Random(1)))
        figures = [
            microseconds(fed_to_recogniser, tokens),
            microseconds(fed_to_recogniser, cut),
            microseconds(read_as_batches, [[TextDelta(token)] for token in tokens]),
        ]
        over = name in BAR_CASES and max(figures) > BAR_US
        missed += over
        shown = "".join(f"{figure:>13.2f}" for figure in figures)
        say(f"{name:<28}{len(tokens):>9}{shown}{'   over the bar' if over else ''}")
    say(f"bar for text without calls: {BAR_US:g} us a chunk: {'missed' if missed else 'met'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
