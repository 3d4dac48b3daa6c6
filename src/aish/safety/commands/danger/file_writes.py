"""Effects on files: redirects, and programs that write their arguments."""

from __future__ import annotations

import re

from aish.safety.commands import program_tables
from aish.safety.commands.danger.findings import Findings
from aish.safety.commands.danger.rules import Call
from aish.safety.commands.options import Scan, grammar, scan
from aish.safety.commands.path_kinds import PathKind, absolute_path, is_data, is_inside, kind_of_path
from aish.safety.commands.program_tables import WriterProgram
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.expansion import DYNAMIC, Field
from aish.safety.commands.syntax.model import Redirect, Span
from aish.safety.commands.verdict import PathChange

_VERBS = {
    PathChange.OVERWRITE: "overwrites",
    PathChange.APPEND: "appends to",
    PathChange.CREATE: "creates",
    PathChange.MODIFY: "changes",
    PathChange.REMOVE: "removes",
}
_PLACES = {
    PathKind.KEYS: ("keys.write", "keys", "where keys are kept"),
    PathKind.STARTUP: ("startup.write", "startup", "which runs at start-up or later"),
    PathKind.SYSTEM: ("system.write", "system", "which belongs to the system"),
}
_SYSRQ = "/proc/sysrq-trigger"
# They print nothing, so redirecting their output only empties the file.
_SILENT = frozenset({":", "true", "false"})
_PRINT_NOTHING = (["cat", "/dev/null"], ["echo"], ["echo", ""], ["echo", "-n"], ["echo", "-n", ""], ["printf", ""])


_LOSING_SCRIPT = re.compile(
    r"(?i)(?:.*[^a-z])?(?:drop|delete|truncate|reset|wipe|purge|destroy|erase|nuke)(?:[^a-z/][^/]*|s|_?all)?"
    r"\.(?:sql|psql|ddl|cql|js|hql|redis)"
)


def is_write(redirect: Redirect, target: Field | None) -> bool:
    """Whether a redirect opens a file for writing, and does not read or copy a descriptor."""
    if target is None or ">" not in redirect.operator:
        return False
    return not (redirect.operator.endswith("&") and (target.text.isdecimal() or target.text == "-"))


def check_redirect(redirect: Redirect, target: Field, words: list[Field], scope: Scope, findings: Findings) -> None:
    append = redirect.operator.endswith(">>")
    path = absolute_path(target.text, scope)
    if not append and path is not None and kind_of_path(path, scope) is not PathKind.SINK:
        if _is_silent(words):
            findings.danger(f"empties {target.shown}", redirect.span, "redirect.empty", "truncation")
        elif path in {absolute_path(word.text, scope) for word in words[1:]}:
            text = f"empties {target.shown} before it is read"
            findings.danger(text, redirect.span, "redirect.self", "truncation")
    note_write(target, PathChange.APPEND if append else PathChange.OVERWRITE, scope, findings, span=redirect.span)


def _is_silent(words: list[Field]) -> bool:
    if not words:
        return True
    texts = [word.text for word in words]
    return texts[0] in _SILENT or texts in _PRINT_NOTHING


def note_write(target: Field, change: PathChange, scope: Scope, findings: Findings, *, span: Span | None = None,
               firm: bool = True) -> None:  # fmt: skip
    """`firm` means that the file is certainly opened for writing, so overwriting one outside the workspace is a
    loss."""
    span = span or target.span
    path = absolute_path(target.text, scope)
    if path is None:
        findings.write(target.shown, change, span, inside=False)
        findings.doubt(f"{_VERBS[change]} a file that is only known when it runs: {target.shown}", span,
                       "write.unresolved", "write")  # fmt: skip
        return
    place = kind_of_path(path, scope)
    if place is PathKind.SINK:
        return
    findings.write(path, change, span, inside=is_inside(path, scope))
    _judge_place(path, place, change, span, findings, firm=firm)


def _judge_place(path: str, place: PathKind, change: PathChange, span: Span, findings: Findings, *, firm: bool) -> None:
    text = f"{_VERBS[change]} {path}{', unless it is there' if change is PathChange.CREATE else ''}"
    if path == _SYSRQ:
        findings.danger(f"{text}, which can stop the machine at once", span, "power.sysrq", "power", catastrophe=True)
    elif place is PathKind.DISK:
        findings.danger(f"{text}, a whole disk", span, "disk.write", "disk", catastrophe=True)
    elif place in _PLACES and change is not PathChange.CREATE:
        rule, kind, where = _PLACES[place]
        findings.danger(f"{text}, {where}", span, rule, kind)
    elif change is PathChange.OVERWRITE and is_data(path) and firm:
        findings.danger(f"{text}, which holds data", span, "data.overwrite", "truncation")
    elif place is PathKind.OUTSIDE and change is PathChange.OVERWRITE and firm:
        findings.danger(f"{text}, outside the workspace", span, "outside.overwrite", "truncation")
    elif place is PathKind.OUTSIDE:
        findings.doubt(f"{text}, outside the workspace", span, "outside.write", "write")
    else:
        findings.doubt(text, span, "write", "write")


def check_fed_file(words: list[Field], source: Field, scope: Scope, findings: Findings) -> None:
    """`tee f < /dev/null` empties f; `psql < drop.sql` does what its name says."""
    name = words[0].text.rpartition("/")[2]
    if source.text == "/dev/null" and name in ("tee", "sponge"):
        targets = [word for word in words[1:] if not word.text.startswith("-")]
        appends = any(word.text in ("-a", "--append") for word in words[1:])
        for target in () if appends else targets:
            findings.danger(f"empties {target.shown}", target.span, "redirect.empty", "truncation")
    clients = program_tables.clients().find(name)
    if clients:
        check_script(source.text, source.span, findings)
    if any(client.local for client in clients):
        findings.doubt(f"{name} runs the statements of {source.shown}", source.span, "write.script", "write")


def check_script(path: str, span: Span, findings: Findings) -> None:
    """Detects a file of statements whose name says that it loses data."""
    if _LOSING_SCRIPT.fullmatch(path):
        findings.danger(f"runs {path}, which by its name loses data", span, "database.script", "database")


def check_written_arguments(call: Call, scope: Scope, findings: Findings) -> None:
    for writer in program_tables.writers().find(call.name):
        found = scan(call.arguments, grammar(writer.options))
        if (writer.needs and not found.has(*writer.needs.split())) or found.has(*writer.unless.split()):
            continue
        change = PathChange.APPEND if writer.append and found.has(*writer.append.split()) else writer.change
        for target in _find_targets(writer, found, call):
            _check_target(target, change, call, scope, findings)


def _find_targets(writer: WriterProgram, found: Scan, call: Call) -> list[Field]:
    named = [Field(value, call.span, value) for value in found.values(*writer.to.split())]
    positionals = list(found.positionals)
    if writer.which == "all":
        return named + positionals
    if writer.which == "rest":
        return positionals if found.has("-e", "--expression", "--reference") else positionals[1:]
    if writer.which == "first":
        return named + positionals[:1]
    if not named and (writer.which == "end" or (writer.which == "last" and len(positionals) > 1)):
        return positionals[-1:]
    return named


def _check_target(target: Field, change: PathChange, call: Call, scope: Scope, findings: Findings) -> None:
    path = absolute_path(target.text, scope)
    # Permissions of a key file are often corrected by hand; recursive changes have a rule of their own.
    harmless = change is PathChange.MODIFY and call.name in ("chmod", "chown", "chgrp")
    if path is not None and harmless and kind_of_path(path, scope) in (PathKind.KEYS, PathKind.STARTUP):
        findings.doubt(f"changes permissions of {path}", target.span, "permissions.file", "permissions")
        return
    if ":" in target.text.partition("/")[0] and DYNAMIC not in target.text:
        findings.doubt(f"copies to {target.shown}", target.span, "upload.copy", "upload")
        return
    if path == "/dev/null" and call.name in ("mv", "gmv"):
        findings.danger("moves files into /dev/null, where they are lost", target.span, "remove.sink", "removal")
    if call.name in ("cp", "install") and any(word.text == "/dev/null" for word in call.arguments[:-1]):
        findings.danger(f"empties {target.shown}", target.span, "copy.empty", "truncation")
    forced = call.name == "ln" and any(
        re.fullmatch(r"-[a-zA-Z]*f[a-zA-Z]*|--force", word.text) for word in call.arguments
    )
    if forced and any(word.text == "/dev/null" for word in call.arguments[:-1]):
        findings.danger(f"puts nothing in the place of {target.shown}", target.span, "link.empty", "truncation")
    firm = forced or call.name in ("tee", "sponge")
    if change is not PathChange.REMOVE:
        note_write(target, change, scope, findings, firm=firm)
        return
    if call.name == "rmdir":
        findings.doubt(f"removes {target.shown}", target.span, "remove.file", "removal")
    if path is not None:
        findings.write(path, change, target.span, inside=is_inside(path, scope))
