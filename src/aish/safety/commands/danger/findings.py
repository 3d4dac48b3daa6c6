"""Collects the results of the danger scan. Spans inside nested text point to the word that contains it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aish.safety.commands.bounds import MAX_COMMANDS
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.expansion import Field
from aish.safety.commands.syntax.model import Span
from aish.safety.commands.verdict import Level, PathChange, Reason, Write

# Enough reasons for a decision; a hostile line must not fill the memory.
MAX_REASONS = 40
MAX_ARGUMENTS = 100
# More than a line may run, so that a program denied by a rule is never dropped from the list.
MAX_PROGRAMS = 2 * MAX_COMMANDS


class Findings:
    def __init__(self) -> None:
        self.reasons: list[Reason] = []
        self.writes: list[Write] = []
        self.programs: dict[str, None] = {}
        self.anchor: Span | None = None
        # Every command's arguments with their scope, to be searched for secrets if the line is not safe.
        self.arguments: list[tuple[Field, Scope]] = []

    @contextmanager
    def anchor_to(self, span: Span) -> Iterator[None]:
        """Findings of nested text point to this span, the outermost one if nested deeper."""
        outer = self.anchor
        self.anchor = outer or span
        try:
            yield
        finally:
            self.anchor = outer

    def argument(self, field: Field, scope: Scope) -> None:
        if len(self.arguments) < MAX_ARGUMENTS:
            self.arguments.append((field, scope))

    def danger(self, text: str, span: Span, rule: str, kind: str, *, catastrophe: bool = False) -> None:
        self.add(Reason(text, span, rule, kind, Level.DESTRUCTIVE, catastrophe))

    def doubt(self, text: str, span: Span, rule: str, kind: str) -> None:
        self.add(Reason(text, span, rule, kind))

    def add(self, reason: Reason) -> None:
        if self.anchor is not None:
            reason = Reason(reason.text, self.anchor, reason.rule, reason.kind, reason.level, reason.catastrophe)
        if reason in self.reasons:
            return
        # A catastrophe is never dropped.
        if len(self.reasons) < MAX_REASONS or reason.catastrophe:
            self.reasons.append(reason)

    def write(self, path: str, change: PathChange, span: Span, *, inside: bool) -> None:
        if len(self.writes) < MAX_REASONS:
            self.writes.append(Write(path, change, inside, self.anchor or span))

    def program(self, name: str) -> None:
        if len(self.programs) < MAX_PROGRAMS:
            self.programs[name] = None

    @property
    def level(self) -> Level:
        if any(reason.level is Level.DESTRUCTIVE for reason in self.reasons):
            return Level.DESTRUCTIVE
        return Level.UNKNOWN if self.reasons or self.writes else Level.SAFE
