"""`aish serve` as it is, and a thread beside it that starts and ends counting when told to on stdin: `start`, or
`end NAME`. Each line is answered with one."""

from __future__ import annotations

import sys
import threading

from aish.__main__ import main
from bench.perf_parts.counting import Counting


def obey() -> None:
    counting = Counting()
    for line in sys.stdin:
        word, _, name = line.strip().partition(" ")
        counting.start() if word == "start" else counting.end(name)
        sys.stdout.write("done\n")
        sys.stdout.flush()


threading.Thread(target=obey, daemon=True).start()
sys.argv[0] = "aish"
main()
