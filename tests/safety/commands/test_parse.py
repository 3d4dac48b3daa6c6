"""The model of a line, and the grammar's quirks put right."""

from __future__ import annotations

import pytest

from aish.safety.commands.bounds import TooBig
from aish.safety.commands.syntax.model import Block, BlockKind, Node, Simple
from aish.safety.commands.syntax.parser import parse


def outline(node: Node) -> object:
    if isinstance(node, Simple):
        return " ".join(word.raw for word in node.words)
    return (str(node.kind), [outline(child) for child in node.body])


def shape(line: str) -> object:
    body = parse(line).script.body
    return outline(body[0]) if len(body) == 1 else [outline(node) for node in body]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a | b |& c", ("pipeline", ["a", "b", "c"])),
        ("a && b || c", ("sequence", [("sequence", ["a", "b"]), "c"])),
        ("(a; b)", ("subshell", ["a", "b"])),
        ("{ a; }", ("group", ["a"])),
        ("for i in x; do a; done", ("for", [("sequence", ["a"])])),
        ("while a; do b; done", ("while", ["a", ("sequence", ["b"])])),
        ("if a; then b; elif c; then d; else e; fi", ("if", ["a", "b", ("sequence", ["c", "d"]), ("sequence", ["e"])])),
        ("case x in a) b;; esac", ("case", [("sequence", ["b"])])),
        ("f() { a; }", ("function", [("group", ["a"])])),
        ("! a", ("sequence", ["a"])),
        ("[[ -f x ]]", ("test", [])),
        ("((x++))", ("arithmetic", [])),
        ("a & b", ["a", "b"]),
    ],
)
def test_structure_is_kept(line: str, expected: object) -> None:
    assert shape(line) == expected


def test_a_pipe_after_a_heredoc_mark_is_a_pipe() -> None:
    assert shape("cat <<E | sh -x\nrm\nE") == ("pipeline", ["cat", "sh -x"])
    assert shape("cat <<E && b\nrm\nE") == ("sequence", ["cat", "b"])


def test_a_heredoc_keeps_its_text() -> None:
    (node,) = parse("cat <<'E' > f\n$x\nE").script.body
    assert isinstance(node, Simple)
    body = {redirect.operator: redirect.target for redirect in node.redirects}["<<"]
    assert body is not None and body.literal == "$x\n"


@pytest.mark.parametrize(
    "line", ["echo 'a", 'echo "a', "ls )", "if a", "&& a", "cat <<E\n`rm x`\nE", "rm${IFS}-rf$IFS/"]
)
def test_what_the_grammar_does_not_understand_is_not_sound(line: str) -> None:
    assert not parse(line).sound


def test_words_that_touch_are_one_word() -> None:
    (node,) = parse("rm${IFS}-rf$IFS/").script.body
    assert isinstance(node, Simple)
    assert [word.raw for word in node.words] == ["rm${IFS}-rf$IFS/"]


def test_characters_past_ascii_are_letters_to_the_parser() -> None:
    (node,) = parse("écho {1\U000e1a0f} \u00a0é").script.body
    assert isinstance(node, Simple)
    assert [word.raw for word in node.words] == ["écho", "{1\U000e1a0f}", "\u00a0é"]


def test_a_long_quoted_heredoc_is_parsed_and_a_long_line_is_not() -> None:
    script = parse("cat > f <<'E'\n" + "text ( here\n" * 1500 + "E\n").script
    assert isinstance(script, Block) and script.kind is BlockKind.SEQUENCE and script.body
    with pytest.raises(TooBig):
        parse("echo " + "text " * 1500)
