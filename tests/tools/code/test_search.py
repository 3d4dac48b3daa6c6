"""Search: the same by ripgrep and by our own walk, ignoring what git ignores, bounded."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from aish.errors import ToolError
from aish.tools.code.search.search import MAX_MATCHES, Query, search
from aish.tools.code.search.walk import walk_files
from aish.tools.workspace import Workspace

RIPGREP = shutil.which("rg")


@pytest.fixture
def space(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    made = Workspace(root)
    yield made
    made.close()


@pytest.fixture(params=["ripgrep", "aish"])
def by(request):
    if request.param == "ripgrep" and RIPGREP is None:
        pytest.skip("ripgrep is not installed here: apt-get install ripgrep")
    return request.param


def write(space: Workspace, **texts: str) -> None:
    for name, text in texts.items():
        path = space.root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def find(space: Workspace, by: str, pattern: str, **query) -> list[tuple[str, int]]:
    path = str(Path(RIPGREP).parent) if by == "ripgrep" else ""
    found = await search(space, Query(pattern, **query), search_path=path)
    assert found.by == by
    return [(place.path, place.line) for place in found.locations]


async def test_lines_are_found_by_text_with_their_files_and_numbers(space, by):
    write(space, a_dot_py="one\ntwo (x)\n", sub__b_dot_py="two (x)\n")
    assert await find(space, by, "two (x)") == [("a.py", 2), ("sub/b.py", 1)]


async def test_what_the_root_ignores_is_ignored_below_a_folder_and_with_a_glob_too(space, by):
    write(space, _dot_gitignore="build/\n/src/made.py\ngen_*.py\n", src__build__a_dot_py="x\n", src__a_dot_py="x\n")
    write(space, src__made_dot_py="x\n", src__gen_1_dot_py="x\n", build__b_dot_py="x\n", src__deep__gen_2_dot_py="x\n")
    assert await find(space, by, "x") == [("src/a.py", 1)]
    assert await find(space, by, "x", below="src") == [("src/a.py", 1)]
    assert await find(space, by, "x", glob="*.py") == [("src/a.py", 1)]
    assert await find(space, by, "x", glob="src/**/*.py", below="src") == [("src/a.py", 1)]


async def test_an_ignored_folder_that_is_asked_for_by_name_is_searched(space, by):
    write(space, _dot_gitignore="node_modules/\n*.min.js\n", node_modules__x__a_dot_js="x\n")
    write(space, **{"node_modules__x__b.min_dot_js": "x\n"})
    assert await find(space, by, "x", below="node_modules/x") == [("node_modules/x/a.js", 1)]


async def test_an_expression_is_one_only_when_it_is_said_to_be(space, by):
    write(space, a_dot_py="abc\na.c\n")
    assert await find(space, by, "a.c") == [("a.py", 2)]
    assert await find(space, by, "a.c", regex=True) == [("a.py", 1), ("a.py", 2)]
    assert await find(space, by, "A.C", regex=True, ignore_case=True) == [("a.py", 1), ("a.py", 2)]
    assert await find(space, by, "ABC", ignore_case=True) == [("a.py", 1)]


async def test_a_broken_expression_says_how_to_mend_it(space, by):
    with pytest.raises(ToolError, match="no regular expression; escape"):
        await find(space, by, "f(", regex=True)


async def test_an_expression_made_to_take_for_ever_does_not(space, by):
    write(space, a_dot_py="a" * 5000 + "!\n")
    assert await find(space, by, "(a+)+$", regex=True) == []


async def test_globs_and_folders_narrow_it(space, by):
    write(space, a_dot_py="x\n", a_dot_ts="x\n", src__b_dot_py="x\n", src__deep__c_dot_py="x\n", src__d_dot_ts="x\n")
    assert await find(space, by, "x", glob="*.py") == [("a.py", 1), ("src/b.py", 1), ("src/deep/c.py", 1)]
    assert await find(space, by, "x", below="src") == [("src/b.py", 1), ("src/d.ts", 1), ("src/deep/c.py", 1)]
    assert await find(space, by, "x", below="src", glob="*.ts") == [("src/d.ts", 1)]


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.{py,ts}", {"a.py", "b.ts", "src/c.py", "src/deep/d.ts"}),
        ("src/*", {"src/c.py"}),
        ("src/**", {"src/c.py", "src/deep/d.ts"}),
        ("src/**/*.ts", {"src/deep/d.ts"}),
        ("./src/*.py", {"src/c.py"}),
        ("[ab].*", {"a.py", "b.ts"}),
        ("nothing*", set()),
    ],
)
async def test_a_glob_means_the_same_to_both(space, by, glob, expected):
    write(space, a_dot_py="x\n", b_dot_ts="x\n", src__c_dot_py="x\n", src__deep__d_dot_ts="x\n", e_dot_md="x\n")
    assert {path for path, _ in await find(space, by, "x", glob=glob)} == expected


async def test_a_file_may_be_searched_alone_and_what_is_not_there_is_an_error(space, by):
    write(space, a_dot_py="x\ny\n", b_dot_py="x\n")
    found = await search(space, Query("x", below="a.py"), search_path="")
    assert [place.path for place in found.locations] == ["a.py"]
    with pytest.raises(ToolError, match="does not exist"):
        await find(space, by, "x", below="missing")
    with pytest.raises(ToolError):
        await find(space, by, "x", below="../elsewhere")


async def test_a_folder_with_odd_characters_is_searched(space, by):
    (space.root / "[id] {x}").mkdir()
    (space.root / "[id] {x}" / "a.py").write_text("x\n")
    assert await find(space, by, "x", below="[id] {x}") == [("[id] {x}/a.py", 1)]


async def test_binary_files_and_version_control_are_passed_over(space, by):
    write(space, a_dot_py="needle\n", _dot_git__config="needle\n", _dot_hidden__h_dot_py="needle\n")
    (space.root / "b.bin").write_bytes(b"\0\1needle\n")
    assert await find(space, by, "needle") == [(".hidden/h.py", 1), ("a.py", 1)]


async def test_files_that_are_too_large_are_counted_and_the_answer_is_not_whole(space, by):
    write(space, a_dot_py="x = needle\n", _dot_gitignore="ignored.py\n")
    for name in ("large.py", "ignored.py", "other.txt"):
        (space.root / name).write_text("needle " * 700_000)
    path = str(Path(RIPGREP).parent) if by == "ripgrep" else ""
    found = await search(space, Query("needle", glob="*.py"), search_path=path)
    assert ([place.path for place in found.locations], found.by) == (["a.py"], by)
    assert found.note == "1 files are too large to be looked at"
    alone = await search(space, Query("needle", below="large.py"), search_path=path)
    assert alone.note == "1 files are too large to be looked at"


async def test_what_a_link_leads_to_is_not_searched(space, by, tmp_path):
    (tmp_path / "secret.txt").write_text("needle\n")
    (space.root / "link.txt").symlink_to(tmp_path / "secret.txt")
    (space.root / "folder").symlink_to(tmp_path)
    assert await find(space, by, "needle") == []


async def test_more_matches_than_anyone_reads_are_counted_no_further(space, by):
    write(space, a_dot_txt="x\n" * (MAX_MATCHES + 500))
    path = str(Path(RIPGREP).parent) if by == "ripgrep" else ""
    found = await search(space, Query("x"), search_path=path)
    assert len(found.locations) == MAX_MATCHES
    assert not found.complete


async def test_a_pattern_that_begins_like_an_option_is_a_pattern(space, by):
    write(space, a_dot_py="--files x\n")
    assert await find(space, by, "--files") == [("a.py", 1)]


IGNORES = {
    ".gitignore": (
        "*.log\nbuild/\n/only_top.py\n!keep.log\ndocs/*.txt\n**/gen/**\n# a comment\n\\#odd\nsp\\ ace\n[ab]x.py\n"
    ),
    "sub/.gitignore": "*.py\n!good.py\n/here\n",
}
PATHS = (
    "a.log", "keep.log", "deep/b.log", "deep/keep.log", "build/x.py", "deep/build/y.py", "buildx/z.py", "only_top.py",
    "deep/only_top.py", "docs/a.txt", "docs/more/b.txt", "x/gen/f.py", "gen/g.py", "#odd", "sp ace", "ax.py", "bx.py",
    "cx.py", "sub/bad.py", "sub/good.py", "sub/deep/bad.py", "sub/here", "sub/deep/here", "plain.txt",
)  # fmt: skip


def test_what_is_ignored_is_what_git_ignores(space):
    for name in PATHS:
        path = space.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for name, text in IGNORES.items():
        (space.root / name).write_text(text)
    git = ["git", "-C", str(space.root)]
    subprocess.run([*git, "init", "-q"], check=True, timeout=30)
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--others", "--exclude-standard"], check=True, timeout=30, capture_output=True
    )
    theirs = {name for name in listed.stdout.decode().split("\0") if name}
    assert set(walk_files(space)) == theirs
