"""Runs lines in a real bash where there is nothing to lose, and says what each of them did.

A namespace of its own for users, mounts, processes and the network; a root with bash and a few files in it. No program
exists there: bash writes down what it is about to run (xtrace), and a handler stands in for what it does not find.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--fork")
MAX_SECONDS = 120
MAX_LOG_BYTES = 64_000_000
FULL_LOG_BYTES = 1000 * 1024  # the limit of a file's size in `_DRIVER`; the next line is run in a fresh cell

# Run by every bash before its line. What is not found succeeds or fails by chance, and prints a word.
_PRELUDE = r"""
[[ $0 == /driver ]] && return
command_not_found_handle() { set +x; echo f; return $((RANDOM % 2)); }
PS4=$'\1'"$FUZZ_LINE "
BASH_XTRACEFD=9
set -x
"""
_DRIVER = r"""
shopt -s nullglob dotglob
cd /w
canaries() {
  printf 'one\ntwo\n' > /w/f; printf 'a\n' > /w/a; printf 'b\n' > /w/b; printf 'x\n' > /w/src/x.py
}
look() {
  local IFS=' ' all
  all=(/* /w/* /w/src/* /tmp/* /dev/*)
  found="${all[*]}"
  for file in /w/f /w/a /w/b /w/src/x.py; do
    text=; [[ -f $file ]] && IFS= read -r -d '' text < "$file"
    found+="|$text"
  done
}
canaries
look
expected=$found
number=0
while IFS= read -r -d '' line; do
  printf '\n\2%s\n' "$number" >&9
  ( ulimit -t 1 -f 1000 -v 500000
    FUZZ_LINE=$number exec /bin/bash --norc --noprofile -c -- "$line" ) </dev/null >/dev/null 2>&1
  look
  if [[ $found != "$expected" ]]; then
    printf '%s\0%s\0' "$number" "$found"
    exit 3
  fi
  ((number += 1))
done
printf 'done\0\0'
"""
_SETUP = r"""
set -e
root=$1
PATH=$PATH:/usr/sbin:/sbin
chroot=$(command -v chroot)
mount -t tmpfs -o size=64m none "$root"
mkdir -p "$root"/{bin,w/src,tmp,dev}
cp "$(command -v bash)" "$root/bin/bash"
for file in $(ldd "$root/bin/bash" | grep -o '/[^ )]*'); do
  mkdir -p "$root$(dirname "$file")"; cp -L "$file" "$root$file"
done
mkdir -p "$root/usr/lib/locale"; cp -rL /usr/lib/locale/C.* "$root/usr/lib/locale/" || true
: > "$root/dev/null"; mount --bind /dev/null "$root/dev/null"
cp "$2/prelude" "$root/prelude"; cp "$2/driver" "$root/driver"
exec env -i BASH_ENV=/prelude PATH=/nowhere HOME=/w LC_ALL=C.UTF-8 "$chroot" "$root" \
  /bin/bash --norc --noprofile +x /driver
"""


class Cell:
    """Use as a context manager; `run` may be called often."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fuzz-cell-"))

    def __enter__(self) -> Cell:
        (self._folder / "root").mkdir()
        (self._folder / "prelude").write_text(_PRELUDE)
        (self._folder / "driver").write_text(_DRIVER)
        return self

    def __exit__(self, *exc: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, lines: Sequence[str]) -> list[tuple[str, list[str]]]:
        """Each line with what is wrong with it, and the commands it ran. A line that changes something ends the run of
        its cell; the rest are run in a fresh one."""
        results: list[tuple[str, list[str]]] = []
        while len(results) < len(lines):
            results += self._run_some(lines[len(results) :])
        return results

    def _run_some(self, lines: Sequence[str]) -> list[tuple[str, list[str]]]:
        log = self._folder / "log"
        text = "".join(f"{line}\0" for line in lines).encode("utf-8", "replace")
        with log.open("wb") as trace:
            output, timed_out = self._start(text, trace.fileno())
        runs = _runs_of(log, len(lines))
        if log.stat().st_size >= FULL_LOG_BYTES:  # what ran after it was full is not written down
            seen = max((index for index, commands in enumerate(runs) if commands), default=0)
            return [("", commands) for commands in runs[: seen + 1]]
        number, _, found = output.partition(b"\0")
        effect = ""
        if number.isdigit():
            effect = "files are not what they were: " + found.decode("utf-8", "replace")
        elif not number:
            effect = "did not end" if timed_out else "ended the cell"
        if not effect:
            return [("", commands) for commands in runs]
        if not runs:
            raise RuntimeError("the cell could not be made")
        return [*(("", commands) for commands in runs[:-1]), (effect, runs[-1])]

    def _start(self, text: bytes, trace: int) -> tuple[bytes, bool]:
        command = ["bash", "-c", 'exec 9>&"$1"; shift; exec "$@"', "-", str(trace), *UNSHARE]
        command += ["bash", "-c", _SETUP, "-", str(self._folder / "root"), str(self._folder)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=(trace,)
        ) as process:
            try:
                return process.communicate(text, timeout=MAX_SECONDS)[0], False
            except subprocess.TimeoutExpired:
                process.kill()
                return process.communicate()[0], True


def is_available() -> bool:
    """Whether namespaces may be made here."""
    if shutil.which("unshare") is None or shutil.which("bash") is None:
        return False
    try:
        with Cell() as cell:
            ((effect, commands),) = cell.run(["ls"])
    except (OSError, RuntimeError):
        return False
    return not effect and commands == ["ls"]


def _runs_of(log: Path, count: int) -> list[list[str]]:
    """What each line that was begun has run. A process in the background may write when the next line has begun."""
    with log.open("rb") as file:
        text = file.read(MAX_LOG_BYTES).decode("utf-8", "replace")
    begun = len(re.findall(r"^\x02\d+$", text, re.MULTILINE))
    runs: list[list[str]] = [[] for _ in range(min(begun, count))]
    # A line that wrote too much was killed in the middle of its last entry, which then has no end of its own.
    text = re.sub(r"(?m)^\x01+\d+ [^\n]*\n(?=\x02\d+\n)", "", text)
    for entry in re.split(r"\n(?=[\x01\x02])", re.sub(r"\n\x02\d+(?=\n)", "", text)):
        match = re.fullmatch(r"\x01+(\d+) (.*?)\n*", entry.lstrip("\n"), re.DOTALL)
        if match is not None and match[2] != "set +x" and int(match[1]) < len(runs):
            runs[int(match[1])].append(match[2])
    return runs
