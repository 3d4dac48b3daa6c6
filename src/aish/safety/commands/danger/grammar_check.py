"""Handles lines that cannot be read with certainty: returns a doubt, and scans whatever else the line may run."""

from __future__ import annotations

from aish.safety.commands.bounds import TooBig
from aish.safety.commands.danger.findings import Findings
from aish.safety.commands.danger.walker import Loose
from aish.safety.commands.scope import Scope
from aish.safety.commands.syntax.agreement import Agreement
from aish.safety.commands.syntax.possible_commands import possible_scripts
from aish.safety.commands.verdict import Level, Reason, ShellContext


def doubt_reading(text: str, agreement: Agreement, findings: Findings, context: ShellContext) -> Reason:
    """Adds what another reading of the line would destroy. Returns why the line cannot be proved."""
    span = (0, len(text.encode()))
    other = Findings()
    try:
        if agreement.plain is not None:
            Loose(other).walk(agreement.plain, Scope(context))
        else:
            _look_everywhere(text, other, context)
    except (TooBig, RecursionError):
        pass  # a bound was reached: the line is unknown in any case
    _merge(other, findings)
    return Reason(agreement.doubt, span, "grammar", "unproved")


def _look_everywhere(text: str, found: Findings, context: ShellContext) -> None:
    for script in possible_scripts(text):
        Loose(found).text(script, Scope(context), (0, len(text.encode())))


def _merge(other: Findings, findings: Findings) -> None:
    """Adds only dangers: doubts about a possibly wrong reading are meaningless."""
    known = {(reason.rule, reason.catastrophe) for reason in findings.reasons}
    for reason in other.reasons:
        if reason.level is Level.DESTRUCTIVE and (reason.rule, reason.catastrophe) not in known:
            findings.add(reason)
    for name in other.programs:
        findings.program(name)
