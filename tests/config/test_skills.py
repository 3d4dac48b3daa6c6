"""Agent Skills are found in their folders; those of a project have no effect until they are trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish.config.instructions import InstructionFile
from aish.config.skills import PROJECT_FOLDERS, SkillFile, find_skills, parse_skill
from aish.config.user_decisions import refuse, trust_project_file

from .conftest import World


def write_skill(folder: Path, name: str, head: str = "", body: str = "Do it.") -> Path:
    file = folder / name / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text(f"---\n{head or f'name: {name}'}\ndescription: how {name} is done\n---\n{body}\n")
    return file


def states(world: World, cwd: Path | None = None) -> list[tuple[str, str]]:
    return [(skill.name, skill.file.state) for skill in find_skills(cwd or world.project, world.env)]


def parsed(text: str) -> SkillFile:
    return parse_skill(InstructionFile(Path("/skills/folder/SKILL.md"), "trusted", text.encode()))


@pytest.mark.parametrize("folder", PROJECT_FOLDERS)
def test_skills_of_a_project_are_untrusted_until_they_are_accepted_as_they_are(world: World, folder: str) -> None:
    file = write_skill(world.project / folder, "release")
    assert states(world) == [("release", "untrusted")]
    trust_project_file(file, env=world.env)
    assert states(world) == [("release", "trusted")]
    file.write_text(file.read_text() + "and more")
    assert states(world) == [("release", "untrusted")]
    refuse(file, file.read_bytes(), env=world.env)
    assert states(world) == [("release", "refused")]


def test_the_users_own_skills_need_no_trust_and_come_first(world: World) -> None:
    write_skill(world.project / ".aish/skills", "release")
    write_skill(world.user_file.parent / "skills", "mine")
    assert states(world) == [("mine", "trusted"), ("release", "untrusted")]


def test_folders_from_the_root_of_the_repository_down_may_have_skills(world: World) -> None:
    (world.project / ".git").mkdir()
    write_skill(world.project / ".agents/skills", "root")
    deep = world.project / "src" / "deep"
    write_skill(deep / ".claude/skills", "deep")
    write_skill(world.project.parent / ".agents/skills", "above")
    assert states(world, deep) == [("deep", "untrusted"), ("root", "untrusted")]


def test_of_two_usable_skills_with_one_name_the_first_counts_and_the_other_says_so(world: World) -> None:
    own = write_skill(world.user_file.parent / "skills", "release")
    file = write_skill(world.project / ".aish/skills", "release")
    trust_project_file(file, env=world.env)
    first, second = find_skills(world.project, world.env)
    assert first.is_usable and not second.is_usable
    assert second.file.problem == f"has the name of {own}"


def test_an_untrusted_skill_does_not_hide_another_one_of_its_name(world: World) -> None:
    write_skill(world.project / ".aish/skills", "release")
    trust_project_file(write_skill(world.project / ".claude/skills", "release"), env=world.env)
    assert states(world) == [("release", "untrusted"), ("release", "trusted")]


def test_a_folder_that_is_a_link_to_another_one_counts_once(world: World) -> None:
    write_skill(world.project / ".agents/skills", "release")
    (world.project / ".claude").mkdir()
    (world.project / ".claude/skills").symlink_to("../.agents/skills")
    assert states(world) == [("release", "untrusted")]


def test_a_link_that_leads_out_of_the_project_is_not_followed(world: World, tmp_path: Path) -> None:
    outside = write_skill(tmp_path / "elsewhere", "evil").parent
    (world.project / ".aish/skills").mkdir(parents=True)
    (world.project / ".aish/skills/evil").symlink_to(outside)
    (skill,) = find_skills(world.project, world.env)
    assert not skill.is_usable and "leads out of the project" in skill.file.problem


def test_a_file_that_is_too_large_is_left_out_with_the_reason(world: World) -> None:
    file = write_skill(world.project / ".aish/skills", "big", body="x" * 1_100_000)
    (skill,) = find_skills(world.project, world.env)
    assert skill.name == file.parent.name and "1 MiB" in skill.file.problem


@pytest.mark.parametrize(
    ("head", "description"),
    [
        ("description: plain words # a remark", "plain words"),
        ("description: Use this: always", "Use this: always"),
        ('description: "quoted: \\"so\\" # no remark"', 'quoted: "so" # no remark'),
        ("description: 'it''s'", "it's"),
        ("description: >\n  folded\n  over lines", "folded over lines"),
        ("description: |-\n  two\n  lines", "two\nlines"),
        ("description: goes on\n  below", "goes on below"),
        ("metadata:\n  description: not this\ndescription: but this", "but this"),
    ],
)
def test_the_head_is_read_as_authors_write_it(head: str, description: str) -> None:
    skill = parsed(f"---\nname: a-b\n{head}\nallowed-tools: [Bash]\n---\nBody\n---\nmore\n")
    assert (skill.name, skill.description, skill.body) == ("a-b", description, "Body\n---\nmore")
    assert skill.is_usable


@pytest.mark.parametrize("tools", ["allowed-tools: Bash(git:*) Read", "allowed-tools:\n  - Bash(git:*)\n  - Read"])
def test_allowed_tools_are_a_text_or_a_list(tools: str) -> None:
    assert parsed(f"---\nname: a\ndescription: d\n{tools}\n---\n").allowed_tools == "Bash(git:*) Read"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no head", "has no description"),
        ("---\nname: Wrong Name\ndescription: d\n---\n", "small letters"),
        (f"---\nname: {'a' * 65}\ndescription: d\n---\n", "at most 64"),
        (f"---\nname: a\ndescription: {'d' * 1025}\n---\n", "more than 1024"),
        ("---\nname: a\ndescription: d", ""),
    ],
)
def test_a_wrong_head_makes_a_skill_unusable_and_says_why(text: str, problem: str) -> None:
    skill = parsed(text)
    assert (problem in skill.file.problem) if problem else skill.is_usable
    assert skill.is_usable is not bool(problem)


def test_a_skill_without_a_name_has_that_of_its_folder() -> None:
    assert parsed("---\ndescription: d\n---\n").name == "folder"
