"""The danger scan of a whole line. May only raise danger, never prove safety.

This part walks the structure and tracks the scope: pipes, redirects, assignments, functions, aliases. `commands` checks
single commands.
"""

from __future__ import annotations

from itertools import dropwhile

from aish.safety.commands.bounds import MAX_COMMANDS, MAX_REDIRECTS, MAX_TEXTS, MAX_WORDS, TooBig
from aish.safety.commands.danger.commands import Caller
from aish.safety.commands.danger.files import is_write, note_fed_file, redirect_write
from aish.safety.commands.danger.findings import Findings
from aish.safety.commands.danger.outputs import PLAIN_WRAPPERS, output_of, redirected_input, substituted
from aish.safety.commands.places import resolve
from aish.safety.commands.scope import Scope
from aish.safety.commands.syntax.expansion import DYNAMIC, SUBSTITUTED, Field, expand
from aish.safety.commands.syntax.model import (
    Assignment,
    Block,
    Kind,
    Node,
    Opaque,
    Param,
    Redirect,
    Simple,
    Span,
    Sub,
    Word,
)
from aish.safety.commands.syntax.parser import parse


class Loose(Caller):
    def __init__(self, findings: Findings) -> None:
        super().__init__(findings)
        self._depth = 0
        self._commands = 0
        self._fed = ""  # the source of further arguments for the scanned text

    def walk(self, node: Node, scope: Scope) -> None:
        if isinstance(node, Simple):
            self._simple(node, scope)
            return
        if node.kind is Kind.PIPELINE:
            self._pipeline(node, scope)
            return
        inner = scope.copy() if node.kind is Kind.SUBSHELL else scope
        fed = redirected_input(node.redirects, scope)
        if fed is not None:
            inner = scope.copy()
            inner.stdin = fed
        for word in node.words:
            self._inside(word, inner)
        if node.kind is Kind.FUNCTION:
            self._define(node, scope)
        if node.kind is Kind.FOR:
            self._loop_variable(node, inner)
        if node.kind in (Kind.FOR, Kind.WHILE):
            inner = inner.copy() if inner is scope else inner
            inner.looping = True
        for child in node.body:
            self.walk(child, inner)
        self._redirects(node.redirects, [Field("{", node.span, "{")], scope)

    def _pipeline(self, node: Block, scope: Scope) -> None:
        text = scope.stdin
        for index, stage in enumerate(node.body):
            inner = scope.copy()
            inner.stdin = text
            self.walk(stage, inner)
            known = output_of(stage, scope, text if index else None)
            text = DYNAMIC if known is None else known
        self._redirects(node.redirects, [Field("|", node.span, "|")], scope)

    def _define(self, node: Block, scope: Scope) -> None:
        scope.define_function(node.name)
        if _calls_itself_in_a_pipe(node, node.name):
            self.findings.danger("starts copies of itself without end", node.span, "power.fork-bomb", "power",
                                 catastrophe=True)  # fmt: skip

    def _loop_variable(self, node: Block, scope: Scope) -> None:
        fields = [field for word in node.words[:8] for field in expand(word, scope, substituted)]
        exact = len(fields) == 1 and fields[0].exact
        scope.assign(node.name, fields[0].text if exact else None)

    def _simple(self, node: Simple, scope: Scope) -> None:
        self._commands += 1
        if self._commands > MAX_COMMANDS:
            raise TooBig("the line runs too many commands to check")
        if len(node.words) > MAX_WORDS or len(node.redirects) > MAX_REDIRECTS:
            raise TooBig("a command has too many parts to check")
        for word in node.words:
            self._inside(word, scope)
        for assignment in node.assignments:
            self._assign(assignment, scope)
        fields = [field for word in node.words for field in expand(word, scope, substituted)]
        self._redirects(node.redirects, fields, scope)
        self._feed(node, scope)
        if not fields:
            return
        for redirect in node.redirects:
            if redirect.operator == "<" and redirect.target is not None:
                for source in expand(redirect.target, scope, substituted)[:1]:
                    note_fed_file(fields, source, scope, self.findings)
        self._remember(node, fields, scope)
        fed = redirected_input(node.redirects, scope)
        inner = scope
        reads_a_file = any(item.operator == "<" for item in node.redirects)
        if fed is not None or (scope.stdin is not None and reads_a_file):
            inner = scope.copy()
            inner.stdin = fed
        self._named(node, fields, inner)
        scope.cwd, scope.aliases = inner.cwd, inner.aliases

    def _feed(self, node: Simple, scope: Scope) -> None:
        """`bash <(echo …)`: the output of the substitution is the file that the command runs."""
        scope.files.pop(SUBSTITUTED, None)
        targets = (redirect.target for redirect in node.redirects if redirect.target is not None)
        for part in (part for word in (*node.words, *targets) for part in word.parts):
            if isinstance(part, Sub) and part.direction == "<" and (text := output_of(part.script, scope)):
                scope.write(SUBSTITUTED, text + "\n")

    def _remember(self, node: Simple, fields: list[Field], scope: Scope) -> None:
        """`echo … > a.sh; sh a.sh`: remembers written text that may be run."""
        targets = [
            field.text
            for redirect in node.redirects
            if ">" in redirect.operator and redirect.target is not None
            for field in expand(redirect.target, scope, substituted)[:1]
        ]
        words = [*dropwhile(PLAIN_WRAPPERS.__contains__, (field.text for field in fields))]
        if words and words[0].rpartition("/")[2] == "tee":
            targets += words[1:]
        if targets and (text := output_of(node, scope, scope.stdin)):
            for target in targets:
                scope.write(resolve(target, scope), text + "\n")

    def _named(self, node: Simple, fields: list[Field], scope: Scope) -> None:
        """Resolves aliases and functions first, as the shell does."""
        name = fields[0].text
        if name in scope.aliases and node.words[0].raw == name:
            rest = " ".join(word.raw for word in node.words[1:])
            self.text(f"{scope.aliases[name]} {rest}", scope.without(name), node.span)
            return
        if name in scope.functions:
            inner = scope.without(name)
            if scope.functions[name]:
                self.text(scope.functions[name], inner, node.span)
            if fields[1:]:
                self.call(fields[1:], inner)
            return
        self.call(fields, scope, fed=self._fed if any(DYNAMIC in field.text for field in fields) else "")

    def _assign(self, assignment: Assignment, scope: Scope) -> None:
        for word in assignment.value:
            self._inside(word, scope)
        if assignment.indexed:
            scope.assign(assignment.name, None)
            return
        fields = [field.text for word in assignment.value for field in expand(word, scope, substituted)]
        value = " ".join(fields)
        if assignment.append:
            value = (scope.value(assignment.name) or "") + value
        scope.assign(assignment.name, None if DYNAMIC in value else value)
        self.setting(assignment.name, value, scope, assignment.span)

    def _redirects(self, redirects: tuple[Redirect, ...], words: list[Field], scope: Scope) -> None:
        for redirect in redirects:
            if redirect.target is None:
                continue
            self._inside(redirect.target, scope)
            if ">" not in redirect.operator:
                continue
            for target in expand(redirect.target, scope, substituted)[:1]:
                if is_write(redirect, target):
                    redirect_write(redirect, target, words, scope, self.findings)

    def _inside(self, word: Word, scope: Scope) -> None:
        """Scans substitutions, which run wherever they are in a word."""
        if word.literal is not None:
            return
        for part in word.parts:
            if isinstance(part, Sub):
                inner = scope.copy()
                if part.direction == ">":
                    inner.stdin = DYNAMIC
                self._nested(part.script, inner)
            elif isinstance(part, Param) and part.operand is not None:
                self._inside(part.operand, scope)
            elif isinstance(part, Opaque):
                for operand in part.words:
                    self._inside(operand, scope)

    def _nested(self, script: Block, scope: Scope) -> None:
        for child in script.body:
            self.walk(child, scope)

    def text(self, text: str, scope: Scope, span: Span, *, fed: str = "") -> None:
        """Parses and scans shell text inside a word. Its findings point to that word."""
        if self._depth >= MAX_TEXTS:
            self.findings.doubt("is wrapped too deeply to follow", span, "too-deep", "unproved")
            return
        outer, outer_fed = self.findings.anchor, self._fed
        self.findings.anchor = outer or span
        self._fed = fed or outer_fed
        self._depth += 1
        try:
            parsed = parse(text.replace(DYNAMIC, ""))
            self.walk(parsed.script, scope)
        except TooBig as exc:
            self.findings.doubt(str(exc), span, "too-big", "unproved")
        finally:
            self._depth -= 1
            self.findings.anchor, self._fed = outer, outer_fed


def _calls_itself_in_a_pipe(node: Node, name: str, *, piped: bool = False) -> bool:
    if isinstance(node, Simple):
        return piped and bool(node.words) and node.words[0].literal == name
    piped = piped or node.kind is Kind.PIPELINE
    return any(_calls_itself_in_a_pipe(child, name, piped=piped) for child in node.body)
