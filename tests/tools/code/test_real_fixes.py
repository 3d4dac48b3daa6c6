"""Formatters and fixes of real servers: what they do to a file, and what they leave as it is."""

from __future__ import annotations

import os
import venv

import pytest

from aish.errors import ToolError
from support.code_projects import PROJECTS
from support.ide_tools import LANGUAGE_OF, field, ide_with, listed

PYTHON = "import os\nimport sys\n\n\nprint(sys.argv)\n"


@pytest.fixture
def root(tmp_path):
    return PROJECTS["python"]().write(tmp_path / "root")


def key_of(offered: str, title: str) -> str:
    return next(line.split(":")[0] for line in offered.splitlines() if title in line)


async def test_a_fix_that_is_listed_is_done_by_its_id(root):
    (root / "a.py").write_text(PYTHON)
    async with ide_with(root, "ty", "ruff") as tools:
        offered = await tools("code_action", path="a.py", line=1)
        result = await tools("code_action", path="a.py", line=1, apply=key_of(offered, "Remove unused import"))
    assert "done: Ruff (F401): Remove unused import: `os`" in result
    assert (root / "a.py").read_text() == PYTHON.removeprefix("import os\n")


async def test_formatting_keeps_line_ends_and_the_byte_order_mark(root):
    (root / "a.py").write_bytes(b"\xef\xbb\xbfx  =  1\r\ny=2\r\n")
    async with ide_with(root, "ty", "ruff") as tools:
        assert "done: format a.py" in await tools("format", path="a.py")
        again = await tools("format", path="a.py")
    assert (root / "a.py").read_bytes() == b"\xef\xbb\xbfx = 1\r\ny = 2\r\n"
    assert "it is formatted already" in again


async def test_a_file_that_cannot_be_formatted_is_left_as_it_is(root):
    (root / "a.py").write_text("def (:\n")
    async with ide_with(root, "ty", "ruff") as tools:
        result = await tools("format", path="a.py")
    assert "done" not in result
    assert (root / "a.py").read_text() == "def (:\n"


async def test_what_is_edited_is_formatted_where_the_config_says_so(root):
    (root / "a.py").write_text("x = 1\n")
    async with ide_with(root, "ty", "ruff", format_on_edit=True) as tools:
        revision = field(await tools("read_file", path="a.py"), "revision")
        await tools("edit", edits=[{"path": "a.py", "revision": revision, "old": "x = 1", "new": "x   =  2"}])
    assert (root / "a.py").read_text() == "x = 2\n"


ODD = "a b/[id]#é%20 +x"


@pytest.mark.parametrize("server", ["basedpyright", "ty", "typescript", "typescript-language-server", "clangd"])
async def test_a_path_with_every_odd_character_is_one_path_to_us_and_to_the_server(server, tmp_path):
    language = LANGUAGE_OF[server]
    project = PROJECTS[language]()
    root = project.write(tmp_path / "the root [1]")
    ending = {"python": ".py", "typescript": ".ts", "c": ".c"}[language]
    text = {
        "python": "def odd(): pass\n\n\nodd()\n",
        "typescript": "export function odd() {}\n\n\nodd();\n",
        "c": "static int odd(void) { return 1; }\n\n\nint use(void) { return odd(); }\n",
    }[language]
    place = {"python": "bank/", "typescript": "src/", "c": "src/"}[language]
    path = f"{place}{ODD}{ending}"
    (root / path).parent.mkdir()
    (root / path).write_text(text)
    async with ide_with(root, server) as tools:
        result = await tools("references", path=path, line=4, symbol="odd")
        renamed = await tools("rename", path=path, line=4, symbol="odd", new_name="even")
    assert listed(result) == {(path, 1), (path, 4)}
    assert field(renamed, "files") == "1", renamed
    assert (root / path).read_text() == text.replace("odd", "even")


@pytest.mark.parametrize("server", ["basedpyright", "typescript"])
async def test_what_is_not_the_projects_own_is_named_and_not_renamed(server, tmp_path):
    language = LANGUAGE_OF[server]
    root = PROJECTS[language]().write(tmp_path / "root")
    path, text = {
        "python": ("bank/uses.py", "import os\nos.getcwd()\n"),
        "typescript": ("src/uses.ts", "export const x = parseInt('1');\n"),
    }[language]
    symbol, line = {"python": ("getcwd", 2), "typescript": ("parseInt", 1)}[language]
    (root / path).write_text(text)
    async with ide_with(root, server) as tools:
        definition = await tools("definition", path=path, line=line, symbol=symbol)
        with pytest.raises(ToolError, match=r"not this project's to rename|answered:|cannot rename"):
            await tools("rename", path=path, line=line, symbol=symbol, new_name="other")
    assert "(outside the workspace, not read)" in definition
    assert (root / path).read_text() == text


@pytest.mark.parametrize("server", ["typescript", "typescript-language-server", "clangd"])
async def test_a_project_that_does_not_say_what_belongs_to_it_is_partial_and_not_renamed(server, tmp_path):
    project = PROJECTS[LANGUAGE_OF[server]]()
    root = project.write(tmp_path / "root")
    for name in ("tsconfig.json", "compile_commands.json"):
        (root / name).unlink(missing_ok=True)
    path, line = project.definition
    at = {"path": path, "line": line, "symbol": project.symbol}
    async with ide_with(root, server) as tools:
        references = await tools("references", **at)
        renamed = await tools("rename", **at, new_name="other")
    assert field(references, "status") == "partial"
    assert int(field(references, "total")) < len(project.references)
    assert "nothing was changed" in renamed
    assert (root / path).read_text("utf-8") == project.files[path]


async def test_a_refactoring_that_makes_a_file_and_changes_others_is_done_as_a_whole(tmp_path):
    project = PROJECTS["typescript"]()
    root = project.write(tmp_path / "root")
    async with ide_with(root, "typescript-language-server") as tools:
        offered = await tools("code_action", path="src/models.ts", line=7, end_line=9)
        key = key_of(offered, "Move to a new file")
        result = await tools("code_action", path="src/models.ts", line=7, end_line=9, apply=key)
        checked = await tools("diagnostics", path="src/part_0/user_00.ts")
    assert field(result, "files") == "63"
    assert "export function makeAccount" in (root / "src/makeAccount.ts").read_text()
    assert "makeAccount" not in (root / "src/models.ts").read_text()
    assert "no problems" in checked


@pytest.mark.parametrize("server", ["basedpyright", "ty"])
async def test_packages_of_the_activated_environment_are_known(server, tmp_path, monkeypatch):
    root = PROJECTS["python"]().write(tmp_path / "root")
    (root / "bank" / "uses.py").write_text("import colours\n\ncolours.red(1)\n")
    venv.create(tmp_path / "env", symlinks=True)
    (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    (packages / "colours.py").write_text("def red() -> int:\n    return 1\n")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "env"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'env' / 'bin'}:{os.environ['PATH']}")
    async with ide_with(root, server) as tools:
        result = await tools("diagnostics", path="bank/uses.py")
    assert "bank/uses.py:3: error" in result, result  # too many arguments: it has read the package
    assert "bank/uses.py:1" not in result
