"""A program that may do what the user asks for."""

from __future__ import annotations

import re

import msgspec

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
