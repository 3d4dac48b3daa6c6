"""Notices for a user who looks at another window, on a real terminal that reports its focus."""

import os
import signal
import sys
from contextlib import asynccontextmanager

import pytest

from aish.frontends.shell.notifications import notification
from e2e.test_shell import did, home, model, shell
from e2e.test_shell_output import calls
from support.eventually import eventually
from support.terminal import terminal

__all__ = ["home"]

ON, OFF = b"\x1b[?1004h", b"\x1b[?1004l"
AWAY, BACK = "\x1b[O", "\x1b[I"
ANSWERED = b"\a\x1b]9;aish: the answer is ready in work\a"
ASKED = b"\a\x1b]9;aish: a question waits for you in work\a"
WAITS = "until [ -e go ]; do sleep 0.02; done"


def settings(home, text: str) -> None:
    file = home / "home" / ".config" / "aish" / "config.toml"
    file.write_text(f"{file.read_text()}\n[shell]\n{text}")


@asynccontextmanager
async def working(home, *words: str, keys: str = "", after: str = "went on", notify: str = "notify_after_s = 0", **env):
    """A shell whose model runs a command that waits, and a user who presses `keys` meanwhile."""
    name = calls(home, WAITS, after)
    settings(home, notify)
    async with shell(home, "--yes", "--model", name, *words, **env) as term:
        await term.enter("? go")
        await term.sees("shell__run")
        term.press(keys)
        yield term


async def let_go(home, term, seen: str = "went on") -> None:
    (home / "work" / "go").touch()
    await term.sees(seen)
    await term.prompts()


def is_on(raw: bytes) -> bool:
    return raw.rfind(ON) > raw.rfind(OFF)


async def test_a_turn_that_ends_while_the_user_is_away_is_told(home):
    async with working(home, keys=AWAY) as term:
        assert is_on(term.raw) and b"\a" not in term.raw
        await let_go(home, term)
        assert ANSWERED in term.raw and not is_on(term.raw)


@pytest.mark.parametrize(
    ("keys", "notify"),
    [
        ("", "notify_after_s = 0"),
        (AWAY + BACK, "notify_after_s = 0"),
        (AWAY, "notify_after_s = 1000"),
        (AWAY, 'notify_after_s = 0\nnotify = "off"'),
    ],
)
async def test_nothing_is_told_to_a_user_who_looks_or_after_a_short_turn_or_if_it_is_off(home, keys, notify):
    async with working(home, keys=keys, notify=notify) as term:
        await let_go(home, term)
        assert b"\a" not in term.raw and b"\x1b]9" not in term.raw
        assert (ON in term.raw) is ("off" not in notify)


async def test_only_the_bell_if_that_is_wanted(home):
    async with working(home, keys=AWAY, notify='notify_after_s = 0\nnotify = "bell"') as term:
        await let_go(home, term)
        assert term.raw.count(b"\a") == 1 and b"\x1b]9" not in term.raw


async def test_a_question_of_the_gate_is_told(home):
    first = {"call": {"index": 0, "name": "shell__run", "arguments": '{"command": "touch new"}'}}
    name = model(home, [[{"text": "I look.\n"}, {"wait_s": 2}, first], [{"text": "went on"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? go")
        await term.sees("I look.")
        term.press(AWAY)
        await term.sees("run it?")
        await eventually(lambda: ASKED in term.raw)
        assert not is_on(term.raw)
        await term.enter("n")
        await term.sees("went on")
        await term.prompts()
        assert term.raw.count(b"\a\x1b]9") == 1 and term.raw.count(ON) == 2 and not is_on(term.raw)


async def test_a_menu_of_proposals_is_told_once_after_a_short_turn_too(home):
    async with working(home, keys=AWAY, after="CMD: echo hello\n", notify="notify_after_s = 1000") as term:
        (home / "work" / "go").touch()
        await term.sees("[q]uit")
        await eventually(lambda: ASKED in term.raw)
        assert term.raw.count(b"\a\x1b]9") == 1


async def test_reports_never_become_keys_and_keys_typed_meanwhile_are_kept(home):
    async with working(home, keys=f"{AWAY}echo ke{BACK}pt''-it{AWAY}\r") as term:
        await let_go(home, term, "\nkept-it")
        assert "^[[" not in term.text and "[O" not in term.text and "[I" not in term.text


async def test_a_report_that_comes_late_is_no_key_at_the_prompt_or_at_a_question(home):
    name = model(home, [[{"text": "CMD: echo it''ran\n"}]])
    async with shell(home, "--model", name) as term:
        term.press(f"ec{AWAY}ho a{BACK}b''c\r")
        await term.sees("\nabc")
        await term.prompts()
        await term.enter("? go")
        await term.sees("[q]uit")
        term.press(f"{AWAY}{BACK}r\r")
        await term.sees("\nitran")
        await term.enter("gti status")
        await term.sees("Did you mean git?")
        term.press(AWAY + BACK + "x")
        await eventually(lambda: term.last_line.endswith(" x"))


async def test_reports_are_off_while_the_users_own_programs_run(home):
    async with working(home, after="CMD: echo be''gun; cat -v\n") as term:
        (home / "work" / "go").touch()
        await term.sees("[q]uit")
        await term.enter("r")
        await term.sees("\nbegun")
        assert not is_on(term.raw)
        await term.enter("typed")
        await eventually(lambda: term.text.count("\ntyped") == 2)
        term.press("\x03")
        await term.prompts()
        assert "^[[" not in term.text


@pytest.mark.parametrize("stop", ["\x03", signal.SIGTERM])
async def test_reports_are_off_after_a_turn_that_was_stopped_and_after_the_end(home, stop):
    async with working(home) as term:
        assert is_on(term.raw)
        if isinstance(stop, str):
            term.press(stop)
            await term.sees("stopped")
            await term.prompts()
        else:
            os.kill(term.pid, stop)
            await term.ends()
        assert not is_on(term.raw)


async def test_reports_are_off_while_aish_is_suspended_and_on_again_when_it_goes_on(home):
    name = calls(home, WAITS)
    env = {"HOME": str(home / "home"), "PATH": os.environ["PATH"], "TERM": "xterm", "LANG": "C.UTF-8", "PS1": "outer> "}
    async with terminal(["/bin/bash", "--norc", "-i"], env=env, cwd=home / "work") as term:
        await term.enter(f"{sys.executable} -m aish --yes --model {name}")
        await term.prompts()
        await term.enter("? go")
        await term.sees("shell__run")
        term.press("\x1a")
        await term.sees("Stopped")
        assert not is_on(term.raw)
        await term.enter("fg")
        await eventually(lambda: is_on(term.raw))
        await let_go(home, term)
        assert not is_on(term.raw)


async def test_the_name_of_a_folder_cannot_control_the_terminal(home):
    folder = home / "work" / ("a\x1b]0;x\ab;c" + "d" * 200)
    folder.mkdir()
    name = calls(home, WAITS)
    settings(home, "notify_after_s = 0")
    async with shell(home, "--yes", "--model", name) as term:
        await did(term, "cd a*", "ddd")
        await term.enter("? go")
        await term.sees("shell__run")
        term.press(AWAY)
        (folder / "go").touch()
        await term.sees("went on")
        await eventually(lambda: b"\x1b]9;" in term.raw)
        told = term.raw[term.raw.index(b"\x1b]9;") + 4 :].partition(b"\a")[0].decode()
        assert told.startswith("aish: the answer is ready in a\u241b]0,x\u2407b,cddd") and len(told) < 140


@pytest.mark.parametrize(("env", "kind"), [({"TERM": "foot"}, "777"), ({"VTE_VERSION": "7600"}, "777"), ({}, "9")])
def test_each_terminal_gets_the_notification_that_it_knows(env, kind):
    assert notification("text", env).startswith(f"\x1b]{kind};")


async def test_in_tmux_the_notification_goes_through_to_the_terminal(home):
    async with working(home, keys=AWAY, TMUX="/tmp/tmux,1,0") as term:
        await let_go(home, term)
        assert b"\a\x1bPtmux;\x1b\x1b]9;aish: the answer is ready in work\a\x1b\\" in term.raw
