"""The result of the proof: doubts that keep a line from being safe, what it reads, and hosts that it contacts."""

from __future__ import annotations

from aish.safety.commands.path_kinds import resolve
from aish.safety.commands.proof.exposure import Exposure, classify_read
from aish.safety.commands.scope import Scope
from aish.safety.commands.syntax.expansion import DYNAMIC, INSIDE, NAMES, Field
from aish.safety.commands.syntax.model import Span
from aish.safety.commands.verdict import Read, Reason

_MAX_DOUBTS = 8
_MAX_READS = 40


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

    def read(
        self, field: Field, scope: Scope, *, deep: bool = False, names_only: bool = False, filters: tuple[str, ...] = ()
    ) -> None:
        """Records a file or folder that a program reads. Adds a doubt if it is unknown or may do harm."""
        text = field.text.replace(DYNAMIC + INSIDE, "x")
        if names_only:
            text = text.replace(DYNAMIC + NAMES, "x")
        is_known = text == field.text
        path = resolve(text, scope)
        # A value known only as "some name" may be `.`, from which `..` leads outside.
        if path is None or (not is_known and ".." in text):
            if text:
                self.doubt(f"reads {field.shown}, which is only known when it runs", field.span, "dynamic-read")
            return
        exposure = classify_read(path, scope, deep=deep, names_only=names_only, glob=field.glob)
        if exposure is Exposure.SECRET:
            self.doubt(f"reads {field.shown}, which holds a secret", field.span, "secret", "secret")
        elif exposure is Exposure.OUTSIDE:
            self.doubt(f"reads {path}, outside the workspace", field.span, "outside", "outside")
        if is_known and len(self.reads) < _MAX_READS:
            # `..` after a link leads elsewhere, so the disk check needs the path as it was written.
            written = path if ".." not in text else text if text.startswith("/") else f"{scope.cwd}/{text}"
            self.reads.append(
                Read(
                    written, exposure is Exposure.INSIDE, field.span, deep=deep, names_only=names_only, glob=field.glob
                )
            )
