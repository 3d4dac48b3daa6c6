"""The live shell: a real bash on a real terminal, and a person at another one."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aish.errors import ProcessError, UsageError
from aish.process.child import ChildProcess, ProcessSpec
from aish.tools.bash.shell import LiveBash, LiveBashSpec, is_exit_line
from aish.types.live_shell import RunEnd, RunResult, WordKind
from support.eventually import eventually
from support.person import Person, person
from support.processes import is_running

CHILDREN = Path(__file__).parents[2] / "support" / "children"


class Heard:
    def __init__(self) -> None:
        self.idle = b""
        self.notices: list[str] = []

    def output(self, data: bytes) -> None:
        self.idle += data


@asynccontextmanager
async def live(
    tmp_path: Path, *, rc: str = "", heard: Heard | None = None, **options: object
) -> AsyncIterator[LiveBash]:
    heard = heard or Heard()
    rc_file = tmp_path / "bashrc"
    rc_file.write_text(rc)
    spec = LiveBashSpec(**{"cwd": tmp_path, "rc_file": str(rc_file), "close_wait_s": 0.2, **options})  # type: ignore[arg-type]
    async with (
        asyncio.timeout(60),
        LiveBash.open(spec, on_output=heard.output, on_notice=heard.notices.append) as shell,
    ):
        yield shell


async def says(shell: LiveBash, line: str) -> str:
    result = await shell.run_user(line, None)
    assert result.end is RunEnd.DONE, result
    return result.output


# One shell that lives on


async def test_a_line_gives_its_output_status_directory_and_duration(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        result = await shell.run_user("echo hello; (exit 3)", None)
        assert (result.output, result.status, result.cwd) == ("hello\n", 3, str(tmp_path))
        assert 0 < result.duration_s < 10
        assert list(shell.history) == ["echo hello; (exit 3)"]


async def test_what_a_line_sets_is_there_for_the_next(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    async with live(tmp_path) as shell:
        await says(shell, "cd 'a b'; export X=1; declare -A map=([k]=v); f() { echo func; }; alias g='echo alias'")
        assert await says(shell, 'echo $X ${map[k]} "$PWD"; f; g') == f"1 v {tmp_path}/a b\nfunc\nalias\n"
        assert shell.cwd == f"{tmp_path}/a b"


async def test_status_last_argument_and_pipe_status_are_those_of_the_persons_last_line(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        await says(shell, "true one two | (exit 4)")
        assert await says(shell, "echo $?") == "4\n"
        await says(shell, "true|false|true")
        assert await says(shell, 'echo "${PIPESTATUS[@]}"') == "0 1 0\n"
        await says(shell, "mkdir some-folder")
        assert await says(shell, "cd $_; pwd") == f"{tmp_path}/some-folder\n"
        await says(shell, "(exit 5)")
        await shell.run_model("true", 10)
        assert await says(shell, "echo $?") == "5\n"


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("cat <<E\none\ntwo\nE", "one\ntwo\n"),
        ("for i in 1 2\ndo\n  echo $i\ndone", "1\n2\n"),
        ("echo a \\", "a\n"),
        ("echo a # 'comment", "a\n"),
        ("shopt -s extglob\necho +(x)", "+(x)\n"),
        ("printf 'héllo wörld ✓\\n'", "héllo wörld ✓\n"),
        ("", ""),
        ("  # nothing", ""),
    ],
)
async def test_lines_of_every_shape_run_whole(tmp_path: Path, line: str, output: str) -> None:
    async with live(tmp_path) as shell:
        assert await says(shell, line) == output
        assert await says(shell, "echo next") == "next\n"


@pytest.mark.parametrize("line", ["echo 'open", 'echo "open', "if true", "echo $(", "f() {", "cat <<E\nnever ended"])
async def test_an_unfinished_line_is_reported_and_nothing_hangs(tmp_path: Path, line: str) -> None:
    async with live(tmp_path) as shell:
        output = await says(shell, line)
        assert any(word in output for word in ("unexpected", "syntax error", "delimited by end-of-file"))
        assert await says(shell, "echo next") == "next\n"


async def test_a_line_of_two_hundred_kilobytes(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        assert await says(shell, f"x={'y' * 200_000}; echo ${{#x}}") == "200000\n"


async def test_nul_is_refused_in_a_line_and_noticed_in_output(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        with pytest.raises(UsageError, match="NUL"):
            await shell.run_user("echo a\0b", None)
        result = await shell.run_user("head -c 300 /dev/zero", None)
        assert result.binary and result.output == "[aish] 300 bytes of binary output"


async def test_the_history_of_bash_holds_what_was_typed_and_nothing_of_ours(tmp_path: Path) -> None:
    async with live(tmp_path, rc="HISTCONTROL=ignoredups:ignorespace\n") as shell:
        for line in ("echo one", "echo one", " echo hidden", "echo two"):
            await says(shell, line)
        await shell.run_model("echo of-the-model", 10)
        history = [line.split(maxsplit=1)[1] for line in (await says(shell, "history")).splitlines()]
        assert history == ["echo one", "echo two", "history"]
        assert await says(shell, "echo $HISTCONTROL") == "ignoredups:ignorespace\n"


async def test_history_expansion_works_and_an_unknown_event_runs_nothing(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        await says(shell, "echo first")
        assert await says(shell, "!! again") == "first again\n"
        result = await shell.run_user("!no-such-event; echo ran", None)
        assert result.status == 1 and "ran" not in result.output
        assert await says(shell, "echo 'not!expanded'") == "not!expanded\n"


async def test_two_shells_in_one_home_do_not_meet(tmp_path: Path) -> None:
    async with live(tmp_path) as one, live(tmp_path) as other:
        results = await asyncio.gather(
            *(says(shell, f"X={n}; sleep 0.1; echo $X") for n, shell in enumerate((one, other)))
        )
        assert results == ["0\n", "1\n"]


async def test_lines_given_at_once_run_one_after_the_other(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        results = await asyncio.gather(
            says(shell, "x=a; echo $x"), says(shell, "x+=b; echo $x"), says(shell, "echo $x$x")
        )
        assert results == ["a\n", "ab\n", "abab\n"]


# Whatever the person's rc file does


@pytest.mark.parametrize(
    "rc",
    [
        "PROMPT_COMMAND='echo -n'; PS1='> '",
        "PROMPT_COMMAND=(true 'true two' false)",
        "PROMPT_COMMAND='x=$?; history -a;'",
        "PS0='ps0-$(echo text)\\n'",
        "trap 'last=$BASH_COMMAND' DEBUG",
        "trap : DEBUG; set -T; shopt -s extdebug",
        "trap 'false' ERR",
        "set -o vi",
        "set -o posix",
        "set -u",
        "set -e",
        "set -f; IFS=:",
        "set -b; shopt -s nocasematch",
        "TMOUT=1; readonly TMOUT",
        "alias read=false printf=false set=false local=false builtin=false eval=false exec=false",
        'history() { echo mine; }; printf() { command printf mine; }; cd() { builtin cd "$@"; }; jobs() { :; }',
        "bind '\"\\C-x\": \"boo\"'; bind 'set editing-mode vi'",
        "return 3",
        "stty -echo raw",
        "exec 2>/dev/null",
        "unset HISTFILE; set +o history; HISTSIZE=0",
        "set +m",
    ],
)
async def test_the_shell_works_whatever_the_rc_file_sets(tmp_path: Path, rc: str) -> None:
    async with live(tmp_path, rc=rc) as shell:
        first = await shell.run_user("echo hello && ! true", None)
        assert "hello" in first.output and (first.status, first.end) == (1, RunEnd.DONE)
        second = await shell.run_user("X=5; echo again", None)
        assert "again" in second.output and second.status == 0
        assert "__aish" not in first.output + second.output and "133;" not in first.output + second.output


async def test_prompt_commands_and_ps0_of_the_person_still_run_and_see_the_status(tmp_path: Path) -> None:
    rc = "PROMPT_COMMAND='seen=$?:$seen'; PS0='before '\n"
    async with live(tmp_path, rc=rc) as shell:
        await says(shell, "(exit 7)")
        assert (await says(shell, "echo $seen")).startswith("7:")
        with person() as someone:
            await shell.run_user("echo shown", someone.terminal)
            await someone.sees(b"before shown")


async def test_hooks_in_the_manner_of_bash_preexec_get_the_real_line(tmp_path: Path) -> None:
    rc = """
    preexec() { [[ $on == 1 ]] || return; [[ $PROMPT_COMMAND == *"$BASH_COMMAND"* ]] && return; on=0
      ran+="<$(HISTTIMEFORMAT= history 1 | sed 's/^ *[0-9]* *//')>"; }
    precmd() { :; }
    trap preexec DEBUG
    PROMPT_COMMAND=$'precmd\\non=1'
    """
    async with live(tmp_path, rc=rc) as shell:
        await says(shell, "true one")
        await says(shell, "true two")
        assert (await says(shell, "echo $ran")).startswith("<true one><true two><echo $ran>")


@pytest.mark.parametrize(
    "change",
    [
        "PROMPT_COMMAND='p=$((p+1))'",
        "PROMPT_COMMAND=(true true)",
        "unset PROMPT_COMMAND",
        "PROMPT_COMMAND+=';true'",
        'PROMPT_COMMAND="true; $PROMPT_COMMAND"',
    ],
)
async def test_changing_the_prompt_command_later_loses_nothing(tmp_path: Path, change: str) -> None:
    async with live(tmp_path) as shell:
        await says(shell, change)
        for _ in range(3):
            assert await says(shell, "echo here") == "here\n"


@pytest.mark.parametrize("setting", ["set -o vi", "set -o emacs", "set +o vi +o emacs", "set -v", "set -x", "set -m"])
async def test_options_set_in_a_line_do_not_cost_the_next(tmp_path: Path, setting: str) -> None:
    async with live(tmp_path) as shell:
        await says(shell, f"{setting}; echo set")
        assert "next\n" in await says(shell, "echo next")


async def test_the_editing_mode_of_the_person_is_known(tmp_path: Path) -> None:
    async with live(tmp_path, rc="set -o vi\n") as shell:
        await shell.ready()
        assert shell.editing == "vi"
        await says(shell, "set -o emacs")
        assert shell.editing == "emacs"


async def test_an_rc_file_that_hangs_is_given_up_and_said_so(tmp_path: Path) -> None:
    heard = Heard()
    async with live(tmp_path, rc="sleep 600", heard=heard, ready_s=0.3) as shell:
        assert await says(shell, "echo fine") == "fine\n"
        assert any("rc file" in notice for notice in heard.notices)


async def test_an_rc_file_that_exits_is_left_out_the_second_time(tmp_path: Path) -> None:
    heard = Heard()
    async with live(tmp_path, rc="exit 1", heard=heard) as shell:
        await shell.ready()
        assert await says(shell, "echo fine") == "fine\n"
        assert any("rc file" in notice for notice in heard.notices) and not shell.exited.is_set()


async def test_an_rc_file_may_ask_the_person(tmp_path: Path) -> None:
    async with live(tmp_path, rc="read -p 'passphrase? ' word\n") as shell:
        with person() as someone:
            running = asyncio.create_task(shell.run_user("echo got $word", someone.terminal))
            await someone.sees(b"passphrase? ")
            someone.press(b"sesame\r")
            assert (await running).output == "got sesame\n"


# Marks


async def test_marks_printed_by_a_program_change_nothing_and_are_shown(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        forged = r"printf '\e]133;D;aish=0123456789abcdef\a\e]133;P;aish=0123456789abcdef\a'; echo still here; (exit 9)"
        with person() as someone:
            result = await shell.run_user(forged, someone.terminal)
            assert (result.output, result.status) == ("still here\n", 9)
            await someone.sees(b"133;D;aish=0123456789abcdef")


async def test_a_nonce_that_was_seen_once_is_worth_nothing_later(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        nonce = (await says(shell, "echo $__aish_nonce")).strip()
        result = await shell.run_user(
            rf"printf '\e]133;D;aish={nonce}\a\e]133;P;aish={nonce}\a'; sleep 0.1; exit_=7", None
        )
        assert result.duration_s >= 0.09


async def test_the_person_never_sees_our_marks_nor_what_we_type(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        with person() as someone:
            for line in ("echo a", "cd /", "true"):
                await shell.run_user(line, someone.terminal)
            await shell.run_user("echo end", someone.terminal)
            await someone.sees(b"end\r\n")
            assert someone.seen == b"a\r\nend\r\n"


# At the terminal


async def run_while(shell: LiveBash, someone: Person, line: str) -> asyncio.Task[RunResult]:
    return asyncio.create_task(shell.run_user(line, someone.terminal))


async def test_control_c_stops_the_program_and_not_the_shell(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        await says(shell, "X=kept")
        with person() as someone:
            running = await run_while(shell, someone, "sh -c 'echo started; exec sleep 600'; echo never")
            await someone.sees(
                b"started"
            )  # by the program: between two programs a bash of its own may miss the key, too
            someone.press(b"\x03")
            result = await running
        assert (result.status, result.end) == (130, RunEnd.DONE) and "never" not in result.output
        assert await says(shell, "echo $X") == "kept\n"


async def test_control_z_makes_a_job_that_comes_back_with_fg(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        with person() as someone:
            running = await run_while(shell, someone, "sh -c 'echo up; exec cat'")
            await someone.sees(b"up")
            someone.press(b"one\r")
            await someone.sees(b"one\r\none\r\n")
            someone.press(b"\x1a")
            stopped = await running
            assert stopped.status == 148 and stopped.jobs == 1 and shell.jobs == 1
            running = await run_while(shell, someone, "fg")
            await eventually(lambda: someone.seen.count(b"exec cat'\r\n") == 2)  # stopped, and named by fg
            someone.press(b"two\r")
            await someone.sees(b"two\r\ntwo\r\n")
            someone.press(b"\x04")
            assert (await running).status == 0
        assert shell.jobs == 0


async def test_what_is_typed_before_the_shell_is_up_is_for_the_line(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        with person() as someone:
            running = await run_while(shell, someone, 'read x; echo "got $x"')
            someone.press(b"early\r")
            assert "got early" in (await running).output


async def test_a_job_that_ends_is_told_before_the_next_prompt(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        await says(shell, "mkfifo pipe; cat pipe & job=$!")
        with person() as someone:
            await shell.run_user("echo >pipe; while kill -0 $job 2>/dev/null; do :; done", someone.terminal)
            await someone.sees(b"Done")
            assert someone.seen.count(b"Done") == 1


async def test_a_job_that_ends_while_nobody_runs_anything_is_told_with_the_next_line(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        await says(shell, "mkfifo pipe; cat pipe & job=$!")
        job = int(await says(shell, "echo $job"))
        (tmp_path / "pipe").write_text("")
        await eventually(lambda: not is_running(job))
        with person() as someone:
            await shell.run_user("echo next", someone.terminal)
            await someone.sees(b"next")
            assert someone.seen.count(b"Done") == 1


async def test_a_background_job_that_prints_while_nobody_runs_anything_is_heard(tmp_path: Path) -> None:
    heard = Heard()
    async with live(tmp_path, heard=heard) as shell:
        await says(shell, "mkfifo pipe; (read x <pipe; echo from-behind $x) &")
        (tmp_path / "pipe").write_text("now\n")
        await eventually(lambda: b"from-behind now" in heard.idle)
        assert "__aish" not in heard.idle.decode()
        assert await says(shell, "echo fine") == "fine\n"


async def test_programs_see_the_size_of_the_terminal_and_its_changes(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "def tell(*_): print(tuple(os.get_terminal_size(0)), flush=True)\n"
        "signal.signal(signal.SIGWINCH, tell); tell()\n"
        "while True: signal.pause()\n"
    )
    (tmp_path / "size.py").write_text(code)
    async with live(tmp_path) as shell:
        with person() as someone:
            someone.resize(33, 99)
            running = await run_while(shell, someone, f"{sys.executable} size.py")
            await someone.sees(b"(99, 33)")
            someone.resize(10, 40)
            os.kill(os.getpid(), signal.SIGWINCH)  # what the kernel does for the group in front
            await someone.sees(b"(40, 10)")
            someone.press(b"\x03")
            await running


async def test_a_program_that_leaves_everything_switched_on_is_cleaned_up_after(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        with person() as someone:
            before = someone.modes()
            result = await shell.run_user(
                r"stty raw -echo; printf '\e[?1049h\e[?25l\e[?1000;1006hgarbage'", someone.terminal
            )
            assert someone.modes() == before and result.full_screen
            for restore_sequence in (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b[?1006l"):
                await someone.sees(restore_sequence)
        words = (await says(shell, "stty -a")).replace(";", " ").split()
        assert "icanon" in words and "echo" in words and "opost" in words


async def test_the_terminal_is_given_back_when_the_runner_is_cancelled(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        with person() as someone:
            before = someone.modes()
            running = await run_while(shell, someone, "echo started; sleep 600")
            await someone.sees(b"started")
            running.cancel()
            await asyncio.wait({running})
            assert someone.modes() == before
        assert await says(shell, "echo next; jobs") == "next\n"


async def test_a_full_screen_program_leaves_one_line(tmp_path: Path) -> None:
    (tmp_path / "tui").write_text("#!/bin/sh\nprintf '\\033[?1049h\\033[2Jdrawing'; read x; printf '\\033[?1049l'\n")
    (tmp_path / "tui").chmod(0o755)
    async with live(tmp_path) as shell:
        with person() as someone:
            running = await run_while(shell, someone, "./tui")
            await someone.sees(b"drawing")
            someone.press(b"\r")
            result = await running
        assert result.output == "ran ./tui, exit 0" and result.full_screen


@pytest.mark.skipif(shutil.which("vim") is None, reason="needs vim")
async def test_vim_and_back(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        with person() as someone:
            running = await run_while(shell, someone, "TERM=xterm vim -u NONE -n note.txt")
            await someone.sees(b"note.txt")
            someone.press(b"ihello\x1b:wq\r")
            result = await running
        assert result.output == "ran TERM=xterm vim -u NONE -n note.txt, exit 0"
        assert (tmp_path / "note.txt").read_text() == "hello\n"
        assert await says(shell, "cat note.txt") == "hello\n"


async def test_what_was_typed_ahead_is_handed_on_and_not_run(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        with person() as someone:
            running = await run_while(shell, someone, "echo busy; while [ ! -e go ]; do :; done")
            await someone.sees(b"busy")
            someone.press(b"touch never\rhalf")
            await someone.sees(b"half")
            (tmp_path / "go").touch()
            result = await running
        assert result.typed_ahead == "touch never\nhalf"
        assert not (tmp_path / "never").exists()
        assert await says(shell, "echo fine") == "fine\n"


async def test_a_password_prompt_works_at_the_terminal(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        with person() as someone:
            line = f"{sys.executable} -c 'import getpass; print(len(getpass.getpass()))'"
            running = await run_while(shell, someone, line)
            await someone.sees(b"Password:")
            someone.press(b"secret\r")
            result = await running
            assert b"secret" not in someone.seen and "6" in result.output


async def test_twenty_megabytes_reach_the_terminal_in_bounded_memory(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        with person() as someone:
            result = await shell.run_user("head -c 20000000 /dev/zero | tr '\\0' x | fold -w 79", someone.terminal)
            await eventually(lambda: someone.seen_bytes == result.total_bytes > 20_000_000)
        assert len(result.output) < 140_000
        assert f"{result.left_out_bytes} bytes left out" in result.output


async def test_a_terminal_that_stops_holds_up_the_program(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        with person() as someone:
            someone.look_away()
            running = await run_while(shell, someone, "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the-end")
            await eventually(lambda: shell._pty is not None and shell._pty.paused)
            assert not running.done()
            someone.look()
            await running
            await someone.sees(b"the-end")


async def test_progress_is_what_it_showed_last_and_colours_are_gone(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        line = r"for i in 1 50 100; do printf '\rload %d%%' $i; done; echo; printf '\e[31mred\e[0m\n'"
        assert await says(shell, line) == "load 100%\nred\n"


# Its end


async def test_exit_ends_it_with_an_event(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        result = await shell.run_user("exit 3", None)
        assert (result.end, result.status, shell.exit_code) == (RunEnd.EXITED, 3, 3)
        assert shell.exited.is_set()
        with pytest.raises(ProcessError, match="exited"):
            await shell.run_user("echo late", None)


async def test_exit_with_stopped_jobs_warns_once_and_the_second_one_means_it(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        await says(shell, "sleep 600 & kill -STOP $!; wait -n 2>/dev/null; jobs")
        assert "stopped jobs" in await says(shell, "exit")
        assert (await shell.run_user("exit", None)).end is RunEnd.EXITED


ENDINGS = ["exec false", "exec sh -c 'exit 0'", "set -e; false", "kill -9 $$", "sh -c 'kill -9 $PPID'"]


@pytest.mark.parametrize("line", ENDINGS)
async def test_whatever_ends_bash_another_one_takes_over_with_its_directory_and_exports(
    tmp_path: Path, line: str
) -> None:
    heard = Heard()
    (tmp_path / "deep").mkdir()
    rc = "export FROM_RC=rc ONLY_RC=gone; PATH=$PATH:/once"
    async with live(tmp_path, rc=rc, heard=heard) as shell:
        await says(
            shell, "cd deep; export KEPT=$'two\\nlines' FROM_RC=changed; unset ONLY_RC; LOST=1; declare -x -i N=4"
        )
        result = await shell.run_user(line, None)
        assert result.end in (RunEnd.EXITED, RunEnd.LOST) and not shell.exited.is_set()
        shown = await says(shell, 'echo "$KEPT $FROM_RC ${ONLY_RC-none} ${LOST-none} $N $PWD"; echo "${PATH//[^o]/}"')
        assert shown.splitlines()[:2] == ["two", f"lines changed none none 4 {tmp_path}/deep"]
        assert await says(shell, 'echo "${PATH#*:/once}"') == "\n"  # the rc file has added it once
        assert len(heard.notices) == 1 and "a new one" in heard.notices[0] and "\n" not in heard.notices[0]


@pytest.mark.parametrize("rc", ["IFS=x", "set -o posix", "set -euo pipefail", "unset() { :; }; alias .=:", "set -f"])
async def test_exports_are_given_to_the_next_bash_whatever_the_rc_file_sets(tmp_path: Path, rc: str) -> None:
    async with live(tmp_path, rc=f"export ONLY_RC=1\n{rc}") as shell:
        await shell.run_user("set +e; export A='1 x 2'; builtin unset ONLY_RC; exec false", None)
        await says(shell, "set +eu; builtin unset ONLY_RC; export B='2 x 3'")
        await shell.run_user("exec false", None)
        assert await says(shell, 'set +eu; builtin echo "$B ${ONLY_RC-none}"') == "2 x 3 none\n"


async def test_exports_under_allexport_do_not_confuse_the_bash_that_takes_over(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        await says(shell, "set -a")
        await says(shell, "A=1")
        await shell.run_user("exec false", None)
        assert await says(shell, "echo $A; env | grep -c __aish") == "1\n0\n"


async def test_exports_are_in_no_file_while_the_shell_waits(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        await says(shell, "export SECRET=hidden-in-memory")
        await shell.run_user("exec false", None)
        assert await says(shell, 'echo $SECRET; grep -rl hidden-in-mem"ory" "$__aish_dir"') == "hidden-in-memory\n"


async def test_an_alias_of_exit_leaves_and_other_aliases_do_not(tmp_path: Path) -> None:
    async with live(tmp_path, rc="alias q=exit bye='exec false' ]=:") as shell:
        await shell.run_user("bye", None)
        await says(shell, "] ; echo fine")
        assert not shell.exited.is_set()
        assert (await shell.run_user("q", None, may_exit=False)).end is RunEnd.EXITED
        assert not shell.exited.is_set()
        await shell.run_user(" q 4", None)
        assert shell.exited.is_set() and shell.exit_code == 4


async def test_a_line_that_may_not_exit_is_followed_by_another_bash(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        assert (await shell.run_user("export A=1; cd /", None)).status == 0
        assert (await shell.run_user("exit 3", None, may_exit=False)).end is RunEnd.EXITED
        assert await says(shell, "echo $A $PWD") == "1 /\n" and not shell.exited.is_set()


async def test_a_bash_that_is_killed_again_and_again_is_followed_by_another_each_time(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        for _ in range(4):
            await shell.ready()
            pid = shell.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await eventually(lambda pid=pid: shell.pid not in (pid, None))
        assert await says(shell, "echo fine") == "fine\n"


@pytest.mark.parametrize(
    ("line", "leaves"),
    [
        ("exit", True), (" exit 3", True), ("logout", True), ("make && exit", True), ("cd x || exit 1", True),
        ("if true; then exit; fi", True), ("{ exit; }", True), ("echo a; exit", True), ("builtin exit", True),
        ("(exit 3)", False), ("echo exit", False), ("echo 'x; exit'", False), ('echo "a; exit"', False),
        ("exit-code", False), ("$(exit 2)", False), ("./exit", False), ("exit=3", False), ("set -e; false", False),
        ("exec exit", False),
    ],
)  # fmt: skip
def test_a_line_that_says_exit_is_told_from_others(line: str, leaves: bool) -> None:  # noqa: FBT001
    assert is_exit_line(line) is leaves


async def test_exec_with_redirections_only_keeps_everything_working(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        await says(shell, "exec 3>log 1>out.txt")
        await says(shell, "echo to file; echo to log >&3")
        await says(shell, "exec 1>/dev/tty")
        assert await says(shell, "cat out.txt log") == "to file\nto log\n"


@pytest.mark.parametrize("busy", [True, False])
async def test_a_bash_killed_from_outside_is_followed_by_another_where_it_was(tmp_path: Path, busy: bool) -> None:  # noqa: FBT001
    heard = Heard()
    (tmp_path / "deep").mkdir()
    async with live(tmp_path, heard=heard) as shell:
        await says(shell, "cd deep; X=lost")
        pid = shell.pid
        assert pid is not None
        if busy:
            result = await shell.run_user("kill -9 $$", None)
            assert (result.end, result.status) == (RunEnd.LOST, 137)
        else:
            os.kill(pid, signal.SIGKILL)
            await eventually(lambda: shell.pid not in (pid, None))
        assert await says(shell, 'echo "[$X]"; pwd') == f"[]\n{tmp_path}/deep\n"
        assert ["signal 9" in notice for notice in heard.notices] == [True]
        assert not shell.exited.is_set()


async def test_leaving_ends_what_runs(tmp_path: Path) -> None:
    async with live(tmp_path) as shell:
        pids = [
            int(word)
            for word in (await says(shell, "sleep 600 & sleep 601 & jobs -p; echo $$")).split()
            if word.isdigit()
        ]
        assert len(pids) >= 3 and all(map(is_running, pids))
    await eventually(lambda: not any(map(is_running, pids)))


@pytest.mark.parametrize("leave", ["exit", None])
@pytest.mark.parametrize("rc", ["", "set -C"])
async def test_leaving_spares_what_bash_was_told_to_forget_and_nothing_else(
    tmp_path: Path, leave: str | None, rc: str
) -> None:
    pids = tmp_path / "pids"
    async with live(tmp_path, rc=rc) as shell:
        await says(shell, "sleep 600 & echo $! >>pids; disown")
        await says(shell, "sleep 601 | sleep 602 & echo $! >>pids; disown %+")
        await says(shell, "sleep 603 & echo $! >>pids")
        await says(shell, "(sleep 604 & echo $! >>pids)")
        if leave is not None:
            assert (await shell.run_user(leave, None)).end is RunEnd.EXITED
    kept, piped, job, orphan = map(int, pids.read_text().split())
    try:
        await eventually(lambda: not is_running(job) and not is_running(orphan))
        assert is_running(kept) and is_running(piped)
    finally:
        for pid in (kept, piped):
            os.killpg(os.getpgid(pid), signal.SIGKILL)


async def test_leaving_in_the_middle_of_a_line_ends_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    async with live(tmp_path) as shell:
        await says(shell, "true")
        running = asyncio.create_task(shell.run_user("bash -c 'echo $$ >pid; exec sleep 600'", None))
        await eventually(lambda: pid.exists() and pid.read_text().endswith("\n"))
    await asyncio.wait({running}, timeout=20)
    await eventually(lambda: not is_running(int(pid.read_text())))


async def test_only_what_ignores_hangup_survives_kill_9_of_aish(tmp_path: Path) -> None:
    argv = (sys.executable, str(CHILDREN / "live_shell.py"))
    async with ChildProcess.start(ProcessSpec(argv, name="owner", inherit=("PYTHON*",))) as owner:
        shell, job, kept = (int(word) for word in (await anext(owner.stdout)).split())
        assert is_running(shell) and is_running(job)
        os.kill(owner.pid, signal.SIGKILL)
        await eventually(lambda: not is_running(shell) and not is_running(job))
        assert is_running(kept)
        os.kill(kept, signal.SIGKILL)


async def test_without_bash_any_sh_does_and_what_is_lost_is_said(tmp_path: Path) -> None:
    heard = Heard()
    async with live(tmp_path, heard=heard, shell=shutil.which("dash") or "/bin/sh", rc_file=None) as shell:
        assert [("no bash" in notice) for notice in heard.notices] == [True]
        assert await says(shell, "X=1; cd /; echo $X") == "1\n"
        result = await shell.run_user("echo $X; (exit 4)", None)
        assert (result.output, result.status, result.cwd) == ("1\n", 4, "/")
        model = await shell.run_model("echo $PAGER; cat", 10)
        assert model.output == "cat\n"
        assert (await shell.run_model("sleep 60", 0.2)).end is RunEnd.TIMED_OUT
        assert shell.resolve("cd") is WordKind.BUILTIN
        assert (await shell.run_user("exit 2", None)).end is RunEnd.EXITED


# Where there is no room


async def test_where_its_files_cannot_be_made_that_is_said_and_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "full"
    monkeypatch.setattr("aish.tools.bash.channel.memory_folder", lambda: str(full))
    async with live(tmp_path) as shell:
        with pytest.raises(ProcessError, match="cannot be made: No such file") as failed:
            await shell.run_user("echo hi", None)
        assert failed.value.hint == f"is there room in {full}?"


async def test_a_line_that_finds_no_room_is_refused_and_the_next_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with live(tmp_path) as shell:
        await says(shell, "x=7")
        with monkeypatch.context() as full:
            full.setattr("os.pwrite", refuse)
            with pytest.raises(ProcessError, match="cannot be handed to the shell: No space left on device"):
                await shell.run_user("echo hi", None)
        assert await says(shell, "echo $x") == "7\n"


def refuse(*given: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_folders_of_killed_shells_are_removed_and_those_of_others_stay(tmp_path):
    private = tmp_path / "run"
    left = private / "aish-left"
    left.mkdir(parents=True)
    os.mkfifo(left / "ctl")
    spec = LiveBashSpec(cwd=tmp_path, close_wait_s=0.2, private=private)
    async with asyncio.timeout(30), LiveBash.open(spec) as first:
        await first.run_user("true", None)
        for folder in private.iterdir():
            os.utime(folder, (0, 0))
        async with LiveBash.open(spec) as second:
            await second.run_user("true", None)
            assert not left.exists() and len(list(private.iterdir())) == 2
            assert (await first.run_user("echo on", None)).output == "on\n"
    assert list(private.iterdir()) == []
