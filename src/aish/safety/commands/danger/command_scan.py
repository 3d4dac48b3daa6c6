"""Scans one command: which programs it really runs, and what each of them does.

Wrappers are unwrapped and code for interpreters is scanned; every program found is checked against the rules.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from itertools import pairwise

from aish.safety.commands import program_tables
from aish.safety.commands.bounds import MAX_CALLS
from aish.safety.commands.danger.code import check_code, check_query
from aish.safety.commands.danger.effects import note_effects
from aish.safety.commands.danger.file_writes import check_script, check_written_arguments
from aish.safety.commands.danger.findings import Findings
from aish.safety.commands.danger.removal import HANDLERS
from aish.safety.commands.danger.rules import Call, apply_rules, make_call
from aish.safety.commands.danger.wrappers import find_inner_commands
from aish.safety.commands.options import Scan, grammar, scan
from aish.safety.commands.path_kinds import absolute_path
from aish.safety.commands.program_tables import QueryClient, ScriptLanguage
from aish.safety.commands.proof.sed_awk import sed_commands
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.expansion import DYNAMIC, Field
from aish.safety.commands.syntax.model import Span

_SHELL_OPTIONS = grammar("-o: -O: --rcfile= --init-file= +o: +O:")
_FETCHES = re.compile(
    r"\b(curl|wget|fetch|http|aria2c|lynx|nc|ncat|netcat|socat|base64|base32|xxd|openssl|gunzip|zcat|uudecode|telnet|"
    r"ftp|gpg|rev|tr|hex|dig|nslookup)\b"
)
_REMOVES = re.compile(r"-[a-zA-Z]*(rf|fr|Rf|fR)[a-zA-Z]*")
_LOGINS = frozenset({"ssh", "su", "sudo", "doas", "chroot", "nsenter", "mosh", "machinectl"})
_MAX_PATTERN_CHARS = 64
_BANG = re.compile(r"(?:^|=)!(.+)", re.DOTALL)
# Variables whose values other programs run; and prompts, which run substitutions in them.
_RUN_LATER = re.compile(
    r"\w*(PAGER|EDITOR|VISUAL|ASKPASS)|\w+_(COMMAND|SSH)|BROWSER|LESSOPEN|LESSCLOSE|GIT_EXTERNAL_DIFF"
)
_PROMPTS = re.compile(r"PS[0-4]")
_SUBSTITUTION = re.compile(r"\$\(([^)]*)\)|`([^`]*)`")
# Settings of git whose values are run.
_GIT_RUNS = re.compile(
    r"[\w.*/-]+\.(pager|editor|sshcommand|askpass|fsmonitor|helper|cmd|command|textconv|driver|process|clean|smudge)",
    re.IGNORECASE,
)
_TAR_OPTIONS = grammar("-I: --use-compress-program= -f: --file= -C: -X: -T: -b:")
_SSH_RUNS = re.compile(r"(?is)(?:ProxyCommand|LocalCommand|KnownHostsCommand)[= \t]+(.+)")
_RECIPE = re.compile(r"(?m)^\t(.+)$|;\s*(.+)$")


class CommandScan:
    """The part of the danger scan that checks one command."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._nested_calls = 0

    def scan_text(self, text: str, scope: Scope, span: Span, *, fed: str = "") -> None:
        raise NotImplementedError

    def scan_call(
        self, fields: list[Field] | tuple[Field, ...], scope: Scope, *, fed: str = "", guess: bool = False
    ) -> None:
        if self._nested_calls >= MAX_CALLS:
            self.findings.doubt("is wrapped too deeply to follow", fields[0].span, "too-deep", "unproved")
            return
        self._nested_calls += 1
        try:
            self._scan_call(fields, scope, fed=fed, guess=guess)
        finally:
            self._nested_calls -= 1

    def _scan_call(self, fields: list[Field] | tuple[Field, ...], scope: Scope, *, fed: str, guess: bool) -> None:
        call = make_call(fields, fed)
        if DYNAMIC in fields[0].text:
            self._scan_unknown_program(call)
            return
        if fields[0].glob:
            self._scan_wildcard_program(fields, scope, fed)
            return
        if not guess:
            self.findings.program(call.name)
        for field in call.arguments:
            self.findings.argument(field, scope)
        self._update_scope(call, scope)
        for inner in find_inner_commands(call, scope.stdin):
            if inner.text is not None:
                self.scan_text(inner.text, scope.copy(), inner.span, fed=inner.fed or fed)
            elif inner.words:
                self.scan_call(inner.words, scope, fed=inner.fed or fed, guess=inner.guess)
        apply_rules(call, self.findings)
        handler = HANDLERS.get(call.name)
        if handler is not None:
            handler(call, scope, self.findings)
        check_written_arguments(call, scope, self.findings)
        note_effects(call, scope, self.findings)
        self._scan_code(call, scope)

    def _scan_unknown_program(self, call: Call) -> None:
        shown = call.words[0].shown
        text = "runs what another command gives it" if "$UNKNOWN" in shown else f"{shown} is only known when it runs"
        self.findings.doubt(text, call.words[0].span, "dynamic-program", "unproved")
        if any(_REMOVES.fullmatch(field.text) for field in call.arguments):
            self.findings.danger(f"runs {shown} as if it were rm -rf", call.span, "remove.dynamic", "removal")
        if shown.strip('"') in ("$0", "${0}", "$BASH_SOURCE"):
            self.findings.danger("starts itself again", call.span, "power.fork-bomb", "power")

    def _scan_wildcard_program(self, fields: list[Field] | tuple[Field, ...], scope: Scope, fed: str) -> None:
        """`/bin/r?` may be rm: every dangerous program that matches is checked."""
        pattern = fields[0].text.rpartition("/")[2]
        self.findings.doubt(
            f"{fields[0].shown} may be any program that matches", fields[0].span, "glob-program", "unproved"
        )
        for name in _dangerous_matches(pattern):
            self.scan_call([Field(name, fields[0].span, fields[0].raw), *fields[1:]], scope, fed=fed)

    def _update_scope(self, call: Call, scope: Scope) -> None:
        """Applies changes of the shell that later commands see."""
        if call.name in ("cd", "pushd"):
            targets = [field for field in call.arguments if field.text not in ("-P", "-L", "-e", "--")]
            scope.cwd = absolute_path(targets[0].text, scope) if targets and targets[0].text != "-" else scope.home
            if targets and targets[0].text == "-":
                scope.cwd = None
        elif call.name == "popd":
            scope.cwd = None
        elif call.name == "alias":
            for field in call.arguments:
                name, equals, text = field.text.partition("=")
                if equals:
                    scope.define_alias(name, text)

    def _scan_code(self, call: Call, scope: Scope) -> None:
        """Scans arguments and input that the command itself runs as commands."""
        if "/" in call.words[0].text:
            self._scan_written_file(call.words[0], scope)
            if (program := scope.copies.get(absolute_path(call.words[0].text, scope) or "")) is not None:
                self.scan_call(
                    [Field(program, call.words[0].span, call.words[0].raw), *call.arguments], scope, fed=call.fed
                )
        read = CommandScan._scan_shell if call.name in program_tables.shells() else _READERS.get(call.name)
        if read is not None:
            read(self, call, scope)
        for language in program_tables.languages().find(call.name):
            self._scan_language(language, call, scope)
        for client in program_tables.clients().find(call.name):
            self._scan_client(client, call, scope)

    def _scan_shell(self, call: Call, scope: Scope) -> None:
        found = scan(call.arguments, _SHELL_OPTIONS, stop=True)
        if found.has("-c", "--command") and found.positionals:
            self._check_fetched(found.positionals[0])
            text = found.positionals[0].text.replace(DYNAMIC, "$UNKNOWN")
            self.scan_text(text, scope.copy(), found.positionals[0].span, fed=call.fed)
        elif found.positionals and not found.has("-s") and found.positionals[0].text not in ("-", "/dev/stdin"):
            self._check_fetched(found.positionals[0])
            self._scan_written_file(found.positionals[0], scope)
        elif scope.stdin is not None:
            self._scan_stdin(call, scope)

    def _scan_login(self, call: Call, scope: Scope) -> None:
        """`ssh host <<EOF` and `sudo su <<EOF`: without a command, a shell reads the input."""
        self._scan_export(call, scope)
        self._scan_local_settings(call, scope)
        if scope.stdin is not None and not any(inner.words or inner.text for inner in find_inner_commands(call, None)):
            self._scan_stdin(call, scope)

    def _scan_local_settings(self, call: Call, scope: Scope) -> None:
        """Scans settings of ssh whose values run on this machine."""
        for field in call.arguments:
            if (match := _SSH_RUNS.search(field.text)) is not None:
                self.scan_text(match[1], scope.copy(), field.span)

    def _scan_tar(self, call: Call, scope: Scope) -> None:
        """Scans the program that compresses or decompresses."""
        for text in scan(call.arguments, _TAR_OPTIONS).values("-I", "--use-compress-program"):
            self.scan_text(text, scope.copy(), call.span)

    def _scan_eval(self, call: Call, scope: Scope) -> None:
        for field in call.arguments:
            self._check_fetched(field)

    def _scan_scheduled(self, call: Call, scope: Scope) -> None:
        if scope.stdin is not None:
            self._scan_stdin(call, scope)

    def _scan_sed(self, call: Call, scope: Scope) -> None:
        for text in sed_commands([field.text for field in call.arguments]):
            self.scan_text(text, scope, call.span)

    def _scan_git(self, call: Call, scope: Scope) -> None:
        for match in (_BANG.search(field.text) for field in call.arguments):
            if match:
                self.scan_text(match[1], scope, call.span)
        for name, value in _git_settings([field.text for field in call.arguments]):
            if _GIT_RUNS.fullmatch(name):
                self.scan_text(value, scope, call.span)

    def _scan_export(self, call: Call, scope: Scope) -> None:
        for field in call.arguments:
            name, equals, value = field.text.partition("=")
            if equals:
                self.scan_setting(name, value, scope, field.span)

    def scan_setting(self, name: str, value: str, scope: Scope, span: Span) -> None:
        """Scans the value of a variable that the shell or other programs run later."""
        if _RUN_LATER.fullmatch(name):
            self.scan_text(value, scope.copy(), span)
        elif _PROMPTS.fullmatch(name):
            for match in _SUBSTITUTION.finditer(value):
                self.scan_text(match[1] or match[2] or "", scope.copy(), span)

    def _note_copy(self, call: Call, scope: Scope) -> None:
        """`cp /bin/rm x; ./x -rf ~`: a copy of a program under another name is still that program."""
        paths = [field.text for field in call.arguments if not field.text.startswith("-")]
        for source in paths[:-1]:
            for target in (paths[-1], f"{paths[-1]}/{source.rpartition('/')[2]}"):
                scope.note_copy(absolute_path(source, scope), absolute_path(target, scope))

    def _scan_make(self, call: Call, scope: Scope) -> None:
        recipes = _RECIPE.findall(scope.stdin or "")
        self.scan_text("\n".join(first or second for first, second in recipes), scope, call.span)

    def _scan_written_file(self, field: Field, scope: Scope) -> str:
        """Scans the text of a file that this line has written and now runs."""
        text = scope.files.pop(absolute_path(field.text, scope) or "", "")
        if text:
            self.scan_text(text.replace(DYNAMIC, "$UNKNOWN"), scope.copy(), field.span)
        return text

    def _check_fetched(self, field: Field) -> None:
        """Detects a script that comes from a download or a decoder: `bash <(curl …)`, `sh -c "$(curl …)"`."""
        inside = re.search(r"[$<]\(|`", field.raw)
        if inside and _FETCHES.search(field.raw, inside.start()):
            self.findings.danger(
                "runs what it has just downloaded or decoded", field.span, "interpreter.fetched", "interpreter"
            )

    def _scan_source(self, call: Call, scope: Scope) -> None:
        for field in call.arguments[:1]:
            self._check_fetched(field)
            self._scan_written_file(field, scope)
            if field.text in ("/dev/stdin", "/dev/fd/0", "-") and scope.stdin is not None:
                self._scan_stdin(call, scope)

    def _scan_stdin(self, call: Call, scope: Scope) -> None:
        text = scope.stdin or ""
        if DYNAMIC in text:
            self.findings.danger(
                f"pipes something that is not known into {call.name}", call.span, "interpreter.pipe", "interpreter"
            )
        inner = scope.copy()
        inner.stdin = None
        self.scan_text(text.replace(DYNAMIC, "$UNKNOWN"), inner, call.span)

    def _check_crontab(self, call: Call, scope: Scope) -> None:
        found = scan(call.arguments, grammar("-u:"))
        if found.positionals:
            self.findings.danger("replaces every scheduled job", call.span, "startup.crontab", "startup")

    def _scan_language(self, language: ScriptLanguage, call: Call, scope: Scope) -> None:
        found = scan(call.arguments, grammar(language.options, single=language.single))
        texts = _find_code(language.code, found)
        positionals = found.positionals
        if language.verb and positionals and positionals[0].text == language.verb:
            texts += [field.text for field in positionals[1:2]]
        module = found.value("-m")
        if texts:
            for field in call.arguments:
                self._check_fetched(field)
        if module and language.name == "Python":
            given = [index for index, field in enumerate(call.arguments) if field.text == "-m"]
            rest = call.arguments[given[0] + 2 :] if given else positionals
            self.scan_call([Field(module, call.span, module), *rest], scope)
        elif not texts and positionals and positionals[0].text != "-":
            self._check_fetched(positionals[0])
            texts = [scope.files.get(absolute_path(positionals[0].text, scope) or "", "")]
            self.scan_call(positionals, scope, guess=True)
        elif not texts and scope.stdin is not None and not found.has("-V", "--version", "-v", "--help", "-h"):
            texts = [scope.stdin]
            if DYNAMIC in scope.stdin:
                self.findings.danger(
                    f"pipes something that is not known into {call.name}", call.span, "interpreter.pipe", "interpreter"
                )
        for text in texts:
            for command in check_code(language, text, call.span, scope, self.findings):
                self.scan_text(command, scope.copy(), call.span)

    def _scan_client(self, client: QueryClient, call: Call, scope: Scope) -> None:
        found = scan(call.arguments, grammar(client.options, single=client.single))
        texts = _find_code(client.code, found)
        for field in call.arguments:
            for word in re.split(r"[\s=]+", field.text.removeprefix("-f"))[:8]:
                check_script(word.strip("'\";"), field.span, self.findings)
        if scope.stdin:
            if client.local and not texts and DYNAMIC in scope.stdin:
                text = f"{call.name} runs statements that are only known when it runs"
                self.findings.doubt(text, call.span, "write.script", "write")
            texts.append(scope.stdin)
        for text in texts:
            for command in check_query(client, text, call.span, self.findings):
                self.scan_text(command, scope.copy(), call.span)


# Further programs; shells, languages and clients have tables of their own.
_READERS: dict[str, Callable[[CommandScan, Call, Scope], None]] = {
    **dict.fromkeys(_LOGINS, CommandScan._scan_login),
    **dict.fromkeys(("scp", "sftp", "rsync", "git-upload-pack"), CommandScan._scan_local_settings),
    **dict.fromkeys(("source", "."), CommandScan._scan_source),
    **dict.fromkeys(("at", "batch"), CommandScan._scan_scheduled),
    **dict.fromkeys(("sed", "gsed"), CommandScan._scan_sed),
    **dict.fromkeys(("make", "gmake"), CommandScan._scan_make),
    **dict.fromkeys(("export", "declare", "typeset", "readonly", "local", "env"), CommandScan._scan_export),
    **dict.fromkeys(("cp", "mv", "ln", "install"), CommandScan._note_copy),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), CommandScan._scan_tar),
    "crontab": CommandScan._check_crontab,
    "eval": CommandScan._scan_eval,
    "git": CommandScan._scan_git,
}


@functools.lru_cache(maxsize=256)
def _dangerous_matches(pattern: str) -> list[str]:
    if len(pattern) > _MAX_PATTERN_CHARS or pattern.strip("*") == "":
        return []
    known = {*HANDLERS, *program_tables.destructive().rules.names(), *program_tables.shells()}
    return sorted(name for name in known if fnmatchcase(name, pattern))[:8]


def _git_settings(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yields git's settings in the line, temporary or permanent."""
    for place, word in enumerate(words[:-1]):
        if word in ("-c", "--config"):
            name, _, value = words[place + 1].partition("=")
            yield name, value
    if "config" in words:
        after = [word for word in words[words.index("config") + 1 :] if not word.startswith("-")]
        yield from pairwise(after)


def _find_code(names: str, found: Scan) -> list[str]:
    """Returns the values of options that carry code; "0" or "1" is a positional, "all" means all positionals."""
    texts = found.values(*names.split())
    for name in names.split():
        if name == "all":
            texts += [" ".join(field.text for field in found.positionals)]
        elif name.isdecimal():
            texts += [field.text for field in found.positionals[int(name) : int(name) + 1]]
    return texts
