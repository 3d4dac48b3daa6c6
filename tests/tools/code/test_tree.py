"""Without a server: outlines are exact, definitions and references are found by name and say so."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish.errors import ToolError
from aish.tools.code.files.source import SourceText
from aish.tools.code.outline import find_grammar, outline
from support.ide_tools import field, ide_with, listed

PYTHON = '''import os

LIMIT: int = 3
"""prose about class Nothing"""


@decorated
class Account:
    kind = "x"

    def __init__(self):
        local = 1

        def inner():
            pass

    async def close(self, 名前="😀"): ...


def make(): return Account()
'''
CASES = {
    "python": (
        PYTHON,
        [
            ("LIMIT", "variable", "", 3),
            ("Account", "class", "", 8),
            ("kind", "variable", "Account", 9),
            ("__init__", "method", "Account", 11),
            ("inner", "function", "__init__", 14),
            ("close", "method", "Account", 17),
            ("make", "function", "", 20),
        ],
    ),
    "typescript": (
        "export class A<T> {\n  x = 1;\n  get b(): number { return 1; }\n}\nexport const f = (a: number) => a;\n"
        "interface I {\n  m(): void;\n}\ntype T = string;\nenum E { One = 1 }\nfunction g() { const no = 1; }\n",
        [
            ("A", "class", "", 1),
            ("x", "field", "A", 2),
            ("b", "method", "A", 3),
            ("f", "variable", "", 5),
            ("I", "interface", "", 6),
            ("m", "method", "I", 7),
            ("T", "type", "", 9),
            ("E", "enum", "", 10),
            ("One", "member", "E", 10),
            ("g", "function", "", 11),
        ],
    ),
    "cpp": (
        "#define X 1\nstruct s { int a; };\nstatic int *f(int a) { int no; return 0; }\nint g(void);\n"
        "namespace n { class K { public: ~K(); int m() { return 1; } }; }\nint n::K::m2() { return 1; }\n",
        [
            ("X", "macro", "", 1),
            ("s", "struct", "", 2),
            ("a", "field", "s", 2),
            ("f", "function", "", 3),
            ("g", "declaration", "", 4),
            ("n", "namespace", "", 5),
            ("K", "class", "n", 5),
            ("~K", "declaration", "K", 5),
            ("m", "method", "K", 5),
            ("n::K::m2", "function", "", 6),
        ],
    ),
    "go": (
        "package m\nfunc F() int { return 1 }\ntype S struct { A int }\nfunc (s *S) M() {}\nconst C = 1\n",
        [
            ("F", "function", "", 2),
            ("S", "type", "", 3),
            ("A", "field", "S", 3),
            ("M", "method", "", 4),
            ("C", "constant", "", 5),
        ],
    ),
    "rust": (
        "fn f() {}\nstruct S { a: i32 }\nimpl S { fn m(&self) {} }\ntrait T { fn x(); }\nconst C: i32 = 1;\n",
        [
            ("f", "function", "", 1),
            ("S", "struct", "", 2),
            ("a", "field", "S", 2),
            ("S", "impl", "", 3),
            ("m", "method", "S", 3),
            ("T", "trait", "", 4),
            ("C", "constant", "", 5),
        ],
    ),
}


def source(text: str) -> SourceText:
    return SourceText("x", text.encode("utf-8", "surrogatepass"), text)


@pytest.mark.parametrize("language", CASES)
def test_an_outline_holds_the_declarations_and_nothing_else(language):
    text, expected = CASES[language]
    found = [(one.name, one.kind, one.container, one.line) for one in outline(source(text), find_grammar(language))]
    # Of a signature without a body grammars differ in whether it is a declaration.
    assert [one for one in found if one[0] != "x" or one[1] != "function"] == expected


@settings(deadline=None, max_examples=60)
@given(st.text(st.one_of(st.sampled_from("()[]{}:=\n\"'`class def "), st.characters()), max_size=400))
def test_any_text_has_an_outline_or_an_error_in_words(text):
    for language in ("python", "typescript", "c", "bash"):
        try:
            outline(source(text), find_grammar(language))
        except ToolError as exc:
            assert "in time" in exc.message


def test_text_nested_deeper_than_any_stack_is_survived():
    outline(source("(" * 50_000 + ")" * 50_000), find_grammar("python"))
    outline(source("{" * 20_000), find_grammar("c"))


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.py").write_text("from sub.b import make\n\nmake()\nmaker = 1\n")
    (folder / "sub" / "b.py").write_text("def make():\n    return 1\n\n\ndef other(): pass\n")
    (folder / "c.ts").write_text("function make() {}\n")
    (folder / "d.xyz").write_text("make\n")
    return folder


@pytest.fixture
async def tools(root):
    async with ide_with(root) as made:
        yield made


async def test_a_definition_by_name_is_partial_has_its_code_and_says_how_to_do_better(tools):
    result = await tools("definition", path="a.py", line=3, symbol="make")
    assert field(result, "status") == "partial"
    assert "sub/b.py:1\n1\tdef make():\n2\t    return 1" in result
    assert "c.ts" not in result
    assert "basedpyright is not available: not found; the user can install it with: pipx install basedpyright" in result


async def test_references_by_name_are_whole_words_in_files_of_the_language(tools):
    result = await tools("references", path="a.py", line=3, symbol="make")
    assert field(result, "status") == "partial"
    assert listed("\n".join(line for line in result.split("\n") if not line.startswith("note"))) == {
        ("a.py", 1),
        ("a.py", 3),
        ("sub/b.py", 1),
    }


async def test_a_page_past_the_last_reference_does_not_say_that_there_are_none(tools):
    result = await tools("references", path="a.py", line=3, symbol="make", offset=1000)
    assert "there are no more than" in result and "nothing found" not in result


async def test_symbols_are_found_in_every_language_by_a_part_of_their_name(tools):
    result = await tools("symbols", query="MAK")
    assert result.split("\n")[1:] == [
        "a.py:4 variable maker",
        "c.ts:1 function make",
        "sub/b.py:1 function make",
    ]
    exact = await tools("symbols", query="make")
    assert exact.split("\n")[3] == "a.py:4 variable maker"


@pytest.mark.parametrize("tool", ["diagnostics", "format"])
async def test_what_needs_a_server_is_unsupported_and_never_none(tools, tool):
    result = await tools(tool, path="a.py")
    assert field(result, "status") == "unsupported"
    assert "pipx install" in result
    assert "no problems" not in result


async def test_a_rename_without_a_server_changes_nothing(tools, root):
    result = await tools("rename", path="a.py", line=3, symbol="make", new_name="other")
    assert "nothing was changed" in result
    assert "make()" in (root / "a.py").read_text()


async def test_a_file_of_no_known_language_is_said_to_be_one(tools):
    assert field(await tools("outline", path="d.xyz"), "status") == "unsupported"
    assert "no language server is known for this kind of file" in await tools("diagnostics", path="d.xyz")


async def test_a_symbol_is_found_near_its_line_and_the_answer_says_where(tools):
    result = await tools("hover", path="a.py", line=2, symbol="make")
    assert field(result, "line") in ("1", "3")


async def test_a_symbol_without_a_line_is_its_declaration(tools, root):
    (root / "e.py").write_text('"""about thing"""\n\n\ndef thing(): pass\n')
    assert field(await tools("hover", path="e.py", symbol="thing"), "line") == "4"


async def test_a_symbol_that_is_not_there_says_what_is(tools, root):
    with pytest.raises(ToolError, match=r"has no 'made' in or near line 3, which is: make\(\)$"):
        await tools("hover", path="a.py", line=3, symbol="made")
    (root / "long.py").write_text("make\n" + "\n" * 20 + "x\n" + "make\n")
    with pytest.raises(ToolError, match=r"near line 12, which is: ; it is in lines 1, 23$"):
        await tools("hover", path="long.py", line=12, symbol="make")
    with pytest.raises(ToolError, match="has lines 1 to 4, not 40"):
        await tools("hover", path="a.py", line=40, symbol="make")


@pytest.mark.parametrize("line", [0, -3])
@pytest.mark.parametrize("tool", ["hover", "definition", "references", "code_action", "rename"])
async def test_a_line_before_the_first_is_none(tools, tool, line):
    more = {"symbol": "make"} if tool != "code_action" else {}
    more |= {"new_name": "made"} if tool == "rename" else {}
    with pytest.raises(ToolError, match=f"has lines 1 to 4, not {line}"):
        await tools(tool, path="a.py", line=line, **more)
    with pytest.raises(ToolError, match=f"has lines 1 to 4, not {line} to"):
        await tools("read_file", path="a.py", start_line=line)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"\0binary", "binary file"), (b"\xff", "not UTF-8"), (None, "not exist")]
)
async def test_diagnostics_of_what_is_no_text_say_that_nobody_can_tell(tools, root, content, reason):
    if content is not None:
        (root / "odd.py").write_bytes(content)
    result = await tools("diagnostics", path="odd.py")
    assert field(result, "status") == "unsupported"
    assert reason in result and "no problems" not in result


async def test_symbols_are_partial_where_a_file_cannot_be_read(tools, root):
    (root / "large.py").write_text("def make_large(): pass\n" + "#" * 5_000_000)
    (root / "latin.py").write_bytes(b"def make_latin(): pass  # \xe9\n")
    result = await tools("symbols", query="make")
    assert field(result, "status") == "partial"
    assert "1 files are too large to be looked at; 1 files are no text in UTF-8" in result


async def test_without_grammars_symbols_are_partial_and_an_outline_is_the_servers(root, monkeypatch):
    for module in ("backends.selection", "backends.tree"):
        monkeypatch.setattr(f"aish.tools.code.{module}.find_grammar", lambda name: None)
    async with ide_with(root, "ty") as tools:
        symbols = await tools("symbols", query="make")
        outlined = await tools("outline", path="sub/b.py")
    assert field(symbols, "status") == "partial"
    assert "no grammar for python, typescript here; pip install" in symbols
    assert field(outlined, "backend") == "ty"
    assert outlined.split("\n")[1:] == ["1-2 function def make():", "5-5 function def other(): pass"]
