"""The result of the proof: doubts that keep a line from being safe, what it reads, and hosts that it contacts."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from aish.safety.commands.path_kinds import absolute_path
from aish.safety.commands.proof.exposure import Exposure, classify_read, name_pattern_is_secret
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.expansion import DYNAMIC, INSIDE, NAMES, Field
from aish.safety.commands.syntax.model import Span
from aish.safety.commands.verdict import Read, Reason

_MAX_DOUBTS = 8
_MAX_READS = 200  # more cannot be checked on the disk in a few milliseconds
_MAX_VALUES = 60
# A pattern of names that all programs understand in the same way.
_PLAIN_FILTER = re.compile(r"[\w.*-]+")
# A name below the workspace, as `find`, `xargs` and a loop give it.
_BELOW = DYNAMIC + INSIDE

# How a file is read: what a read records besides its path.
CONTENTS = Read("", inside=False, span=(0, 0))
FOLDER = replace(CONTENTS, deep=True)
NAMES_ONLY = replace(CONTENTS, names_only=True)


class Proof:
    def __init__(self) -> None:
        self.doubts: list[Reason] = []
        self.reads: list[Read] = []
        self.hosts: dict[str, None] = {}

    @property
    def is_over(self) -> bool:
        return len(self.doubts) >= _MAX_DOUBTS

    def doubt(self, text: str, span: Span, rule: str, kind: str = "unproved") -> None:
        if not self.is_over:
            self.doubts.append(Reason(text, span, rule, kind))

    def network(self, name: str, host: str, span: Span) -> None:
        self.hosts[host] = None
        self.doubt(f"{name} talks to {host}", span, "network", "network")

    def read(self, field: Field, scope: Scope, how: Read = CONTENTS) -> None:
        """Records a file or folder that a program reads, and how. Adds a doubt if it is unknown or may do harm."""
        text = field.text
        if text in (_BELOW, f"./{_BELOW}") or (how.names_only and text == DYNAMIC + NAMES):
            if scope.cwd is None:
                self._doubt_unknown(field)
            elif not how.names_only:
                self.read_listed(field, scope, deep=how.deep)
            return
        filters = how.filters if all(map(_PLAIN_FILTER.fullmatch, how.filters)) else ()
        read = replace(how, span=field.span, filters=filters)
        for value, glob in _possible_values(field, scope):
            self._read_value(value, field, scope, replace(read, glob=glob))

    def read_listed(self, field: Field, scope: Scope, *, deep: bool = False) -> None:
        """Records where the names come from that are fed to the command. `deep`: also all below folders among them."""
        listing = scope.fed
        if any(name_pattern_is_secret(name) for name in listing.asked_for):
            self.doubt("looks for files that hold secrets", field.span, "secret", "secret")
        for start in listing.starts:
            here = Field(start.text, field.span, start.raw, start.glob)
            self.read(here, scope, replace(FOLDER, filters=() if deep else listing.patterns))

    def read_repository_settings(self, arguments: Sequence[Field], scope: Scope) -> None:
        """Records that addresses in the settings are shown. Only the disk tells whether one holds a login."""
        span = arguments[0].span if arguments else (0, 1)
        if scope.cwd is not None and len(self.reads) < _MAX_READS:
            self.reads.append(Read(f"{scope.cwd}/.git/config", inside=True, span=span))

    def _read_value(self, text: str, field: Field, scope: Scope, read: Read) -> None:
        path = absolute_path(text, scope)
        if path is None:
            if text:
                self._doubt_unknown(field)
            return
        exposure = classify_read(path, scope, deep=read.deep, names_only=read.names_only, glob=read.glob)
        if exposure is Exposure.SECRET:
            self.doubt(f"reads {field.shown}, which holds a secret", field.span, "secret", "secret")
        elif exposure is Exposure.OUTSIDE:
            self.doubt(f"reads {path}, outside the workspace", field.span, "outside", "outside")
        # `..` after a link leads elsewhere, so the disk check needs the path as it was written.
        written = path if ".." not in text else text if text.startswith("/") else f"{scope.cwd}/{text}"
        if len(self.reads) < _MAX_READS:
            self.reads.append(replace(read, path=written, inside=exposure is Exposure.INSIDE))
        else:
            self.doubt("reads more files than can be checked", field.span, "dynamic-read")

    def _doubt_unknown(self, field: Field) -> None:
        self.doubt(f"reads {field.shown}, which is only known when it runs", field.span, "dynamic-read")


def _possible_values(field: Field, scope: Scope) -> Iterator[tuple[str, bool]]:
    """Yields what a word may be, and whether it is a pattern. A variable of a loop has each of the loop's values: only
    they tell that `.$f` is a secret or that `$f./x` leads outside."""
    pieces = field.text.split(_BELOW)
    count = len(pieces) - 1
    if not count or not scope.loop_values or len(scope.loop_values) ** count > _MAX_VALUES:
        yield field.text, field.glob
        return
    for chosen in itertools.product(scope.loop_values, repeat=count):
        text = "".join(itertools.chain.from_iterable(zip(pieces, (value.text for value in chosen), strict=False)))
        yield text + pieces[-1], field.glob or any(value.glob for value in chosen)
