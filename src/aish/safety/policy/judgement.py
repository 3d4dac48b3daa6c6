"""What the gate decides about one effect, and what it is decided from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cached_property
from pathlib import PurePosixPath

import msgspec

from aish.safety.commands import Level, LineVerdict, ShellContext
from aish.safety.commands.verdict import Read
from aish.safety.policy.rules import Rule
from aish.types.decisions import Danger, Verdict
from aish.types.tools import Effect, ToolSpec

# Returns the real paths of a read: links followed, wildcards expanded; below a folder only possible secrets. Raises
# TooBig if that is too much.
RealPaths = Callable[[Read], Iterable[str]]

CAREFUL: Mapping[Effect, Verdict] = {
    Effect.READ: Verdict.ALLOW,
    Effect.WRITE: Verdict.ASK,
    Effect.EXEC: Verdict.ASK,
    Effect.NETWORK: Verdict.ASK,
}


class Nature(StrEnum):
    """What a call does, as far as modes go by it."""

    READ = "read"  # it only reads: a tool that does, or a line that is proved to
    EDIT = "edit"  # it changes files of the workspace, and that can be undone
    COMMAND = "command"
    OTHER = "other"


class Judgement(msgspec.Struct, frozen=True):
    """`always` is the rule that a lasting approval would add, `like` says in words what an approval for the turn or the
    session covers. `is_default`: no rule of the user decided, only the verdict for the effect. `finding` is what the
    classifier found of a command."""

    verdict: Verdict
    rule: str
    reason: str
    reasons: tuple[str, ...] = ()
    insist: bool = False
    always: Rule | None = None
    like: str = ""
    danger: Danger = Danger.NONE
    nature: Nature = Nature.OTHER
    is_default: bool = False
    finding: LineVerdict | None = None

    @property
    def is_proved_line(self) -> bool:
        return self.finding is not None and self.finding.level is Level.SAFE


class JudgedCall:
    """One call to judge. `rules` are those about this tool, its effect and the owner of the call; `verdicts` apply
    without a rule. The state of the shell is asked for at its first use. `real_paths` finds on disk what a read
    reaches, `find_own_program` the program of the workspace that a name means."""

    def __init__(
        self,
        tool: ToolSpec,
        rules: Sequence[Rule],
        verdicts: Mapping[Effect, Verdict],
        root: PurePosixPath,
        get_shell: Callable[[], ShellContext],
        real_paths: RealPaths,
        find_own_program: Callable[[str, str], str] = lambda name, cwd: "",
    ) -> None:
        self.tool = tool
        self.rules = rules
        self.verdicts = verdicts
        self.root = root
        self.real_paths = real_paths
        self.find_own_program = find_own_program
        self._get_shell = get_shell

    @cached_property
    def shell(self) -> ShellContext:
        return self._get_shell()

    def places_of(self, path: str) -> Iterator[str]:
        """Yields the absolute path, and the one that a link leads to."""
        yield path
        with suppress(OSError, ValueError):  # a text that no file can be named
            yield from self.real_paths(Read(path, inside=True, span=(0, 0)))

    @property
    def default(self) -> Verdict:
        return self.verdicts.get(self.tool.effect, Verdict.DENY)


def find_strictest(rules: Iterable[Rule]) -> Rule | None:
    order = (Verdict.DENY, Verdict.ASK, Verdict.ALLOW)
    return min(rules, key=lambda rule: order.index(rule.verdict), default=None)
