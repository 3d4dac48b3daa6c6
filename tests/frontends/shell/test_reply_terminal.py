"""The real command on a real terminal: a question asked, the screen a person sees."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator

import pyte
import pytest

from support.command import DEADLINE_S, Command


class Asked:
    """`aish` with a terminal of its own, and what is on it."""

    def __init__(self, command: Command, *words: str, columns: int, **env: str) -> None:
        self._master, terminal = os.openpty()
        self.resize(columns)
        self.screen = pyte.Screen(columns, 30)
        self._stream = pyte.ByteStream(self.screen)
        self.sent = b""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "aish", *words],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env={**command.environment(), "TERM": "xterm-256color", **env},
            cwd=command.home,
            start_new_session=True,
        )
        os.close(terminal)

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display if line.strip()]

    def until(self, seen: Callable[[], bool]) -> None:
        """Reads until that is so. The end of the output ends the wait, a deadline fails it."""
        deadline = time.monotonic() + DEADLINE_S
        while not seen():
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, self.lines()
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the other side is closed
                data = b""
            if not data:
                return
            self.sent += data
            self._stream.feed(data)

    def ended(self) -> int:
        self.until(lambda: False)
        return self.process.wait(DEADLINE_S)

    def leave(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(DEADLINE_S)
        os.close(self._master)


@pytest.fixture
def ask(tmp_path) -> Iterator[Callable[..., Asked]]:
    started: list[Asked] = []

    def start(items: list[dict], *, columns: int = 40, **env: str) -> Asked:
        command = Command(tmp_path)
        model = command.write_script("script", [items])
        started.append(Asked(command, "--model", model, "--tools", "none", "hello", columns=columns, **env))
        return started[-1]

    yield start
    for asked in started:
        asked.leave()


def test_a_question_on_a_terminal_is_answered_in_markdown(ask):
    asked = ask([{"text": "# Hi\n\nSome **bold** words that go on"}, {"text": " for more than forty columns.\n"}])
    assert asked.ended() == 0
    assert asked.lines()[-3:] == ["Hi", "Some bold words that go on for more than", "forty columns."]
    assert b"\x1b[0;1mbold\x1b[0m" in asked.sent


def test_code_on_a_terminal_has_colours(ask):
    asked = ask([{"text": "```python\nif x: pass\n```"}])
    assert asked.ended() == 0
    assert b"\x1b[0;35mif\x1b[0m" in asked.sent


def test_without_colours_an_answer_is_drawn_and_wrapped_all_the_same(ask):
    text = "# Hi\n\n**bold** and `code` " + "word " * 40 + "\n\n```python\nif x: pass\n```\n"
    asked = ask([{"text": text}], NO_COLOR="1", columns=50)
    assert asked.ended() == 0
    assert b"\x1b[0;1mbold" in asked.sent and b"**" not in asked.sent
    assert not re.search(rb"\x1b\[[0-9;]*\b(?:3|4)[0-7][;m]", asked.sent)
    assert all(line.endswith("word") for line in asked.lines() if line.startswith("word") and "\n" not in line)


def test_where_nothing_can_be_drawn_the_answer_is_as_the_model_wrote_it(ask):
    asked = ask([{"text": "# Hi\n\n**bold**"}], TERM="dumb")
    assert asked.ended() == 0
    assert asked.lines()[-2:] == ["# Hi", "**bold**"]
    assert b"\x1b[0" not in asked.sent and b"\x1b[2m" not in asked.sent


def test_ctrl_c_keeps_what_was_said(ask):
    asked = ask([{"text": "Said *before the"}, {"wait_s": 50}, {"text": "never"}])
    asked.until(lambda: b"Said" in asked.sent)
    asked.process.send_signal(signal.SIGINT)
    assert asked.ended() == 130
    assert "Said *before the" in asked.lines()


def test_a_window_resized_while_a_reply_streams_is_used_from_the_next_line_on(ask):
    asked = ask([{"text": "word " * 30 + "\n\nMARK "}, {"wait_s": 0.5}, {"text": "word " * 30}], columns=100)
    asked.until(lambda: b"MARK" in asked.sent)
    asked.resize(40)
    assert asked.ended() == 0
    after = asked.sent.decode().replace("\r\n", "\n").split("MARK", 1)[1].split("\n")
    assert len(after) > 2
    assert max(len(line) for line in after[1:]) <= 40


def test_waiting_is_seen_and_gone_when_the_answer_comes(ask):
    asked = ask([{"reasoning": "hm"}, {"wait_s": 0.8}, {"text": "Done."}])
    asked.until(lambda: "thinking, 0." in "".join(asked.lines()))
    assert asked.ended() == 0
    assert asked.lines()[-1] == "Done."
    assert "thinking" not in "".join(asked.lines())
    assert "∴ thought for" in "".join(asked.lines())
