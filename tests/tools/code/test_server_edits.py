"""Edits that a server sends, for any text and in any encoding: applied exactly, or refused as a whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import ToolError
from aish.tools.code.files.source import SourceText
from aish.tools.code.lsp.edits import SingleFile, TextEdit, apply_edits, file_edits
from aish.tools.code.lsp.results import ENCODINGS, Position, Range, TextMap

TEXT = st.text(st.one_of(st.sampled_from("\na😀é \u2028"), st.characters(blacklist_categories=["Cs"])), max_size=120)
NEW = st.text(st.sampled_from("xyz😀\n"), max_size=5)


def source(text: str) -> SourceText:
    return SourceText("a.py", text.encode(), text)


def position(text: str, offset: int, encoding) -> Position | None:
    """Of an offset that is a place between characters; None inside the end of a line."""
    made = source(text)
    start = 0
    for number, line in enumerate(made.lines):
        plain = len(line.rstrip("\r\n"))
        if start <= offset <= start + plain:
            return TextMap(made.lines, encoding).position(number, offset - start)
        start += len(line)
    return Position(len(made.lines), 0) if offset == len(text) else None


@given(TEXT.filter(lambda text: "\r" not in text), st.data(), st.sampled_from(ENCODINGS))
def test_edits_that_do_not_overlap_are_applied_exactly_in_any_order(text, data, encoding):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), min_size=2, max_size=8)))
    spans = [(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=False) if a < b]
    spans = [span for n, span in enumerate(spans) if n == 0 or spans[n - 1][1] <= span[0]]
    edits, pieces, at = [], [], 0
    for start, end in spans:
        ends = (position(text, start, encoding), position(text, end, encoding))
        if None in ends:
            continue
        new = data.draw(NEW)
        edits.append(TextEdit(Range(*ends), new))
        pieces += [text[at:start], new]
        at = end
    expected = "".join([*pieces, text[at:]])
    shuffled = data.draw(st.permutations(edits))
    assert apply_edits(source(text), shuffled, encoding) == expected


@given(TEXT, st.lists(st.tuples(*[st.integers(0, 12)] * 4, NEW), max_size=4), st.sampled_from(ENCODINGS))
def test_whatever_ranges_a_server_sends_the_answer_is_a_text_or_a_refusal(text, wild, encoding):
    edits = [TextEdit(Range(Position(a, b), Position(c, d)), new) for a, b, c, d, new in wild]
    try:
        assert isinstance(apply_edits(source(text), edits, encoding), str)
    except ToolError as exc:
        assert "refused" in exc.message


@pytest.mark.parametrize(
    "edit", [None, [], "x", 3, {"changes": 3}, {"documentChanges": [3]}, {"documentChanges": [{}]}]
)
def test_what_is_no_edit_changes_nothing(edit):
    try:
        assert file_edits(edit, SingleFile(source("x\n")), "utf-8") == ()
    except ToolError as exc:
        assert "refused" in exc.message


def test_a_file_that_is_named_in_two_ways_is_one_file():
    """The second edit is about the text that the first has made, and does not fit it."""
    span = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 4}}
    edit = {
        "changes": {
            "file:///r/a.py": [{"range": span, "newText": "y"}],
            "file:///r/%61.py": [{"range": span, "newText": "z"}],
        }
    }
    with pytest.raises(ToolError, match="does not fit"):
        file_edits(edit, SingleFile(source("name\n")), "utf-8")


def test_an_edit_that_changes_nothing_is_none():
    text_edit = {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}, "newText": "x"}
    assert file_edits({"changes": {"file:///r/a.py": [text_edit]}}, SingleFile(source("x\n")), "utf-8") == ()


def test_new_lines_end_as_the_files_lines_do():
    range = Range(Position(0, 0), Position(0, 0))
    assert apply_edits(source("a\r\n"), [TextEdit(range, "b\nc\n")], "utf-16") == "b\r\nc\r\na\r\n"


class Folder:
    """Files in memory, by URIs below `file:///r/`."""

    def __init__(self, **texts: str) -> None:
        self.texts = {f"{name}.py": text for name, text in texts.items()}

    def path(self, uri: str) -> str:
        if not uri.startswith("file:///r/"):
            raise ToolError("outside")
        return uri.removeprefix("file:///r/")

    def exists(self, uri: str) -> bool:
        return self.path(uri) in self.texts

    def get(self, uri: str) -> SourceText:
        text = self.texts[self.path(uri)]
        return SourceText(self.path(uri), text.encode(), text)


def step(kind: str, name: str = "", **fields: str) -> dict:
    return {"kind": kind, **({"uri": f"file:///r/{name}.py"} if name else {}), **fields}


def insert(name: str, text: str) -> dict:
    start = {"line": 0, "character": 0}
    edits = [{"range": {"start": start, "end": start}, "newText": text}]
    return {"textDocument": {"uri": f"file:///r/{name}.py"}, "edits": edits}


def changed(files: Folder, *steps: dict) -> dict[str, tuple[bool, str | None]]:
    """For each path: whether there was something before, and what is there then."""
    made = file_edits({"documentChanges": list(steps)}, files, "utf-8")
    return {one.path: (one.base is not None, one.content.decode() if one.content is not None else None) for one in made}


def test_files_are_made_moved_and_removed_in_the_order_of_the_edit():
    files = Folder(a="one\n", b="two\n")
    move = step("rename", oldUri="file:///r/a.py", newUri="file:///r/c.py")
    steps = (step("create", "new"), insert("new", "made\n"), move, insert("c", "more "), step("delete", "b"))
    assert changed(files, *steps) == {
        "new.py": (False, "made\n"),
        "a.py": (True, None),
        "c.py": (False, "more one\n"),
        "b.py": (True, None),
    }


def test_a_file_that_is_made_and_removed_again_is_none():
    assert changed(Folder(), step("create", "new"), step("delete", "new")) == {}


@pytest.mark.parametrize(
    "steps",
    [
        [step("create", "a")],
        [step("delete", "missing")],
        [insert("missing", "x")],
        [step("rename", oldUri="file:///r/a.py", newUri="file:///r/b.py")],
        [step("rename", oldUri="file:///r/missing.py", newUri="file:///r/c.py")],
        [step("rename", oldUri="file:///r/a.py", newUri="file:///elsewhere/c.py")],
        [{"kind": "create", "uri": "file:///elsewhere/c.py"}],
        [{"kind": "delete", "uri": "file:///etc/passwd"}],
    ],
)
def test_a_step_that_cannot_be_done_refuses_the_whole_edit(steps):
    with pytest.raises(ToolError):
        changed(Folder(a="one\n", b="two\n"), insert("a", "first "), *steps)
