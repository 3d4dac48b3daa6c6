"""Proves that a line only reads. Whatever it cannot prove is a doubt, and the line is then unknown.

Nothing is guessed. A word counts only if its value is certain, or if no value could do harm there; a program only if a
table permits it; an option only if it is listed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from aish.safety.commands import program_tables
from aish.safety.commands.bounds import TooBig
from aish.safety.commands.path_kinds import absolute_path
from aish.safety.commands.proof.evidence import Proof
from aish.safety.commands.proof.exposure import is_plain_name
from aish.safety.commands.proof.listing import find_listing, lists_names
from aish.safety.commands.proof.programs import check_command, find_test_doubt
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.agreement import is_certain, is_whole
from aish.safety.commands.syntax.expansion import DYNAMIC, INSIDE, NAMES, Field, expand
from aish.safety.commands.syntax.model import (
    Assignment,
    Block,
    BlockKind,
    Node,
    Opaque,
    Parameter,
    Redirect,
    Simple,
    Substitution,
    Text,
    Word,
)
from aish.safety.commands.syntax.parser import Operators, ParsedScript, parse
from aish.safety.commands.verdict import Reason, ShellContext
from aish.safety.redaction.secret_formats import looks_secret

_OWN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_STEERING_NAMES = re.compile(
    r".*_proxy|npm_.*|path|cdpath|fpath|manpath|histchars|auto_resume|prompt|argv|status|psvar|module_path"
)
_SAFE_OPERATORS = frozenset(
    {"", ":-", "-", ":+", "+", ":?", "?", "#", "##", "%", "%%", "/", "//", "^", "^^", ",", ",,", "/#", "/%"}
)
_ARITHMETIC_TESTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"})
_PLAIN_VALUE = re.compile(r"(?![/:])(?!.*(\.\.|//|:/))[\w.,@:;=*+/ -]*")
# In other encodings than UTF-8 a byte of a character may be a backslash or a quote.
_LOCALE = re.compile(r"(C|POSIX|[a-z]{2,3}(_[A-Z]{2})?)?(\.(utf|UTF)-?8)?(@[a-z]+)?")
_NUMBER = re.compile(r"[\d\s+*/%()<>=!&|^~?:-]*")
# A number, or an operator of a test.
_NUMERIC = re.compile(r"-?\d+|-[a-z]{1,2}|[!()<>=&|]+")
_MOVERS = frozenset({"cd", "pushd", "popd", "command", "builtin", "time", "eval"})
_SETTERS = frozenset({"read", "mapfile", "readarray", "unset", "getopts", "printf", "let"})
_SINKS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
# An interactive shell replaces these by earlier commands before it parses the line.
_HISTORY = re.compile(r"!(?![\s=(\"']|$)")


def prove(parsed: ParsedScript, context: ShellContext) -> Proof:
    """Returns the doubts about the line, and what it reads. Without doubts it is proved."""
    script = parsed.script
    prover = _Prover(context, _find_assigned(script), parsed.operators)
    if not program_tables.read_only().keywords.isdisjoint(context.aliases):
        prover.doubt("a word of the shell itself is an alias here", script.span, "alias")
    prover.node(script)
    return prover.proof


class _Prover:
    def __init__(self, context: ShellContext, assigned: Sequence[str], operators: Operators) -> None:
        self.proof = Proof()
        self._operators = operators
        self._assigned_once = {name for name, count in Counter(assigned).items() if count == 1}
        self._scope = Scope(context)
        self._scope.lists_names = lists_names
        for name in assigned:
            self._scope.assign(name, None)

    @property
    def doubts(self) -> list[Reason]:
        return self.proof.doubts

    def doubt(self, text: str, span: tuple[int, int], rule: str, kind: str = "unproved") -> None:
        self.proof.doubt(text, span, rule, kind)

    def node(self, node: Node) -> None:
        if self.proof.is_over:
            return
        if isinstance(node, Simple):
            self._prove_simple(node)
            return
        if node.kind is BlockKind.PIPELINE:
            self._prove_pipeline(node)
            return
        if node.kind is BlockKind.SUBSHELL:
            self._prove_subshell(node.body)
            self._prove_redirects(node.redirects)
            return
        if node.kind is BlockKind.FUNCTION:
            self.doubt("defines a function", node.span, "function")
        elif node.kind in (BlockKind.BROKEN, BlockKind.ARITHMETIC):
            self.doubt("holds a part that cannot be proved harmless", node.span, "opaque")
        elif node.kind is BlockKind.TEST:
            self._prove_test(node)
        elif node.kind is BlockKind.FOR and not _is_own_name(node.name):
            self.doubt(f"sets {node.name or 'a variable'}", node.span, "assignment")
        for word in node.words:
            self._prove_word(word)
        if node.kind is BlockKind.FOR:
            self._prove_loop(node)
        self._prove_sequence(node)
        if node.kind is BlockKind.FOR:
            self._scope.assign(node.name, None)
        self._prove_redirects(node.redirects)

    def _prove_sequence(self, node: Block) -> None:
        """Tracks the directory, which is known only after `cd folder &&`: a `cd` may fail, and in a branch or a loop
        it may not run, or run several times."""
        if node.kind not in (BlockKind.SEQUENCE, BlockKind.GROUP) and _may_move(node, self._scope):
            self._scope.cwd = None
        for child, following in zip_longest(node.body, node.body[1:]):
            before = self._scope.cwd
            self.node(child)
            if self._scope.cwd != before and following and not self._is_joined_by_and(child, following):
                self._scope.cwd = None

    def _is_joined_by_and(self, first: Node, second: Node) -> bool:
        """Whether only `&&` stands between the two."""
        start, end = first.span[1], second.span[0]
        between = [kind for position, kind in self._operators if start <= position < end]
        return between == ["&&"]

    def _prove_subshell(self, nodes: Sequence[Node]) -> None:
        """Proves commands of a subshell, whose directory and variables end with it."""
        scope = self._scope
        self._scope = scope.copy()
        self._prove_sequence(Block(BlockKind.SEQUENCE, tuple(nodes), (0, 0)))
        self._scope = scope

    def _prove_pipeline(self, node: Block) -> None:
        """Each stage gets the separator of the names that the previous stage lists."""
        outer = self._scope.fed
        for stage in node.body:
            self._prove_subshell((stage,))
            self._scope.fed = find_listing(stage, self._scope)
        self._scope.fed = outer
        self._prove_redirects(node.redirects)

    def _prove_loop(self, node: Block) -> None:
        """A variable that iterates over names below the workspace contains such a name."""
        fields = [field for word in node.words[1:] for field in expand(word, self._scope)]
        if node.name not in self._assigned_once or not fields:
            return
        if len(fields) == 1 and fields[0].text == DYNAMIC + NAMES:
            self._scope.assign(node.name, fields[0].text)
        elif all(self._stays_inside(field) for field in fields):
            for field in fields:
                self.proof.read(field, self._scope)
            self._scope.loop_values += tuple(fields)
            self._scope.assign(node.name, DYNAMIC + INSIDE * (2 if all(_is_safe_to_split(f) for f in fields) else 1))

    def _stays_inside(self, field: Field) -> bool:
        """Whether it is a name in the workspace, also when appended to another folder's name."""
        if DYNAMIC in field.text or field.text[:1] in ("-", "/") or ".." in field.text:
            return False
        path = absolute_path(field.text, self._scope)
        return path is not None and is_plain_name(path, self._scope, glob=field.glob)

    def _prove_simple(self, node: Simple) -> None:
        reading = bool(node.words) and node.words[0].literal == "read"
        for assignment in node.assignments:
            if not (reading and assignment.name == "IFS"):
                self._prove_assignment(assignment, alone=not node.words)
        for word in node.words:
            self._prove_word(word)
        self._prove_redirects(node.redirects)
        if not node.words or self.doubts:
            return
        fields = [field for word in node.words for field in expand(word, self._scope)]
        if not fields:
            self.doubt("the program is only known when it runs", node.span, "dynamic-program")
            return
        self._prove_command(node, fields)

    def _prove_command(self, node: Simple, fields: list[Field]) -> None:
        name = fields[0].text
        first = node.words[0]
        if name in self._scope.functions:
            self.doubt(f"{name} is a function here", first.span, "function")
            return
        if name in self._scope.aliases and first.raw == name:
            self._prove_alias(node, name)
            return
        if not fields[0].exact:
            self.doubt(f"{fields[0].shown} is only known when it runs", first.span, "dynamic-program")
            return
        check_command(fields, self._scope, self.proof)
        if name in ("cd", "pushd", "popd"):
            exact = len(fields) == 2 and fields[1].exact and fields[1].text != "-"
            self._scope.cwd = absolute_path(fields[1].text, self._scope) if exact else None

    def _prove_alias(self, node: Simple, name: str) -> None:
        """Proves the alias's text followed by the rest of the command."""
        rest = " ".join(word.raw for word in node.words[1:])
        text = f"{self._scope.aliases[name]} {rest}"
        try:
            parsed = parse(text)
            certain = is_whole(self._scope.aliases[name]) and is_certain(text, parsed)
        except TooBig:
            self.doubt(f"{name} is an alias too long to check", node.span, "alias")
            return
        scope = self._scope
        self._scope = scope.without(name)
        before = len(self.doubts)
        operators, self._operators = self._operators, parsed.operators
        self.node(parsed.script)
        self._operators = operators
        scope.cwd, self._scope = self._scope.cwd, scope
        if len(self.doubts) > before or not certain:
            del self.doubts[before:]
            self.doubt(f"{name} is an alias of {scope.aliases[name]}", node.span, "alias")

    def _prove_assignment(self, assignment: Assignment, *, alone: bool) -> None:
        harmless = _is_own_name(assignment.name) if alone else _is_for_output(assignment)
        if not harmless or assignment.indexed:
            self.doubt(f"sets {assignment.name}, which may change what programs do", assignment.span, "assignment")
        for word in assignment.value:
            self._prove_word(word)

    def _prove_redirects(self, redirects: tuple[Redirect, ...]) -> None:
        for redirect in redirects:
            if redirect.target is None:
                continue
            self._prove_word(redirect.target)
            if redirect.operator in ("<<", "<<-", "<<<"):
                continue
            fields = expand(redirect.target, self._scope)
            if len(fields) == 1 and redirect.operator == "<" and _is_file(fields[0]):
                self.proof.read(fields[0], self._scope)
            elif len(fields) != 1 or not fields[0].exact or not _is_quiet(redirect.operator, fields[0].text):
                self.doubt(f"redirects to {redirect.target.raw}" if ">" in redirect.operator
                           else f"reads {redirect.target.raw}", redirect.span, "redirect")  # fmt: skip

    def _prove_word(self, word: Word) -> None:
        """Checks the scripts inside a word, and expansions with side effects."""
        if "!" in word.raw and word.raw[0] != "'" and _HISTORY.search(word.raw):
            self.doubt(f"{word.raw} may be replaced by an earlier command", word.span, "history")
        if word.literal is not None:
            return
        for part in word.parts:
            if isinstance(part, Substitution):
                if part.direction == ">":
                    self.doubt("feeds its output to another command", word.span, "substitution")
                scope = self._scope
                self._scope = scope.copy()
                self.node(part.script)
                self._scope = scope
            elif isinstance(part, Parameter):
                self._prove_parameter(part, word)
            elif isinstance(part, Opaque):
                self._prove_opaque(part, word)

    def _prove_parameter(self, part: Parameter, word: Word) -> None:
        if looks_secret(part.name):
            self.doubt(f"shows {part.name}, which holds a secret", word.span, "secret", "secret")
        if part.operator not in _SAFE_OPERATORS:
            self.doubt(f"{part.raw} may do more than give a value", word.span, "expansion")
        if part.operand is not None:
            self._prove_word(part.operand)

    def _prove_opaque(self, part: Opaque, word: Word) -> None:
        """Arithmetic evaluates the values of its variables, which may run commands, so only plain numbers are
        proved."""
        inside = part.raw.removeprefix("$((").removesuffix("))")
        if part.raw.startswith("${#") and re.fullmatch(r"\$\{#\w+\}", part.raw):
            return
        if not part.arithmetic or not _NUMBER.fullmatch(inside):
            self.doubt(f"{part.raw} cannot be worked out safely", word.span, "expansion")

    def _prove_test(self, node: Block) -> None:
        operators = {word.literal for word in node.words}
        if node.name in self._scope.functions or node.name in self._scope.aliases:
            self.doubt(f"{node.name} is not the shell's own here", node.span, "function")
        dynamic = any(word.literal is None and not _is_count(word) for word in node.words)
        if "-v" in operators or "-R" in operators:
            self.doubt("tests a name that may run a command", node.span, "test")
        elif node.name == "[[" and operators & _ARITHMETIC_TESTS and (dynamic or not all(map(_is_numeric, node.words))):
            # A name, or a text such as 'a[$(…)]', is evaluated as arithmetic, which runs the command in it.
            self.doubt("compares as numbers what may run a command", node.span, "test")
        elif node.name == "[":
            fields = [field for word in node.words for field in expand(word, self._scope)]
            if doubt := find_test_doubt(fields):
                self.doubt(doubt, node.span, "test")


def _is_file(field: Field) -> bool:
    """Whether it can be read as a file. The shell opens connections for names below /dev/tcp."""
    return not field.split and not field.text.startswith(("/dev/tcp", "/dev/udp"))


def _is_quiet(operator: str, target: str) -> bool:
    if operator.endswith("&"):
        return target.isdecimal() or target == "-"
    return ">" in operator and target in _SINKS


def _is_safe_to_split(field: Field) -> bool:
    """Whether each piece still names something in the same folder if the value is split at blanks."""
    folder, _, name = field.text.rpartition("/")
    return not re.search(r"[*?\[\s]", folder) and (field.glob or not re.search(r"\s", name))


def _is_count(word: Word) -> bool:
    """`$#`, `$?`, `$$` and `$!` are always numbers."""
    return all(
        isinstance(part, Text) or (isinstance(part, Parameter) and part.name in ("#", "?", "$", "!"))
        for part in word.parts
    )


def _is_numeric(word: Word) -> bool:
    return _is_count(word) and (word.literal is None or _NUMERIC.fullmatch(word.literal) is not None)


def _is_own_name(name: str) -> bool:
    """A lower-case name without a meaning to any shell."""
    return _OWN_NAME.fullmatch(name) is not None and _STEERING_NAMES.fullmatch(name) is None


def _is_for_output(assignment: Assignment) -> bool:
    """Whether it changes only how output looks. As a path, `LANGUAGE` and `TZ` make a program read any file."""
    if assignment.name not in program_tables.read_only().variables or len(assignment.value) != 1:
        return False
    value = assignment.value[0].literal
    pattern = _LOCALE if assignment.name == "LANG" or assignment.name.startswith("LC_") else _PLAIN_VALUE
    return value is not None and pattern.fullmatch(value) is not None


def _may_move(node: Node, scope: Scope) -> bool:
    """Whether a command in the node may change the directory."""
    if isinstance(node, Simple):
        name = node.words[0].literal if node.words else ""
        return name is None or name in _MOVERS or name in scope.aliases
    return any(_may_move(child, scope) for child in node.body)


def _find_assigned(node: Node) -> list[str]:
    """Returns every name that the line may set, once for each place. Their values in the context no longer count."""
    if isinstance(node, Simple):
        names = [assignment.name for assignment in node.assignments]
        if node.words and node.words[0].literal in _SETTERS:
            names += [word.raw if word.literal is None else word.literal for word in node.words[1:]]
        return names + [name for word in node.words for name in _find_assigned_in(word)]
    own = [node.name] if node.kind is BlockKind.FOR else []
    return own + [name for child in node.body for name in _find_assigned(child)]


def _find_assigned_in(word: Word) -> list[str]:
    if word.literal is not None:
        return []
    return [name for part in word.parts if isinstance(part, Substitution) for name in _find_assigned(part.script)]
