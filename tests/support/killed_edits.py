"""Changes many files in a child that is killed at a given step, then recovers, and says what it found.

Run as a program: `killed_edits.py ROOT STATE KIND POINTS`, one line of JSON for each point. A child is a fork of a
process without threads, so that a point costs milliseconds and the kill is a real one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from aish.errors import ToolError
from aish.tools.code.edits.journaled import JournaledApplier
from aish.tools.code.edits.records import FileEdit
from aish.tools.code.files.source import content_hash
from aish.tools.workspace import Workspace

FILES = 60
Tree = dict[str, tuple[bytes, int]]


def old_tree() -> dict[str, bytes]:
    return {f"pkg{n % 6}/mod_{n}.py": f"import old_name\nold_name({n})\n".encode() * 20 for n in range(FILES)}


def edits_of(kind: str) -> list[FileEdit]:
    """A rename in every file; `files` also makes, moves and removes some, in folders that are new."""
    edits = [
        FileEdit(path, content_hash(content), content.replace(b"old_name", b"new_name"))
        for path, content in old_tree().items()
    ]
    if kind != "files":
        return edits
    removed = FileEdit(edits[0].path, edits[0].base, None)
    moved = FileEdit(edits[1].path, edits[1].base, None)
    made = [FileEdit("deep/er/moved.py", None, edits[1].content), FileEdit("pkg0/made.py", None, b"made\n")]
    return [removed, moved, *made, *edits[2:]]


def tree(root: Path) -> Tree:
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def _without_stages(found: Tree) -> Tree:
    return {path: held for path, held in found.items() if "/.aish-" not in path}


def write(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    for path, content in old_tree().items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
        (root / path).chmod(0o755 if path.endswith("1.py") else 0o640)


class KillAt:
    def __init__(self, at: int) -> None:
        self.steps = 0
        self._at = at

    def __call__(self, what: str) -> None:
        if self.steps == self._at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1


def in_child(work: Callable[[], object]) -> int:
    """Its wait status."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


class Trial:
    def __init__(self, root: Path, state: Path, kind: str) -> None:
        self.root = root
        self.state = state
        self.kind = kind
        self.edits: Sequence[FileEdit] = edits_of(kind)

    def apply(self, at: int) -> int:
        step = KillAt(at)
        applier = self._applier(step)
        # What is awaited is a thread; a fork must have none, so the blocking part is called.
        if self.kind == "undo":
            applier._undo("")
        else:
            applier._apply(self.edits, "rename old_name to new_name")
        return step.steps

    def recover(self, at: int = -1) -> str:
        return self._applier(KillAt(at))._recover()

    def reset(self) -> None:
        shutil.rmtree(self.state, ignore_errors=True)
        write(self.root)
        if self.kind == "undo":
            self._applier(KillAt(-1))._apply(self.edits, "rename old_name to new_name")

    def _applier(self, step: KillAt) -> JournaledApplier:
        return JournaledApplier(Workspace(self.root), self.state, step=step)


def main(root: Path, state: Path, kind: str, points: int) -> None:
    trial = Trial(root, state, kind)
    trial.reset()
    old = tree(root)
    steps = trial.apply(-1)
    new = tree(root)
    changed = sum(old.get(path) != new.get(path) for path in {*old, *new})
    _say(steps=steps, changed=changed)
    for point in range(points):
        at = point * (steps - 1) // (points - 1)
        trial.reset()
        status = in_child(lambda at=at: trial.apply(at))
        killed = _without_stages(tree(root))
        # The one who recovers may be killed as well.
        again = in_child(lambda point=point: trial.recover(point % 7 * 9))
        try:
            said = trial.recover()
        except ToolError as exc:
            said = f"failed: {exc.message}"
        found = tree(root)
        _say(
            at=at,
            killed=os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
            killed_again=os.WIFSIGNALED(again),
            was_mixed=killed not in (old, new),
            now="old" if found == old else "new" if found == new else "mixed",
            said=said,
        )


def _say(**fields: object) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()  # or a fork would say it again


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
