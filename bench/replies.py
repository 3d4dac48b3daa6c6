"""What drawing a reply costs: for each token, for each character, and whether ten times the text is ten times the work.

    .venv/bin/python bench/replies.py

Replies are fed in pieces of four characters, about a token of a model. 200 tokens a second leave 5 000 us for each.
"""

from __future__ import annotations

import io
import statistics
import sys
import time
from collections.abc import Callable

from aish.frontends.shell.render.highlight.highlighter import find_highlighter
from aish.frontends.shell.render.markdown.renderer import Markdown
from aish.frontends.shell.render.reply import ReplyPrinter
from aish.frontends.shell.render.styles import DisplayOptions
from aish.frontends.terminal import Output
from aish.types.events import Event, TextDelta

TOKEN_CHARS = 4
RUNS = 3

ANSWER = """## How it works

The **engine** takes a request, asks the `Provider` for a *stream*, and hands each [event](https://example.com) on.

1. First it resolves the model, with what the configuration says.
2. Then it loads the history:
   - messages, and
   - the results of tools.

> Nothing is sent before it is recorded.

```python
def turn(request: TurnRequest) -> Iterator[Event]:
    for step in range(request.limits.max_steps):  # bounded
        yield from ask("model", step)
```

| part | cost |
|------|-----:|
| wire | 12 us |
| rest | **3 us** |

"""

CASES: dict[str, str] = {
    "an answer, 100 kB": ANSWER * (100_000 // len(ANSWER)),
    "an answer, 1 MB": ANSWER * (1_000_000 // len(ANSWER)),
    "python, 1 000 lines": "```python\n" + "    total += f(x, 'text', 12)  # why\n" * 1_000,
    "python, 10 000 lines": "```python\n" + "    total += f(x, 'text', 12)  # why\n" * 10_000,
    "java (Pygments), 1 000 lines": "```java\n" + '    int total = f(x, "text", 12); // why\n' * 1_000,
    "plain code, 10 000 lines": "```\n" + "    total += f(x, 'text', 12)  # why\n" * 10_000,
    "one line of prose, 100 kB": "some words of *prose* and more " * (100_000 // 31),
    "one line of prose, 1 MB": "some words of *prose* and more " * (1_000_000 // 31),
    "one word, 1 MB": "x" * 1_000_000,
    "Chinese, 300 000 characters": "世界你好，这是一个测试。" * 25_000,
    "open marks, 1 MB": "*a _b [c `d " * (1_000_000 // 12),
    "a table, 10 000 rows": "| a | b |\n|---|---|\n" + "| some cell | **12** |\n" * 10_000,
}


def draw(text: str) -> None:
    shown: list[str] = []
    markdown = Markdown(shown.append, lambda: 100, find_highlighter=find_highlighter)
    for at in range(0, len(text), TOKEN_CHARS):
        markdown.feed(text[at : at + TOKEN_CHARS])
    markdown.close()


def reply(text: str) -> None:
    """The same from events, one in each batch, through `ReplyPrinter`."""
    shown = ReplyPrinter(
        Output(io.StringIO(), io.StringIO(), color=True), DisplayOptions(styled=True, live=True), columns=lambda: 100
    )
    for at in range(0, len(text), TOKEN_CHARS):
        shown.show_all((Event("s", "t", 1, 0, TextDelta(text[at : at + TOKEN_CHARS])),))
    shown.on_turn_over()


def passed_on(text: str) -> None:
    """What is not drawn at all: the least a token can cost."""
    output = Output(io.StringIO(), io.StringIO())
    for at in range(0, len(text), TOKEN_CHARS):
        output.answer(text[at : at + TOKEN_CHARS])


def report(name: str, work: Callable[[str], None], text: str) -> None:
    seconds = []
    for _ in range(RUNS):
        started = time.process_time()
        work(text)
        seconds.append(time.process_time() - started)
    best, middle = min(seconds), statistics.median(seconds)
    tokens = len(text) / TOKEN_CHARS
    sys.stdout.write(
        f"{name:32} {best:7.2f} s  {best / tokens * 1e6:7.1f} us/token (median {middle / tokens * 1e6:.1f})"
        f"  {len(text) / best / 1e6:6.2f} M chars/s  {best / tokens * 200 * 100:5.2f} % of a core at 200 tokens/s\n"
    )


def main() -> None:
    find_highlighter("python"), find_highlighter("java")
    report("passed on as it is, 1 MB", passed_on, CASES["an answer, 1 MB"])
    report("an answer as events, 1 MB", reply, CASES["an answer, 1 MB"])
    for name, text in CASES.items():
        report(name, draw, text)


if __name__ == "__main__":
    main()
