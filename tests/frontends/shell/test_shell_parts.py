"""The shell's smaller parts: proposals in a reply, what goes along with a question, the text before the line."""

import importlib
import inspect
import io
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input

from aish.config.schema.tools import PROMPT_FIELDS
from aish.frontends.shell.command_context import CommandContext
from aish.frontends.shell.commands import registry
from aish.frontends.shell.prompt.editor import LineEditor
from aish.frontends.shell.prompt.history import PromptHistory
from aish.frontends.shell.prompt.routing import Destination
from aish.frontends.shell.prompt.template import find_branch, prompt_fragments, shorten_path
from aish.frontends.terminal import Output
from aish.tool_calls.detect.proposals import MAX_BLOCKS, MAX_PROPOSALS, find_blocks, proposals
from aish.types.decisions import Mode
from aish.types.live_shell import RunResult, WordKind
from aish.types.usage import Usage


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("CMD: ls -la", ["ls -la"]),
        ("Do this:\n\nCMD: ls\nand then\n  CMD: pwd\n", ["ls", "pwd"]),
        ("CMD: `ls`", ["ls"]),
        ("- CMD: ls", ["ls"]),
        ("```\nCMD: rm -rf x\n```", []),
        ("~~~bash\nCMD: rm x\n~~~\nCMD: ls", ["ls"]),
        ("````\n```\nCMD: rm x\n````", []),
        ("> CMD: rm x", []),
        ("write CMD: ls to list", []),
        ("CMD:", []),
        ("CMD: ls\nCMD: ls", ["ls"]),
        ("**CMD: ls**", ["ls"]),
        ("**CMD:** ls", ["ls"]),
        ("`CMD: ls`", ["ls"]),
        ("1. `CMD: ls *.py`", ["ls *.py"]),
        ("- **CMD: `ls`**", ["ls"]),
        ("1. do\n   ```bash\n   CMD: rm x\n   ```\nCMD: pwd", ["pwd"]),
        ("```\nCMD: never closed", []),
    ],
)
def test_proposals_are_lines_of_their_own_outside_fences_and_quotations(reply, expected):
    assert proposals(reply) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("```bash\nls -la\n```", [(1, "ls -la", "ls -la")]),
        ("```sh\na\n\nb\n```\n~~~python\nx = 1\n~~~", [(1, "a\n\nb", "a\n\nb"), (2, "x = 1", "")]),
        ("CMD: ls\n```{.bash .numberLines}\npwd\n```", [(1, "ls", "ls"), (2, "pwd", "pwd")]),
        ("```bash\ncat <<'EOF' > f\n  a *b*\nEOF\n```", [(1, None, "cat <<'EOF' > f\n  a *b*\nEOF")]),
        (
            "```console\n$ echo a \\\n  b\na b\n$ cat <<E\n> x\n> E\nx\n```",
            [(1, None, "echo a \\\n  b\ncat <<E\nx\nE")],
        ),
        ("```\n$ make\nok\n```", [(1, "$ make\nok", "make")]),
        ("```\nplain\n```", [(1, "plain", "")]),
        ("```console\nno prompt\n```", [(1, "no prompt", "")]),
        ("2. so:\n   ```bash\n   if a; then\n     b\n   fi\n   ```", [(1, None, "if a; then\n  b\nfi")]),
        ("> ```bash\n> ls\n> ```", []),
        ("```bash\nnever closed", []),
        ("```bash\n\n```", [(1, "", "")]),
        ("```bash\nls\n```\n```bash\ncut off", [(1, "ls", "ls")]),
        ("````markdown\n```bash\nls\n```\n````", [(1, "```bash\nls\n```", "")]),
    ],
)
def test_blocks_of_code_are_numbered_and_those_for_a_shell_have_a_command(reply, expected):
    found = find_blocks(reply)
    assert [(block.number, block.command) for block in found] == [(number, command) for number, _, command in expected]
    for block, (_, text, _) in zip(found, expected, strict=True):
        assert text is None or block.text == text


def test_blocks_are_bounded_in_number_and_size():
    assert len(find_blocks("```bash\nls\n```\n" * 1000)) == MAX_BLOCKS
    assert find_blocks("```bash\n" + "x" * 80_000 + "\n" + ("y" * 80_000 + "\n") * 4 + "```") == []


def test_a_model_in_a_loop_proposes_only_so_much():
    assert len(proposals("\n".join(f"CMD: echo {n}" for n in range(1000)))) == MAX_PROPOSALS


def ran(line, output="", status=0):
    return RunResult(line, status, "/", 0.1, output)


def test_what_was_run_is_told_once_the_newest_with_the_most_room():
    attached = CommandContext(100)
    attached.add_run(ran("old", "o" * 500))
    attached.add_run(ran("new", "n" * 50, status=2))
    told = attached.text()
    attached.clear()
    assert "$ new" in told and "[exit 2]" in told and "n" * 50 in told
    assert len(told) < 300 and "left out" in told
    assert attached.text() == ""
    nothing = CommandContext(0)
    nothing.add_run(ran("new", "n"))
    assert nothing.text() == ""


@pytest.mark.parametrize(
    ("question", "waits"),
    [
        ("what is the capital of France", True),
        ("tell me a joke", True),
        ("translate 'good morning' to German", True),
        ("hi, how are you?", True),
        ("thanks!", True),
        ("what command lists folders", True),
        ("why did it fail?", False),
        ("What does THIS mean?", False),
        ("is there a makefile", False),
        ("which branch", False),
        ("what now?", False),
        ("explain", False),
        ("Warum klappt das nicht?", False),
        ("", False),
    ],
)
def test_what_was_run_waits_for_a_question_that_may_be_about_it(question, waits):
    attached = CommandContext(1000)
    attached.add_run(ran("git status", "On branch main\nMakefile"))
    assert attached.is_unrelated_to(question) is waits


def test_what_failed_and_what_was_attached_on_purpose_does_not_wait():
    question = "the capital of France"
    failed, told, meant = CommandContext(1000), CommandContext(1000), CommandContext(1000)
    failed.add_run(ran("make", "Error 2", status=2))
    assert not failed.is_unrelated_to(question)
    told.add_run(ran("ls", "Makefile"))
    told.add_text("[prompt review of desk]\nLook at it.")
    assert not told.is_unrelated_to(question)
    meant.add_run(ran("git diff", "+x"))
    meant.pin()
    assert not meant.is_unrelated_to(question)
    meant.clear()
    meant.add_run(ran("ls", "Makefile"))
    assert meant.is_unrelated_to(question)


def test_a_long_path_is_cut_at_its_start_and_home_is_a_tilde():
    assert shorten_path("/home/ann/x", "/home/ann") == "~/x"
    assert shorten_path("/home/anna", "/home/ann") == "/home/anna"
    assert shorten_path("/" + "deep/" * 30, "/home/ann").startswith("…")


def test_the_branch_is_read_from_the_files(tmp_path):
    (tmp_path / "inner").mkdir()
    assert find_branch(str(tmp_path / "inner")) == ""
    subprocess.run(["git", "init", "-q", "-b", "topic", str(tmp_path)], check=True)
    assert find_branch(str(tmp_path / "inner")) == "topic"


def test_every_command_of_the_table_leads_to_a_function() -> None:
    source = Path(registry.__file__).read_text()
    places = re.findall(r'_lazy\("(\w+)\.(\w+)"\)', source)
    assert len(places) > 20
    for module, name in places:
        assert inspect.iscoroutinefunction(
            getattr(importlib.import_module(f"aish.frontends.shell.commands.{module}"), name)
        )


def test_a_prompt_fills_in_the_fields_there_are_and_leaves_other_braces_alone(tmp_path):
    shell = SimpleNamespace(
        model="play:script", cwd=str(tmp_path), context_tokens=12, window=99, usage=Usage(), status="[2]",
        mode=Mode.PLAN, live=None,
    )  # fmt: skip
    for field in PROMPT_FIELDS:
        shown = prompt_fragments(shell, f"<{{{field}}}>", Destination.SHELL, plain=True)
        assert "{" not in "".join(text for _, text in shown)
    assert prompt_fragments(shell, "{", Destination.SHELL, plain=True) == [("", "{")]


async def test_where_a_long_line_goes_is_looked_up_once_for_a_drawing():
    looked_up, drawings = [], []

    def resolve(word):
        looked_up.append(word)
        return WordKind.FILE

    settings = SimpleNamespace(prompt="{mark} ", editing="emacs")
    shell = SimpleNamespace(
        runtime=SimpleNamespace(config=SimpleNamespace(shell=settings)), skill_names=frozenset,
        live=SimpleNamespace(resolve=resolve, exists=lambda path: False, names=frozenset, editing="emacs", venv=""),
        model="", request=SimpleNamespace(model="m"), cwd="/", context_tokens=0, window=None, usage=Usage(), status="",
        start_loading=lambda: None, mode=Mode.ASK, cycle_mode=lambda: None,
    )  # fmt: skip
    with create_pipe_input() as keys, create_app_session(input=keys):
        prompt = LineEditor(shell, PromptHistory(None), plain=True)
        app = prompt._session.app
        app.after_render += lambda app: drawings.append(len(app.current_buffer.text))
        keys.send_text("ls " + "word " * 4000 + "\r")
        await prompt.read()
    assert max(drawings) > 20_000
    assert len(looked_up) <= app.render_counter + 2  # Enter asks whether the line goes on


@pytest.mark.parametrize("live", [True, False])
def test_the_screen_is_cleared_where_there_is_one_with_colours_or_without(live):
    screen = io.StringIO()
    Output(screen, screen, color=False, live=live).clear_screen()
    assert bool(screen.getvalue()) is live
