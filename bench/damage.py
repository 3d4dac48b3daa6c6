"""How much damage to tool calls is repaired, kind by kind, over the corruption suite of the tests.

    .venv/bin/python bench/damage.py [SEED…]

The bars: 95 % of what is repairable comes out as exactly the true call, and no wrong call. Exit code 1 otherwise.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.damage import KINDS, damaged_calls, judge
from support.mending import executed

LEAST_PERCENT = 95.0


def main() -> int:
    verdicts: Counter[tuple[str, bool, str]] = Counter()
    for seed in [int(word) for word in sys.argv[1:]] or [0]:
        for case in damaged_calls(seed):
            verdicts[case.kind, case.repairable, judge(case, executed(case, random.Random(seed)))] += 1
    say(f"{'damage':<24}{'repairable':>12}{'repaired':>10}{'refused':>9}{'not':>6}{'refused':>9}{'wrong':>7}")
    totals = [0] * 6
    for kind in KINDS:
        row = figures(verdicts, kind)
        totals = [total + figure for total, figure in zip(totals, row, strict=True)]
        say(line(kind, row))
    say(line("all", totals))
    percent = 100.0 * totals[1] / totals[0]
    say(f"repaired {percent:.1f} % of what is repairable, {totals[5]} wrong calls")
    return 0 if percent >= LEAST_PERCENT and not totals[5] else 1


def figures(verdicts: Counter[tuple[str, bool, str]], kind: str) -> list[int]:
    repaired, refused = verdicts[kind, True, "repaired"], verdicts[kind, True, "refused"]
    held = verdicts[kind, False, "refused"]
    wrong = verdicts[kind, True, "wrong"] + verdicts[kind, False, "wrong"]
    return [repaired + refused, repaired, refused, held + verdicts[kind, False, "wrong"], held, wrong]


def line(name: str, row: list[int]) -> str:
    return f"{name:<24}{row[0]:>12}{row[1]:>10}{row[2]:>9}{row[3]:>6}{row[4]:>9}{row[5]:>7}"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
