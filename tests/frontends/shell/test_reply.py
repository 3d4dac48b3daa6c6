"""A whole reply on a screen: events in, what a person sees out. Time passes only when a test says so."""

from __future__ import annotations

import io
import re

import pyte
import pytest

from aish.frontends.shell.render.event_printer import LIMIT_REACHED, PROVIDER_FAILED, REFUSED
from aish.frontends.shell.render.reply import ReplyPrinter
from aish.frontends.shell.render.styles import DisplayOptions, display_for
from aish.frontends.shell.render.wait_line import PATIENCE_S, STALL_S, WRITING_PATIENCE_S, WaitLine
from aish.frontends.terminal import Output
from aish.types.decisions import Decision, Question, QuestionKind, Verdict
from aish.types.events import (
    ArgumentsDelta,
    Body,
    DecisionAsked,
    DecisionMade,
    Event,
    Failed,
    ReasoningDelta,
    Status,
    StepStarted,
    TextDelta,
    ToolCallReady,
    ToolCallStarted,
    ToolOutputDelta,
    ToolResult,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from aish.types.messages import TextPart
from aish.types.tools import Effect, ResultStatus

TERMINAL = DisplayOptions(styled=True, live=True)


class Terminal(io.TextIOBase):
    """A screen that both streams write to. `written` keeps the bytes."""

    def __init__(self, columns: int, rows: int = 40) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=1000)
        self._stream = pyte.Stream(self.screen)
        self.written = ""

    def write(self, text: str) -> int:
        self.written += text
        self._stream.feed(text.replace("\n", "\r\n"))  # as the tty does
        return len(text)

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        above = ["".join(row[at].data for at in range(self.screen.columns)) for row in self.screen.history.top]
        shown = [line.rstrip() for line in [*above, *self.screen.display]]
        while shown and not shown[-1]:
            shown.pop()
        return shown


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Stage:
    """A reply on a terminal, with a clock that is set by hand."""

    def __init__(self, columns: int = 40, look: DisplayOptions = TERMINAL) -> None:
        self.columns = columns
        self.terminal = Terminal(columns)
        self.clock = Clock()
        output = Output(self.terminal, self.terminal, color=look.styled, live=look.live)
        self.wait = WaitLine(output, lambda: self.columns, clock=self.clock)
        self.reply = ReplyPrinter(output, look, columns=lambda: self.columns, wait=self.wait)

    def say(self, *bodies: Body, call: str = "") -> list[str]:
        self.reply.show_all([Event("s", "t", 1, 0, body, call=call) for body in bodies])
        return self.terminal.lines()

    def pass_time(self, seconds: float) -> list[str]:
        self.clock.now += seconds
        self.wait.tick()
        return self.terminal.lines()


def result(text: str, status: ResultStatus = ResultStatus.OK, **fields) -> ToolResult:
    return ToolResult("fs__read", status, (TextPart(text),) if text else (), duration_ms=34, **fields)


REPLY = """# Plan

First **this**, then that, and the rest of it after a while:

- 世界你好世界你好世界你好世界你好世界你好
- [x] done

```python
def f(x):
    return "a"
```

| a | b |
|---|--:|
| cell | 1 |
"""


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            40,
            [
                "Plan", "", "First this, then that, and the rest of", "it after a while:", "",
                "• 世界你好世界你好世界你好世界你好世界你", "  好", "☑ done", "",
                "```python", "def f(x):", '    return "a"', "```", "", "a    │ b", "─────┼──", "cell │ 1",
            ],
        ),
        (
            100,
            [
                "Plan", "", "First this, then that, and the rest of it after a while:", "",
                "• 世界你好世界你好世界你好世界你好世界你好", "☑ done", "",
                "```python", "def f(x):", '    return "a"', "```", "", "a    │ b", "─────┼──", "cell │ 1",
            ],
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("chunk", [1, 5, 1000])
def test_a_reply_fills_the_screen_it_has(columns, expected, chunk):
    stage = Stage(columns)
    stage.say(*(TextDelta(REPLY[at : at + chunk]) for at in range(0, len(REPLY), chunk)))
    shown = stage.say(TurnFinished(TurnEnd.ANSWERED))
    # pyte keeps an empty cell behind each wide character
    assert [re.sub(r"([\u4e00-\u9fff]) ?", r"\1", line) for line in shown] == expected


def test_nothing_but_colours_is_sent_with_the_text():
    stage = Stage()
    stage.say(TextDelta(REPLY + "\x1b]0;title\x07\x1b[2J\x1b[31m\x9b5A\r\bx\n"), TurnFinished(TurnEnd.ANSWERED))
    assert set(re.findall(r"\x1b.[^a-zA-Z]*[a-zA-Z]|[\x00-\x09\x0b-\x1a\x7f-\x9f]", stage.terminal.written)) <= {
        f"\x1b[{code}m" for code in ("0", "0;1", "0;1;4", "0;2", "0;32", "0;35", "0;36")
    }
    assert "␛[2J" in stage.terminal.lines()[-1] or "␛[2J" in stage.terminal.lines()[-2]


def test_lines_after_a_resize_use_the_new_width_and_those_before_stay():
    stage = Stage(100)
    stage.say(TextDelta("word " * 19 + "\n\n"))
    before = stage.terminal.written
    stage.columns = 40
    stage.say(TextDelta("word " * 20 + "\n"), TurnFinished(TurnEnd.ANSWERED))
    after = stage.terminal.written
    assert after.startswith(before)
    assert {len(line) for line in after[len(before) :].splitlines()} <= {0, 19, 39}


def test_a_resize_in_the_middle_of_a_paragraph_counts_from_the_next_line():
    stage = Stage(100)
    stage.say(TextDelta("word " * 10))
    stage.columns = 40
    stage.say(TextDelta("word " * 30), TurnFinished(TurnEnd.ANSWERED))
    lengths = [len(line) for line in stage.terminal.written.splitlines()]
    assert lengths[0] <= 100
    assert max(lengths[1:]) <= 40


def test_waiting_shows_life_and_leaves_no_trace():
    stage = Stage()
    stage.say(TurnStarted("m", ()), StepStarted("m"))
    assert stage.pass_time(PATIENCE_S / 2) == []
    assert stage.pass_time(PATIENCE_S) == ["⠋ waiting for m, 0.6 s"]
    assert stage.pass_time(12) == ["⠙ waiting for m, 13 s"]
    assert stage.say(TextDelta("Hi there")) == ["Hi"]
    assert stage.pass_time(STALL_S - 0.1) == ["Hi"]
    assert stage.pass_time(1) == ["Hi there ⠹ 2.9 s"]  # it has stalled: the last word is not held back any more
    assert stage.say(TextDelta(", you")) == ["Hi there,"]
    assert stage.pass_time(50) == ["Hi there, you ⠸ 50 s"]
    assert stage.say(TurnFinished(TurnEnd.ANSWERED)) == ["Hi there, you"]
    assert stage.pass_time(60) == ["Hi there, you"]


def test_a_held_table_shows_that_something_is_written():
    stage = Stage()
    stage.say(TextDelta("| a |\n|---|\n| b |\n"))
    assert stage.pass_time(WRITING_PATIENCE_S + 1) == ["⠋ writing, 2.5 s"]
    assert stage.say(TurnFinished(TurnEnd.ANSWERED)) == ["a", "─", "b"]


def test_reasoning_is_folded_into_a_line():
    stage = Stage()
    stage.say(ReasoningDelta("Let me"))
    stage.say(*[ReasoningDelta(" think")] * 47)
    assert stage.pass_time(12) == ["⠋ thinking, 12 s, 4 tokens/s"]
    assert stage.say(TextDelta("So.\n")) == ["∴ thought for 12 s", "So."]


@pytest.mark.parametrize(("reasoning", "expected"), [("show", ["Let me *think*", "twice", "So."]), ("hide", ["So."])])
def test_reasoning_is_shown_or_hidden_on_request(reasoning, expected):
    stage = Stage(look=DisplayOptions(styled=True, live=True, reasoning=reasoning))
    stage.say(ReasoningDelta("Let me *thi"), ReasoningDelta("nk*\ntwice"))
    assert stage.say(TextDelta("So.\n")) == expected


def test_a_call_is_a_quiet_frame():
    stage = Stage()
    stage.say(TextDelta("I look.\n"), ToolCallStarted(0, "fs__read"))
    stage.say(*[ArgumentsDelta("x")] * 30)
    assert stage.pass_time(2)[-1] == "⠋ calling fs__read, 2.0 s, 15 tokens/s"
    stage.say(ToolCallReady("fs__read", '{"path": "a.py"}'), call="1")
    assert stage.pass_time(2) == ["I look.", "● fs__read a.py", "⠙ fs__read, 2.0 s"]
    text = "\n".join(f"line {n} \x1b[31m" + "x" * 50 for n in range(9))
    assert stage.say(result(text), call="1")[1:] == [
        "● fs__read a.py",
        *(f"│ line {n} ␛[31m{'x' * 25}…" for n in range(4)),
        "└ 5 more lines · 34 ms",
    ]


def test_output_keeps_its_indentation_and_its_columns():
    stage = Stage(60)
    stage.say(ToolCallReady("shell__run", '{"command": "cat f"}'), call="1")
    text = "def f():\n\tif x:\n        return 1\na   b"
    kept = ["│ def f():", "│         if x:", "│         return 1", "│ a   b"]
    stage.say(ToolOutputDelta(f"{text}\n"), call="1")
    assert stage.pass_time(0.1)[1:-1] == kept
    assert stage.say(result(text), call="1")[1:-1] == kept


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        (result("done"), "└ done · 34 ms"),
        (result(""), "└ no output · 34 ms"),
        (result("no", ResultStatus.REFUSED), "└ ✗ no · refused · 34 ms"),
        (result("[aish] refused: the user said no", ResultStatus.REFUSED), "└ ✗ refused: the user said no · 34 ms"),
        (result("a", truncated_chars=5000), "└ a · 5000 characters left out · 34 ms"),
    ],
)
def test_short_results_and_errors_take_one_line(outcome, line):
    stage = Stage(60)
    stage.say(ToolCallReady("fs__read", '{"command": "ls", "cwd": "/"}'), call="1")
    assert stage.say(outcome, call="1") == ["● fs__read command=ls, cwd=/", line]


EDITED = "backend=aish status=fresh files=1 undo=6f\ndone: edit a.py\na.py revision=9f"
EDITS = '{"edits": [{"path": "a.py", "revision": "1", "old": "if x:\\n    y", "new": "if x:\\n    z"}]}'


def test_an_edit_that_is_not_asked_about_shows_what_it_has_changed():
    stage = Stage()
    stage.say(ToolCallReady("ide__edit", EDITS), call="1")
    assert stage.say(result(EDITED), call="1") == [
        "● ide__edit a.py", "│  if x:", "│ -    y", "│ +    z", "└ 2 more lines · 34 ms",
    ]  # fmt: skip


def test_an_edit_that_was_asked_about_does_not_show_its_changes_again():
    stage = Stage()
    stage.say(ToolCallReady("ide__edit", EDITS), call="1")
    question = Question("1", QuestionKind.EFFECT, "ide__edit", "edit", {}, "why")
    stage.say(DecisionAsked(question), call="1")
    shown = stage.say(result(EDITED), call="1")
    assert shown == ["● ide__edit a.py", "│ done: edit a.py", "│ a.py revision=9f", "└ 34 ms"]


def test_an_edit_that_fails_shows_the_error_and_no_changes():
    stage = Stage()
    stage.say(ToolCallReady("ide__edit", EDITS), call="1")
    assert stage.say(result("a.py has changed", ResultStatus.TOOL_ERROR), call="1")[1:] == [
        "│ a.py has changed", "└ ✗ tool error · 34 ms",
    ]  # fmt: skip


def test_results_of_parallel_calls_say_whose_they_are():
    stage = Stage()
    stage.say(ToolCallReady("fs__read", '{"path": "a"}'), call="1")
    stage.say(ToolCallReady("fs__list", '{"command": "ls  -l"}'), call="2")
    assert stage.pass_time(1)[-1] == "⠋ fs__read, fs__list, 1.0 s"
    shown = stage.say(result("A"), call="1")
    assert shown == ["● fs__read a", "● fs__list $ ls -l", "● fs__read a", "└ A · 34 ms"]


def test_no_line_is_drawn_while_a_person_is_asked():
    stage = Stage()
    stage.say(TextDelta("May I"), ToolCallReady("fs__read", "{}"), call="1")
    asked = Question("1", QuestionKind.EFFECT, "fs__read", "read", {}, "why")
    stage.say(DecisionAsked(asked), call="1")
    assert stage.pass_time(60) == ["May I", "● fs__read"]
    stage.say(DecisionMade(Decision(Verdict.ALLOW, "yes"), Effect.READ), call="1")
    assert stage.pass_time(65)[-1] == "⠋ fs__read, 1 min 5 s"


def test_statuses_and_failures_stand_on_lines_of_their_own():
    stage = Stage()
    shown = stage.say(TextDelta("Half a "), Status("asking again"), TextDelta("x"), Failed("K", "it broke", "mend it"))
    assert shown == ["Half a", "· asking again", "x", "aish: it broke", "  mend it"]


def test_what_was_said_before_an_interruption_stays_whole():
    stage = Stage()
    stage.say(TextDelta("Some **bold and | more\n\n| a | b |\n|---|---|\n| c"))
    stage.reply.on_turn_over()
    assert stage.terminal.lines() == ["Some **bold and | more", "", "a │ b", "──┼──", "c │"]
    assert stage.terminal.screen.cursor.x == 0


async def test_leaving_while_a_reply_streams_shows_all_of_it():
    stage = Stage()
    with pytest.raises(KeyError):
        async with stage.reply.waiting("waiting for m"):
            stage.say(TextDelta("Half *a"))
            raise KeyError
    assert stage.terminal.lines() == ["Half *a"]


def test_without_colours_text_is_passed_on_as_it_is_written():
    stage = Stage(look=DisplayOptions(styled=False, live=True))
    stage.say(TextDelta("# A\n\n**b** " + "word " * 5 + "\x1b[2J\n"), Status("s"), TurnFinished(TurnEnd.ANSWERED))
    assert stage.terminal.written == "# A\n\n**b** " + "word " * 5 + "␛[2J\n· s\n"
    stage.say(StepStarted("m"))
    stage.pass_time(5)
    assert stage.terminal.written.endswith("\r⠋ waiting for m, 5.0 s\x1b[K\x1b[J")


@pytest.mark.parametrize(
    ("env", "styled", "live"),
    [({"TERM": "xterm"}, True, True), ({"TERM": "dumb"}, False, False), ({"NO_COLOR": "1"}, True, True)],
)
def test_what_a_terminal_can_show(env, styled, live):
    look = display_for(Terminal(80), env)
    assert (look.styled, look.live) == (styled, live)
    assert display_for(io.StringIO(), env) == DisplayOptions(styled=False, live=False)


@pytest.mark.parametrize(
    ("bodies", "code"),
    [
        ([TurnFinished(TurnEnd.ANSWERED)], 0),
        ([result("", ResultStatus.REFUSED), TurnFinished(TurnEnd.ANSWERED)], REFUSED),
        ([TurnFinished(TurnEnd.FAILED)], PROVIDER_FAILED),
        ([TurnFinished(TurnEnd.MAX_STEPS)], LIMIT_REACHED),
        ([], 130),
    ],
)
def test_the_exit_code_is_that_of_a_plain_reply(bodies, code):
    stage = Stage()
    stage.say(*bodies)
    assert stage.reply.exit_code == code


def test_highlighting_can_be_switched_off():
    stage = Stage(look=DisplayOptions(styled=True, live=True, highlight=False))
    stage.say(TextDelta("```python\nif x: pass\n```\n"))
    assert "\nif x: pass\n" in stage.terminal.written


def test_what_a_call_prints_is_shown_while_it_runs_and_goes_with_its_result():
    stage = Stage()
    stage.say(ToolCallReady("shell__run", '{"command": "make"}'), call="1")
    stage.say(ToolOutputDelta("one\ntwo " + "x" * 60 + "\n\n"), call="1")
    assert stage.pass_time(0.1) == [
        "● shell__run $ make", "│ one", f"│ two {'x' * 32}…", "⠋ shell__run, 0.1 s",
    ]  # fmt: skip
    stage.say(ToolOutputDelta("".join(f"line {n}\n" for n in range(9))), call="1")
    assert stage.pass_time(0.1)[1:] == [*(f"│ line {n}" for n in range(4, 9)), "⠙ shell__run, 0.2 s"]
    assert stage.say(result("done"), call="1") == ["● shell__run $ make", "└ done · 34 ms"]


def test_the_output_of_a_running_call_is_written_over_and_never_erased_first():
    stage = Stage()
    stage.say(ToolCallReady("shell__run", '{"command": "make"}'), call="1")
    stage.say(ToolOutputDelta("one\ntwo\n"), call="1")
    stage.pass_time(0.1)
    before = len(stage.terminal.written)
    stage.pass_time(0.1)
    drawn = stage.terminal.written[before:]
    assert drawn.startswith("\r\x1b[2A") and drawn.index("│ one") < drawn.index("\x1b[K") and drawn.endswith("\x1b[J")
    assert "\x1b[2K" not in drawn


def test_a_window_that_becomes_narrower_leaves_no_trace_of_running_output():
    stage = Stage(60)
    stage.say(ToolCallReady("shell__run", '{"command": "make"}'), call="1")
    stage.say(ToolOutputDelta("word " * 10 + "\n"), call="1")
    stage.pass_time(0.1)
    stage.columns = 30  # the terminal has wrapped the line of 52 columns into two rows
    stage.terminal.screen.resize(columns=30)
    before = len(stage.terminal.written)
    stage.say(result("done"), call="1")
    assert stage.terminal.written[before:].startswith("\r\x1b[2A\x1b[J")


def test_the_output_of_parallel_calls_says_whose_it_is():
    stage = Stage(60)
    stage.say(ToolCallReady("a__read", '{"path": "x"}'), call="1")
    stage.say(ToolCallReady("b__read", '{"path": "y"}'), call="2")
    stage.say(ToolOutputDelta("from one\n"), call="1")
    stage.say(ToolOutputDelta("1\n2\n3\n"), call="2")
    assert stage.pass_time(0.1)[2:-1] == ["● a__read x", "│ from one", "● b__read y", "│ 2", "│ 3"]


def test_a_failure_shows_the_end_where_the_error_is():
    stage = Stage()
    stage.say(ToolCallReady("shell__run", '{"command": "make"}'), call="1")
    text = "\n".join(f"line {n}" for n in range(20)) + "\n[aish] exit code 2"
    shown = stage.say(result(text, ResultStatus.TOOL_ERROR), call="1")
    assert shown[1:] == [
        "│ …", *(f"│ line {n}" for n in range(13, 20)), "│ exit code 2",
        "└ ✗ tool error · 13 more lines · 34 ms",
    ]  # fmt: skip


def test_a_result_after_an_approval_does_not_repeat_the_call():
    stage = Stage()
    stage.say(ToolCallReady("shell__run", '{"command": "make"}'), call="1")
    asked = Question("1", QuestionKind.EFFECT, "shell__run", "exec", {"command": "make"}, "why")
    stage.say(DecisionAsked(asked), call="1")
    stage.say(DecisionMade(Decision(Verdict.ALLOW, "yes"), Effect.EXEC), call="1")
    assert stage.say(result("done"), call="1") == ["● shell__run $ make", "└ done · 34 ms"]


def test_in_the_shell_a_cut_result_names_its_number():
    stage = Stage(look=DisplayOptions(styled=True, live=True, numbered=True))
    for call in ("1", "2"):
        stage.say(ToolCallReady("fs__read", "{}"), call=call)
        shown = stage.say(result("\n".join("abcdefg")), call=call)
    assert shown[-1] == "└ 3 more lines (:expand 2) · 34 ms"


def test_a_word_that_goes_on_after_a_stall_is_whole():
    stage = Stage()
    stage.say(TextDelta("It is un"))
    assert stage.pass_time(STALL_S)[0].startswith("It is un ⠋")
    assert stage.say(TextDelta("believable **and** done.\n")) == ["It is unbelievable and done."]


def test_where_no_room_is_left_a_stall_shows_the_word_alone():
    stage = Stage(20)
    stage.say(TextDelta("a word " + "x" * 12))
    assert stage.pass_time(STALL_S) == ["a word xxxxxxxxxxxx"]
