"""The prompt as a person types at it: corrections, history, the person's own prompt, on a real terminal."""

import os
import signal

from e2e.test_shell import config, did, home, model, shell
from support.eventually import eventually

__all__ = ["home"]

ASKED = "command not found. Did you mean git?"


async def test_a_mistyped_command_is_corrected_by_one_key(home):
    async with shell(home) as term:
        for key in ("\r", "y"):
            await term.enter("gti --version")
            await term.sees(f'gti: {ASKED} [Enter/y] runs "git --version", [m] asks the model')
            term.press(key)
            await term.sees("git version")
            await term.prompts()
            await did(term, "clear", "›")


async def test_a_mistyped_command_goes_to_the_model_by_one_key(home):
    name = model(home, [[{"text": "you meant git"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("gti status")
        await term.sees(ASKED)
        term.press("m")
        await term.sees("you meant git")
        await term.prompts()
        assert "not a git repository" not in term.text


async def test_any_other_key_after_a_mistyped_command_begins_the_next_line(home):
    async with shell(home) as term:
        await term.enter("gti status")
        await term.sees(ASKED)
        term.press("echo go''es-on\r")
        await term.sees("\ngoes-on")
        await term.prompts()
        assert "not a git repository" not in term.text


async def test_lines_typed_ahead_do_not_answer_the_question_of_a_mistyped_command(home):
    async with shell(home) as term:
        term.press("gti --version\recho ye''s\r")
        await term.sees("\nyes")
        await term.prompts()
        assert ASKED in term.text and "git version" not in term.text


async def test_ctrl_c_at_a_correction_does_nothing_more(home):
    async with shell(home) as term:
        await term.enter("gti --version")
        await term.sees(ASKED)
        term.press("\x03")
        await did(term, "echo st''ill", "\nstill")
        assert "git version" not in term.text


async def test_an_unknown_command_near_to_none_can_still_be_asked_about(home):
    name = model(home, [[{"text": "a thing of yours"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("qwzzkx --all")
        await term.sees("qwzzkx: command not found. [m] asks the model")
        term.press("m")
        await term.sees("a thing of yours")


async def test_a_known_program_that_is_not_installed_is_no_question(home):
    async with shell(home, PATH="/usr/bin:/bin") as term:
        term.press("terraform plan")
        await term.sees("$ terraform plan")
        term.press("\r")
        await term.sees("terraform: command not found.")


async def test_a_handler_of_the_persons_own_answers_for_what_is_near_to_nothing(home):
    rc = home / "home" / ".bashrc"
    rc.write_text("command_not_found_handle() { echo install-$1; return 127; }\n")
    async with shell(home) as term:
        await did(term, "true", "$ true")
        await term.enter("qwzzkx --all")
        await term.sees("install-qwzzkx")
        await term.sees("ask the model instead?")


def keep_by(home, rc):
    (home / "home" / ".bashrc").write_text(f"{rc}\n")


async def test_a_line_that_bash_would_not_keep_is_neither_kept_nor_told_to_a_model(home):
    keep_by(home, "HISTCONTROL=ignoreboth")
    async with shell(home) as term:
        await did(term, "echo se''en", "\nseen")
        await did(term, " echo hush''ed", "\nhushed")
        await did(term, "? repeat what I gave you", "The result of runtime__echo is")
        answer = term.text.rpartition("The result of runtime__echo is")[2]
        assert "echo se''en" in answer and "hush''ed" not in answer
        await did(term, "!!clear", "›")
        await did(term, " ? hushed question", "hushed question.")
        term.press("\x1b[A\x1b[A\x1b[A")
        await term.sees("work $ echo se''en")
        term.press("\x15\x04")
        await term.ends()
    stored = [path.read_text("utf-8", "replace") for path in (home / "home").rglob("*") if "history" in path.name]
    assert any("echo se''en" in text for text in stored)
    assert not any("hush" in text for text in stored)


async def test_leaving_by_ctrl_d_and_by_kill_loses_no_line_of_bashs_history(home):
    file = home / "home" / ".bash_history"
    async with shell(home) as term:
        await did(term, "echo by-ctrl''-d", "\nby-ctrl-d")
        term.press("\x04")
        await term.ends()
    assert file.read_text().splitlines() == ["echo by-ctrl''-d"]
    async with shell(home) as term:
        await did(term, "echo by-ki''ll", "\nby-kill")
        os.kill(term.pid, signal.SIGKILL)
        await term.ends()
    assert file.read_text().splitlines() == ["echo by-ctrl''-d", "echo by-ki''ll"]
    async with shell(home) as term:
        term.press("\x1b[A\x1b[A")
        await term.sees("$ echo by-ctrl''-d")


async def test_what_one_window_runs_another_has_at_its_next_up_and_ctrl_r(home):
    (home / "home" / ".bash_history").write_text("echo from-bash\n")
    async with shell(home) as one, shell(home) as other:
        await did(one, "echo in-o''ne", "\nin-one")
        other.press("\x1b[A")
        await other.sees("$ echo in-o''ne")
        other.press("\x15\x12from-b")
        await other.sees("❯ echo from-bash")
        other.press("\r")
        await other.sees("\nfrom-bash")


async def test_ctrl_r_shows_whole_entries_and_can_be_limited_to_a_directory(home):
    (home / "work" / "deep").mkdir()
    async with shell(home) as term:
        await did(term, "for x in o''ne two; do\necho $x\ndone", "\ntwo")
        await did(term, "cd deep && echo in-de''ep", "\nin-deep")
        await did(term, "echo he''re", "\nhere")
        term.press("\x12")
        await term.sees("history of all folders")
        await term.sees("for x in o''ne two; do\n  echo $x\n  done")
        term.press("\x14")
        await term.sees("history of this folder")
        await eventually(lambda: "  echo $x" not in "\n".join(term.screen.display[-8:]))
        term.press("\x14fxo")
        await term.sees("❯ for x in o''ne")
        term.press("\t")
        await term.prompts("… done")
        term.press("\x03\x12")
        await term.sees("history of all folders")
        term.press("\x1b")
        await term.prompts()


async def test_the_history_is_expanded_as_in_bash_and_shown(home):
    async with shell(home) as term:
        await did(term, "echo fi''rst x''yz", "\nfirst xyz")
        await did(term, "!!", "work $ !!\necho fi''rst x''yz\nfirst xyz")
        await did(term, "^fi''rst^se''cond", "\nsecond xyz")
        await did(term, "!ec", "work $ !ec\necho se''cond")
        await did(term, "echo last-!$", "\nlast-xyz")
        await did(term, "!!:p", "$ !!:p")
        term.press("\x1b[A")
        await term.sees("$ echo last-x''yz")
        term.press("\x15echo \x1b.\x1b.-back")
        await term.sees("$ echo x''yz-back")


async def test_a_mark_before_a_known_command_still_means_the_shell(home):
    async with shell(home) as term:
        await did(term, "echo one", "\none")
        await did(term, "!echo is it a que''stion?", "\nis it a question?")
        await did(term, "!!echo qui''et", "\nquiet")


async def test_the_prompt_is_that_of_the_persons_bash_where_the_template_says_so(home):
    config(home, '[shell]\nprompt = "{ps1}{mark} "\n')
    shown = "\\[\\e]0;title\\a\\]\\[\\e[35m\\]row-one\\[\\e[0m\\] $?\\n$(echo in-)\\W n$n> "
    keep_by(home, f"PS1='{shown}'; PROMPT_COMMAND='n=$((n+1))'")
    async with shell(home) as term:
        await term.sees("row-one 0\nin-work n1> ›")
        await did(term, "mkdir deep; cd deep; false", "row-one 1\nin-deep n2> ›")
        assert b"\x1b[0;35mrow-one" in term.raw and b"\x1b]0;title" in term.raw
        term.press("echo it is sh''own")
        await term.sees("in-deep n2> $ echo it is sh''own")
        term.press("\r")
        await term.sees("\nit is shown\nrow-one 0\nin-deep n3> ›")


async def test_the_prompt_names_the_virtual_environment(home):
    async with shell(home) as term:
        await did(term, "export VIRTUAL_ENV=/x/y/.venv", "(.venv) ")
        await did(term, "export VIRTUAL_ENV_PROMPT=mine", "(mine) ")
        await did(term, "unset VIRTUAL_ENV VIRTUAL_ENV_PROMPT; echo go''ne", "\ngone")
        assert "(mine)" not in term.last_line


async def test_a_word_is_changed_as_in_vi(home):
    keep_by(home, "set -o vi")
    async with shell(home) as term:
        await did(term, "true", "$ true")
        term.press("echo vi mode\x1b0cwprintf %s-\x1b")
        await term.sees("$ printf %s- vi mode")
        term.press("\x1b0ww2cwx\x1b")
        await term.sees("$ printf %x vi mode")
