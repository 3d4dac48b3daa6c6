"""Code in colour: the right ones where they matter, and never other text than what came."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish.frontends.shell.render.highlight import highlighter, tree_painter
from aish.frontends.shell.render.highlight.highlighter import LineHighlighter, find_highlighter
from aish.frontends.shell.render.styles import SYNTAX

_LINES = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=40)
GRAMMARS = sorted(tree_painter._WHEELS)


def coloured(language: str, *lines: str) -> list[list[tuple[str, str]]]:
    """Each line as its words that have a colour, with what they are."""
    highlighter = find_highlighter(language)
    assert highlighter
    names = {style: name for name, style in reversed(SYNTAX.items())}
    return [[(text, names[style]) for text, style in highlighter.line(line) if style] for line in lines]


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        ("python", 'def f(x: int): return "a"  # c', {("def", "keyword"), ('"a"', "string"), ("# c", "comment")}),
        ("bash", 'for x in "$HOME"; do ls; done', {("for", "keyword"), ("$HOME", "variable"), ("ls", "function")}),
        ("json", '{"a": [1, "b"]}', {('"a"', "keyword"), ("1", "number"), ('"b"', "string")}),
        ("js", "const x = f(`a`, 1) // c", {("const", "keyword"), ("`a`", "string"), ("// c", "comment")}),
        ("tsx", "const x: string = 'a'", {("const", "keyword"), ("string", "number"), ("'a'", "string")}),
        ("typescript", "interface A { x: number }", {("interface", "keyword"), ("A", "number")}),
        ("c", "int main(void) { return 0; } /* c */", {("main", "function"), ("/* c */", "comment")}),
        ("c++", "class A : public B {};", {("class", "keyword"), ("public", "keyword"), ("A", "number")}),
        ("rust", 'fn main() { println!("a"); }', {("fn", "keyword"), ("println", "function"), ('"a"', "string")}),
        ("go", 'func f() string { return "a" }', {("func", "keyword"), ("f", "function"), ('"a"', "string")}),
        ("html", '<a href="x">t</a><!-- c -->', {("href", "keyword"), ('"x"', "string"), ("<!-- c -->", "comment")}),
        ("css", 'a { color: "x" } /* c */', {("color", "keyword"), ('"x"', "string"), ("/* c */", "comment")}),
        ("toml", 'x = "a" # c', {("x", "keyword"), ('"a"', "string"), ("# c", "comment")}),
        ("yaml", 'x: "a" # c', {("x", "keyword"), ('"a"', "string"), ("# c", "comment")}),
        ("lua", 'local x = "a" -- c', {("local", "keyword"), ('"a"', "string"), ("-- c", "comment")}),
        ("sql", "SELECT a FROM t WHERE x = 'y' -- c", {("SELECT", "keyword"), ("'y'", "string"), ("-- c", "comment")}),
        ("java", 'public int x = "a"; // c', {("public", "keyword"), ('"a"', "string"), ("// c", "comment")}),
        ("diff", "-gone", {("-gone", "variable")}),
    ],
)  # fmt: skip
def test_every_language_shows_its_structure(language, line, expected):
    assert expected <= set(coloured(language, line)[0])


def test_all_the_grammars_of_the_extra_load():
    assert [name for name in GRAMMARS if not tree_painter.find_tree_painter(name)] == []


@pytest.mark.parametrize(
    ("language", "lines", "name"),
    [
        ("python", ['x = """a', "if this", 'end"""', "if x: pass"], "string"),
        ("c", ["/* a", "if this", "*/", "if (x) {}"], "comment"),
        ("javascript", ["x = `a", "if this", "`", "if (x) {}"], "string"),
    ],
)
def test_what_goes_over_lines_is_seen_before_it_ends(language, lines, name):
    _, inside, _, after = coloured(language, *lines)
    assert inside == [("if this", name)]
    assert ("if", "keyword") in after


def test_a_long_comment_outlives_the_window():
    lines = ["/* a", *["int x = 1; this is no code"] * 400, "*/ int y;"]
    shown = coloured("c", *lines)
    assert shown[390] == [("int x = 1; this is no code", "comment")]
    assert ("int", "number") in shown[-1]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*GRAMMARS, "java", "diff", "perl"]), st.lists(_LINES, max_size=12))
def test_the_text_is_never_changed(language, lines):
    highlighter = find_highlighter(language)
    for line in lines:
        assert "".join(text for text, _ in highlighter.line(line)) == line


@pytest.mark.parametrize("language", ["nonsense", "", "text", "output"])
def test_an_unknown_language_is_plain(language):
    assert find_highlighter(language) is None


def test_without_wheels_and_pygments_code_is_plain():
    code = (
        "import sys\n"
        "for name in ('tree_sitter_python', 'pygments', 'pygments.lexers', 'wcwidth'): sys.modules[name] = None\n"
        "from aish.frontends.shell.render.highlight.highlighter import find_highlighter\n"
        "from aish.frontends.shell.render.text_width import width_of\n"
        "assert find_highlighter('python') is None and find_highlighter('java') is None\n"
        "assert find_highlighter('bash') is not None\n"
        "assert width_of('a世e\\u0301') == 4\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_nothing_heavy_loads_before_a_fence_names_its_language():
    code = (
        "import sys, io\n"
        "from aish.frontends.shell.render.reply import ReplyPrinter\n"
        "from aish.frontends.shell.render.styles import DisplayOptions\n"
        "from aish.frontends.shell.render.markdown.renderer import Markdown\n"
        "from aish.frontends.shell.render.highlight.highlighter import find_highlighter\n"
        "markdown = Markdown(lambda text: None, lambda: 80, find_highlighter=find_highlighter)\n"
        "markdown.feed('# text\\n- more\\n```\\ncode\\n```\\n')\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert not {"tree_sitter", "pygments", "wcwidth", "rich", "prompt_toolkit"} & loaded


def test_a_parser_that_fails_leaves_the_code_plain():
    class Broken:
        window_chars = 100

        def spans(self, source: str, start: int) -> list[tuple[int, int, str]]:
            raise RuntimeError(source)

    highlighter = LineHighlighter(Broken())
    assert highlighter.line("a = 1") == [("a = 1", "")]
    assert highlighter.line("b") == [("b", "")]


def test_prose_is_not_coloured():
    assert highlighter.find_lexer_painter("text") is None


@pytest.mark.timeout(30)  # without a limit of its own, tree-sitter goes on until memory is used up
def test_what_a_grammar_never_gets_through_is_plain():
    lines = ["[[;", r"""D|J*Go~1Y";m]]'''%</a>\=Qr]'/>\VpN}}SNoQ""", "-->}}:${6m;"] * 4
    highlighter = find_highlighter("typescript")
    assert ["".join(text for text, _ in highlighter.line(line)) for line in lines] == lines
    assert coloured("typescript", "const x = 1")[0][0] == ("const", "keyword")
