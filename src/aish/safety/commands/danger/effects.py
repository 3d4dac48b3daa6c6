"""Effects that are neither redirects nor plain lists of files: archives, downloads, scripts of sed, settings of git."""

from __future__ import annotations

import re
from collections.abc import Callable

from aish.safety.commands.danger.files import note_write
from aish.safety.commands.danger.findings import Findings
from aish.safety.commands.danger.rules import Call
from aish.safety.commands.options import grammar, scan
from aish.safety.commands.proof.filters import sed_writes
from aish.safety.commands.scope import Scope
from aish.safety.commands.syntax.expansion import Field
from aish.safety.commands.verdict import Change

_FIND_FILES = frozenset({"-fprint", "-fprintf", "-fls", "-fprint0"})
_TAR = grammar(
    "-f: --file= -C: --directory= -b: -X: -T: -I: -g: -K: -N: -V: -H: -L: -F: --exclude= --files-from= --transform="
    " --strip-components= --owner= --group= --mode= --mtime= --use-compress-program= --checkpoint-action= --to-command="
)
_TAR_READS_ONLY = frozenset({"-t", "--list", "-d", "--diff", "--compare"})
_TAR_CREATES = frozenset({"-c", "--create", "-r", "--append", "-u", "--update", "-A", "--concatenate"})
_TAR_EXTRACTS = frozenset({"-x", "--extract", "--get"})
_SED = grammar("-e: -f: --expression= --file= -i? -I? --in-place? -l: -E -n -r -s -u -z")
_CURL = grammar(
    "-o: --output= -c: --cookie-jar= -D: --dump-header= --trace= --output-dir= -X: --request= -H: --header= -d: --data="
    " -u: --user= -A: -e: -b: -F: -T: -x: -w: -m: --retry= --max-time= --connect-timeout= --url="
)
_GIT = grammar("-C: -c: --git-dir= --work-tree= --namespace= -f: --file= --type= --blob=")
_GIT_CONFIG_CHANGES = (
    *("--add", "--unset", "--unset-all", "--replace-all", "--remove-section", "--rename-section", "-e", "--edit"),
)
_GIT_CONFIG_VERBS = [["set"], ["unset"], ["rename-section"], ["remove-section"], ["edit"]]
_GIT_CONFIG_READS = ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--get-color", "--get-colorbool")


def note_effects(call: Call, scope: Scope, findings: Findings) -> None:
    handler = _HANDLERS.get(call.name)
    if handler is not None:
        handler(call, scope, findings)


def _find(call: Call, scope: Scope, findings: Findings) -> None:
    for action, target in zip(call.arguments, call.arguments[1:], strict=False):
        if action.text in _FIND_FILES:
            note_write(target, Change.OVERWRITE, scope, findings)


def _openssl(call: Call, scope: Scope, findings: Findings) -> None:
    for option, target in zip(call.arguments, call.arguments[1:], strict=False):
        if option.text in ("-out", "-keyout", "-writerand"):
            note_write(target, Change.OVERWRITE, scope, findings)


def _sed(call: Call, scope: Scope, findings: Findings) -> None:
    found = scan(call.arguments, _SED)
    scripts = found.values("-e", "--expression") or [field.text for field in found.positionals[:1]]
    for path in sed_writes("\n".join(scripts)):
        # No shell expands it there, but the home is what is meant.
        target = scope.home + path[1:] if path.startswith("~/") else path
        note_write(Field(target, call.span, path), Change.OVERWRITE, scope, findings)


def _tar(call: Call, scope: Scope, findings: Findings) -> None:
    arguments = list(call.arguments)
    if arguments and re.fullmatch(r"[A-Za-z]+", arguments[0].text):  # the old way: letters without a dash
        arguments[0] = Field(f"-{arguments[0].text}", arguments[0].span, arguments[0].raw)
    found = scan(arguments, _TAR)
    names = {flag.name for flag in found.flags}
    if names & _TAR_READS_ONLY:
        return
    if names & _TAR_CREATES:
        for path in found.values("-f", "--file"):
            if path != "-":
                note_write(Field(path, call.span, path), Change.OVERWRITE, scope, findings)
    elif names & _TAR_EXTRACTS and not names & {"-O", "--to-stdout"}:
        findings.doubt(f"{call.name} replaces files that are in the archive", call.span, "write.extract", "write")


def _curl(call: Call, scope: Scope, findings: Findings) -> None:
    found = scan(call.arguments, _CURL)
    if not found.has("-O", "--remote-name", "--remote-name-all", "-J", "--remote-header-name"):
        return
    folder = found.value("--output-dir")
    for url in found.positionals:
        name = url.text.split("?")[0].rpartition("/")[2] or url.text
        target = f"{folder}/{name}" if folder else name
        note_write(Field(target, url.span, url.raw), Change.OVERWRITE, scope, findings)


def _git(call: Call, scope: Scope, findings: Findings) -> None:
    found = scan(call.arguments, _GIT)
    verb, *words = [field.text for field in found.positionals] or [""]
    if verb != "config" or found.has(*_GIT_CONFIG_READS):
        return
    is_reading = words[:1] == ["get"] or len(words) < 2
    if found.has(*_GIT_CONFIG_CHANGES) or words[:1] in _GIT_CONFIG_VERBS or not is_reading:
        findings.doubt("changes the settings of git, some of which it runs", call.span, "write.git-config", "write")


_HANDLERS: dict[str, Callable[[Call, Scope, Findings], None]] = {
    **dict.fromkeys(("find", "gfind", "bfs"), _find),
    **dict.fromkeys(("sed", "gsed"), _sed),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
    "curl": _curl,
    "openssl": _openssl,
    "git": _git,
}
