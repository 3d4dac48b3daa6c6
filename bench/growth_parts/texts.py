"""Text that grows: a command line to judge, a reply to draw, a call to find in what a model says, events to encode."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.growth_parts import Subject

TRIES = 5


def least_us(work: Callable[[], object], tries: int = TRIES) -> float:
    """Processor time, the least of some tries: other work on the machine only adds."""
    found = []
    for _ in range(tries):
        began = time.process_time_ns()
        work()
        found.append(time.process_time_ns() - began)
    return min(found) / 1e3


def judged(size: int) -> float:
    """Commands of all kinds in one line, over and over."""
    from aish.safety.commands import ShellContext, classify

    unit = "ls -la src | grep -v '^d' > out.txt && rm -f \"$HOME/old file\"; git status; "
    context = ShellContext(cwd="/home/ann/project", home="/home/ann", roots=("/home/ann/project",))
    classify("ls", context)
    line = (unit * (size // len(unit) + 1))[:size]
    return least_us(lambda: classify(line, context))


def drawn(size: int) -> float:
    from aish.frontends.shell.render.highlight.highlighter import find_highlighter
    from bench import replies

    find_highlighter("python")
    text = (replies.ANSWER * (size // len(replies.ANSWER) + 1))[:size]
    return least_us(lambda: replies.draw(text), 3)


def recognised(size: int) -> float:
    import json

    from bench import recogniser

    content = ('some {text} [with] "quotes"\n' * 6000)[:size]
    call = {"name": "files__write", "arguments": {"path": "a.txt", "content": content}}
    chunks = list(recogniser.pieces(json.dumps(call), None))
    return least_us(lambda: recogniser.fed_to_recogniser(chunks), 3)


SUBJECTS = (
    Subject("characters of a command line", (30, 300, 3000), "judged", judged, "safety/commands"),
    Subject(
        "characters of a reply", (5_000, 50_000, 500_000), "drawn", drawn, "frontends/shell/render/markdown/renderer.py"
    ),
    Subject(
        "characters of a call in text", (1_000, 10_000, 100_000), "found", recognised, "tool_calls/detect/detector.py"
    ),
)
