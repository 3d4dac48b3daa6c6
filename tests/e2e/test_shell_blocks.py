"""The blocks of an answer, on a real terminal: numbered, run, copied, edited, sent back, and shown again."""

import base64

from e2e.test_shell import did, home, model, shell
from support.eventually import eventually

__all__ = ["home"]

ANSWER = """Some **ways**:

```bash
echo fi''rst
```

```python
print("no shell")
```

```console
$ cat <<EOF
> one *two* [x](y)
> EOF
one two
```
"""


def answers(home, *texts: str) -> str:
    return model(home, [[{"text": text}] for text in texts])


async def test_blocks_are_numbered_and_no_menu_asks(home):
    async with shell(home, "--model", answers(home, ANSWER)) as term:
        await did(term, "? go", "```bash  [1]")
        assert "```python  [2]" in term.text and "```console  [3]" in term.text
        assert "[r]un" not in term.text and term.text.count("F5 runs the last block") == 1


async def test_a_block_is_run_by_its_number_or_the_last_one_by_a_key(home):
    async with shell(home, "--model", answers(home, ANSWER)) as term:
        await did(term, "? go", "[3]")
        await did(term, ":run 1", "\nfirst")
        term.press("\x1b[15~")  # F5
        await term.sees("\none *two* [x](y)")
        await term.prompts()
        await did(term, "fc -ln -2 | cat -A", "cat <<EOF$")
        await did(term, ":run 2", "block 2 is python, not for a shell")
        await did(term, ":run 4", "it has 1, 2, 3")


async def test_the_key_for_the_last_block_works_with_vi_keys(home):
    (home / "home" / ".bashrc").write_text("set -o vi\n")
    async with shell(home, "--model", answers(home, "```sh\necho ra''n\n```\n")) as term:
        await did(term, "true", "$ true")
        await did(term, "? go", "[1]")
        term.press("\x1b[15~")
        await term.sees("\nran")


async def test_a_destructive_block_is_asked_about_and_what_is_typed_there_is_not_lost(home):
    (home / "work" / "precious").mkdir()
    async with shell(home, "--model", answers(home, "```sh\nrm -rf precious\n```\n")) as term:
        await did(term, "? go", "[1]")
        await term.enter(":run")
        await term.sees("run it? [y/N]")
        await term.enter("echo next")
        await term.sees("it was not run")
        await eventually(lambda: term.last_line.endswith("$ echo next"))
        assert (home / "work" / "precious").exists()
        term.press("\x15")
        await term.enter(":run")
        await eventually(lambda: term.last_line.endswith("[y/N]"))
        await term.enter("y")
        await eventually(lambda: not (home / "work" / "precious").exists())


async def test_a_block_goes_to_the_clipboard_and_to_a_file(home):
    async with shell(home, "--model", answers(home, ANSWER, "```sh\n" + "x" * 80_000 + "\n```\n")) as term:
        await did(term, "? go", "[3]")
        await did(term, ":copy 2", "block 2 (17 characters): copied")
        assert b"\x1b]52;c;" + base64.b64encode(b'print("no shell")') + b"\x07" in term.raw
        file = home / "home" / ".cache" / "aish" / "copied.txt"
        assert str(file) in term.unbroken and file.read_text() == 'print("no shell")\n'
        assert file.stat().st_mode & 0o777 == 0o600
        await did(term, ":copy", "block 3")
        assert file.read_text() == "cat <<EOF\none *two* [x](y)\nEOF\n"
        term.skims = True
        await did(term, "? more", "[1]")
        await did(term, ":copy", "too long for the clipboard")


async def test_a_block_is_edited_at_the_prompt(home):
    async with shell(home, "--model", answers(home, "```sh\nfor n in a; do\n  echo $n-it\ndone\n```\n")) as term:
        await did(term, "? go", "[1]")
        await term.enter(":edit")
        await eventually(lambda: term.last_line == "… done")
        assert not (home / "work" / "out").exists()
        term.press(" > out\r")
        await eventually(lambda: (home / "work" / "out").exists() and (home / "work" / "out").read_text() == "a-it\n")


async def test_a_block_is_sent_back_with_a_wish(home):
    name = model(home, [[{"text": "```sh\nls\n```\n"}], [{"text": "```sh\nls -la\n```\n"}]])
    async with shell(home, "--model", name) as term:
        await did(term, "? go", "[1]")
        await did(term, ":revise", ":revise [N] TEXT")
        await did(term, ":revise 1 with hidden files", "ls -la")
        await did(term, ":history", "> with hidden files This is about:")


async def test_the_last_answer_and_those_before_are_shown_again(home):
    first = "It is **bold**.\n\nMore about it."
    async with shell(home, "--model", answers(home, first, "Then:\n\n```sh\nls\n```\n")) as term:
        await did(term, ":last", "there is no answer yet")
        await did(term, "echo some''thing", "something")
        await did(term, "? what is it", "More about it.")
        await did(term, "? and then", "[1]")
        await did(term, ":last", "[1]")
        await eventually(lambda: term.text.count("```sh  [1]") == 2)
        await did(term, ":history", ":history N shows")
        listed = term.text.rpartition(":history\n")[2]
        assert "> what is it" in listed and "[I ran]" not in listed and "$ echo some''thing" in listed
        assert "1  It is **bold**. More about it." in listed and "2  Then:" in listed
        await did(term, ":history 1", "\nIt is bold.")
        await did(term, ":history 9", ":history lists 1 to 2")


async def test_a_proposal_is_shown_as_it_will_run_while_it_streams_and_in_the_menu(home):
    command = "rm -rf src/__pycache__ *.py* a_b_c"
    steps = [{"text": f"Do *this*:\n\nCMD: {command[:12]}"}, {"wait_s": 0.2}, {"text": f"{command[12:]}\n"}]
    async with shell(home, "--model", model(home, [steps])) as term:
        await term.enter("? go")
        await term.sees("[q]uit ›")
        assert f"[1] CMD: {command}\n" in term.text and f"$ {command}\n" in term.text and "Do this:" in term.text
        await term.enter("q")


async def test_a_decorated_proposal_is_offered(home):
    async with shell(home, "--model", answers(home, "Run\n\n**CMD: echo fi''ne**\n")) as term:
        await term.enter("? go")
        await term.sees("\n$ echo fi''ne\n")
        await term.enter("r")
        await term.sees("\nfine")
