"""Real language servers against projects in which everything is known: references and renames are exact, from cold."""

from __future__ import annotations

import asyncio

import pytest

from aish.tools.code.languages import ServerLimits
from support.code_projects import PROJECTS
from support.ide_tools import LANGUAGE_OF, field, ide_with, listed

SERVERS = ("basedpyright", "ty", "typescript", "typescript-language-server", "clangd")
NEW = {"python": "open_account", "typescript": "openAccount", "c": "open_account"}


@pytest.fixture(params=SERVERS)
def server(request) -> str:
    return request.param


@pytest.fixture
def project(server, tmp_path):
    made = PROJECTS[LANGUAGE_OF[server]]()
    made.write(tmp_path / "root")
    return made


def _use(project):
    """A use in another file than the definition, behind an emoji in its line."""
    path, line = max(place for place in project.references if "user_" in place[0] and "😀" in _line(project, place))
    return {"path": path, "line": line, "symbol": project.symbol}


def _line(project, place):
    return project.files[place[0]].split("\n")[place[1] - 1]


async def test_the_first_question_of_all_finds_every_reference(server, project, tmp_path):
    async with ide_with(tmp_path / "root", server) as tools:
        result = await tools("references", **_use(project), limit=500)
    assert field(result, "status") == "fresh"
    assert listed(result) == project.references
    assert field(result, "files") == str(len(project.reference_files))
    assert len(project.references) >= 123 and len(project.reference_files) >= 62


async def test_a_rename_at_a_use_renames_everything_and_nothing_else(server, project, tmp_path):
    root = tmp_path / "root"
    new = NEW[LANGUAGE_OF[server]]
    async with ide_with(root, server) as tools:
        result = await tools("rename", **_use(project), new_name=new)
    assert field(result, "files") == str(len(project.reference_files)), result
    truth = PROJECTS[LANGUAGE_OF[server]](new).write(tmp_path / "truth")
    for path in project.files:
        expected = (truth / path).read_text("utf-8").replace(str(truth.resolve()), str(root.resolve()))
        assert (root / path).read_text("utf-8") == expected, path


async def test_hover_and_definition_lead_to_the_declaration(server, project, tmp_path):
    async with ide_with(tmp_path / "root", server) as tools:
        hover = await tools("hover", **_use(project))
        definition = await tools("definition", **_use(project))
    assert field(hover, "status") == "fresh"
    assert project.symbol in hover
    path, line = project.definition
    assert f"\n{path}:{line}\n{line}\t" in definition
    assert _line(project, project.definition) in definition


async def test_many_questions_at_once_are_each_answered_though_few_files_may_be_open(server, project, tmp_path):
    limits = ServerLimits(answer_timeout_s=30.0, max_open=8)
    uses = sorted(place for place in project.references if "user_" in place[0])
    async with ide_with(tmp_path / "root", server, limits=limits) as tools:
        await tools("references", **_use(project))  # until it has loaded; before that, answers may be partial
        asked = [tools("definition", path=path, line=line, symbol=project.symbol) for path, line in uses]
        answers = await asyncio.gather(*asked)
    path, _ = project.definition if LANGUAGE_OF[server] != "c" else ("", 0)  # in C the header does as well
    assert all("total=1 " in answer and f"\n{path}" in answer for answer in answers)


BROKEN = {
    "python": ('    label = "', '    label: int = "'),
    "typescript": ('  const label = "', '  const label: number = "'),
    "c": ("    return a.number;", "    return a.nummer;"),
}


async def test_what_an_edit_breaks_is_in_the_answer_to_the_edit(server, project, tmp_path):
    path = _use(project)["path"]
    old, new = BROKEN[LANGUAGE_OF[server]]
    async with ide_with(tmp_path / "root", server) as tools:
        before = await tools("diagnostics", path=path)
        edit = {"path": path, "revision": field(before, "revision"), "old": old, "new": new}
        broken = await tools("edit", edits=[edit])
        assert f"{path}:" in broken and "error" in broken, broken
        back = {
            "path": path,
            "revision": field(await tools("read_file", path=path), "revision"),
            "old": new,
            "new": old,
        }
        mended = await tools("edit", edits=[back])
    assert "error" not in mended, mended
    assert "no problems" in mended.split("problems now:")[1], mended
