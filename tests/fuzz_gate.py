"""Is what is proved safe harmless in a real bash? `make fuzz-gate`, or: python tests/fuzz_gate.py --lines N --seed S

Makes lines, has them judged, runs those that are proved safe where there is nothing to lose, and fails if one of them
changed a file or ran a program that its verdict did not name.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import re
import sys
import time
from collections.abc import Iterable

import msgspec

from aish.safety.commands import Level, ShellContext, classify, program_tables
from support.fuzz_cell import Cell, is_available
from support.fuzz_lines import LineMaker

CONTEXT = ShellContext(cwd="/w", home="/w", roots=("/w",))
LINES_OF_A_BATCH = 10_000
MAX_SHOWN = 20
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")
_OWN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
# Written down by bash for what is no program.
_NO_PROGRAMS = frozenset({"for", "[", "test", ":"})


class Outcome(msgspec.Struct):
    tried: int = 0
    safe: int = 0
    effects: list[tuple[str, str]] = []

    def add(self, other: Outcome) -> None:
        self.tried += other.tried
        self.safe += other.safe
        self.effects += other.effects


def fuzz(count: int, seed: int) -> Outcome:
    """One batch, in this process."""
    return run_safe(LineMaker(seed).lines(count))


def run_safe(lines: Iterable[str]) -> Outcome:
    outcome = Outcome()
    programs: dict[str, tuple[str, ...]] = {}
    for line in lines:
        outcome.tried += 1
        verdict = classify(line, CONTEXT)
        if verdict.level is Level.SAFE:
            programs[line] = verdict.programs
    outcome.safe = len(programs)
    with Cell() as cell:
        for (line, known), (effect, commands) in zip(programs.items(), cell.run(list(programs)), strict=True):
            effect = effect or next((f"ran {command}" for command in commands if not is_known(command, known)), "")
            if effect:
                outcome.effects.append((line, effect))
    return outcome


def is_known(command: str, known: tuple[str, ...]) -> bool:
    word = command.split(None, 1)[0].strip("'\"")
    assignment = _ASSIGNMENT.match(word)
    if assignment is not None:
        name = assignment[1]
        return _OWN_NAME.fullmatch(name) is not None or name in program_tables.read_only().variables or name == "IFS"
    return word in _NO_PROGRAMS or word.rpartition("/")[2] in known


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=20261115)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--if-possible", action="store_true", help="pass where no namespace may be made")
    given = parser.parse_args()
    if not is_available():
        sys.stdout.write("no namespace may be made here, so nothing is run: try as root, or allow user namespaces\n")
        return 0 if given.if_possible else 2
    began = time.monotonic()
    sizes = [LINES_OF_A_BATCH] * (given.lines // LINES_OF_A_BATCH) + [given.lines % LINES_OF_A_BATCH]
    outcome = Outcome()
    with concurrent.futures.ProcessPoolExecutor(given.processes) as pool:
        seeds = (given.seed * 1_000_003 + number for number in range(len(sizes)))
        for part in pool.map(fuzz, sizes, seeds):
            for line, effect in part.effects[:MAX_SHOWN]:
                sys.stdout.write(f"{line!r}: {effect}\n")
            sys.stdout.flush()
            outcome.add(part)
    sys.stdout.write(
        f"{outcome.tried} lines, {outcome.safe} proved safe and run, {len(outcome.effects)} with an effect, "
        f"in {time.monotonic() - began:.0f} s (seed {given.seed})\n"
    )
    return 1 if outcome.effects or not outcome.safe else 0


if __name__ == "__main__":
    sys.exit(main())
