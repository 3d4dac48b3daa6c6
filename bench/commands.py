"""How often the right program is among the first five for fifty everyday questions, and how long a search takes.

python bench/commands.py
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from aish.tools.command_index.index import CommandIndex
from aish.tools.command_index.sources import find_programs

QUESTIONS = Path(__file__).parents[1] / "tests" / "data" / "shell_questions.toml"


def main() -> None:
    questions = tomllib.loads(QUESTIONS.read_text())["questions"]
    path = os.environ["PATH"]
    here = find_programs(path)
    with tempfile.TemporaryDirectory() as folder:
        index = CommandIndex(Path(folder) / "commands.db", path)
        began = time.perf_counter()
        index.search("anything at all")
        built_s = time.perf_counter() - began
        found, places, times = 0, [], []
        answerable = {text: set(names) & here for text, names in questions.items() if set(names) & here}
        for text, names in answerable.items():
            began = time.perf_counter()
            hints = [hint.program for hint in index.search(text, 5) if hint.here]
            times.append(time.perf_counter() - began)
            place = next((number for number, program in enumerate(hints, 1) if program in names), 0)
            places.append(place)
            found += bool(place)
            if not place:
                sys.stdout.write(f"  missed: {text} ({', '.join(hints)})\n")
    first = sum(place == 1 for place in places)
    sys.stdout.write(
        f"{len(here)} programs, index made in {built_s:.1f} s, a search {statistics.median(times) * 1000:.1f} ms\n"
        f"right among the first five: {found} of {len(answerable)} ({found / len(answerable):.0%}, bar 85 %), "
        f"first: {first}; {len(questions) - len(answerable)} questions have no right program on this machine\n"
    )


if __name__ == "__main__":
    main()
