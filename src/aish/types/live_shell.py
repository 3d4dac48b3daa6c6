"""What the live shell says of a line it ran, of a word, and of what could complete a line."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class RunEnd(StrEnum):
    DONE = "done"  # the shell waits for the next line
    EXITED = "exited"  # the line ended the shell itself: `exit`, `exec`, `set -e`
    LOST = "lost"  # the shell was killed; another one has been started
    TIMED_OUT = "timed_out"  # stopped, the shell lives
    ASKED = "asked"  # stopped because it asked for a password, which nobody can give


RAN_MARK = "[I ran]"  # begins what is told a model of a command that the person ran


class RunResult(msgspec.Struct, frozen=True):
    """`output` is for a model: no escape sequences, progress collapsed, the first and the last of it.

    `typed_ahead` is what the person typed and no program read: it belongs into the next prompt.
    """

    line: str
    status: int
    cwd: str
    duration_s: float
    output: str
    end: RunEnd = RunEnd.DONE
    total_bytes: int = 0
    left_out_bytes: int = 0
    full_screen: bool = False
    binary: bool = False
    jobs: int = 0
    typed_ahead: str = ""


class WordKind(StrEnum):
    ALIAS = "alias"
    FUNCTION = "function"
    BUILTIN = "builtin"
    KEYWORD = "keyword"
    FILE = "file"
    ASSIGNMENT = "assignment"


class Candidate(msgspec.Struct, frozen=True):
    """`text` is what stands in the line, quoted as needed; `ends_word` False: more will follow (a folder, `--x=`)."""

    text: str
    ends_word: bool = True


class Completions(msgspec.Struct, frozen=True):
    """Each candidate replaces the line from `start` up to the cursor."""

    start: int
    candidates: tuple[Candidate, ...] = ()
    left_out: int = 0
