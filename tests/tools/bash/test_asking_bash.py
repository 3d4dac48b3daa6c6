"""Completion and the meaning of words, from a bash as the person left it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aish.tools.bash.completion.words import split
from aish.tools.bash.shell import LiveBash, LiveBashSpec
from aish.types.live_shell import Completions, WordKind
from support.eventually import eventually


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[LiveBash]:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "not a file").mkdir()
    async with asyncio.timeout(60), LiveBash.open(LiveBashSpec(cwd=tmp_path, close_wait_s=0.2)) as shell:
        await shell.ready()
        yield shell


async def complete(shell: LiveBash, line: str) -> Completions:
    return await shell.complete(line, len(line), timeout_s=10)


def texts(completions: Completions) -> list[str]:
    return [candidate.text for candidate in completions.candidates]


async def test_commands_variables_users_and_files_complete(shell: LiveBash) -> None:
    await shell.run_user("my_function_x() { :; }; alias my_function_a=true; MY_VARIABLE=1", None)
    assert texts(await complete(shell, "my_funct")) == ["my_function_a", "my_function_x"]
    assert texts(await complete(shell, "echo $MY_VAR")) == ["$MY_VARIABLE"]
    found = await complete(shell, "cat not")
    assert (found.start, texts(found)) == (4, ["not\\ a\\ file/", "notes.txt"])
    assert [candidate.ends_word for candidate in found.candidates] == [False, True]
    assert texts(await complete(shell, "cat 'not a")) == ["'not a file/"]
    assert "~root" in texts(await complete(shell, "ls ~roo"))


async def test_programmable_completion_of_the_person_is_asked(shell: LiveBash) -> None:
    await shell.run_user('_c() { compopt -o nospace; COMPREPLY=($(compgen -W "$1-a $3-b x=" -- "$2")); }', None)
    await shell.run_user("complete -F _c tool; complete -W 'one two' -o nospace words; complete -d folders", None)
    found = await complete(shell, "true && X=1 tool sub t")
    assert texts(found) == ["tool-a"] and found.start == 21
    assert not found.candidates[0].ends_word
    assert texts(await complete(shell, "tool sub s")) == ["sub-b"]
    assert texts(await complete(shell, "words t")) == ["two"]
    assert texts(await complete(shell, "/usr/bin/words ")) == ["one", "two"]


async def test_completions_that_load_others_when_first_wanted(shell: LiveBash) -> None:
    loader = '_load() { _late() { COMPREPLY=(loaded); }; complete -F _late "$1"; return 124; }; complete -D -F _load'
    await shell.run_user(loader, None)
    assert texts(await complete(shell, "anything l")) == ["loaded"]
    assert (await shell.run_user("complete -p anything", None)).status == 1  # the live bash was not touched


async def test_a_completion_that_hangs_is_given_up_and_the_next_one_works(shell: LiveBash) -> None:
    await shell.run_user("_h() { sleep 600; }; complete -F _h hang; complete -W fine ok", None)
    assert texts(await shell.complete("hang x", 6, timeout_s=0.2)) == []
    assert texts(await complete(shell, "ok f")) == ["fine"]
    assert "sleep" not in (await shell.run_user("ps -e -o args= | grep '[s]leep 600' | head -1; jobs", None)).output


async def test_nothing_is_offered_while_a_line_runs(shell: LiveBash, tmp_path: Path) -> None:
    running = asyncio.create_task(shell.run_user("echo >begun; while [ ! -e go ]; do :; done", None))
    await eventually((tmp_path / "begun").exists)
    assert texts(await complete(shell, "ech")) == []
    (tmp_path / "go").touch()
    await running


async def test_asking_leaves_no_trace_in_the_live_bash(shell: LiveBash) -> None:
    await shell.run_user("(exit 3)", None)
    await complete(shell, "cat no")
    await shell.refresh()
    result = await shell.run_user("echo $? $_; jobs; compgen -v COMP_", None)
    assert result.output.splitlines()[0].startswith("3 ") and "COMP_CWORD" not in result.output and result.jobs == 0


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("ls", WordKind.FILE),
        ("./prog", WordKind.FILE),
        ("cd", WordKind.BUILTIN),
        ("while", WordKind.KEYWORD),
        ("(", WordKind.KEYWORD),
        ("mine", WordKind.FUNCTION),
        ("short", WordKind.ALIAS),
        ("A=1", WordKind.ASSIGNMENT),
        ("arr[1]+=x", WordKind.ASSIGNMENT),
        ("only-here", WordKind.FILE),
        ("no-such-thing", None),
        ("./notes.txt", None),
        ("what's", None),
        ("", None),
    ],
)
async def test_what_a_first_word_is(shell: LiveBash, tmp_path: Path, word: str, kind: WordKind | None) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("prog", "bin/only-here"):
        (tmp_path / name).touch(0o755)
    await shell.run_user("mine() { :; }; alias short=ls; PATH=$PATH:$PWD/bin", None)
    await shell.refresh()
    assert shell.resolve(word) is kind


async def test_words_are_known_again_soon_after_a_line_without_being_asked_for(shell: LiveBash) -> None:
    assert shell.resolve("brand_new") is None
    await shell.run_user("brand_new() { :; }", None)
    await eventually(lambda: shell.resolve("brand_new") is WordKind.FUNCTION)
    await shell.run_user("unset -f brand_new", None)
    await eventually(lambda: shell.resolve("brand_new") is None)


@pytest.mark.parametrize(
    ("line", "words", "start"),
    [
        ("", ("",), 0),
        ("ls ", ("ls", ""), 3),
        ("ls -l fo", ("ls", "-l", "fo"), 6),
        ("a | b c", ("b", "c"), 6),
        ("a && X=1 Y=2 b c", ("b", "c"), 15),
        ("X=1", ("X=1",), 0),
        ("x --k=v", ("x", "--k", "=", "v"), 6),
        ("x --k=", ("x", "--k", "="), 6),
        ("x host:pa", ("x", "host", ":", "pa"), 7),
        ("x 'a b", ("x", "'a b"), 2),
        ("x a\\ b", ("x", "a\\ b"), 2),
        ("echo $(ls f", ("ls", "f"), 10),
        ('x "a|b', ("x", '"a|b'), 2),
    ],
)
def test_a_line_is_cut_as_bash_cuts_it(line: str, words: tuple[str, ...], start: int) -> None:
    cut = split(line, len(line))
    assert (cut.words, cut.start) == (words, start)
