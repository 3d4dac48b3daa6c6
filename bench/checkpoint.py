"""What a checkpoint of the workspace costs, and bringing it back.

    python bench/checkpoint.py                20 000 files, 15 rounds
    python bench/checkpoint.py --files 5000   a smaller workspace

Every figure is the median of the rounds, in milliseconds. `git add -A` with an index of its own stands beside the clean
checkpoint, because a shadow repository would do that. Exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from aish.tools.checkpoints.checkpoints import CheckpointSettings, WorkspaceCheckpoints
from aish.types.checkpoints import Checkpoint

CLEAN_BAR_MS = 150.0
CHANGED_BAR_MS = 20.0
A_FOLDER = 20  # files


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return measure(Path(folder), arguments.files, arguments.rounds)


def measure(base: Path, files: int, rounds: int) -> int:
    root = base / "work"
    fill(root, files)
    settings = CheckpointSettings(base / "state", base / "home", max_take_s=120.0)
    checkpoints = WorkspaceCheckpoints(settings, lambda: root)
    say("the first checkpoint", milliseconds(lambda: take(checkpoints)))
    take(checkpoints)
    clean: list[float] = []
    changed: list[float] = []
    for number in range(rounds):  # in turns, since the machine may do other work
        clean.append(milliseconds(lambda: take(checkpoints)))
        changed_file(root, number).write_text(f"changed in round {number}\n")
        changed.append(milliseconds(lambda: take(checkpoints)))
    more = statistics.median(other - one for one, other in zip(clean, changed, strict=True))
    say(f"nothing has changed (bar {CLEAN_BAR_MS:g})", statistics.median(clean))
    say("one file has changed, all in all", statistics.median(changed))
    say(f"one file has changed, over a clean one (bar {CHANGED_BAR_MS:g})", more)
    say("a checkpoint of a single folder, one file has changed", measure_folder(base / "small", rounds))
    say("an rm -r of a tenth brought back", measure_restore(checkpoints, root))
    if shutil.which("git"):
        say("git add -A with an index of its own, nothing has changed", measure_git(base, root, rounds))
    size = sum(path.stat().st_size for path in (base / "state").rglob("*") if path.is_file())
    sys.stdout.write(
        f"{size / 1e6:8.1f} MB stored, of {sum(path.stat().st_size for path in root.rglob('*')) / 1e6:.1f} MB\n"
    )
    return 0 if statistics.median(clean) <= CLEAN_BAR_MS and more <= CHANGED_BAR_MS else 1


def fill(root: Path, files: int) -> None:
    chance = random.Random(1)
    for number in range(files):
        folder = root / f"package_{number // (A_FOLDER * 25):03d}" / f"module_{number // A_FOLDER:04d}"
        if number % A_FOLDER == 0:
            folder.mkdir(parents=True)
        lines = (
            f"def f_{chance.randrange(10**9)}(x):\n    return x * {line}\n" for line in range(chance.randrange(60))
        )
        (folder / f"file_{number}.py").write_text("".join(lines))
    (root / ".gitignore").write_text("*.pyc\nbuild/\n/dist\n")


def changed_file(root: Path, number: int) -> Path:
    folders = sorted(root.glob("package_*/module_*"))
    return sorted(folders[number * 7 % len(folders)].iterdir())[0]


def take(checkpoints: WorkspaceCheckpoints) -> Checkpoint:
    return asyncio.run(checkpoints.take())


def measure_folder(root: Path, rounds: int) -> float:
    fill(root, A_FOLDER)
    settings = CheckpointSettings(root.parent / "small_state", root.parent / "home")
    checkpoints = WorkspaceCheckpoints(settings, lambda: root)
    take(checkpoints)
    found = []
    for number in range(rounds):
        changed_file(root, 0).write_text(f"{number}")
        found.append(milliseconds(lambda: take(checkpoints)))
    return statistics.median(found)


def measure_restore(checkpoints: WorkspaceCheckpoints, root: Path) -> float:
    before = take(checkpoints)
    folders = sorted(root.glob("package_*/module_*"))
    for folder in folders[: len(folders) // 10]:
        shutil.rmtree(folder)
    return milliseconds(lambda: asyncio.run(checkpoints.restore(before)))


def measure_git(base: Path, root: Path, rounds: int) -> float:
    env = {
        "PATH": os.environ["PATH"], "GIT_DIR": str(base / "shadow"), "GIT_WORK_TREE": str(root),
        "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    }  # fmt: skip

    def git(*words: str) -> None:
        subprocess.run(["git", *words], env=env, cwd=root, check=True, capture_output=True, timeout=300)

    git("init", "-q")
    git("config", "core.untrackedCache", "true")
    for _ in range(3):
        git("add", "-A")
    return statistics.median(milliseconds(lambda: git("add", "-A")) for _ in range(rounds))


def milliseconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000


def say(what: str, ms: float) -> None:
    sys.stdout.write(f"{ms:8.1f} ms  {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
