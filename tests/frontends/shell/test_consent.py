from __future__ import annotations

import io

import msgspec
import pytest

from aish.frontends.shell.approvals.consent import TerminalConsent, approve_all
from aish.frontends.terminal import Output
from aish.types.decisions import Choice, Question, QuestionKind


class Typed:
    """A person who types these lines, then leaves. `.prompts` keeps what they were shown."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.prompts: list[str] = []

    async def read(self, prompt: str, typed: str = "") -> str | None:
        self.prompts.append(prompt + typed)
        return self._lines.pop(0) if self._lines else None


def question(kind: QuestionKind = QuestionKind.EFFECT, **fields) -> Question:
    return Question("c", kind, "shell__run", "exec", {"command": "make"}, "why", **fields)


async def answer(asked: Question, *lines: str):
    typed, shown = Typed(*lines), io.StringIO()
    consent = TerminalConsent(Output(io.StringIO(), shown, color=False), typed)
    return await consent(asked), typed.prompts, shown.getvalue()


@pytest.mark.parametrize(
    ("lines", "choice"),
    [(["y"], Choice.YES), (["n"], Choice.NO), ([""], Choice.NO), ([], Choice.NO), (["huh", "YES"], Choice.YES)],
)
async def test_only_a_clear_yes_is_a_yes(lines, choice):
    assert (await answer(question(), *lines))[0].choice is choice


async def test_what_will_run_is_shown_in_full():
    assert "$ make" in (await answer(question()))[2]


async def test_a_diff_is_shown_instead_of_the_arguments_which_explain_shows():
    asked = question(preview="--- a/x\n+++ b/x\n-old\x1b[2J\n+new")
    _, _, shown = await answer(asked, "n")
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
    assert "[t]urn" in prompts[0] and "[a]lways for make" in prompts[0]


async def test_always_may_be_changed_but_not_to_nearly_everything():
    asked = question(always="always make all")
    assert (await answer(asked, "a", ""))[0].rule == "make all"
    assert (await answer(asked, "a", "pytest"))[0].rule == "pytest"
    given, prompts, shown = await answer(asked, "a", "bash", "a", "*", "n")
    assert given.choice is Choice.NO and len(prompts) == 5
    assert shown.count("that would allow nearly everything") == 2
    tool = msgspec.structs.replace(asked, tool="files__write", always="always files__write")
    assert (await answer(tool, "a", "files__*"))[0].rule == "files__*"
    assert (await answer(tool, "a", "?*", "n"))[0].choice is Choice.NO


async def test_an_edited_command_is_the_answer():
    given, prompts, _ = await answer(question(), "e", "make test")
    assert given.arguments == {"command": "make test"}
    assert prompts[-1] == "new command: make"  # it begins with what it was


async def test_edited_arguments_that_do_not_fit_are_asked_for_again():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    asked = Question("c", QuestionKind.EFFECT, "t__w", "write", {"n": 1}, "why", schema=schema)
    given, _, shown = await answer(asked, "e", '{"n": "seven"}', "e", '{"n": 7}')
    assert given.arguments == {"n": 7}
    assert "that does not fit t__w: n: " in shown


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
