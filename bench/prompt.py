"""How soon the prompt is there: `aish` beside a bare prompt_toolkit prompt and bash, each on a pty, in turns.

python bench/prompt.py
"""

from __future__ import annotations

import os
import pty
import select
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 9
BARE = "from prompt_toolkit import PromptSession; PromptSession().prompt('bare \u203a ')"
SHELLS = {
    "aish": ([sys.executable, "-m", "aish", "--model", "scripted:fake-tool"], "\u203a"),
    "a bare prompt_toolkit prompt": ([sys.executable, "-c", BARE], "\u203a"),
    "bash -i": (["bash", "--norc", "-i"], "$ "),
}


def drawn_ms(words: list[str], mark: str, home: str) -> float:
    """From starting it until its prompt stands on the terminal."""
    began = time.perf_counter()
    pid, master = pty.fork()
    if pid == 0:
        os.environ.update({"HOME": home, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PS1": "$ "})
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.execvp(words[0], words)
    seen = b""
    while mark.encode() not in seen:
        if not select.select([master], [], [], 20)[0]:
            raise SystemExit(f"no prompt from {words}: {seen!r}")
        data = os.read(master, 65536)
        if b"\x1b[6n" in data:
            os.write(master, b"\x1b[1;1R")  # where the cursor is
        seen += data
    took = time.perf_counter() - began
    os.close(master)
    os.waitpid(pid, 0)
    return took * 1000


def main() -> int:
    with tempfile.TemporaryDirectory() as home:
        Path(home, ".bashrc").write_text("")
        times: dict[str, list[float]] = {name: [] for name in SHELLS}
        for _ in range(ROUNDS + 1):
            for name, (words, mark) in SHELLS.items():
                times[name].append(drawn_ms(words, mark, home))
    medians = {name: statistics.median(rounds[1:]) for name, rounds in times.items()}
    for name, median in medians.items():
        sys.stdout.write(f"{name:<30} {median:7.0f} ms (best {min(times[name]):.0f})\n")
    ratio = medians["aish"] / medians["a bare prompt_toolkit prompt"]
    sys.stdout.write(f"aish / bare prompt: {ratio:.2f} (bar 1.6), {medians['aish']:.0f} ms (bar 300)\n")
    return 0 if ratio <= 1.6 and medians["aish"] <= 300 else 1


if __name__ == "__main__":
    sys.exit(main())
