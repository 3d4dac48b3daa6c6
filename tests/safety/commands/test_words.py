"""Quotes, escapes, braces and fields."""

from __future__ import annotations

import pytest

from aish.safety.commands import ShellContext
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.expansion import DYNAMIC, MAX_FIELDS, expand, expand_braces
from aish.safety.commands.syntax.model import Simple
from aish.safety.commands.syntax.parser import parse
from aish.safety.commands.syntax.quoting import decode_ansi, split_bare, unescape_quoted

SCOPE = Scope(ShellContext(cwd="/w", home="/home/ann", variables={"a": "x y", "e": ""}))


def fields(line: str) -> list[str]:
    (node,) = parse(line).script.body
    assert isinstance(node, Simple)
    return [field.text for word in node.words for field in expand(word, SCOPE, lambda *_: None)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (r"""a 'b c' "d e" f\ g""", ["a", "b c", "d e", "f g"]),
        (r"""r\m "r"m 'r'"m" $'\x72\155'""", ["rm", "rm", "rm", "rm"]),
        ("a{b,c}d {1..3} {x}", ["abd", "acd", "1", "2", "3", "{x}"]),
        ('"{a,b}" \\{a,b}', ["{a,b}", "{a,b}"]),
        ("~ ~/x '~' ~+/y", ["/home/ann", "/home/ann/x", "~", "/w/y"]),
        ('c $a "$a" $e "$e"', ["c", "x", "y", "x y", ""]),
        ('c $u "$u/x" ${u:-d} ${a:+z}', ["c", DYNAMIC, f"{DYNAMIC}/x", "d", "z"]),
        ('c "  $a b"', ["c", "  x y b"]),
    ],
)
def test_words_become_the_fields_a_program_gets(line: str, expected: list[str]) -> None:
    assert fields(line) == expected


def test_brace_expansion_is_bounded() -> None:
    assert len(expand_braces("{a,b}" * 30)) <= MAX_FIELDS
    assert len(expand_braces("{1..999999}")) <= MAX_FIELDS
    assert expand_braces("{a..e..2}") == ["a", "c", "e"]
    assert expand_braces("{a{b,c},d}") == ["ab", "ac", "d"]


@pytest.mark.parametrize(
    ("text", "value"),
    [(r"\x72\155", "rm"), (r"a\nb", "a\nb"), (r"\u00e9", "é"), (r"\q", r"\q"), (r"\U0011ffff", "\ufffd")],
)
def test_ansi_escapes_are_decoded(text: str, value: str) -> None:
    assert decode_ansi(text) == value


def test_double_quotes_keep_backslashes_that_escape_nothing() -> None:
    assert unescape_quoted(r"a\$b\"c\d\\") == r"""a$b"c\d\ """.strip()
    assert split_bare("a\\ b") == [("a", False), (" ", True), ("b", False)]
