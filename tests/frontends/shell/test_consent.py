from __future__ import annotations

import io
import os
from pathlib import Path

import msgspec
import pytest

from aish.frontends.shell.approvals.consent import TerminalConsent, approve_all
from aish.frontends.terminal import Output
from aish.types.decisions import Choice, Danger, Question, QuestionKind, StepCall


class Typed:
    """A person who types these lines, then leaves. `.prompts` keeps what they were shown."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.prompts: list[str] = []

    async def read(self, prompt: str, typed: str = "") -> str | None:
        self.prompts.append(prompt + typed)
        return self._lines.pop(0) if self._lines else None

    def drop_typed_ahead(self) -> None: ...


def question(kind: QuestionKind = QuestionKind.EFFECT, **fields) -> Question:
    return Question("c", kind, "shell__run", "exec", {"command": "make"}, "why", **fields)


async def answer(asked: Question, *lines: str):
    typed, shown = Typed(*lines), io.StringIO()
    consent = TerminalConsent(Output(io.StringIO(), shown, color=False), typed, {})
    return await consent(asked), typed.prompts, shown.getvalue()


class Editor:
    """An editor that runs these filters over the files it is given, one after the other. `.names` are their names."""

    def __init__(self, folder: Path, *filters: str) -> None:
        self._log = folder / "names"
        self._program = folder / "editor"
        cases = "\n".join(f'{number}) {text} < "$1" > "$1.new";;' for number, text in enumerate(filters))
        count = f'count=$(cat {self._log} 2>/dev/null | wc -l); echo "${{1##*/}}" >> {self._log}'
        run = f'case $((count)) in\n{cases}\nesac || exit 1\nmv "$1.new" "$1"'
        self._program.write_text(f"#!/bin/sh\n{count}\n{run}\n")
        self._program.chmod(0o755)

    async def answer(self, asked: Question, *lines: str):
        typed, shown = Typed(*lines), io.StringIO()
        env = {"VISUAL": str(self._program), "EDITOR": "false", "PATH": os.environ["PATH"]}
        consent = TerminalConsent(Output(io.StringIO(), shown, color=False), typed, env)
        return await consent(asked), typed.prompts, shown.getvalue()

    @property
    def names(self) -> list[str]:
        return self._log.read_text().split()


@pytest.mark.parametrize(
    ("lines", "choice"),
    [(["y"], Choice.YES), (["n"], Choice.NO), ([""], Choice.NO), ([], Choice.NO), (["huh", "YES"], Choice.YES)],
)
async def test_only_a_clear_yes_is_a_yes(lines, choice):
    assert (await answer(question(), *lines))[0].choice is choice


async def test_what_will_run_is_shown_in_full():
    assert "$ make" in (await answer(question()))[2]


async def test_a_diff_is_shown_under_the_name_of_its_file_instead_of_the_arguments_which_explain_shows():
    asked = question(preview="--- a/x\n+++ b/x\n-old\x1b[2J\n+new")
    _, _, shown = await answer(asked, "n")
    assert "changes x\n-old" in shown and "a/x" not in shown
    assert "-old" in shown and "+new" in shown and "$ make" not in shown
    assert "\x1b" not in shown
    assert "$ make" in (await answer(asked, "x", "n"))[2]


async def test_a_reason_why_it_would_fail_is_shown_beside_the_arguments():
    _, _, shown = await answer(question(preview="it cannot be done as things are: x is gone"), "n")
    assert "$ make" in shown and "x is gone" in shown


async def test_turn_and_always_are_offered_only_where_they_mean_something():
    given, prompts, _ = await answer(question(), "t", "a", "n")
    assert given.choice is Choice.NO
    assert "[t]urn" not in prompts[0] and "[a]lways" not in prompts[0]
    given, prompts, _ = await answer(question(like="make", always="always make"), "t")
    assert given.choice is Choice.TURN
    assert "[t]urn" in prompts[0] and "[s]ession" in prompts[0] and "[a]lways" in prompts[0]
    assert "a[l]l" not in prompts[0]
    assert (await answer(question(like="make"), "s"))[0].choice is Choice.SESSION


async def test_the_question_says_in_words_what_the_wider_answers_cover():
    others = (StepCall("d", "shell__run", {"command": "make b"}),)
    asked = question(like="all commands like this", always="always make", others=others)
    given, prompts, shown = await answer(asked, "l")
    assert given.choice is Choice.STEP and "a[l]l" in prompts[0]
    assert "$ make\n" in shown and "$ make b\n" in shown
    assert "[t]urn, [s]ession: all commands like this" in shown and "[a]lways: make" in shown
    assert "a[l]l: the 2 calls above" in shown


async def test_a_catastrophe_needs_the_word_and_no_other_answer_runs_it():
    asked = question(insist=True, danger=Danger.CATASTROPHE, like="x", always="always x")
    for word in ("y", "", "t", "s", "a", "l", "yes please", "Y"):
        given, prompts, _ = await answer(asked, word)
        assert given.choice is Choice.NO and "type yes" in prompts[0]
    assert (await answer(asked, "x", "yes"))[0].choice is Choice.YES


async def test_what_loses_something_stands_out_and_says_what_is_lost():
    asked = question(danger=Danger.DESTRUCTIVE, loss="removes 214 files, 3 not in git")
    for color, style in ((True, "\x1b[1;31m"), (False, "")):
        shown = io.StringIO()
        await TerminalConsent(Output(io.StringIO(), shown, color=color), Typed("n"), {})(asked)
        assert f"{style}shell__run: why" in shown.getvalue()
        assert f"{style}  removes 214 files, 3 not in git" in shown.getvalue()


async def test_lines_of_a_diff_are_coloured_and_only_its_headers_are_titles():
    diff = "--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1,2 @@\n--- a comment\n+b\n same\n--- /dev/null\n+++ b/new\n+n"
    shown = io.StringIO()
    await TerminalConsent(Output(io.StringIO(), shown, color=True), Typed("n"), {})(question(preview=diff))
    text = shown.getvalue()
    assert "\x1b[1mchanges x.sql" in text and "\x1b[1mnew file new" in text
    assert "\x1b[36m@@" in text and "\x1b[32m+n" in text and "\x1b[31m--- a comment" in text


async def test_arguments_are_shown_by_name_and_not_as_json():
    arguments = {"to": "a", "body": "x\ny", "n": [1, {"k": True}]}
    shown = (await answer(Question("c", QuestionKind.EFFECT, "t__w", "write", arguments, "why")))[2]
    assert "to: a\nbody:\n  x\n  y\nn:\n  - 1\n  - k: yes" in shown
    assert "{" not in shown


async def test_always_may_be_changed_but_not_to_nearly_everything():
    asked = question(always="always make all")
    assert (await answer(asked, "a", ""))[0].rule == "make all"
    asked = question(always="always make")
    given, _, shown = await answer(asked, "a", "pytest", "a", "make *", "n")
    assert given.choice is Choice.NO and "'pytest' does not cover what is asked about: make" in shown
    asked = msgspec.structs.replace(question(always="always touch a b"), arguments={"command": "touch a b"})
    assert (await answer(asked, "a", "touch *"))[0].rule == "touch *"
    given, prompts, shown = await answer(asked, "a", "bash", "a", "*", "n")
    assert given.choice is Choice.NO and len(prompts) == 5
    assert shown.count("that would allow nearly everything") == 2
    tool = msgspec.structs.replace(asked, tool="files__write", always="always files__write")
    assert (await answer(tool, "a", "files__*"))[0].rule == "files__*"
    assert (await answer(tool, "a", "?*", "n"))[0].choice is Choice.NO
    assert (await answer(tool, "a", "git__*", "n"))[0].choice is Choice.NO


async def test_an_edited_command_is_the_answer():
    given, prompts, _ = await answer(question(), "e", "make test")
    assert given.arguments == {"command": "make test"}
    assert prompts[-1] == "new command: make"  # it begins with what it was


async def test_edited_arguments_that_do_not_fit_are_asked_for_again(tmp_path):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    asked = Question("c", QuestionKind.EFFECT, "t__w", "write", {"n": 1}, "why", schema=schema)
    edits = Editor(tmp_path, "sed s/1/true/", "sed s/1/7/")
    given, _, shown = await edits.answer(asked, "e", "e")
    assert given.arguments == {"n": 7}
    assert "that does not fit t__w: n: " in shown and edits.names == ["arguments.json", "arguments.json"]


async def test_an_edit_and_a_command_of_several_lines_are_edited_as_what_they_are(tmp_path):
    edit = {"path": "src/a.py", "revision": "r", "old": "1", "new": "x = 1\n"}
    asked = Question("c", QuestionKind.EFFECT, "ide__edit", "write", {"edits": [edit]}, "why")
    edits = Editor(tmp_path, "sed s/1/2/", "sed s/a/b/")
    given, _, _ = await edits.answer(asked, "e")
    assert given.arguments == {"edits": [{**edit, "new": "x = 2\n"}]}
    given, _, _ = await edits.answer(msgspec.structs.replace(question(), arguments={"command": "a\nc"}), "e")
    assert given.arguments == {"command": "b\nc"}
    assert edits.names == ["a.py", "command.sh"]


async def test_an_editor_that_fails_or_is_not_there_leaves_the_question_open(tmp_path):
    asked = Question("c", QuestionKind.EFFECT, "t__w", "write", {"n": 1}, "why")
    given, prompts, _ = await Editor(tmp_path, "false").answer(asked, "e", "n")
    assert given.choice is Choice.NO and len(prompts) == 2
    consent = TerminalConsent(Output(io.StringIO(), shown := io.StringIO(), color=False), Typed("e", "n"), {"PATH": ""})
    assert (await consent(asked)).choice is Choice.NO
    assert "there is no editor here (set VISUAL or EDITOR)" in shown.getvalue()


async def test_explaining_asks_again():
    given, prompts, shown = await answer(question(reasons=("because",)), "x", "y")
    assert (given.choice, len(prompts)) == (Choice.YES, 2)
    assert "- because" in shown


async def test_a_repeated_call_takes_only_yes_or_no():
    assert (await answer(question(QuestionKind.REPEAT), "e", "a", "n"))[0].choice is Choice.NO


@pytest.mark.parametrize(
    ("asked", "choice"),
    [
        (question(), Choice.YES),
        (question(insist=True), Choice.NO),
        (question(QuestionKind.REPEAT), Choice.NO),
    ],
)
async def test_a_blanket_yes_does_not_cover_what_the_gate_insists_on(asked, choice):
    assert (await approve_all(asked)).choice is choice
