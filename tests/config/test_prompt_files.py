"""Prompt files are read from `commands/NAME.md`, and their places are filled with what was typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish.config.instructions import InstructionFile
from aish.config.prompt_files import PROJECT_FOLDERS, PromptFile, fill_arguments, find_prompt_files, parse_prompt_file
from aish.config.user_decisions import trust_project_file
from aish.types.decisions import Mode

from .conftest import World


def write_prompt(folder: Path, name: str, text: str = "Look at $1.\n") -> Path:
    file = folder / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def parsed(text: str) -> PromptFile:
    return parse_prompt_file("look", InstructionFile(Path("/commands/look.md"), "trusted", text.encode()))


@pytest.mark.parametrize("folder", PROJECT_FOLDERS)
def test_prompt_files_of_a_project_are_untrusted_until_they_are_accepted(world: World, folder: str) -> None:
    file = write_prompt(world.project / folder, "look")
    assert [prompt.file.state for prompt in find_prompt_files(world.project, world.env)] == ["untrusted"]
    trust_project_file(file, env=world.env)
    assert [prompt.is_usable for prompt in find_prompt_files(world.project, world.env)] == [True]


def test_a_subfolder_is_part_of_the_name(world: World) -> None:
    write_prompt(world.user_file.parent / "commands/git", "review")
    write_prompt(world.user_file.parent / "commands", "look")
    write_prompt(world.user_file.parent / "commands/.hidden", "no")
    assert [prompt.name for prompt in find_prompt_files(world.project, world.env)] == ["git:review", "look"]


def test_the_head_says_what_the_command_is_for_and_how_it_is_asked() -> None:
    prompt = parsed(
        "---\ndescription: looks\nargument-hint: FILE\nmodel: deep\nmode: plan\nallowed-tools: Bash(git:*)\n---\n"
        "Look at $1.\n"
    )
    assert (prompt.description, prompt.argument_hint, prompt.model) == ("looks", "FILE", "deep")
    assert (prompt.mode, prompt.allowed_tools, prompt.body) == (Mode.PLAN, "Bash(git:*)", "Look at $1.")


def test_without_a_head_the_first_line_describes_the_command() -> None:
    prompt = parsed("\nLook at everything.\nThen stop.\n")
    assert prompt.is_usable and prompt.description == "Look at everything."


@pytest.mark.parametrize(("text", "problem"), [("", "no text"), ("---\nmode: wild\n---\nx", "the mode 'wild'")])
def test_a_file_that_asks_nothing_or_names_no_mode_is_not_usable(text: str, problem: str) -> None:
    prompt = parsed(text)
    assert not prompt.is_usable and problem in prompt.file.problem


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        ("Fix $ARGUMENTS.", "the old bug", "Fix the old bug."),
        ("$1 then $2", "one 'two words'", "one then two words"),
        ("$1 and $3", "one", "one and "),
        ("costs $10", "x", "costs $10\n\nx"),
        ("Say hello.", "", "Say hello."),
        ("Say hello.", "to me", "Say hello.\n\nto me"),
        ("$1", "$2 b", "$2"),
        ("$1", "it's", "it's"),
    ],
)
def test_places_are_filled_once_with_what_was_typed(body: str, arguments: str, expected: str) -> None:
    assert fill_arguments(body, arguments) == expected
