"""A program that may do what somebody asks for."""

from __future__ import annotations

import re

import msgspec

_BLANK = re.compile(r"\b[A-Z]{2,}\b")


class CommandHint(msgspec.Struct, frozen=True):
    """`example` is a line to start from, with words in capitals to fill in, or, if it is a `sample`, with names that
    somebody made up; `here`: it is on this machine, else `package` is what to install, where that is known."""

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
