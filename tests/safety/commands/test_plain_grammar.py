"""The plain grammar reads what bash reads: its words are the arguments a program gets, its end is the line's."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from aish.safety.commands.bounds import TooBig
from aish.safety.commands.syntax.agreement import compare_readings
from aish.safety.commands.syntax.model import Block, Node, Parameter, Simple, Substitution
from aish.safety.commands.syntax.parser import parse
from aish.safety.commands.syntax.plain_grammar import read_plain
from aish.safety.commands.syntax.plain_words import Outside

BASH = shutil.which("bash") or ""
needs_bash = pytest.mark.skipif(not BASH, reason="needs bash")

# Pieces of words with every kind of quoting, also such as are outside the grammar.
PIECES = st.sampled_from(
    [
        "a",
        "bc",
        "'d e'",
        '"f g"',
        "\\ ",
        "\\'",
        '\\"',
        "\\\\",
        "''",
        '""',
        "'\"'",
        '"\'"',
        '"\\""',
        '"\\$x"',
        "#",
        "=",
        "é",
        "à",
        "$'\\t'",
        "$'a b'",
        "$'\\''",
        '"$"',
        "$",
        "-",
        "]",
        "[",
        "]]",
        "==",
        "=~",
        "!",
        "{",
        "}",
        "{}",
        "%",
        "@",
        ":",
        ",",
        "+",
        "^",
        "1",
        "'\n'",
        '"\n"',
        "if",
        "done",
        "\\\n",
        "'!'",
        "x=1",
        "/",
        ".",
    ]
)
WORDS = st.lists(PIECES, min_size=1, max_size=4).map("".join)
BETWEEN = st.sampled_from([" ", "  ", "\t", " \\\n", " \\\n  "])
JOINTS = st.sampled_from(
    [";", " ; ", "\n", " && ", "&&\n", " || ", " | ", "|&", "\n\n", " # c\n", ";# c\n", " & wait; ", " |\n"]
)
COMMANDS = st.lists(st.tuples(WORDS, BETWEEN), max_size=4).map(lambda pairs: "show " + "".join(w + b for w, b in pairs))
LINES = st.lists(st.tuples(COMMANDS, JOINTS), min_size=1, max_size=3).map(
    lambda pairs: "".join(command + joint for command, joint in pairs)
)
FRAGMENTS = st.lists(
    st.one_of(
        PIECES,
        JOINTS,
        st.sampled_from(
            [
                " ",
                " ",
                "show",
                "( ",
                " )",
                "{ ",
                "; }",
                "if true; then ",
                "; fi",
                "; else ",
                "for i in 1 2; do ",
                "; done",
                "while false; do ",
                "$(",
                ")",
                '"$(',
                ')"',
                "${x:-",
                "$x",
                "${x}",
                '"$x"',
                ">/dev/null",
                "2>&1",
                "2",
                ">",
                "<",
                "<<E\n",
                "\nE\n",
                "<<<",
                "[[ ",
                " ]]",
                "[ ",
                " ]",
                "(( ",
                " ))",
                "`",
                "<(",
                "! ",
                "time ",
                "f()",
                "case a in ",
                "a) ",
                ";;",
                "esac",
                "&",
                "&>",
                "|&",
                "{a,b}",
                "*",
                "~",
                "$((1+1))",
                "\\",
                "'",
                '"',
            ]
        ),
    ),
    max_size=9,
).map("".join)


def commands(node: Node) -> Iterator[Simple]:
    if isinstance(node, Block):
        for child in node.body:
            yield from commands(child)
    else:
        yield node


def is_show(simple: Simple) -> bool:
    return bool(simple.words) and simple.words[0].literal == "show"


def bash(line: str, where: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    where.mkdir(exist_ok=True)
    shown = '() { builtin printf "%s\\0" "$@" $\'\\1\' >> "$SHOWN"; }'
    return subprocess.run(
        [BASH, *options, "-c", "--", line],
        cwd=where,
        env={"PATH": "/nowhere", "SHOWN": str(where.parent / "shown"), "BASH_FUNC_show%%": shown, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )


@needs_bash
@given(line=LINES)
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_words_of_a_plain_line_are_the_arguments_that_bash_gives(line: str, tmp_path: Path) -> None:
    assume("&" not in line.replace("&&", "").replace("|&", "") and "|" not in line.replace("||", ""))
    try:
        script, _ = read_plain(line)
    except Outside:
        assume(False)
        return
    assume(all(map(is_show, commands(script))))
    words = [[word.literal for word in simple.words[1:]] for simple in commands(script)]
    assume(all(word is not None for arguments in words for word in arguments))
    shown = tmp_path / "shown"
    shown.unlink(missing_ok=True)
    bash(line.replace("||", ";"), tmp_path / "empty")
    found = shown.read_bytes().decode().split("\1\0")[:-1] if shown.exists() else []
    assert found == ["".join(f"{word}\0" for word in arguments) for arguments in words]


@needs_bash
@given(line=st.one_of(LINES, FRAGMENTS))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bash_finds_no_fault_with_a_line_within_the_grammar(line: str, tmp_path: Path) -> None:
    try:
        read_plain(line)
    except Outside:
        assume(False)
        return
    done = bash(line, tmp_path / "empty", "-n")
    assert (done.returncode, done.stderr) == (0, b"")


@given(st.one_of(LINES, FRAGMENTS, st.text(max_size=60)))
@settings(max_examples=600, deadline=None)
def test_any_text_is_read_or_outside(line: str) -> None:
    line = line.encode("utf-8", "replace").decode()
    with contextlib.suppress(TooBig):
        compare_readings(line, parse(line))


@pytest.mark.parametrize(
    "line",
    [
        "cat <<E\nE",
        "[[ a ]]",
        "((1))",
        "echo =~",
        "echo ==",
        "case a in esac",
        "f() { a; }",
        "function f { a; }",
        "coproc a",
        "select x in a; do b; done",
        "echo `a`",
        "x=(a)",
        "x[1]=2",
        "a\0",
        "a\r",
        "a\x0b",
        "a\x7f",
        "a &&& b",
        "a ;; b",
        "; a",
        "a | | b",
        "a\\\nb",
        'echo "a\\\nb"',
        "a\\",
        "'a",
        '"a',
        "a)",
        "(a",
        "{ a }",
        "a; }",
        "if a; fi",
        "for x do a; done",
        "for ((;;)); do a; done",
        "while a; b; done",
        "echo ${!x}",
        "echo ${x@P}",
        "echo ${x:1}",
        "echo ${x[0]}",
        "echo $[1]",
        "echo $((x))",
        "echo $((1+(2)))",
        'echo $"a"',
        "echo $'\\x41'",
        "echo !x",
        'echo "!x"',
        "echo 'a\n!x'",
        "^a^b",
        "echo {a,{b,c}}",
        "echo {a,b}{c,d}",
        'echo {a,"b"}',
        "echo ~+",
        "echo ~'x'",
        "echo a >(b)",
        "a {x}>f",
        "a 123>f",
        "a > 2>f",
        "a >&f",
        "a >&-b",
        "a &>>",
        "a <",
        "a > #x",
        "a <(b)c",
        "a@(b)",
        "a (b)",
        "time { a; }",
        "time ! a",
        "! ! a",
        "a | ! b",
        "X=1 if",
        "echo $(a # b\n)",
        "echo $()",
        "(a) b",
        "{ a; } b",
        "(a)b",
        "echo à",
        "2&>f a",
        "then a",
        "in",
        "a=b=~",
        "x=a:~/b c",
    ],
)
def test_what_is_not_plain_is_outside(line: str) -> None:
    with pytest.raises(Outside):
        read_plain(line)


@pytest.mark.parametrize(
    "line",
    [
        "ls -la | head && pwd || date; w &",
        'for f in *.py; do wc -l "$f"; done',
        "if [ -f a ]; then cat a; elif b; then c; else d; fi",
        'while read -r l; do echo "$l"; done < f',
        "(cd a && ls); { a; b; } > f",
        'echo $(ls $(pwd)) "$(a "$b")" <(c)',
        "a 2>&1 >/dev/null 3>&- <f",
        'a <<<"x y" &>g',
        'x=1 y+="$z" a; export A=b',
        "! grep x f",
        "time ls -l",
        'echo ${x##*/} ${#x} $? "$@"',
        "ls \\\n  -l # why\n\n# and\npwd",
        "echo é 'à' a\\ b {a,b} {1..3} HEAD@{1} ~/x ~ann/y",
        '[ "$a" = b ] && a ||\n b',
    ],
)
def test_a_plain_line_is_read_the_same_way_twice(line: str) -> None:
    assert compare_readings(line, parse(line)).doubt == ""


def test_expansions_are_parts_of_words() -> None:
    (simple,) = commands(read_plain('echo a$b"$(c)"')[0])
    _, (text, param, sub) = [word.parts for word in simple.words]
    assert text.text == "a" and isinstance(param, Parameter) and param.name == "b"
    assert isinstance(sub, Substitution) and sub.quoted and [s.words[0].raw for s in commands(sub.script)] == ["c"]
