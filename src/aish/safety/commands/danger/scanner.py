"""The danger scan of a whole line. May only raise danger, never prove safety.

This part walks the structure and tracks the scope: pipes, redirects, assignments, functions, aliases. `command_scan`
checks single commands.
"""

from __future__ import annotations

from itertools import dropwhile

from aish.safety.commands.bounds import MAX_COMMANDS, MAX_REDIRECTS, MAX_TEXTS, MAX_WORDS, TooBig
from aish.safety.commands.danger.command_scan import CommandScan
from aish.safety.commands.danger.file_writes import check_fed_file, check_redirect, is_write
from aish.safety.commands.danger.findings import Findings
from aish.safety.commands.danger.predicted_output import (
    PLAIN_WRAPPERS,
    evaluate_substitution,
    predict_input,
    predict_output,
)
from aish.safety.commands.path_kinds import absolute_path
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.expansion import DYNAMIC, SUBSTITUTED, Field, expand
from aish.safety.commands.syntax.model import (
    Assignment,
    Block,
    BlockKind,
    Node,
    Opaque,
    Parameter,
    Redirect,
    Simple,
    Span,
    Substitution,
    Word,
)
from aish.safety.commands.syntax.parser import parse


class DangerScan(CommandScan):
    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._depth = 0
        self._commands = 0
        self._fed = ""  # the source of further arguments for the scanned text

    def walk(self, node: Node, scope: Scope) -> None:
        if isinstance(node, Simple):
            self._scan_simple(node, scope)
            return
        if node.kind is BlockKind.PIPELINE:
            self._scan_pipeline(node, scope)
            return
        inner = scope.copy() if node.kind is BlockKind.SUBSHELL else scope
        fed = predict_input(node.redirects, scope)
        if fed is not None:
            inner = scope.copy()
            inner.stdin = fed
        for word in node.words:
            self._scan_substitutions(word, inner)
        if node.kind is BlockKind.FUNCTION:
            self._define_function(node, scope)
        if node.kind is BlockKind.FOR:
            self._assign_loop_variable(node, inner)
        if node.kind in (BlockKind.FOR, BlockKind.WHILE):
            inner = inner.copy() if inner is scope else inner
            inner.looping = True
        for child in node.body:
            self.walk(child, inner)
        self._scan_redirects(node.redirects, [Field("{", node.span, "{")], scope)

    def _scan_pipeline(self, node: Block, scope: Scope) -> None:
        text = scope.stdin
        for index, stage in enumerate(node.body):
            inner = scope.copy()
            inner.stdin = text
            self.walk(stage, inner)
            known = predict_output(stage, scope, text if index else None)
            text = DYNAMIC if known is None else known
        self._scan_redirects(node.redirects, [Field("|", node.span, "|")], scope)

    def _define_function(self, node: Block, scope: Scope) -> None:
        scope.define_function(node.name)
        if _calls_itself_in_a_pipe(node, node.name):
            self.findings.danger("starts copies of itself without end", node.span, "power.fork-bomb", "power",
                                 catastrophe=True)  # fmt: skip

    def _assign_loop_variable(self, node: Block, scope: Scope) -> None:
        fields = [field for word in node.words[:8] for field in expand(word, scope, evaluate_substitution)]
        exact = len(fields) == 1 and fields[0].exact
        scope.assign(node.name, fields[0].text if exact else None)

    def _scan_simple(self, node: Simple, scope: Scope) -> None:
        self._commands += 1
        if self._commands > MAX_COMMANDS:
            raise TooBig("the line runs too many commands to check")
        if len(node.words) > MAX_WORDS or len(node.redirects) > MAX_REDIRECTS:
            raise TooBig("a command has too many parts to check")
        for word in node.words:
            self._scan_substitutions(word, scope)
        for assignment in node.assignments:
            self._scan_assignment(assignment, scope)
        fields = [field for word in node.words for field in expand(word, scope, evaluate_substitution)]
        self._scan_redirects(node.redirects, fields, scope)
        self._note_fed_output(node, scope)
        if not fields:
            return
        for redirect in node.redirects:
            if redirect.operator == "<" and redirect.target is not None:
                for source in expand(redirect.target, scope, evaluate_substitution)[:1]:
                    check_fed_file(fields, source, scope, self.findings)
        self._note_written_text(node, fields, scope)
        fed = predict_input(node.redirects, scope)
        inner = scope
        reads_a_file = any(item.operator == "<" for item in node.redirects)
        if fed is not None or (scope.stdin is not None and reads_a_file):
            inner = scope.copy()
            inner.stdin = fed
        self._scan_named_command(node, fields, inner)
        scope.cwd, scope.aliases = inner.cwd, inner.aliases

    def _note_fed_output(self, node: Simple, scope: Scope) -> None:
        """`bash <(echo …)`: the output of the substitution is the file that the command runs."""
        scope.files.pop(SUBSTITUTED, None)
        targets = (redirect.target for redirect in node.redirects if redirect.target is not None)
        for part in (part for word in (*node.words, *targets) for part in word.parts):
            if (
                isinstance(part, Substitution)
                and part.direction == "<"
                and (text := predict_output(part.script, scope))
            ):
                scope.write(SUBSTITUTED, text + "\n")

    def _note_written_text(self, node: Simple, fields: list[Field], scope: Scope) -> None:
        """`echo … > a.sh; sh a.sh`: remembers written text that may be run."""
        targets = [
            field.text
            for redirect in node.redirects
            if ">" in redirect.operator and redirect.target is not None
            for field in expand(redirect.target, scope, evaluate_substitution)[:1]
        ]
        words = [*dropwhile(PLAIN_WRAPPERS.__contains__, (field.text for field in fields))]
        if words and words[0].rpartition("/")[2] == "tee":
            targets += words[1:]
        if targets and (text := predict_output(node, scope, scope.stdin)):
            for target in targets:
                scope.write(absolute_path(target, scope), text + "\n")

    def _scan_named_command(self, node: Simple, fields: list[Field], scope: Scope) -> None:
        """Resolves aliases and functions first, as the shell does."""
        name = fields[0].text
        if name in scope.aliases and node.words[0].raw == name:
            rest = " ".join(word.raw for word in node.words[1:])
            self.scan_text(f"{scope.aliases[name]} {rest}", scope.without(name), node.span)
            return
        if name in scope.functions:
            inner = scope.without(name)
            if scope.functions[name]:
                self.scan_text(scope.functions[name], inner, node.span)
            if fields[1:]:
                self.scan_call(fields[1:], inner)
            return
        self.scan_call(fields, scope, fed=self._fed if any(DYNAMIC in field.text for field in fields) else "")

    def _scan_assignment(self, assignment: Assignment, scope: Scope) -> None:
        for word in assignment.value:
            self._scan_substitutions(word, scope)
        if assignment.indexed:
            scope.assign(assignment.name, None)
            return
        fields = [field.text for word in assignment.value for field in expand(word, scope, evaluate_substitution)]
        value = " ".join(fields)
        if assignment.append:
            value = (scope.value(assignment.name) or "") + value
        scope.assign(assignment.name, None if DYNAMIC in value else value)
        self.scan_setting(assignment.name, value, scope, assignment.span)

    def _scan_redirects(self, redirects: tuple[Redirect, ...], words: list[Field], scope: Scope) -> None:
        for redirect in redirects:
            if redirect.target is None:
                continue
            self._scan_substitutions(redirect.target, scope)
            if ">" not in redirect.operator:
                continue
            for target in expand(redirect.target, scope, evaluate_substitution)[:1]:
                if is_write(redirect, target):
                    check_redirect(redirect, target, words, scope, self.findings)

    def _scan_substitutions(self, word: Word, scope: Scope) -> None:
        """Scans substitutions, which run wherever they are in a word."""
        if word.literal is not None:
            return
        for part in word.parts:
            if isinstance(part, Substitution):
                inner = scope.copy()
                if part.direction == ">":
                    inner.stdin = DYNAMIC
                self._scan_script(part.script, inner)
            elif isinstance(part, Parameter) and part.operand is not None:
                self._scan_substitutions(part.operand, scope)
            elif isinstance(part, Opaque):
                for operand in part.words:
                    self._scan_substitutions(operand, scope)

    def _scan_script(self, script: Block, scope: Scope) -> None:
        for child in script.body:
            self.walk(child, scope)

    def scan_text(self, text: str, scope: Scope, span: Span, *, fed: str = "") -> None:
        """Parses and scans shell text inside a word. Its findings point to that word."""
        if self._depth >= MAX_TEXTS:
            self.findings.doubt("is wrapped too deeply to follow", span, "too-deep", "unproved")
            return
        outer_fed = self._fed
        self._fed = fed or outer_fed
        self._depth += 1
        try:
            with self.findings.anchor_to(span):
                self._scan_parsed(text, scope, span)
        finally:
            self._depth -= 1
            self._fed = outer_fed

    def _scan_parsed(self, text: str, scope: Scope, span: Span) -> None:
        try:
            parsed = parse(text.replace(DYNAMIC, ""))
            self.walk(parsed.script, scope)
        except TooBig as exc:
            self.findings.doubt(str(exc), span, "too-big", "unproved")


def _calls_itself_in_a_pipe(node: Node, name: str, *, piped: bool = False) -> bool:
    if isinstance(node, Simple):
        return piped and bool(node.words) and node.words[0].literal == name
    piped = piped or node.kind is BlockKind.PIPELINE
    return any(_calls_itself_in_a_pipe(child, name, piped=piped) for child in node.body)
