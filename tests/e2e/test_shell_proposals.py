"""What the person chooses from an answer, on a real terminal: it runs as if they had typed it."""

import pytest

from e2e.test_shell import did, home, model, shell
from support.eventually import eventually
from support.terminal import Terminal

__all__ = ["home"]


def proposes(home, *commands: str) -> str:
    return model(home, [[{"text": "\n".join(f"CMD: {command}" for command in commands) + "\n"}], [{"text": "went on"}]])


def configure(home, more: str) -> None:
    file = home / "home" / ".config" / "aish" / "config.toml"
    file.write_text(f"{file.read_text()}\n{more}")


async def choose(term: Terminal, key: str = "r") -> None:
    await term.enter("? go")
    await term.sees("[q]uit ›")
    await term.enter(key)


async def choose_second(term: Terminal) -> None:
    await term.sees("proposal 2 of 2")
    await eventually(lambda: term.last_line.endswith("[q]uit ›"))
    await term.enter("r")


async def test_a_proposal_reads_from_the_terminal_and_prints_as_it_runs(home):
    name = proposes(home, "echo begun; read -p 'your name? ' name; echo hello $name")
    async with shell(home, "--model", name) as term:
        await choose(term)
        await term.sees("\nbegun\nyour name?")  # before it has ended
        await term.enter("ada")
        await term.sees("\nhello ada")
        await did(term, "echo again $name", "again ada")


async def test_a_proposal_may_use_the_whole_screen_and_ask_for_a_password(home):
    secret = "python3 -c \"import getpass; print(len(getpass.getpass('pass? ')))\""
    screen = "printf '\\033[?1049h\\033[2J\\033[HFULL SCREEN'; read -rsn1 key; printf '\\033[?1049l'; test -t 0"
    name = proposes(home, screen, secret)
    async with shell(home, "--model", name) as term:
        await choose(term)
        await eventually(lambda: "FULL SCREEN" in term.screen.display[0])
        term.press("q")
        await choose_second(term)
        await term.sees("\npass?")
        await term.enter("hidden")
        await term.sees("\n6")
        assert "hidden" not in term.text


async def test_a_proposal_enters_the_history_and_its_status_the_prompt(home):
    name = proposes(home, "(exit 7)")
    async with shell(home, "--model", name) as term:
        await choose(term)
        await term.sees("[7] ")
        await did(term, "echo status-$?", "status-7")
        await did(term, "history 3", "(exit 7)")
        term.press("\x1b[A\x1b[A\x1b[A")  # history, echo, the proposal
        await eventually(lambda: term.last_line.endswith("$ (exit 7)"))


async def test_after_a_proposal_nothing_is_asked_and_the_next_question_tells_it(home):
    name = proposes(home, "echo fr''om-it")
    async with shell(home, "--model", name) as term:
        await choose(term)
        await term.sees("\nfrom-it")
        await term.prompts()
        assert "went on" not in term.text and "tell the model" not in term.text
        await did(term, "? and now", "went on")
    home_data = home / "home" / ".local" / "share" / "aish"
    assert any(b"you proposed it" in file.read_bytes() for file in home_data.glob("**/*.db*"))


async def test_one_key_runs_a_proposal_and_lets_the_model_go_on(home):
    name = proposes(home, "echo fr''om-it", "touch never")
    async with shell(home, "--model", name) as term:
        await choose(term, "c")
        await term.sees("went on")
        await term.prompts()
        assert "\nfrom-it" in term.text and not (home / "work" / "never").exists()


@pytest.mark.parametrize(("setting", "goes_on"), [("always", True), ("never", False)])
async def test_the_setting_decides_whether_the_model_goes_on_and_then_there_is_no_key_for_it(home, setting, goes_on):
    name = proposes(home, "echo fr''om-it")
    configure(home, f'[shell]\ncontinue_after_commands = "{setting}"\n')
    async with shell(home, "--model", name) as term:
        await choose(term)
        await term.sees("\nfrom-it")
        if goes_on:
            await term.sees("went on")
        await term.prompts()
        assert ("went on" in term.text) is goes_on and "[c]ontinue" not in term.text


async def test_a_proposal_that_exits_leaves_a_shell_in_the_same_place(home):
    name = proposes(home, "export KEPT=yes; cd /", "exit 3")
    async with shell(home, "--model", name) as term:
        await choose(term)
        await choose_second(term)
        await term.sees("a new one has its directory")
        await did(term, "echo $KEPT-in-$PWD", "yes-in-/")


@pytest.mark.parametrize("line", ["exec false", "set -e; false", "sh -c 'kill -9 $PPID'"])
async def test_a_typed_line_that_ends_bash_is_told_in_one_line_and_the_shell_goes_on(home, line):
    async with shell(home) as term:
        await did(term, "export KEPT=yes; cd /", "export")
        await term.enter(line)
        await term.sees("a new one has its directory")
        await did(term, "echo $KEPT-in-$PWD", "yes-in-/")
        await did(term, "false", "[1]")
        await term.enter("exit 4")
        assert await term.ends() == 4


async def test_what_a_rule_denies_is_refused_and_may_be_typed(home):
    name = proposes(home, "touch denied")
    configure(home, '[[gate.rules]]\nverdict = "deny"\ncommands = ["touch"]\nwhy = "no touching"\n')
    async with shell(home, "--model", name) as term:
        await choose(term)
        await term.sees("you can type it yourself")
        await term.prompts()
        assert "no touching" in term.text and not (home / "work" / "denied").exists()
        await did(term, "touch denied", "$ touch denied")
        await eventually((home / "work" / "denied").exists)


@pytest.mark.parametrize("word", ["y", "no", ""])
async def test_a_catastrophe_needs_the_typed_word(home, word):
    (home / "home" / "precious").touch()
    name = proposes(home, "rm -rf ~")
    async with shell(home, "--model", name) as term:
        await choose(term)
        await term.sees("type yes to run it:")
        await term.enter(word)
        await term.sees("it was not run")
        assert (home / "home" / "precious").exists()


async def test_a_proposal_can_be_edited_into_many_lines_that_run_whole(home):
    name = proposes(home, "cat <<EOF")
    async with shell(home, "--model", name) as term:
        await choose(term, "e")
        await eventually(lambda: term.last_line == "$ cat <<EOF")
        term.press("\x1b\rone *two*\x1b\rEOF\r")
        await eventually(lambda: term.text.count("[q]uit ›") == 2)
        await term.enter("r")
        await term.sees("\none *two*\n")


async def test_where_the_sandbox_is_demanded_a_chosen_line_still_runs_as_typed(home):
    name = proposes(home, "export CHOSEN=here")
    configure(home, '[safety]\nsandbox = "bwrap"\n')
    async with shell(home, "--model", name) as term:
        await choose(term)
        await term.prompts()
        await did(term, "echo is-$CHOSEN", "is-here")


async def test_a_proposal_that_opens_an_editor_waits_for_the_person(home):
    editor = home / "home" / "edit"
    editor.write_text('#!/bin/sh\nprintf "your message? " >/dev/tty\nread -r line </dev/tty\necho "$line" >"$1"\n')
    editor.chmod(0o755)
    start = "git init -q && git -c user.name=a -c user.email=b commit -q --allow-empty -m first"
    amend = f"GIT_EDITOR={editor} git -c user.name=a -c user.email=b commit -q --amend --allow-empty"
    async with shell(home, "--model", proposes(home, amend)) as term:
        await did(term, start, "git init")
        await choose(term)
        await term.sees("your message?")
        await term.enter("a better one")
        await did(term, "git log --format=%s", "\na better one\n")
