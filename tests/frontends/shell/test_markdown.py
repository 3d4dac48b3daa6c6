"""Markdown on a terminal: what is drawn, that how the text was cut does not matter, and that nothing gets lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aish.frontends.shell.render.markdown.renderer import Markdown
from aish.frontends.shell.render.text_width import width_of
from aish.tool_calls.detect.proposals import BlockScanner

SGR = re.compile(r"\x1b\[[0-9;]*m")

SAMPLE = """# Title *here* ##

Some **bold** and *italic* text, `code`, a [link](https://example.com/a_(b)), *args and **kwargs, 2 ** 3,
snake_case. The next line with 世界你好世界你好世界你好世界你好 and 👨‍👩‍👧 🎉!

- one
- two, long enough to be wrapped at forty columns at least
  - nested **bold
    over lines** here
- [ ] task
- [x] done

1. first
  - sloppy
2. second

   ```python
   def f(x):
       return "a" + x  # why
   ```
> quoted text that is long enough to be wrapped at forty columns
> > nested
>
> after

| Name | Value | Note |
|------|:-----:|-----:|
| a | `x` | 12 |
| longer name | **bold** text | 3 |

---

    indented

~~~~json
{"a": 1} ``` not the end
~~~
"""


def drawn(text: str, columns: int = 40, *, chunk: int = 0, numbered: bool = False) -> str:
    out: list[str] = []
    markdown = Markdown(out.append, lambda: columns, blocks=BlockScanner() if numbered else None)
    for at in range(0, len(text), chunk or len(text) or 1):
        markdown.feed(text[at : at + (chunk or len(text))])
    markdown.close()
    return "".join(out)


def seen(text: str, columns: int = 40) -> str:
    return SGR.sub("", drawn(text, columns))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a **b** c", "a \x1b[0;1mb\x1b[0m c\n"),
        ("*a **b** c*", "\x1b[0;3ma \x1b[0;3;1mb\x1b[0;3m c\x1b[0m\n"),
        ("***a***", "\x1b[0;1;3ma\x1b[0m\n"),
        ("~~a~~ ~b", "\x1b[0;9ma\x1b[0m ~b\n"),
        ("`a*b*`", "\x1b[0;36ma*b*\x1b[0m\n"),
        ("`` a`b ``", "\x1b[0;36ma`b\x1b[0m\n"),
        ("# A", "\x1b[0;1;4mA\x1b[0m\n"),
        ("## A ##", "\x1b[0;1mA\x1b[0m\n"),
        ("[a](b)", "\x1b[0;4ma\x1b[0;2m (b)\x1b[0m\n"),
    ],
)
def test_marks_become_styles(text, shown):
    assert drawn(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "f(*args, **kwargs)", "2 * 3 * 4", "a_b_c", "__init__x", "[1] and a[0]", "`open", "**open", "#tag",
        "1.5 apples", "-x", r"C:\new", r"\(x\)", "<b>html</b>", "<!-- c -->", "| no table |", "a | b", "~~~no\\",
        "!bang", "|",
    ],
)  # fmt: skip
def test_what_is_no_markdown_stays_as_it_is(text):
    assert seen(text, 80) in (f"{text}\n", f"{text} \n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"\*a\* \`", "*a* `\n"),
        ("- a\n- b\n  - c\n\n  d", "• a\n• b\n  • c\n\n  d\n"),
        ("- a\n    - b\n        - c", "• a\n  • b\n    • c\n"),
        ("1. a\n   - b\n10. c", "1. a\n   • b\n10. c\n"),
        ("- [ ] a\n* [x] b\n- [x](u)", "☐ a\n☑ b\n• x (u)\n"),
        ("-\n- a", "• \n• a\n"),
        ("> a\n> > b\n>\n> c\n\nd", "│ a\n│ │ b\n│ \n│ c\n\nd\n"),
        ("> - a\n>   b", "│ • a\n│   b\n"),
        ("- > a", "• │ a\n"),
        ("> ```\n> a\nb", "│ ```\n│ a\nb\n"),
        ("a\n\n\n\nb\n\n", "a\n\nb\n"),
        ("a\nb", "a\nb\n"),
        ("***", "────────────────\n"),
        ("a\n---\nb", "a\n────────────────\nb\n"),
        ("```py x\n a\n\n\nb\n```\nc", "```py x\n a\n\n\nb\n```\nc\n"),
        ("````\n```\n````\na", "````\n```\n````\na\n"),
        ("~~~\n```\n~~~~\na", "~~~\n```\n~~~~\na\n"),
        ("```\na", "```\na\n"),
        ("- a\n  ```\n  b\n  ```\n  c", "• a\n  ```\n  b\n  ```\n  c\n"),
        ("```a`b\nc", "```a`b\nc\n"),
        ("\ta\tb", "    a    b\n"),
    ],
)
def test_blocks(text, shown):
    assert seen(text, 16) == shown


def test_a_table_gets_columns_and_alignment():
    assert seen("| a | b |\n|---|--:|\n| long **x** | 1 |\n| c |\nend", 40).splitlines() == [
        "a      │ b",
        "───────┼──",
        "long x │ 1",
        "c      │  ",
        "end",
    ]


def test_a_table_that_is_too_wide_wraps_its_cells():
    rows = seen(f"| a | b |\n|---|---|\n| {'word ' * 10} | {'other ' * 10} |", 40).splitlines()
    assert all(width_of(row) <= 40 for row in rows)
    assert len(rows) > 4


def test_a_table_with_too_many_columns_becomes_a_list():
    text = seen("|" + " ab |" * 9 + "\n|" + "---|" * 9 + "\n|" + " value |" * 9, 40)
    assert text.count("ab: value") == 9


def test_a_long_table_is_shown_before_it_ends():
    out: list[str] = []
    markdown = Markdown(out.append, lambda: 80)
    markdown.feed("| a | b |\n|---|---|\n" + "| some text | more |\n" * 2000)
    assert "".join(out).count("some text") == 2000


def test_text_is_shown_as_soon_as_a_word_is_whole():
    out: list[str] = []
    markdown = Markdown(out.append, lambda: 80)
    for token in ("Hel", "lo ", "wor", "ld"):
        markdown.feed(token)
    assert "".join(out) == "Hello"
    markdown.feed(" **b")
    assert "".join(out) == "Hello world"
    markdown.close()
    assert "".join(out) == "Hello world **b\n"


def test_after_closing_the_next_text_begins_anew():
    out: list[str] = []
    markdown = Markdown(out.append, lambda: 80)
    markdown.feed("- a\n```\nopen")
    markdown.close()
    markdown.feed("*b*")
    markdown.close()
    assert SGR.sub("", "".join(out)) == "• a\n```\nopen\nb\n"


@pytest.mark.parametrize("columns", [16, 40, 100])
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 50])
def test_how_the_sample_is_cut_does_not_matter(columns, chunk):
    assert drawn(SAMPLE, columns, chunk=chunk) == drawn(SAMPLE, columns)


@pytest.mark.parametrize("line", ["CMD: rm *.py* a_b_c `x`", "- **CMD: ls**", "1. CMD: a | b", "  `CMD: ls`"])
@pytest.mark.parametrize("before", ["", "text *here*\n", "- item\n\n", "| a |\n"])
def test_a_line_that_proposes_a_command_is_shown_as_it_is(before, line):
    assert seen(f"{before}{line}\nafter *all*", 60).splitlines()[-2:] == [line, "after all"]


@pytest.mark.parametrize("text", ["CMD", "C", "**CMD", "CMD:", "CMDs are", "**CM**", "1. CMD"])
def test_what_only_begins_like_a_proposal_is_text(text):
    assert seen(text) == seen(text.replace("C", "X")).replace("X", "C")


_PIECES = st.sampled_from(
    [
        *"ab \n\n*_`~#>-+|[]()!\\.1:<\t", "**",
        "```", "~~~", "CMD: ", "C", "\nCMD", "\n- ", "\n1. ", "\n> ", "\n    ", "| a | b |\n|---|---|\n",
        "[a](b)", "- [ ] ", "word ", "longer_word_than_most ", "世界", "。", "e\u0301", "👨‍👩‍👧", "❤\ufe0f",
        "🇩🇪", "\x1b[31m", "\x9b2J",
        "\r\n", "\x07", "\u202e", "a" * 70, "* " * 9, "\ud800",
    ]
)  # fmt: skip
_TEXTS = st.lists(_PIECES, max_size=60).map("".join) | st.text(max_size=120)


@settings(max_examples=400, deadline=None)
@given(_TEXTS, st.integers(1, 9), st.integers(16, 60))
@example("*a `b* c` d*", 1, 40)
@example("[a](b\nc)", 1, 40)
@example("> ```\n> a\nb", 1, 40)
@example("* " * 9 + "a" * 70, 1, 16)
def test_any_chunking_gives_the_same_output(text, chunk, columns):
    assert drawn(text, columns, chunk=chunk) == drawn(text, columns)
    assert drawn(text, columns, chunk=chunk, numbered=True) == drawn(text, columns, numbered=True)


@settings(max_examples=400, deadline=None)
@given(_TEXTS, st.integers(16, 60))
@example("* * * * * * * longer_word_than_most ", 21)
def test_words_are_kept_in_order_lines_fit_and_no_control_is_obeyed(text, columns):
    shown = SGR.sub("", drawn(text, columns))
    assert all(width_of(line) <= columns for line in shown.split("\n"))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown)
    assert letters(shown) == letters(text)


def letters(text: str) -> str:
    """Without what is a mark, a control, or one of the numbers and boxes of lists."""
    return "".join(char for char in text if char.isalpha() and char not in "xX")


@pytest.mark.parametrize(
    "text",
    [
        "word " * 200_000,
        "x" * 1_000_000,
        "*a " * 300_000,
        "**" * 500_000,
        "`a ``b " * 140_000,
        "[a" * 500_000,
        "> " * 500_000,
        "- " * 500_000,
        "世" * 300_000,
        "```\n" + "x = 1\n" * 100_000,
        "```\n" + "x" * 1_000_000,
        "| a " * 250_000,
        "|a|\n|-|\n" + "| b |\n" * 100_000,
        "\n" * 1_000_000,
        " " * 1_000_000,
    ],
    ids=lambda text: repr(text[:10]),
)
@pytest.mark.timeout(60)  # a few seconds; were any of it a square of the length, minutes
def test_a_megabyte_of_anything_comes_through_token_by_token(text):
    assert drawn(text, 80, chunk=4).endswith("\n") or not text.strip()
