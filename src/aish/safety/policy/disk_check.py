"""Checks where the files of a proved line really are. A proof is about names; links and wildcards may lead
elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from aish.safety.commands import Level, ShellContext, Verdict
from aish.safety.commands.bounds import TooBig
from aish.safety.commands.verdict import Read, Reason

# Returns the real paths of a read: links followed, wildcards expanded; below a folder only possible secrets. Raises
# TooBig if that is too much.
RealPaths = Callable[[Read], Iterable[str]]


def check_disk(finding: Verdict, shell: ShellContext, real_paths: RealPaths) -> Verdict:
    """Returns the verdict, or an unknown one with the reason."""
    if finding.level is not Level.SAFE:
        return finding
    for read in finding.reads:
        reason = None if read.names_only else _find_reason(read, shell, real_paths)
        if reason is not None:
            return msgspec.structs.replace(finding, level=Level.UNKNOWN, reasons=(reason,))
    return finding


def _find_reason(read: Read, shell: ShellContext, real_paths: RealPaths) -> Reason | None:
    from aish.safety.commands.proof.exposure import Exposure, exposure_of  # with its tables: for the first command
    from aish.safety.commands.scope import Scope

    scope = Scope(shell)
    try:
        for path in real_paths(read):
            exposure = exposure_of(path, scope, deep=False, names_only=False, glob=False)
            if exposure is Exposure.SECRET:
                return Reason(f"reads {path}, which holds a secret", read.span, "secret", "secret")
            if exposure is Exposure.OUTSIDE:
                return Reason(f"reads {path} through a link, outside the workspace", read.span, "link", "link")
    except TooBig as exc:
        return Reason(f"reads {read.path}: {exc}", read.span, "link", "link")
    return None
