"""rm, find, dd, kill and similar: programs whose danger depends on their targets, not on one option."""

from __future__ import annotations

import re
from itertools import pairwise

from aish.safety.commands.danger.findings import Findings
from aish.safety.commands.danger.rules import Call
from aish.safety.commands.options import grammar, scan
from aish.safety.commands.path_kinds import (
    PathKind,
    absolute_path,
    is_data,
    is_precious,
    kind_of_path,
    recursive_target,
)
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.expansion import DYNAMIC, Field

_RM = grammar(
    "-r -R -f -i -I -v -d --recursive --force --dir --verbose --interactive? --no-preserve-root --one-file-system"
)
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_REMOVERS = frozenset({"rm", "grm", "unlink", "rmdir", "shred", "srm", "wipe", "trash"})
_RSYNC = grammar("-e: --rsh= --exclude= --include= --filter= --files-from= --bwlimit= --log-file= --timeout= --port=")
_HARMLESS_KILLS = frozenset({"-0", "-l", "-L"})
_LOOKS_UP = re.compile(r"\b(pgrep|pidof|lsof|ps|fuser|grep|awk|ss|netstat|jobs)\b")


def check_rm(call: Call, scope: Scope, findings: Findings) -> None:
    found = scan(call.arguments, _RM)
    names = {flag.name for flag in found.flags}
    recursive = bool(names & {"-r", "-R"}) or any(name.startswith("--rec") for name in names)
    forced = "-f" in names or any(name.startswith("--fo") for name in names)
    how = "everything under" if recursive else ""
    for target in found.positionals:
        if target.text:
            _check_target(call, target, scope, findings, recursive=recursive, forced=forced)
    if call.fed:
        findings.danger(f"removes {how or 'every file'} {call.fed} finds", call.span, "remove.fed", "removal")
    elif (recursive or forced) and not found.positionals:
        findings.danger("removes whatever it is given, without asking", call.span, "remove.force", "removal")


def _check_target(
    call: Call, target: Field, scope: Scope, findings: Findings, *, recursive: bool, forced: bool
) -> None:
    shown = "the files it is given" if target.shown in ("{}", "…") else target.shown
    if recursive and _may_be_root(target.text):
        findings.danger(f"removes everything, if {shown} turns out empty", call.span, "remove.root", "removal",
                        catastrophe=True)  # fmt: skip
        return
    resolved = absolute_path(target.text, scope)
    path = recursive_target(resolved) if resolved is not None else None
    if recursive and path is not None and is_precious(path, scope):
        findings.danger(
            f"removes {path} and everything in it", call.span, "remove.precious", "removal", catastrophe=True
        )
    elif recursive:
        findings.danger(f"removes {shown} and everything in it", call.span, "remove.recursive", "removal")
    elif forced:
        findings.danger(f"removes {shown} without asking", call.span, "remove.force", "removal")
    elif DYNAMIC in target.text and scope.looping:
        findings.danger(f"removes {shown} in every round of a loop", call.span, "remove.loop", "removal")
    elif target.glob and re.search(r"(^|/)(\*|\.\*|\.\?\*|\.\[.*)$", target.text):
        findings.danger(f"removes every file that {shown} matches", call.span, "remove.glob", "removal")
    else:
        _check_file(shown, path, scope, call, findings)


def _check_file(shown: str, path: str | None, scope: Scope, call: Call, findings: Findings) -> None:
    place = kind_of_path(path, scope) if path is not None else PathKind.UNRESOLVED
    if place in (PathKind.KEYS, PathKind.STARTUP, PathKind.SYSTEM, PathKind.OUTSIDE, PathKind.DISK):
        findings.danger(f"removes {shown}, outside the workspace", call.span, "remove.outside", "removal")
    else:
        findings.doubt(f"removes {shown}", call.span, "remove.file", "removal")


def _may_be_root(text: str) -> bool:
    """`$X/`, `$X/*`, `$X/usr`, `/$X`: if X is empty, this starts at the root."""
    if re.fullmatch(rf"/+{DYNAMIC}+/*", text):
        return True
    return re.match(rf"{DYNAMIC}+/+(\*|\.|\.\*|$|bin|etc|usr|var|home|lib|opt|boot)", text) is not None


def check_find(call: Call, scope: Scope, findings: Findings) -> None:
    texts = [field.text for field in call.arguments]
    starts = []
    for field in call.arguments:
        if field.text[:1] in ("-", "(", "!", "\\"):
            break
        starts.append(field)
    if "-delete" in texts:
        precious = any(is_precious_target(field, scope) for field in starts)
        findings.danger(
            "find removes every file that matches", call.span, "remove.find", "removal", catastrophe=precious
        )
    for action, command in pairwise(texts):
        if action in _FIND_RUNS and command.rpartition("/")[2] in _REMOVERS:
            precious = any(is_precious_target(field, scope) for field in starts)
            text = f"find runs {command} on every file that matches"
            findings.danger(text, call.span, "remove.find", "removal", catastrophe=precious)


def is_precious_target(field: Field, scope: Scope) -> bool:
    path = absolute_path(field.text, scope)
    return path is not None and is_precious(recursive_target(path), scope)


def check_sweep(call: Call, scope: Scope, findings: Findings) -> None:
    """Checks chmod, chown and chgrp on a precious directory."""
    names = {flag.name for flag in scan(call.arguments, grammar("-R --recursive")).flags}
    if not ("-R" in names or any(name.startswith("--rec") for name in names)):
        # Making scripts executable is common and harmless.
        if call.fed and not any(re.fullmatch(r"[ugoa]*\+x", field.text) for field in call.arguments):
            findings.danger(f"changes every file {call.fed} finds", call.span, "permissions.fed", "permissions")
        return
    for field in call.arguments:
        if (field.text[:1] in ("/", ".", "~") and is_precious_target(field, scope)) or _may_be_root(field.text):
            findings.danger(f"changes permissions or owners of everything under {field.shown}", call.span,
                            "permissions.precious", "permissions", catastrophe=True)  # fmt: skip


def check_move(call: Call, scope: Scope, findings: Findings) -> None:
    for field in call.arguments[:-1]:
        if field.text[:1] in ("/", "~", ".") and is_precious_target(field, scope):
            findings.danger(f"moves {field.shown} away", call.span, "move.precious", "removal", catastrophe=True)


def check_dd(call: Call, scope: Scope, findings: Findings) -> None:
    from aish.safety.commands.danger.file_writes import note_write
    from aish.safety.commands.verdict import PathChange

    operands = dict(field.text.partition("=")[::2] for field in call.arguments)
    target = operands.get("of", "")
    if not target:
        return
    field = Field(target, call.span, target)
    if operands.get("if") in ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"):
        findings.danger(f"dd wipes {target}", call.span, "disk.dd", "disk")
    if is_data(target) or target.endswith(".sql"):
        findings.danger(f"dd overwrites {target}, which holds data", call.span, "data.overwrite", "truncation")
    note_write(field, PathChange.OVERWRITE, scope, findings, firm=False)


def check_shred(call: Call, scope: Scope, findings: Findings) -> None:
    for field in scan(call.arguments, grammar("-n: -s: --iterations= --size= --random-source=")).positionals:
        path = absolute_path(field.text, scope)
        if path is not None and (
            kind_of_path(path, scope) is PathKind.DISK or is_precious(recursive_target(path), scope)
        ):
            text = f"overwrites {field.shown} so that nothing can be recovered"
            findings.danger(text, call.span, "disk.shred", "disk", catastrophe=True)


def check_rsync(call: Call, scope: Scope, findings: Findings) -> None:
    """Synchronising a precious directory with another one deletes everything that the other does not contain."""
    found = scan(call.arguments, _RSYNC)
    deletes = any(flag.name.startswith("--del") for flag in found.flags)
    if not deletes or found.has("-n", "--dry-run") or len(found.positionals) < 2:
        return
    target = found.positionals[-1]
    if is_precious_target(target, scope):
        text = f"deletes everything in {target.shown} that the other side does not hold"
        findings.danger(text, call.span, "remove.rsync-precious", "removal", catastrophe=True)


def check_kill(call: Call, scope: Scope, findings: Findings) -> None:
    texts = [field.text for field in call.arguments]
    if texts and texts[0] in _HARMLESS_KILLS:
        return
    pids = texts[1:] if texts and texts[0][:1] == "-" else texts
    if texts[:1] in (["-s"], ["-n"]):
        pids = texts[2:]
    if "-1" in pids:
        text = "kill ends every process you own"
        findings.danger(text, call.span, "kill.all", "processes", catastrophe=True)
    looked_up = any(_LOOKS_UP.search(field.raw) for field in call.arguments if DYNAMIC in field.text)
    if call.fed or looked_up:
        findings.danger("kill ends whatever processes a search finds", call.span, "kill.search", "processes")


HANDLERS = {
    "rm": check_rm,
    "grm": check_rm,
    "unlink": check_rm,
    "find": check_find,
    "gfind": check_find,
    "bfs": check_find,
    "dd": check_dd,
    "kill": check_kill,
    **dict.fromkeys(("shred", "srm", "wipe"), check_shred),
    "rsync": check_rsync,
    "chmod": check_sweep,
    "chown": check_sweep,
    "chgrp": check_sweep,
    "mv": check_move,
}
