"""Effects other than redirects and plain file arguments: archives, downloads, sed scripts, settings of git."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from aish.safety.commands.danger.file_writes import note_write
from aish.safety.commands.danger.findings import Findings
from aish.safety.commands.danger.removal import is_precious_target
from aish.safety.commands.danger.rules import Call
from aish.safety.commands.options import grammar, scan
from aish.safety.commands.path_kinds import is_precious, is_under, recursive_target
from aish.safety.commands.proof.sed_awk import sed_writes
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.expansion import Field
from aish.safety.commands.verdict import PathChange

_FIND_FILES = frozenset({"-fprint", "-fprintf", "-fls", "-fprint0"})
_TAR = grammar(
    "-f: --file= -C: --directory= -b: -X: -T: -I: -g: -K: -N: -V: -H: -L: -F: --exclude= --files-from= --transform="
    " --strip-components= --owner= --group= --mode= --mtime= --use-compress-program= --checkpoint-action= --to-command="
)
_TAR_READS_ONLY = frozenset({"-t", "--list", "-d", "--diff", "--compare"})
_TAR_CREATES = frozenset({"-c", "--create", "-r", "--append", "-u", "--update", "-A", "--concatenate"})
_TAR_EXTRACTS = frozenset({"-x", "--extract", "--get"})
_SED = grammar("-e: -f: --expression= --file= -i? -I? --in-place? -l: -E -n -r -s -u -z")
_SED_EMPTIES = re.compile(r"\s*(?:[01],\$)?\s*\{?\s*[dD]\s*;?\s*\}?\s*")
_DOCKER = grammar("-v: --volume= --mount= -H: --host= -c: --context=")
_REMOVERS = frozenset({"rm", "shred", "rmdir", "unlink", "find", "rsync", "dd", "mkfs", "truncate"})
_CURL = grammar(
    "-o: --output= -c: --cookie-jar= -D: --dump-header= --trace= --output-dir= -X: --request= -H: --header= -d: --data="
    " -u: --user= -A: -e: -b: -F: -T: -x: -w: -m: --retry= --max-time= --connect-timeout= --url="
)
_GIT = grammar("-C: -c: --git-dir= --work-tree= --namespace= -f: --file= --type= --blob=")
# With these `-o` names a file; the option `--output` of all others that show patches may be shortened.
_GIT_ARCHIVE = grammar("-o: --output= -C: -c: --format= --prefix= --remote= --exec= --add-file= --mtime=")
_GIT_PATCHES = grammar(
    "--outp= --outpu= --output= -C: -c: --git-dir= --work-tree= -n: --format= --since= --until= -U: -S: -G:"
)
_SOX = grammar(
    "-b: -c: -e: -r: -t: -v: -C: --bits= --channels= --encoding= --rate= --type= --volume= --compression= --comment="
    " --add-comment= --combine= --effects-file= --buffer= --input-buffer= --temp= --endian="
)
_SOX_READS_ONLY = ("--i", "--info", "--version", "-h", "--help")
_GIT_CONFIG_CHANGES = (
    *("--add", "--unset", "--unset-all", "--replace-all", "--remove-section", "--rename-section", "-e", "--edit"),
)
_GIT_CONFIG_VERBS = [["set"], ["unset"], ["rename-section"], ["remove-section"], ["edit"]]
_GIT_CONFIG_READS = ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--get-color", "--get-colorbool")


def note_effects(call: Call, scope: Scope, findings: Findings) -> None:
    handler = _HANDLERS.get(call.name)
    if handler is not None:
        handler(call, scope, findings)


def _check_find(call: Call, scope: Scope, findings: Findings) -> None:
    for action, target in zip(call.arguments, call.arguments[1:], strict=False):
        if action.text in _FIND_FILES:
            note_write(target, PathChange.OVERWRITE, scope, findings)


def _check_openssl(call: Call, scope: Scope, findings: Findings) -> None:
    for option, target in zip(call.arguments, call.arguments[1:], strict=False):
        if option.text in ("-out", "-keyout", "-writerand"):
            note_write(target, PathChange.OVERWRITE, scope, findings)


def _check_sed(call: Call, scope: Scope, findings: Findings) -> None:
    found = scan(call.arguments, _SED)
    scripts = found.values("-e", "--expression") or [field.text for field in found.positionals[:1]]
    in_place = found.has("-i", "-I", "--in-place")
    if in_place and any(_SED_EMPTIES.fullmatch(script) for script in scripts):
        findings.danger("deletes every line", call.span, "sed.empty", "truncation")
    for path in sed_writes("\n".join(scripts)):
        # The shell does not expand it there, but the home is meant.
        target = scope.home + path[1:] if path.startswith("~/") else path
        note_write(Field(target, call.span, path), PathChange.OVERWRITE, scope, findings)


def _check_tar(call: Call, scope: Scope, findings: Findings) -> None:
    arguments = list(call.arguments)
    if arguments and re.fullmatch(r"[A-Za-z]+", arguments[0].text):  # the old syntax: letters without a dash
        arguments[0] = Field(f"-{arguments[0].text}", arguments[0].span, arguments[0].raw)
    found = scan(arguments, _TAR)
    names = {flag.name for flag in found.flags}
    if "--remove-files" in names and any(is_precious_target(field, scope) for field in found.positionals):
        findings.danger("removes what it has packed", call.span, "remove.tar-precious", "removal", catastrophe=True)
    if names & _TAR_READS_ONLY:
        return
    if names & _TAR_CREATES:
        for path in found.values("-f", "--file"):
            if path != "-":
                note_write(Field(path, call.span, path), PathChange.OVERWRITE, scope, findings)
    elif names & _TAR_EXTRACTS and not names & {"-O", "--to-stdout"}:
        findings.doubt(f"{call.name} replaces files that are in the archive", call.span, "write.extract", "write")


def _check_docker(call: Call, scope: Scope, findings: Findings) -> None:
    """`docker run -v /:/h … rm -rf /h`: the container removes files of this machine."""
    words = re.split(r"[\s;&|'\"()]+", " ".join(field.text for field in call.arguments))
    if not any(word.rpartition("/")[2] in _REMOVERS for word in words):
        return
    for source, target in _find_mounts(call):
        inside = (recursive_target(word) for word in words if target != "/" and is_under(word, target))
        hosts = (f"{source.rstrip('/')}{path[len(target) :]}" or "/" for path in inside)
        if any(is_precious(path, scope) for path in hosts):
            text = f"removes what is in {source} through a container"
            findings.danger(text, call.span, "docker.mount", "removal", catastrophe=True)


def _find_mounts(call: Call) -> Iterator[tuple[str, str]]:
    """Yields the mounted folders of this machine, with their paths in the container."""
    found = scan(call.arguments, _DOCKER)
    for value in found.values("-v", "--volume"):
        source, _, rest = value.partition(":")
        yield recursive_target(source), recursive_target(rest.partition(":")[0])
    for value in found.values("--mount"):
        parts = dict(item.partition("=")[::2] for item in value.split(","))
        source = parts.get("source") or parts.get("src") or ""
        target = parts.get("target") or parts.get("dst") or parts.get("destination") or ""
        yield recursive_target(source), recursive_target(target)


def _check_sort(call: Call, scope: Scope, findings: Findings) -> None:
    found = scan(call.arguments, grammar("-o: --output= -t: -k: -S: -T: --key= --field-separator="))
    target = found.value("-o", "--output")
    if target is not None and target in (field.text for field in found.positionals):
        findings.danger(f"replaces {target} by itself, sorted", call.span, "sort.self", "truncation")


def _check_curl(call: Call, scope: Scope, findings: Findings) -> None:
    found = scan(call.arguments, _CURL)
    if not found.has("-O", "--remote-name", "--remote-name-all", "-J", "--remote-header-name"):
        return
    folder = found.value("--output-dir")
    for url in found.positionals:
        name = url.text.split("?")[0].rpartition("/")[2] or url.text
        target = f"{folder}/{name}" if folder else name
        note_write(Field(target, url.span, url.raw), PathChange.OVERWRITE, scope, findings)


def _check_git(call: Call, scope: Scope, findings: Findings) -> None:
    found = scan(call.arguments, _GIT)
    verb, *words = [field.text for field in found.positionals] or [""]
    if verb == "clean" and not found.has("-n", "--dry-run"):
        places = [*found.positionals[1:], *(Field(value, call.span, value) for value in found.values("-C"))]
        if any(is_precious_target(field, scope) for field in places):
            text = "deletes files that git does not track in a place that matters"
            findings.danger(text, call.span, "git.clean-precious", "git", catastrophe=True)
    _check_git_output(call, verb, words, scope, findings)
    if verb != "config" or found.has(*_GIT_CONFIG_READS):
        return
    is_reading = words[:1] == ["get"] or len(words) < 2
    if found.has(*_GIT_CONFIG_CHANGES) or words[:1] in _GIT_CONFIG_VERBS or not is_reading:
        findings.doubt("changes the settings of git, some of which it runs", call.span, "write.git-config", "write")


def _check_git_output(call: Call, verb: str, words: list[str], scope: Scope, findings: Findings) -> None:
    found = scan(call.arguments, _GIT_ARCHIVE if verb == "archive" else _GIT_PATCHES)
    targets = found.values("-o", "--output", "--outpu", "--outp")
    if verb == "bundle" and words[:1] == ["create"]:
        targets += words[1:2]
    folder = "".join(f"{value}/" for value in found.values("-C"))
    for target in targets:
        if target != "-":
            path = target if target.startswith(("/", "~")) else folder + target
            note_write(Field(path, call.span, path), PathChange.OVERWRITE, scope, findings, firm=False)


def _check_sox(call: Call, scope: Scope, findings: Findings) -> None:
    """All files but the first may be the output, as effects follow it. `-n` in the place of a file is no file."""
    found = scan(call.arguments, _SOX)
    if found.has(*_SOX_READS_ONLY):
        return
    texts = [field.text for field in call.arguments]
    before = scan(call.arguments[: texts.index("-n")], _SOX).positionals if "-n" in texts else found.positionals
    if "-n" in texts and len(before) == 1:
        return
    for target in found.positionals[1 if before else 0 :]:
        if target.text != "-":
            note_write(target, PathChange.OVERWRITE, scope, findings, firm=False)


_HANDLERS: dict[str, Callable[[Call, Scope, Findings], None]] = {
    **dict.fromkeys(("find", "gfind", "bfs"), _check_find),
    **dict.fromkeys(("sed", "gsed"), _check_sed),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _check_tar),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _check_docker),
    "curl": _check_curl,
    "sort": _check_sort,
    "openssl": _check_openssl,
    "git": _check_git,
    "sox": _check_sox,
}
