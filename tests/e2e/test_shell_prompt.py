"""The prompt as a person types at it: corrections, history, the person's own prompt, on a real terminal."""

from e2e.test_shell import did, home, model, shell

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
