"""Lines of a model run in a copy of the person's shell: it sees all of it, and nothing it does reaches it."""

from __future__ import annotations

import asyncio
import os
import resource
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from aish.errors import ProcessError
from aish.process.sandbox import NoSandbox, SandboxMode, make_sandbox
from aish.safety.redaction.secret_formats import looks_secret
from aish.tools.bash import snapshot
from aish.tools.bash.shell import LiveBash, LiveBashSpec
from aish.types.live_shell import RunEnd
from support.eventually import eventually
from support.processes import is_running


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[LiveBash]:
    spec = LiveBashSpec(
        cwd=tmp_path, close_wait_s=0.2, env={"TOKEN": "s3cret"}, model_env={"EXTRA": "1"}, hides="TOKEN".__eq__
    )
    async with asyncio.timeout(60), LiveBash.open(spec) as shell:
        yield shell


async def state_of(shell: LiveBash) -> str:
    """Everything of it that a line could change."""
    line = (
        "echo $? $PWD $$; { set +o; shopt -p; alias; trap; jobs; umask; history; stty -a; declare -f; dirs; "
        "declare -p; } 2>&1 | grep -v '__aish\\|BASH\\|EPOCH\\|RANDOM\\|SECONDS\\|LINENO\\|PIPESTATUS\\| _='"
    )
    return (await shell.run_user(f" {line}", None)).output


CHANGES = [
    "exit",
    "exit 3",
    "logout; exit",
    "set -e; false",
    "set -u; echo $NONE",
    "set -x",
    "set -o vi -o posix -f -C -a -k",
    "exec true",
    "exec bash -c 'exit 4'",
    "exec bash",
    "read -t 1 x </dev/tty; cat </dev/tty",
    "kill -9 -$$; kill -9 -$PPID",
    "exec >/dev/null 2>&1 <&-",
    "exec 250>&-",
    "trap 'echo left' EXIT DEBUG ERR INT; trap '' HUP TERM",
    "cd /",
    "pushd /; cd /usr",
    "unset PWD; PWD=/nowhere; HOME=/x; PATH=/x; IFS=x",
    "build=/elsewhere; export KEPT=1; declare -gx E=1; readonly SEALED=1; unset TOKEN",
    "read -r build <<<x; mapfile -t lines <<<y; printf -v out z; getopts a o -a",
    "alias ls='echo gone'; unalias -a; f() { :; }; cd() { :; }; builtin() { :; }; export -f f",
    "shopt -s nullglob globstar nocasematch; shopt -u expand_aliases",
    'umask 000; ulimit -n 64; hash -r; enable -n cd; complete -F x y; bind \'"a": "b"\'',
    "history -c; history -s of-the-model; fc -l; set -o history",
    "stty raw -echo; stty -isig; reset",
    "stty sane </dev/tty; stty raw </dev/tty",
    "PROMPT_COMMAND='echo p'; PS1=x PS0=y PS4=z",
    "sleep 599 & disown; sleep 599 & wait -n -t 0.01; kill %1; bg; fg",
    "kill $$",
    "kill -9 $$",
    "kill -9 $BASHPID",
    "kill -9 $PPID",
    "kill -INT 0; kill -STOP $$",
    "kill -TERM -- -$$; suspend -f",
    "trap '' INT TERM HUP; while :; do :; done",
    "eval 'exit 1'; . /dev/stdin <<<'exit 2'",
    "coproc cat; exec 3>&${COPROC[1]}",
]


@pytest.mark.parametrize("line", CHANGES)
async def test_nothing_that_a_line_does_to_its_shell_reaches_the_persons(shell: LiveBash, line: str) -> None:
    await shell.run_user("alias ll='ls -l'; f() { echo f; }; X=1; export Y=2; (exit 5)", None)
    pid, before = shell.pid, await state_of(shell)
    await shell.run_model(line, 1.0)
    assert (await state_of(shell)).splitlines()[1:] == before.splitlines()[1:]
    assert shell.pid == pid and not shell.exited.is_set()


async def test_a_line_leaves_no_core_dump_and_the_persons_shell_keeps_its_limit(shell: LiveBash) -> None:
    limits = await shell.run_user("ulimit -Sc; ulimit -Hc", None)
    assert (await shell.run_model("ulimit -Sc; ulimit -Hc", 10)).output == "0\n0\n"
    assert (await shell.run_user("ulimit -Sc; ulimit -Hc", None)).output == limits.output


async def test_a_line_sees_what_the_person_has_set(shell: LiveBash, tmp_path: Path) -> None:
    await shell.run_user("shopt -s extglob nullglob; umask 027", None)
    await shell.run_user(r"""f() { case $1 in +(a)) echo ext;; esac; cat <<'E'
it's "here"
E
}; export -f f; a-b() { echo dashed; }; alias ll='echo aliased'""", None)  # fmt: skip
    await shell.run_user(
        r"""plain=1; export exported=$'two\nlines\001\x7f'; declare -a list=(a 'b c' [5]=$'\'"')
        declare -A map=(['x y']=z);
        declare -i number=7; declare -l low=ABC; declare -n ref=plain; readonly sealed="r'\"\$x"; x=1 said=2 each=3""",
        None,
    )
    line = r"""f aaa; a-b; ll; bash -c 'f a'; echo $plain $ref "${list[1]}" "${list[5]}" "${map[x y]}" $x$said$each
        number=number+1; low=QU; echo $number $low "$sealed"; printf '%q ' "$exported"; env | grep -c ^exported
        umask; echo none*; shopt -p nullglob; declare -p list map ref sealed"""
    seen = (await shell.run_model(line, 10)).output
    expected = (await shell.run_user(f"( {line} )", None)).output
    assert seen == expected
    assert "ext\nit's" in seen and "aliased" in seen and "b c" in seen


async def test_options_of_the_shell_hold_in_the_copy_and_the_last_status_is_known(shell: LiveBash) -> None:
    await shell.run_user("IFS=:; set -u; (exit 5)", None)
    assert (await shell.run_model("echo $NONE; echo on", 10)).status != 0
    await shell.run_user("set +u; set -f; (exit 5)", None)
    result = await shell.run_model("A=x:y; printf '<%s>' $A /*; cd /; pwd", 10)
    assert (result.output, result.cwd) == ("<x><y></*>/\n", "/")
    await shell.run_user("set +f; (exit 5)", None)
    assert (await shell.run_model("echo $?", 10)).output == "5\n"
    await shell.run_user("set -x", None)
    assert (await shell.run_model("echo on", 10)).output.splitlines()[-2:] == ["++ echo on", "on"]


async def test_errors_count_lines_from_the_models_first(shell: LiveBash) -> None:
    assert "bash: line 2: nothing-here" in (await shell.run_model(":\nnothing-here", 10)).output


async def test_a_function_that_cannot_be_read_again_costs_nothing_else(shell: LiveBash) -> None:
    await shell.run_user("set -o posix; set +o posix; eval 'function if { echo odd; }'; g() { echo g; }; V=1", None)
    assert (await shell.run_model("g; echo $V", 10)).output == "g\n1\n"


async def test_the_environment_is_for_machines_and_secrets_are_not_in_it(shell: LiveBash) -> None:
    await shell.run_user("readonly PAGER=less; TOKEN=s3cret", None)
    show = "echo $TERM-$PAGER-$GIT_TERMINAL_PROMPT-${TOKEN-none}-$EXTRA; env | grep -c '^PAGER=cat'"
    assert (await shell.run_model(show, 10)).output == "dumb-cat-0-none-1\n1\n"
    assert "s3cret" not in (await shell.run_model("env; set; declare -p; cat /proc/self/environ", 10)).output


async def test_no_variable_named_like_a_secret_is_in_the_copy(tmp_path: Path) -> None:
    spec = LiveBashSpec(cwd=tmp_path, close_wait_s=0.2, hides=looks_secret)
    async with asyncio.timeout(60), LiveBash.open(spec) as shell:
        await shell.run_user(
            "export MY_API_KEY=s3cret; DB_PASSWORD=s3cret; declare -a AUTH_TOKENS=(a s3cret); "
            "declare -A AWS_SECRET=([k]=s3cret); readonly GH_TOKEN=s3cret; SEEN=1; f() { echo in-a-function; }",
            None,
        )
        show = "declare -p; set; env; declare -f; alias; cat /proc/self/environ /proc/$PPID/environ; tr '\\0' , <&0"
        output = (await shell.run_model(show, 10)).output
        assert "s3cret" not in output and "SEEN=" in output and "in-a-function" in output
        assert (await shell.run_model("declare -n r=GH_TOKEN; echo ${r-none}${!AUTH*}", 10)).output == "none\n"


async def test_there_is_nothing_on_stdin(shell: LiveBash) -> None:
    result = await shell.run_model("cat; read x; echo \"<$x>\"; python3 -c 'input()' 2>&1 | tail -1", 10)
    assert result.output == "<>\nEOFError: EOF when reading a line\n"


async def test_its_terminal_is_its_own(shell: LiveBash) -> None:
    person = (await shell.run_user("tty; ps -o sid= -p $$", None)).output.split()
    model = (await shell.run_model("tty <&1; ps -o sid= -p $$", 10)).output.split()
    assert not set(person) & set(model) and model[0].startswith("/dev/")


async def test_what_it_prints_comes_as_it_is_printed_and_clean(shell: LiveBash) -> None:
    heard: list[str] = []
    await shell.run_model(r"printf '\e[1mbold\e[0m\n'; printf '1\r2\r3\n'; printf rest", 10, on_text=heard.append)
    assert "".join(heard) == "bold\n3\nrest"


async def test_a_flood_of_output_is_kept_head_and_tail(shell: LiveBash) -> None:
    result = await shell.run_model("echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last", 30)
    assert result.output.startswith("first\nxxx") and result.output.endswith("last\n")
    assert len(result.output) < 200_000 and result.total_bytes > 20_000_000


@pytest.mark.parametrize(
    "line",
    [
        "sleep 599; echo never",
        "while :; do :; done",
        "while :; do sleep 599; done",
        "bash -c \"trap '' INT; sleep 599; sleep 599\"; echo never",
        "bash -c \"trap '' INT TERM HUP; while :; do sleep 599; done\"; echo never",
        "trap '' INT TERM HUP; while :; do :; done",
        "sleep 599 | cat; echo never",
        "f() { sleep 599; }; f; echo never",
        "cat /dev/tty",
        "set -m; sleep 599; echo never",
        "kill -STOP $$; echo never",
    ],
)
async def test_a_line_that_takes_too_long_is_stopped(shell: LiveBash, line: str) -> None:
    result = await shell.run_model(line, 0.3)
    assert result.end is RunEnd.TIMED_OUT and "never" not in result.output
    assert (await shell.run_model("echo fine", 10)).output == "fine\n"


async def test_a_signal_that_comes_late_costs_the_next_line_nothing(shell: LiveBash) -> None:
    await shell.ready()
    for number in range(30):
        running = asyncio.create_task(shell.run_user(f"echo {number}", None))
        await asyncio.sleep(0)
        assert shell.pid is not None
        os.kill(shell.pid, signal.SIGINT)
        result = await running
        assert result.end is RunEnd.DONE and result.status in (0, 130)
    assert (await shell.run_user("echo fine", None)).output == "fine\n"


async def test_cancelling_stops_the_line_and_what_it_started(shell: LiveBash, tmp_path: Path) -> None:
    line = "sleep 599 & nohup sleep 599 >/dev/null 2>&1 & jobs -p >pids; mv pids all; wait"
    running = asyncio.create_task(shell.run_model(line, 60))
    await eventually((tmp_path / "all").exists)
    pids = [int(pid) for pid in (tmp_path / "all").read_text().split()]
    running.cancel()
    await asyncio.wait({running}, timeout=10)
    assert running.cancelled() and len(pids) == 2
    await eventually(lambda: not any(map(is_running, pids)))
    assert (await shell.run_user("echo fine", None)).output == "fine\n"


async def test_a_program_that_asks_for_a_password_is_stopped_at_once(shell: LiveBash) -> None:
    result = await shell.run_model(f"{sys.executable} -c 'import getpass; getpass.getpass()'", 30)
    assert result.end is RunEnd.ASKED and "Password" in result.output
    assert (await shell.run_user("stty -a | grep -c ' echo '", None)).output == "1\n"


@pytest.mark.parametrize("start", ["sleep 599 &", "nohup sleep 599 >/dev/null 2>&1 &", "set -m; sleep 599 & disown;"])
async def test_a_job_it_leaves_in_the_background_ends_with_it(shell: LiveBash, tmp_path: Path, start: str) -> None:
    await shell.run_model(f"{start} echo $! >pid", 10)
    await eventually(lambda: not is_running(int((tmp_path / "pid").read_text())))


async def test_a_directory_holds_for_the_turn_and_the_next_turn_begins_at_the_persons(
    shell: LiveBash, tmp_path: Path
) -> None:
    for name in ("sub", "a b"):
        (tmp_path / name).mkdir()
    assert (await shell.run_model("cd sub", 10, turn="t1")).cwd == f"{tmp_path}/sub" == shell.model_cwd("t1")
    result = await shell.run_model("pwd; cd '../a b'; exit 3", 10, turn="t1")
    assert (result.output, result.status, result.cwd) == (f"{tmp_path}/sub\n", 3, f"{tmp_path}/a b")
    await shell.run_model("cd /; exec true", 10, turn="t1")  # it does not say where it ended
    assert (await shell.run_model("pwd", 10, turn="t1")).output == f"{tmp_path}/a b\n"
    assert (await shell.run_model("pwd", 10, turn="t2")).output == f"{tmp_path}\n"
    assert (shell.cwd, shell.model_cwd("t3")) == (str(tmp_path), str(tmp_path))
    (tmp_path / "a b").rmdir()
    assert (await shell.run_model("pwd", 10, turn="t1")).output == f"{tmp_path}\n"


async def test_a_directory_cannot_be_forged_into_one_that_is_none(shell: LiveBash, tmp_path: Path) -> None:
    result = await shell.run_model(r"printf 'x\0/no/such/place\n\0' >&250; exec 250>&-", 10, turn="t")
    assert result.cwd == str(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        r"printf '/etc\n\0' >&250; exec 250>&-",
        r"for fd in /proc/self/fd/*; do eval \"printf '/etc\\n\\0' >&${fd##*/}\"; done 2>/dev/null",
        "touch ran-anyway; timeout 0.5 cat /dev/fd/250",
        "touch ran-anyway; timeout 0.5 cat <&250; exec true",
        "touch ran-anyway; timeout 0.5 bash -c 'cat /proc/$PPID/fd/250; cat /proc/$PPID/fd/10'; kill -9 $$",
        "PWD=/etc; pwd() { echo /etc; }; builtin() { echo /etc; }",
    ],
)
async def test_the_report_is_out_of_reach_of_the_line(shell: LiveBash, tmp_path: Path, line: str) -> None:
    result = await shell.run_model(line, 5, turn="t")
    assert result.cwd == str(tmp_path) == shell.model_cwd("t")
    assert (tmp_path / "ran-anyway").exists() is ("ran-anyway" in line)


@pytest.mark.parametrize(
    "end", ["", "; exit 3", "; set -e; false", "; exec 250>&-", "; f() { exit; }; f", "; set -u; $no"]
)
async def test_a_change_of_directory_is_noticed_however_the_line_ends(shell: LiveBash, end: str) -> None:
    assert (await shell.run_model(f"cd /usr{end}", 5, turn="t")).cwd == "/usr"


async def test_a_link_to_a_directory_is_told_as_the_directory(shell: LiveBash, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert (await shell.run_model("cd link", 5, turn="t")).cwd == f"{tmp_path}/real"
    await shell.run_user("cd link", None)
    assert (await shell.run_model("true", 5, turn="u")).cwd == f"{tmp_path}/link"


async def test_a_line_that_kills_the_persons_bash_leaves_a_new_one_there(shell: LiveBash, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    await shell.run_user("cd sub", None)
    before = shell.pid
    assert (await shell.run_model(f"kill -9 {before}; cd /; echo on", 5)).output == "on\n"
    assert (await shell.run_user("pwd", None)).output == f"{tmp_path}/sub\n"
    assert shell.pid != before and not shell.exited.is_set()
    assert (await shell.run_model("pwd", 5)).output == f"{tmp_path}/sub\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a session of its own is a way out")
@pytest.mark.parametrize(
    "line",
    [
        "setsid sleep 599 & echo $! >pid; kill -9 $PPID",
        "setsid -f bash -c 'echo $$ >pid; exec sleep 599'; WRITTEN; kill -9 $$",
        """trap '' HUP TERM INT; setsid bash -c 'trap "" HUP TERM INT; echo $$ >pid; exec sleep 599' & wait""",
        "env -i setsid -f bash -c 'echo $$ >pid; exec sleep 599'; WRITTEN",
        "env -i setsid -f bash -c 'echo $$ >pid; exec sleep 599'; WRITTEN; while :; do kill -9 $PPID; done",
        "setsid -f bash -c 'echo $$ >pid; exec sleep 599'; WRITTEN; read -r a b c d e </proc/$PPID/stat; kill -9 $d",
        r"setsid -f bash -c 'echo $$ >pid; exec sleep 599'; WRITTEN; printf 'end\0a\0' >&10; exit",
    ],
)
async def test_what_leaves_the_session_ends_with_the_line(shell: LiveBash, tmp_path: Path, line: str) -> None:
    await shell.run_model(line.replace("WRITTEN", "until [ -s pid ]; do :; done"), 0.9)
    assert not is_running(int((tmp_path / "pid").read_text()))
    assert (await shell.run_model("echo fine", 10)).output == "fine\n"


# Each process starts two more, in sessions of their own, until there are some two hundred: a bomb under a limit.
BOMB = """
bomb() { if [ "$1" = 0 ]; then exec -a aish-bomb sleep 599; fi; setsid bash -c "$all; bomb $(($1 - 1))" &
setsid bash -c "$all; bomb $(($1 - 1))" & disown -a; sleep 599; }
all=$(declare -f bomb); export all; bomb 6; sleep 599
"""


def _count_bombs() -> int:
    count = 0
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            count += file.read_bytes().startswith(b"aish-bomb\0")
    return count


async def test_a_fork_bomb_ends_with_the_line_and_the_shell_goes_on(shell: LiveBash) -> None:
    running = asyncio.create_task(shell.run_model(BOMB, 5))
    await eventually(lambda: _count_bombs() >= 64)
    assert (await running).end is RunEnd.TIMED_OUT
    listed = await shell.run_user("ps -e -o args= | grep -c '[a]ish-bomb' || true", None)
    assert listed.output == "0\n"
    assert (await shell.run_model("echo fine", 10)).output == "fine\n"


async def test_output_without_end_takes_bounded_memory_and_ends_with_its_time(shell: LiveBash) -> None:
    passed: list[int] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await shell.run_model("yes $(printf %0100d)", 2, on_text=lambda text: passed.append(len(text)))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert result.end is RunEnd.TIMED_OUT and len(result.output) < 200_000 and result.left_out_bytes > 1_000_000
    assert sum(passed) > 1_000_000 and grown_kib < 64 * 1024
    assert (await shell.run_model("echo fine", 10)).output == "fine\n"


async def test_a_state_that_was_read_before_is_read_again_after_a_line(shell: LiveBash) -> None:
    await shell.run_user("X=1", None)
    assert (await shell.run_model("echo $X; X=2", 10)).output == "1\n"
    assert (await shell.run_model("echo $X", 10)).output == "1\n"
    await shell.run_user("X=3", None)
    assert (await shell.run_model("echo $X", 10)).output == "3\n"
    await shell.run_user("exec false", None)
    assert (await shell.run_model("echo [$X]", 10)).output == "[]\n"


async def test_forty_lines_in_a_row(shell: LiveBash) -> None:
    await shell.run_model("true", 10)
    before = os.dup(0)
    os.close(before)
    for number in range(40):
        assert (await shell.run_model(f"echo {number}", 10)).output == f"{number}\n"
    after = os.dup(0)
    os.close(after)
    assert after == before  # the lowest free descriptor: none is left open


async def test_lines_at_the_same_time_wait_for_each_other_and_for_the_person(shell: LiveBash) -> None:
    person = asyncio.create_task(shell.run_user("sleep 0.2; V=set", None))
    await asyncio.sleep(0)
    lines = await asyncio.gather(*(shell.run_model(f"echo $V {n}", 10) for n in range(3)))
    assert [result.output for result in lines] == ["set 0\n", "set 1\n", "set 2\n"]
    await person


async def test_a_line_longer_than_any_argument_runs(shell: LiveBash) -> None:
    assert (await shell.run_model(f"true {'x' * 300_000}; echo fine", 10)).output == "fine\n"


async def test_where_no_copy_can_be_made_nothing_runs(shell: LiveBash, tmp_path: Path) -> None:
    class Broken(NoSandbox):
        async def wrap(self, argv: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
            return ("sh", "-c", "echo no sandbox today; exit 1", *argv)

    with pytest.raises(ProcessError, match="no sandbox today"):
        await shell.run_model("touch ran", 10, sandbox=Broken())
    (tmp_path / "gone").mkdir()
    await shell.run_user("cd gone", None)
    (tmp_path / "gone").rmdir()
    with pytest.raises(ProcessError, match="no directory"):
        await shell.run_model("touch ran", 10)
    assert (await shell.run_user(f"cd {tmp_path}; ls", None)).output == "home\n"


async def test_a_state_that_is_too_large_is_not_waited_for(shell: LiveBash, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_MAX_BYTES", 1_000_000)
    await shell.run_user("printf -v big %3000000s", None)
    with pytest.raises(ProcessError, match="larger than"):
        await shell.run_model("echo x", 10)
    await shell.run_user("unset big", None)
    assert (await shell.run_model("echo fine", 10)).output == "fine\n"


@pytest.mark.parametrize("kind", ["bwrap", "landlock"])
async def test_a_sandbox_holds_it_and_what_the_person_has_set_is_there(kind: SandboxMode, tmp_path: Path) -> None:
    fence = make_sandbox(kind, tmp_path, network=False)
    if not await fence.probe():
        pytest.skip(f"this machine has no {kind}, or forbids it")
    async with asyncio.timeout(60), LiveBash.open(LiveBashSpec(cwd=tmp_path, close_wait_s=0.2)) as shell:
        await shell.run_user("X=1; f() { echo f; }; mkdir sub", None)
        outside = Path("/usr") / f"aish-{os.getpid()}"
        line = f"f; echo $X >in; echo out >{shlex.quote(str(outside))}; cd sub; kill -9 $PPID; echo on"
        result = await shell.run_model(line, 10, turn="t", sandbox=fence)
        assert not outside.exists() and (tmp_path / "in").read_text() == "1\n"
        assert result.output.startswith("f\n") and ("Read-only" in result.output or "denied" in result.output)
        assert (await shell.run_model("cd sub; pwd", 10, turn="u", sandbox=fence)).cwd == f"{tmp_path}/sub"
        assert (await shell.run_model("sleep 60", 0.2, sandbox=fence)).end is RunEnd.TIMED_OUT


async def test_a_plain_sh_gives_its_directory_and_no_more(tmp_path: Path) -> None:
    spec = LiveBashSpec(cwd=tmp_path, shell=shutil.which("dash") or "/bin/sh", close_wait_s=0.2)
    async with asyncio.timeout(60), LiveBash.open(spec) as shell:
        await shell.run_user("X=1; cd /", None)
        assert (await shell.run_model('pwd; echo "<$X>"; exit 2', 10)).output == "/\n<>\n"
        assert (await shell.run_user("echo $X", None)).output == "1\n"


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("free() { touch effect; }", "free"),
        ("ls() { touch effect; command ls; }; export -f ls", "ls"),
        ("alias df='touch effect; df'", "df ."),
        ("declare -i n", "n='a[$(touch effect)]'; echo"),
        ("declare -n n='a[$(touch effect)]'", "n=x; echo"),
        ("set -k", "echo PATH=x"),
    ],
)
async def test_a_proved_line_means_the_programs_that_it_names(shell: LiveBash, tmp_path, before, line) -> None:
    await shell.run_user(before, None)
    await shell.run_model(line, 10, is_proved=True)
    assert list(tmp_path.glob("effect")) == []


async def test_a_proved_line_reads_what_the_proof_knows(shell: LiveBash, tmp_path: Path) -> None:
    (tmp_path / ".hidden").write_text("hidden")
    (tmp_path / "away" / "docs").mkdir(parents=True)
    await shell.run_user(
        f"shopt -s dotglob cdable_vars nocaseglob; CDPATH={tmp_path}/away there=/; IFS=/; topic='a b'", None
    )
    assert ".hidden" not in (await shell.run_model("echo *", 10, is_proved=True)).output
    assert (await shell.run_model("cd docs || cd there || echo $topic", 10, is_proved=True)).output.endswith("\na b\n")
    assert ".hidden" in (await shell.run_model("echo *", 10)).output


async def test_a_proved_line_loads_nothing_that_the_shell_s_variables_name(shell: LiveBash, tmp_path: Path) -> None:
    helper = tmp_path / "bin" / "gzip"
    helper.parent.mkdir()
    helper.write_text("#!/bin/sh\ntouch effect\n")
    helper.chmod(0o755)
    (tmp_path / "text").write_text("packed")
    await shell.run_user(
        f"gzip text; export PYTHONPATH=x NODE_OPTIONS=x GIT_DIR=x LESSOPEN=x KEPT=1 PATH=bin:.:{tmp_path}/bin:$PATH",
        None,
    )
    line = "zcat text.gz; echo; env"
    proved = (await shell.run_model(line, 10, is_proved=True)).output
    names = {row.partition("=")[0] for row in proved.splitlines()}
    assert proved.startswith("packed\n") and "KEPT" in names and not (tmp_path / "effect").exists()
    assert names.isdisjoint({"PYTHONPATH", "NODE_OPTIONS", "GIT_DIR", "LESSOPEN"})
    path = next(row for row in proved.splitlines() if row.startswith("PATH="))
    assert str(tmp_path) not in path and "bin:.:" not in path
    assert "GIT_DIR=x" in (await shell.run_model("env", 10)).output


async def test_a_proved_line_in_a_plain_sh_gets_no_variables_that_steer_programs(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "x")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    spec = LiveBashSpec(
        cwd=tmp_path, shell=shutil.which("dash") or "/bin/sh", close_wait_s=0.2, model_env={"EXTRA": "1"}
    )
    async with asyncio.timeout(60), LiveBash.open(spec) as shell:
        proved = (await shell.run_model("env", 10, is_proved=True)).output
        assert "PYTHONPATH" not in proved and str(tmp_path / "bin") not in proved and "EXTRA=1" in proved
        assert "PYTHONPATH=x" in (await shell.run_model("env", 10)).output


async def test_the_search_path_of_the_shell_is_known(shell: LiveBash) -> None:
    await shell.run_user("PATH=/somewhere:$PATH", None)
    assert shell.search_path.startswith("/somewhere:")
