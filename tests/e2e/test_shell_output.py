"""What tools print, on a real terminal: as it comes, in its frame, and in full when it is wanted."""

import json
import subprocess
import sys

import pytest

from e2e.test_shell import did, home, model, shell
from support.eventually import eventually
from support.terminal import terminal

__all__ = ["home"]


def calls(home, command: str, after: str = "went on") -> str:
    call = {"index": 0, "name": "shell__run", "arguments": json.dumps({"command": command})}
    return model(home, [[{"call": call}], [{"text": after}]])


# Prints, and goes on when a file is there.
WAITS = "for n in 1 2 3 4 5 6 7; do echo line-$n; done; until [ -e go ]; do sleep 0.05; done; echo end"


@pytest.mark.parametrize("columns", [100, 40])
async def test_output_is_seen_while_the_command_runs_and_once_when_it_has_ended(home, columns):
    name = calls(home, WAITS)
    env = {"HOME": str(home / "home"), "PATH": "/usr/bin:/bin", "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    words = [sys.executable, "-m", "aish", "--yes", "--model", name]
    async with terminal(words, env=env, cwd=home / "work", columns=columns) as term:
        await term.prompts()
        await term.enter("? go")
        await term.sees("\n│ line-7\n")
        assert "│ line-3" in term.text and "│ line-2" not in term.text and "end" not in term.last_line
        (home / "work" / "go").touch()
        await term.sees("went on")
        await term.prompts()
        assert term.text.count("│ line-1") == 1 and term.text.count("│ line-4") == 1 and "│ line-7" not in term.text


async def test_the_whole_output_is_paged_by_its_number_or_by_a_key(home):
    name = calls(home, "seq 1000")
    async with shell(home, "--yes", "--model", name, PAGER="cat") as term:
        await did(term, "? go", "996 more lines (:expand 1)")
        await did(term, ":expand", "\n777\n")
        await did(term, ":expand 2", "there are 1 to 1")
        before = term.raw.count(b"\n999\r\n")
        term.press("\x1b[17~")  # F6
        await eventually(lambda: term.raw.count(b"\n999\r\n") > before)


async def test_without_a_call_there_is_nothing_to_page(home):
    async with shell(home) as term:
        await did(term, ":expand", "no tool has been called yet")


async def test_a_failure_shows_its_end_and_the_approval_is_not_repeated(home):
    name = calls(home, "seq 100; echo the-error; exit 3")
    async with shell(home, "--model", name) as term:
        await term.enter("? go")
        await term.sees("run it?")
        await term.enter("y")
        await term.sees("went on")
        after = term.text.rpartition("run it?")[2]
        assert "│ the-error" in after and "│ exit code 3" in after and "│ 1\n" not in after
        assert "● shell__run" not in after


async def test_an_answer_that_stalls_shows_its_last_word_and_the_time(home):
    name = model(home, [[{"text": "All but the la"}, {"wait_s": 60}, {"text": "st"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? go")
        await eventually(lambda: "All but the la ⠋" in term.text or "All but the la ⠙" in term.text)
        term.press("\x03")
        await term.sees("stopped")
        await term.prompts()
        assert "\nAll but the la\n" in term.text


def test_json_has_the_output_as_it_comes_and_the_record_does_not(home):
    name = calls(home, "echo early; until [ -e go ]; do sleep 0.05; done; echo late")
    env = {"HOME": str(home / "home"), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    aish = [sys.executable, "-m", "aish"]
    options = {"env": env, "cwd": home / "work", "text": True}
    events = []
    with subprocess.Popen([*aish, "--json", "--yes", "-m", name, "go"], stdout=subprocess.PIPE, **options) as running:
        for line in running.stdout:
            events.append(json.loads(line))
            if events[-1]["body"]["type"] == "tool_output":
                (home / "work" / "go").touch()
    assert [event["body"]["text"] for event in events if event["body"]["type"] == "tool_output"] == ["early\n"]
    numbers = [event["seq"] for event in events if event["body"]["type"] != "tool_output"]
    assert numbers == list(range(1, len(numbers) + 1))
    export = [*aish, "sessions", "export", events[0]["session"]]
    kept = subprocess.run(export, capture_output=True, timeout=60, check=True, **options)
    assert "late" in kept.stdout and "tool_output" not in kept.stdout
