"""How long the command classifier takes: µs a line over the corpus, ms for lines made to hurt.

python bench/safety.py
"""

from __future__ import annotations

import statistics
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from aish.safety.commands import ShellContext, classify

DATA = Path(__file__).parents[1] / "tests" / "data"
CONTEXT = ShellContext(cwd="/home/ann/project", home="/home/ann", roots=("/home/ann/project",))


def corpus() -> list[str]:
    files = ("commands.toml", "commands_held_out.toml")
    return [entry["text"] for name in files for entry in tomllib.loads((DATA / name).read_text("utf-8"))["line"]]


def hostile(size: int) -> Iterator[tuple[str, str]]:
    units = {
        "words": "a ",
        "commands": "ls;",
        "pipes": "ls|",
        "quotes": '"a"',
        "open quote": '"',
        "backticks": "`",
        "braces": "{a,b}",
        "open braces": "{",
        "parens": "(",
        "substitutions": "$(",
        "expansions": "${x:-",
        "arithmetic": "$((",
        "brackets": "[[ ",
        "heredocs": "<<A\n",
        "redirects": ">a ",
        "if": "if ",
        "case": "case x in ",
        "functions": "f(){ ",
        "sudo": "sudo ",
        "bash -c": "bash -c '",
        "backslashes": "\\",
        "newlines": "\n",
        "globs": "*?[",
        "and": "&&",
        "strings": "'a'\"b\"$c",
        "for": "for i in a; do ",
        "variables": "x=1 ",
        "subs": "$(ls) ",
        "nonascii": "é ",
        "while": "while true; do rm $x; done;",
        "python": "python -c 'import os; os.system(\"ls\")';",
        "env": "env A=1 ",
        "assignments": "x=$x$x; ",
        "comments": "#\n",
    }
    for name, unit in units.items():
        yield name, unit * max(1, size // len(unit))
    yield "nested $(", "$(" * (size // 3) + "ls" + ")" * (size // 3)
    yield "nested quotes", "bash -c " + '"' + "\\" * (size // 2) + '"'
    yield "one word", "a" * size
    yield "sql", "psql -c '" + "DELETE FROM t " * (size // 14) + "'"
    yield "sed", "sed '" + "s/a/b/;" * (size // 7) + "'"


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> int:
    lines = corpus()
    first = timed(lambda: classify("ls", CONTEXT))
    times = sorted(timed(partial(classify, line, CONTEXT)) * 1e6 for _ in range(3) for line in lines)
    write = sys.stdout.write
    write(f"first call (tables, parser): {first * 1e3:.1f} ms\n")
    write(f"{len(lines)} lines: median {statistics.median(times):.0f} µs, p99 {times[len(times) * 99 // 100]:.0f} µs, ")
    write(f"worst {times[-1]:.0f} µs\n")
    for size in (2_000, 4_000, 32_000, 100_000):
        slowest = max(
            (min(timed(partial(classify, text, CONTEXT)) for _ in range(2)), name) for name, text in hostile(size)
        )
        write(f"hostile lines of {size} bytes: slowest {slowest[0] * 1e3:.1f} ms ({slowest[1]})\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
