"""`skills__read` gives a model the skills that the user trusts, and nothing outside of their folders."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from aish.config.instructions import InstructionFile
from aish.config.skills import SkillFile, parse_skill
from aish.errors import ToolError
from aish.safety.commands import ShellContext
from aish.safety.policy.secret_names import SecretNames
from aish.tools.builtin.skills import SkillTools


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "release"
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts" / "tag.sh").write_text("echo tag\n")
    (folder / ".env").write_text("TOKEN=hunter2\n")
    (folder / "SKILL.md").write_text("---\ndescription: how to release\nallowed-tools: Bash\n---\nTag it.\n")
    (tmp_path / "outside").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "outside")
    return folder


class Context:
    session, turn, call, owner, is_proved, is_unasked = "s", "t", "c", "", False, False
    rights = None

    def status(self, text: str) -> None:
        pass

    def output(self, text: str) -> None:
        pass


def skill_in(folder: Path, state: str = "trusted") -> SkillFile:
    file = folder / "SKILL.md"
    return parse_skill(InstructionFile(file, state, file.read_bytes()))  # type: ignore[arg-type]


def tools_for(*skills: SkillFile) -> SkillTools:
    known = list(skills)
    is_secret = SecretNames(ShellContext(cwd="/", home="/home/me"))
    return SkillTools(lambda: known, is_secret)


async def test_without_a_usable_skill_there_is_no_tool(folder: Path) -> None:
    assert tools_for().specs() == ()
    tools = tools_for(skill_in(folder, "untrusted"))
    assert tools.specs() == ()
    with pytest.raises(ToolError, match="there is no skill release"):
        await tools.read("release")


def test_a_link_in_place_of_the_folder_of_a_skill_leads_nowhere(folder: Path, tmp_path: Path) -> None:
    tools = tools_for(skill_in(folder))
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path)
    for file in ("", "outside"):
        with pytest.raises(ToolError, match="another one now"):
            asyncio.run(tools.read("release", file))


async def test_the_description_of_the_tool_names_each_skill_and_stays_the_same(folder: Path) -> None:
    tools = tools_for(skill_in(folder))
    (spec,) = tools.specs()
    assert spec.description.endswith("\n- release: how to release") and spec.effect.value == "read"
    assert tools.specs() is tools.specs()


async def test_a_long_list_of_skills_is_cut(folder: Path) -> None:
    description = tools_for(*[skill_in(folder)] * 2000).specs()[0].description
    assert len(description) < 17_000 and description.endswith("\n- …")


async def test_skills_are_looked_up_again_when_that_is_asked_for(folder: Path) -> None:
    known: list[SkillFile] = []
    tools = SkillTools(lambda: known, lambda path, glob=False: False)
    assert tools.specs() == ()
    known.append(skill_in(folder))
    assert tools.specs() == ()
    tools.reread()
    assert len(tools.specs()) == 1 and (await tools.read("release")).startswith("Tag it.")


async def test_a_skill_is_read_with_the_names_of_its_files(folder: Path) -> None:
    output = await tools_for(skill_in(folder)).call("read", {"name": "release"}, Context())
    text = output.parts[0].text  # type: ignore[union-attr]
    assert text.startswith("Tag it.\n") and f"Folder: {folder}" in text
    assert "scripts/tag.sh" in text and "link" not in text and text.endswith("its author means: Bash")


async def test_what_the_user_trusted_is_read_even_if_the_file_has_changed_since(folder: Path) -> None:
    tools = tools_for(skill_in(folder))
    (folder / "SKILL.md").write_text("---\ndescription: x\n---\nDo harm.\n")
    assert (await tools.read("release")).startswith("Tag it.")


async def test_files_of_a_skill_are_read_and_nothing_outside_of_its_folder(folder: Path) -> None:
    tools = tools_for(skill_in(folder))
    assert await tools.read("release", "scripts/tag.sh") == "echo tag\n"
    for file in ("../outside", "link", str(folder.parent / "outside"), "missing", "scripts", ".env"):
        with pytest.raises(ToolError):
            await tools.read("release", file)
