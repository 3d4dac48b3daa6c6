"""What the live shell reports of a line, a word and completions; and programs that may do what the user asks for."""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec


class RunEnd(StrEnum):
    DONE = "done"  # the shell waits for the next line
    EXITED = "exited"  # the line ended the shell itself: `exit`, `exec`, `set -e`
    LOST = "lost"  # the shell was killed; another one has been started
    TIMED_OUT = "timed_out"  # stopped, the shell lives
    ASKED = "asked"  # stopped because it asked for a password, and there is no user to give it


RAN_MARK = "[I ran]"  # begins the report to a model about a command that the user ran


class HistorySettings(msgspec.Struct, frozen=True):
    """HISTFILE, HISTCONTROL and HISTSIZE of the live bash; None: without a limit."""

    file: str = ""
    control: str = ""
    size: int | None = None


class RunResult(msgspec.Struct, frozen=True):
    """`output` is for a model: without escape sequences, progress lines collapsed, the beginning and the end of it.

    `line` is what ran, after history expansion. `is_kept`: it may be kept and shown to a model; bash has it in its
    history. `typed_ahead` is what the user typed and no program read: it belongs into the next prompt.
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
    is_kept: bool = True


class WordKind(StrEnum):
    ALIAS = "alias"
    FUNCTION = "function"
    BUILTIN = "builtin"
    KEYWORD = "keyword"
    FILE = "file"
    ASSIGNMENT = "assignment"


class Candidate(msgspec.Struct, frozen=True):
    """`text` is inserted as it is, quoted as needed. `ends_word` False: more will follow, as after a folder or
    `--x=`."""

    text: str
    ends_word: bool = True


class Completions(msgspec.Struct, frozen=True):
    """Each candidate replaces the line from `start` up to the cursor."""

    start: int
    candidates: tuple[Candidate, ...] = ()
    left_out: int = 0


_BLANK = re.compile(r"\b[A-Z]{2,}\b")


class CommandHint(msgspec.Struct, frozen=True):
    """`example` is a line to start from, with capitals to fill in; a `sample` has made-up names instead. `here`: the
    program is installed; else `package` is what to install, if that is known."""

    program: str
    about: str
    example: str = ""
    here: bool = True
    package: str = ""
    sample: bool = False

    @property
    def is_ready(self) -> bool:
        """Whether the example can be run as it stands."""
        return self.here and bool(self.example) and not self.sample and not _BLANK.search(self.example)
