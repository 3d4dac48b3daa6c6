from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import msgspec
import pytest

from aish.app.engines import hidden_paths, hidden_settings
from aish.app.safety import CommandContainment, CommandRunner
from aish.config.schema.config import Config
from aish.config.schema.tools import SafetyConfig
from aish.errors import ToolError
from aish.frontends.runtime import LaunchContext
from aish.process import bubblewrap as sandbox_module
from aish.process import sandbox as sandbox_choice
from aish.process.bubblewrap import Bubblewrap
from aish.process.sandbox import NoSandbox, make_sandbox
from aish.safety.commands import ShellContext
from aish.safety.policy.gate import PolicyGate
from aish.tools.builtin.shell import BoundedOutput, ShellTools
from aish.types.decisions import Answer, Choice, EffectRequest, Question
from aish.types.live_shell import RunResult
from support.eventually import eventually
from support.processes import is_running

DEADLINE_S = 30


class Context:
    session, turn, call, owner, is_proved, is_unasked = "s", "t", "c", "", False, False
    rights = None

    def __init__(self) -> None:
        self.printed: list[str] = []

    def status(self, text: str) -> None:
        pass

    def output(self, text: str) -> None:
        self.printed.append(text)


class ProvedContext(Context):
    is_proved = True


def tools(cwd: Path, sandbox=None, **more: str) -> ShellTools:
    env = {"PATH": os.environ["PATH"], "GREETING": "hello", **more}
    return ShellTools(cwd=lambda: cwd, workspace=cwd, sandbox=sandbox or NoSandbox(), env=env)


async def run(cwd: Path, command: str, **arguments):
    async with asyncio.timeout(DEADLINE_S):
        output = await tools(cwd).call("run", {"command": command, **arguments}, Context())
    return output.parts[0].text, output.is_error


async def test_output_and_errors_come_in_the_order_they_were_written(tmp_path):
    text, is_error = await run(tmp_path, "echo one; echo two >&2; echo three")
    assert (text, is_error) == ("one\ntwo\nthree\n", False)


async def test_a_command_sees_the_environment_it_was_given_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "not-for-models")
    text, _ = await run(tmp_path, "env")
    assert "GREETING=hello" in text and "not-for-models" not in text


async def test_a_command_leaves_no_core_dump_by_its_soft_and_its_hard_limit(tmp_path):
    text, _ = await run(tmp_path, "ulimit -Sc; ulimit -Hc")
    assert text == "0\n0\n"


async def test_the_exit_code_of_a_failure_is_told(tmp_path):
    assert await run(tmp_path, "echo so; exit 3") == ("so\n[aish] exit code 3", True)


async def test_silence_is_told_as_such(tmp_path):
    assert await run(tmp_path, "true") == ("[aish] no output, exit code 0", False)


async def test_it_runs_in_the_working_directory_without_stdin_and_without_a_terminal(tmp_path):
    text, _ = await run(tmp_path, "pwd; cat; test -t 0 || echo no terminal; echo $TERM $PAGER")
    assert text == f"{tmp_path}\nno terminal\ndumb cat\n"


async def test_a_line_past_its_time_is_stopped_with_all_it_started(tmp_path):
    text, is_error = await run(tmp_path, "echo begun; sleep 300 & echo $! > pid; wait", timeout_s=0.5)
    assert is_error and text == "begun\n[aish] stopped after 0.5 s"
    pid = int((tmp_path / "pid").read_text())
    await eventually(lambda: not is_running(pid))


async def test_cancelling_stops_it(tmp_path):
    task = asyncio.create_task(tools(tmp_path).call("run", {"command": "echo $$ > pid; sleep 300"}, Context()))
    pid_file = tmp_path / "pid"
    await eventually(lambda: pid_file.exists() and pid_file.read_text().strip() != "")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not is_running(int(pid_file.read_text())))


async def test_a_background_process_does_not_outlive_the_line(tmp_path):
    await run(tmp_path, "sleep 300 >/dev/null 2>&1 & echo $! > pid")
    pid = int((tmp_path / "pid").read_text())
    await eventually(lambda: not is_running(pid))


async def test_twenty_megabytes_of_output_are_kept_head_and_tail(tmp_path):
    text, _ = await run(tmp_path, "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last")
    assert text.startswith("first\nxxx") and text.endswith("xxx\nlast\n")
    assert len(text) < 200_000 and "bytes left out" in text


async def test_binary_output_is_counted_not_shown(tmp_path):
    text, _ = await run(tmp_path, "printf 'a\\0b'")
    assert text == "[aish] 3 bytes of binary output"


async def test_a_nul_in_the_line_is_refused(tmp_path):
    with pytest.raises(ToolError):
        await run(tmp_path, "echo \0")


@pytest.mark.parametrize("sizes", [[3], [1] * 30, [7, 1, 9, 2], [100]])
def test_what_is_kept_does_not_depend_on_how_it_arrives(sizes):
    data = bytes(range(65, 91)) * 4
    whole, pieces = BoundedOutput(10, 10), BoundedOutput(10, 10)
    whole.add(data)
    position = 0
    while position < len(data):
        for size in sizes:
            pieces.add(data[position : position + size])
            position += size
    assert whole.text() == pieces.text()
    assert whole.text().startswith("ABCDEFGHIJ") and whole.text().endswith("QRSTUVWXYZ")
    assert "84 bytes left out" in whole.text()


async def test_without_bubblewrap_auto_goes_without_and_bwrap_refuses(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await make_sandbox("auto", tmp_path, network=False).wrap(("x",), tmp_path) == ("x",)
    with pytest.raises(ToolError, match="bubblewrap"):
        await make_sandbox("bwrap", tmp_path, network=False).wrap(("x",), tmp_path)
    assert "apt install bubblewrap" in await make_sandbox("auto", tmp_path, network=False).describe()


async def test_off_means_off(tmp_path):
    assert await make_sandbox("off", tmp_path, network=False).wrap(("x",), tmp_path) == ("x",)


async def test_inside_the_fence_the_workspace_can_be_written_and_nothing_else(tmp_path):
    fence = Bubblewrap(tmp_path, required=True, network=False)
    if "bubblewrap:" not in await fence.describe():
        pytest.skip("this machine has no bubblewrap, or forbids it")
    shell = tools(tmp_path, fence)
    outside = Path("/usr/aish-outside")
    command = f"echo in > inside.txt; echo out > {outside}"
    output = await shell.call("run", {"command": command}, Context())
    assert (tmp_path / "inside.txt").read_text() == "in\n"
    assert not outside.exists()  # noqa: ASYNC240
    assert "Read-only" in output.parts[0].text


CACHES = (".cache", ".cache/pre-commit", ".npm/_npx", ".cargo/registry/src", ".cargo/git", "go/pkg/mod", ".ccache")
CACHE_VARIABLES = "$XDG_CACHE_HOME $PIP_CACHE_DIR $UV_CACHE_DIR $npm_config_cache $GOCACHE $CCACHE_DIR"


@pytest.fixture(params=["bwrap", "landlock"])
async def fenced_commands(request, tmp_path, monkeypatch) -> CommandRunner:
    """Of a user with caches, in a workspace beside them; the folder of temporary files is another one."""
    monkeypatch.setattr(sandbox_module, "_TMP", str(tmp_path / "tmp"))
    monkeypatch.setattr(sandbox_choice, "_TMP_FOLDERS", (str(tmp_path / "tmp"),))
    home, work = tmp_path / "user", tmp_path / "work"
    for name in CACHES:
        (home / name).mkdir(parents=True)
        (home / name / "run").write_text("theirs")
    for folder in (work, tmp_path / "tmp"):
        folder.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    commands = CommandRunner(
        LaunchContext(work, env), SafetyConfig(sandbox=request.param), hidden_paths(Config(), env, work)
    )
    if not await commands.sandbox.probe():
        pytest.skip(f"this machine has no {request.param}, or forbids it")
    return commands


async def output_in(commands: CommandRunner, line: str, context: Context | None = None) -> str:
    output = await commands.tools().call("run", {"command": line}, context or Context())
    return output.parts[0].text


@pytest.mark.parametrize("is_live", [False, True])
async def test_caches_of_the_user_are_read_and_a_cache_of_the_sandbox_is_written(fenced_commands, tmp_path, is_live):
    home = tmp_path / "user"
    (home / ".cache" / "aish").mkdir()
    (home / ".cache" / "aish" / "model").write_text("hush")
    spoil = "; ".join(f"cat {home / at}/run; echo x > {home / at}/run; echo x > {home / at}/new" for at in CACHES)
    fill = f"for at in {CACHE_VARIABLES}; do mkdir -p $at; echo x > $at/y; done"
    live = fenced_commands.live_shell(on_output=len, on_notice=len) if is_live else nullcontext()
    async with asyncio.timeout(DEADLINE_S), live:
        text = await output_in(fenced_commands, f"{spoil}; {fill}; cat {home}/.cache/aish/model")
        again = await output_in(fenced_commands, "cat $PIP_CACHE_DIR/y $XDG_CACHE_HOME/pre-commit/run")
    assert text.count("theirs") == len(CACHES) and "hush" not in text
    assert not list(home.rglob("new")) and {(home / at / "run").read_text() for at in CACHES} == {"theirs"}
    assert again == "x\ntheirs"
    assert len(list((home / ".cache" / "aish-sandbox").rglob("y"))) == 6


async def test_a_link_in_place_of_the_cache_of_the_sandbox_opens_nothing(fenced_commands, tmp_path):
    aim = tmp_path / "aim"
    aim.mkdir()
    await output_in(fenced_commands, "true")
    cache = tmp_path / "user" / ".cache" / "aish-sandbox"
    shutil.rmtree(cache)
    cache.symlink_to(aim)
    await output_in(fenced_commands, f"touch {aim}/x {cache}/x ${{XDG_CACHE_HOME:-.}}/x")
    assert list(aim.iterdir()) == []


@pytest.fixture
def in_tmp() -> Iterator[tuple[Path, Path]]:
    """A folder of anybody's; and one of sockets, beside a socket and a link of the same name."""
    folder = partial(tempfile.TemporaryDirectory, dir="/tmp")
    with folder(prefix="kept-") as kept, folder(prefix="tmux-") as hidden, socket.socket(socket.AF_UNIX) as door:
        (Path(hidden) / "default").touch()
        link, place = Path(f"{hidden}-link"), Path(f"{hidden}.sock")
        link.symlink_to("/etc")
        door.bind(str(place))
        yield Path(kept), Path(hidden)
        link.unlink()
        place.unlink()


async def test_inside_the_fence_tmp_is_the_real_one_but_for_sockets(tmp_path, in_tmp):
    fence = Bubblewrap(tmp_path, required=True, network=False)
    if "bubblewrap:" not in await fence.describe():
        pytest.skip("this machine has no bubblewrap, or forbids it")
    kept, hidden = in_tmp
    await tools(tmp_path, fence).call("run", {"command": f"echo out > {kept}/file"}, Context())
    assert (kept / "file").read_text() == "out\n"
    command = f"cat {kept}/file; ls {hidden}; test -S {hidden}.sock && echo open"
    output = await tools(tmp_path, fence).call("run", {"command": command}, Context())
    assert output.parts[0].text.startswith("out\n[aish] exit code 1")


class Fence(NoSandbox):
    async def wrap(self, argv, cwd):
        return ("in", str(cwd), *argv)


@pytest.fixture(params=["bwrap", "landlock"])
async def hiding(request, tmp_path) -> AsyncIterator[tuple[Bubblewrap, Path]]:
    """A fence around a home that is the workspace, and holds keys, a browser and files of aish."""
    home = tmp_path / "home"
    for name in (".ssh/id_rsa", ".aws/credentials", ".kube/config", ".local/share/aish/aish.db", ".config/aish/c.toml"):
        file = home / name
        file.parent.mkdir(parents=True)
        file.write_text("hush")
    for name in (".netrc", "store.db", "plain.txt"):
        (home / name).write_text("hush" if name != "plain.txt" else "plain")
    hides = [home / ".local/share/aish", home / ".config/aish", home / "store.db", home / "not-there"]
    fence = make_sandbox(request.param, home, network=False, hides=hides, home=home)
    if not await fence.probe():
        pytest.skip(f"this machine has no {request.param}, or forbids it")
    yield fence, home


async def test_inside_the_fence_secrets_and_files_of_aish_are_not_there(hiding):
    fence, home = hiding
    assert fence.is_active
    command = "cat plain.txt; grep -rs hush . ; cat .ssh/* .netrc store.db .local/share/aish/* 2>/dev/null"
    if isinstance(fence, Bubblewrap):  # Landlock shows names
        command += "; ls -A .ssh .config/aish"
    output = await tools(home, fence).call("run", {"command": command}, Context())
    text = output.parts[0].text
    assert "plain" in text and "hush" not in text and "id_rsa" not in text
    assert (home / "store.db").read_text() == "hush"


async def test_a_link_to_what_is_hidden_leads_to_nothing(hiding):
    fence, home = hiding
    (home / "link").symlink_to(home / ".ssh" / "id_rsa")
    (home / ".config" / "gh").symlink_to(home / ".aws")
    output = await tools(home, fence).call("run", {"command": "cat link .config/gh/credentials"}, Context())
    assert "hush" not in output.parts[0].text


@pytest.mark.parametrize("mode", ["bwrap", "landlock"])
async def test_scripts_of_the_users_own_skills_are_in_sight_and_the_settings_are_not(tmp_path, mode):
    own, work = tmp_path / ".config" / "aish", tmp_path / "work"
    script = own / "skills" / "greet" / "greet.sh"
    for file, text in ((script, "echo greetings"), (own / "config.toml", "hush"), (own / "notes", "hush")):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    work.mkdir()
    fence = make_sandbox(mode, work, network=False, hides=hidden_settings({"HOME": str(tmp_path)}, work), home=tmp_path)
    if not await fence.probe():
        pytest.skip(f"this machine has no {mode}, or forbids it")
    command = f"sh {script}; cat {own}/config.toml {own}/notes"
    text = (await tools(work, fence).call("run", {"command": command}, Context())).parts[0].text
    assert "greetings" in text and "hush" not in text


def test_settings_are_hidden_as_a_folder_without_skills_and_within_a_workspace(tmp_path):
    own, env = tmp_path / ".config" / "aish", {"HOME": str(tmp_path)}
    assert hidden_settings(env, tmp_path / "work") == (own,)
    (own / "skills").mkdir(parents=True)
    assert hidden_settings(env, tmp_path / "work") == (own / "config.toml",)
    assert hidden_settings(env, tmp_path) == (own,)


async def test_a_workspace_within_what_is_hidden_stays_in_sight(tmp_path):
    inside = tmp_path / "data" / "work"
    inside.mkdir(parents=True)
    (tmp_path / "data" / "aish.db").write_text("hush")
    fence = make_sandbox("bwrap", inside, network=False, hides=[tmp_path / "data"])
    if not await fence.probe():
        pytest.skip("this machine has no bubblewrap, or forbids it")
    output = await tools(inside, fence).call("run", {"command": "echo in > x; cat x ../aish.db"}, Context())
    assert "in\n" in output.parts[0].text and "hush" not in output.parts[0].text
    assert (inside / "x").read_text() == "in\n"


def test_a_name_with_wildcards_may_mean_a_file_that_exists(tmp_path):
    (tmp_path / "a.txt").touch()
    commands = CommandRunner(LaunchContext(tmp_path, {}), SafetyConfig())
    shell = ShellContext(cwd=str(tmp_path), home="/home/u", roots=(str(tmp_path),))
    containment = CommandContainment(commands, shell)
    names = ("b.txt", "[id].txt", "*", "?.txt", "[a].txt", "a.txt")
    new = [name for name in names if containment.is_new(str(tmp_path / name))]
    assert new == ["b.txt", "[id].txt"]


def program(path: Path, text: str = "touch effect") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("context", [Context(), ProvedContext()])
@pytest.mark.parametrize("name", ["BASH_ENV", "ENV"])
async def test_no_start_up_file_changes_what_a_line_means(tmp_path, context, name):
    (tmp_path / "rc.sh").write_text("ls() { touch effect; }")
    shell = tools(tmp_path, **{name: str(tmp_path / "rc.sh")})
    output = await shell.call("run", {"command": f"ls rc.sh; echo ${name}"}, context)
    assert output.parts[0].text == "rc.sh\n\n"


async def test_a_proved_line_runs_helpers_of_the_system_and_not_of_the_workspace(tmp_path):
    (tmp_path / "text").write_text("packed")
    await run(tmp_path, "gzip text; ln -s bin linked")
    program(tmp_path / "bin" / "gzip")
    program(tmp_path / "bin" / "ls")
    for folder in (tmp_path / "bin", tmp_path / "linked", tmp_path / "x" / ".." / "bin", ".", "bin", "", "../x/./bin"):
        shell = tools(tmp_path, PATH=f"{folder}:{os.environ['PATH']}")
        output = await shell.call("run", {"command": "zcat text.gz; cd bin && ls"}, ProvedContext())
        assert output.parts[0].text == "packedgzip\nls\n", folder
        assert not (tmp_path / "bin" / "effect").exists() and not (tmp_path / "effect").exists()


async def test_an_interpreter_outside_the_workspace_is_found_by_a_proved_line(tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    node = program(tmp_path / "nvm" / "bin" / "node", "echo own node")
    npm = node.with_name("npm")
    npm.write_text("#!/usr/bin/env node\n")
    npm.chmod(0o755)
    shell = tools(workspace, PATH=f"{workspace}/bin:{node.parent}:{os.environ['PATH']}")
    assert (await shell.call("run", {"command": "npm ls"}, ProvedContext())).parts[0].text == "own node\n"


async def test_a_proved_line_loads_no_code_that_a_variable_names(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('loaded')")
    shell = tools(tmp_path, PYTHONPATH=str(tmp_path))
    line = {"command": f"{sys.executable} -c 'print(1)'"}
    assert (await shell.call("run", line, Context())).parts[0].text == "loaded\n1\n"
    assert (await shell.call("run", line, ProvedContext())).parts[0].text == "1\n"


async def test_a_line_that_a_person_allowed_keeps_the_path_and_the_variables(tmp_path):
    program(tmp_path / "bin" / "own", "echo own $PYTHONPATH")
    shell = tools(tmp_path, PATH=f"bin:{os.environ['PATH']}", PYTHONPATH="lib")
    assert (await shell.call("run", {"command": "own"}, Context())).parts[0].text == "own lib\n"


async def test_without_a_folder_outside_the_workspace_the_usual_ones_are_searched(tmp_path):
    shell = tools(tmp_path, PATH="bin:.")
    output = await shell.call("run", {"command": "ls -d /usr"}, ProvedContext())
    assert output.parts[0].text == "/usr\n"


STEERING = (
    "BASH_ENV ENV PYTHONPATH PYTHONSTARTUP PYTHONHOME NODE_OPTIONS NODE_PATH PERL5LIB PERL5OPT PERLLIB RUBYOPT RUBYLIB"
    " LUA_INIT LUA_INIT_5_4 LUA_PATH LUA_PATH_5_4 LUA_CPATH JAVA_TOOL_OPTIONS _JAVA_OPTIONS LD_PRELOAD LD_LIBRARY_PATH"
    " LD_AUDIT DYLD_INSERT_LIBRARIES GIT_EXTERNAL_DIFF GIT_SSH GIT_SSH_COMMAND GIT_DIR GIT_WORK_TREE GIT_TRACE"
    " GIT_CONFIG_PARAMETERS RIPGREP_CONFIG_PATH GREP_OPTIONS LESSOPEN LESSCLOSE JQ_LIBRARY_PATH TAR_OPTIONS BAT_PAGER"
    " npm_config_cache NPM_CONFIG_LOGS_DIR PIP_LOG GCONV_PATH POSIXLY_CORRECT"
)
ORDINARY = "HOME LANG LC_ALL TERM USER NODE_ENV VIRTUAL_ENV EDITOR TZ LS_COLORS GREETING MY_PATH ENVIRONMENT"


async def test_a_proved_line_has_all_variables_but_those_that_steer_programs(tmp_path):
    shell = tools(tmp_path, **dict.fromkeys(f"{STEERING} {ORDINARY}".split(), "given"))
    text = (await shell.call("run", {"command": "env"}, ProvedContext())).parts[0].text
    given = {line.partition("=")[0] for line in text.splitlines() if line.endswith("=given")}
    assert given == {*ORDINARY.split()} - {"TERM"}


CONNECT = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('connected')"


async def run_fenced(fence: Bubblewrap, cwd: Path, command: str) -> str:
    if not await fence.probe():
        pytest.skip("this machine has no bubblewrap, or forbids it")
    return (await tools(cwd, fence).call("run", {"command": command}, Context())).parts[0].text


@contextmanager
def listening(path: Path) -> Iterator[str]:
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        yield f"{sys.executable} -c {shlex.quote(CONNECT)} {path}"


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder outside /tmp whose sockets have names that are short enough."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


async def test_inside_the_fence_run_holds_no_services_and_cannot_be_written(tmp_path, short, monkeypatch):
    (short / "service").mkdir()
    (short / "utmp").write_text("who is here\n")
    (short / "secret").write_text("hush")
    monkeypatch.setattr(sandbox_module, "_RUN", str(short))
    monkeypatch.setattr(sandbox_module, "_KEPT_IN_RUN", (f"{short}/utmp",))
    fence = Bubblewrap(tmp_path, required=True, network=False)
    with listening(short / "service" / "door") as connect:
        text = await run_fenced(fence, tmp_path, f"cat {short}/*; ls {short}; {connect}; touch {short}/x {short}/utmp")
    assert "who is here" in text and "\nutmp\n" in text and "service\n" not in text
    assert "hush" not in text and "connected" not in text and text.count("Read-only") == 2


async def test_inside_the_fence_no_socket_or_pipe_is_left_in_run(tmp_path):
    fence = Bubblewrap(tmp_path, required=True, network=False)
    assert (
        await run_fenced(fence, tmp_path, "find /run/ /var/run/ '(' -type s -o -type p ')' -print; echo end") == "end\n"
    )


async def test_names_of_hosts_are_found_through_links_into_run(tmp_path, short, monkeypatch):
    """resolv.conf -> run/first -> run/second/real: both names must be there."""
    (short / "run" / "second").mkdir(parents=True)
    (short / "run" / "second" / "real").write_text("nameserver 192.0.2.1")
    (short / "run" / "first").symlink_to("second/real")
    (short / "resolv.conf").symlink_to("run/first")
    monkeypatch.setattr(sandbox_module, "_RUN", str(short / "run"))
    monkeypatch.setattr(sandbox_module, "_LINKS_INTO_RUN", (str(short / "resolv.conf"),))
    fence = Bubblewrap(tmp_path, required=True, network=True)
    assert await run_fenced(fence, tmp_path, f"cat {short}/resolv.conf") == "nameserver 192.0.2.1"


async def test_inside_the_fence_sockets_elsewhere_cannot_be_opened(tmp_path, short):
    fence = Bubblewrap(tmp_path, required=True, network=False)
    with listening(short / "unix.socket") as connect:
        assert await run_fenced(NoSandboxThatWorks(), tmp_path, connect) == "connected\n"
        assert "connected" not in await run_fenced(fence, tmp_path, connect)


class NoSandboxThatWorks(NoSandbox):
    async def probe(self) -> bool:
        return True


async def test_a_workspace_that_holds_the_folders_of_services_does_not_uncover_them(short, monkeypatch):
    (short / "run").mkdir()
    (short / "tmp").mkdir()
    monkeypatch.setattr(sandbox_module, "_RUN", str(short / "run"))
    monkeypatch.setattr(sandbox_module, "_TMP", str(short / "tmp"))
    for workspace in (short, short / "tmp"):
        fence = Bubblewrap(workspace, required=True, network=False)
        with listening(workspace / "new.sock"), listening(short / "run" / "a") as in_run:
            with listening(short / "tmp" / "b") as in_tmp:
                text = await run_fenced(fence, workspace, f"{in_run}; {in_tmp}; echo in > {workspace}/inside")
            assert "connected" not in text and (workspace / "inside").read_text() == "in\n"
        for name in ("new.sock", "run/a", "tmp/b", "tmp/new.sock"):
            (short / name).unlink(missing_ok=True)


async def test_in_a_workspace_that_is_everything_the_kernel_stays_covered():
    fence = Bubblewrap(Path("/"), required=True, network=False)
    command = "test -w /proc/sys/kernel/core_pattern || echo refused; ls -d /proc/[0-9]* | wc -l"
    text = await run_fenced(fence, Path("/"), command)
    assert text.startswith("refused\n") and int(text.split()[1]) < 10


@pytest.mark.parametrize(("bound", "kind"), [("_MAX_ENTRIES", "file"), ("_MAX_COVERED", "pipe")])
async def test_what_is_too_much_to_cover_runs_nothing(tmp_path, short, monkeypatch, bound, kind):
    monkeypatch.setattr(sandbox_module, "_TMP", str(short))
    monkeypatch.setattr(sandbox_module, "_find_kernel_sockets", lambda workspace: iter(()))  # those of other tests
    fence = Bubblewrap(tmp_path, required=False, network=False)
    await run_fenced(fence, tmp_path, "true")
    monkeypatch.setattr(sandbox_module, bound, 5)
    (short / "folder").mkdir()
    for number in range(6):
        path = short / "folder" / str(number)
        path.touch() if kind == "file" else os.mkfifo(path)
    with pytest.raises(ToolError, match=r"remove .* from") as error:
        await tools(tmp_path, fence).call("run", {"command": "touch ran"}, Context())
    assert str(short) in error.value.message and not (tmp_path / "ran").exists()
    (short / "folder" / "0").unlink()
    (short / "folder" / "1").unlink()
    await tools(tmp_path, fence).call("run", {"command": "touch ran"}, Context())
    assert (tmp_path / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel refuses everybody else")
async def test_a_sandbox_in_which_root_could_change_the_kernel_does_not_count(tmp_path, monkeypatch):
    fence = Bubblewrap(tmp_path, required=False, network=False)
    await run_fenced(fence, tmp_path, "true")
    monkeypatch.setattr(sandbox_module, "_KERNEL_SETTINGS", ())
    assert not await Bubblewrap(tmp_path, required=False, network=False).probe()


class TenantContext(Context):
    owner = "key_ann"


async def test_a_command_of_a_tenant_runs_in_the_sandbox_or_not_at_all(tmp_path, monkeypatch):
    for sandbox in (NoSandbox(), make_sandbox("auto", tmp_path, network=False)):
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(ToolError, match="only inside the sandbox"):
            await tools(tmp_path, sandbox).call("run", {"command": "touch x"}, TenantContext())
    assert not (tmp_path / "x").exists()


async def test_a_command_of_a_tenant_never_runs_in_the_live_shell(tmp_path):
    commands = CommandRunner(
        LaunchContext(tmp_path, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}), SafetyConfig()
    )
    commands._live = object()
    commands.where = lambda: str(tmp_path)
    if not await commands.sandbox.probe():
        pytest.skip("this machine has no bubblewrap, or forbids it")
    output = await commands.tools().call("run", {"command": "echo own"}, TenantContext())
    assert output.parts[0].text == "own\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what belongs to a command")
@pytest.mark.parametrize("kind", ["off", "landlock"])
async def test_what_leaves_the_session_of_a_command_ends_with_it(tmp_path, kind):
    fence = make_sandbox(kind, tmp_path, network=False)
    if kind != "off" and not await fence.probe():
        pytest.skip(f"this machine has no {kind}, or forbids it")
    line = "setsid -f sh -c 'echo $$ > pid; exec sleep 60'; until [ -s pid ]; do sleep 0.01; done"
    await tools(tmp_path, fence).call("run", {"command": line}, Context())
    pid = int((tmp_path / "pid").read_text())
    await eventually(lambda: not is_running(pid))


@pytest.mark.parametrize("kind", ["bwrap", "landlock"])
@pytest.mark.parametrize("runtime", ["", "run"])
async def test_a_command_cannot_give_the_users_bash_orders(tmp_path, kind, runtime):
    """Through the files by which aish talks to it, which the sandbox must hide with the variables in them."""
    work, home = tmp_path / "work", tmp_path / "user"
    for folder in (work, home, tmp_path / "run"):
        folder.mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    if runtime:
        env["XDG_RUNTIME_DIR"] = str(tmp_path / runtime)
    commands = CommandRunner(LaunchContext(work, env), SafetyConfig(sandbox=kind), hidden_paths(Config(), env, work))
    if not await commands.sandbox.probe():
        pytest.skip(f"this machine has no {kind}, or forbids it")
    async with asyncio.timeout(DEADLINE_S), commands.live_shell(on_output=len, on_notice=len) as shell:
        await shell.run_user("export SPECIAL=only-the-user-knows", None)
        channel = shell._bash.channel.folder
        before = {file.name: file.read_bytes() for file in channel.iterdir() if file.is_file()}
        line = f"cd {channel}; cat exports; echo x | tee line rc restore; echo 'state own' > ctl; cd {work} && touch in"
        output = await commands.tools().call("run", {"command": line}, Context())
        assert (work / "in").exists() and "only-the-user-knows" not in output.parts[0].text
        assert before.items() <= {file.name: file.read_bytes() for file in channel.iterdir() if file.is_file()}.items()


class Live:
    """A person's shell that says what it was given."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = self.ends_in = str(cwd)
        self.status = 0

    def model_cwd(self, turn):
        return self.cwd

    async def run_model(self, line, timeout_s, *, turn, sandbox, is_proved, on_text):
        on_text("early\n")
        wrapped = await sandbox.wrap(("sh",), Path(self.cwd))
        return RunResult(line, self.status, self.ends_in, 0.0, f"{turn} {' '.join(wrapped)}")


def live_commands(cwd: Path, live: Live, sandbox) -> CommandRunner:
    commands = CommandRunner(LaunchContext(cwd, {"PATH": os.environ["PATH"]}), SafetyConfig(sandbox="auto"))
    commands._live = live
    commands.__dict__["sandbox"] = sandbox
    return commands


async def test_what_a_command_prints_is_passed_on_as_it_comes(tmp_path):
    context = Context()
    await tools(tmp_path).call("run", {"command": "echo one; printf '\\303'; printf '\\244\\n'"}, context)
    assert "".join(context.printed) == "one\nä\n"
    context = Context()
    await live_commands(tmp_path, Live(tmp_path), NoSandbox()).tools().call("run", {"command": "x"}, context)
    assert context.printed == ["early\n"]


async def test_commands_run_in_copies_of_the_live_shell_inside_the_sandbox(tmp_path):
    commands = live_commands(tmp_path, Live(tmp_path), Fence())
    output = await commands.tools().call("run", {"command": "x"}, Context())
    assert output.parts[0].text == f"t in {tmp_path} sh"


async def test_without_the_sandbox_that_is_demanded_nothing_runs_beside_the_live_shell(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    commands = live_commands(tmp_path, Live(tmp_path), make_sandbox("bwrap", tmp_path, network=False))
    with pytest.raises(ToolError, match="bubblewrap"):
        await commands.tools().call("run", {"command": "x"}, Context())


async def test_a_model_is_told_when_its_directory_is_another_one(tmp_path):
    live = Live(tmp_path)
    live.ends_in, live.status = "/usr", 3
    output = await live_commands(tmp_path, live, NoSandbox()).tools().call("run", {"command": "x"}, Context())
    assert output.parts[0].text == "t sh\n[aish] exit code 3\n[aish] your working directory is now /usr"
    assert output.is_error


async def test_the_gate_judges_in_the_directory_that_the_turn_has_come_to(tmp_path):
    live = Live(tmp_path)
    commands = live_commands(tmp_path, live, NoSandbox())
    shell = ShellContext(cwd=str(tmp_path), home="/home/u", roots=(str(tmp_path),))
    gate = PolicyGate(shell=shell, where=commands.where_in)
    spec = commands.tools().specs()[0]
    effect = EffectRequest("c", msgspec.structs.replace(spec, name="shell__run"), {"command": "echo x > f"}, turn="t")
    asked: list[Question] = []

    async def ask(question: Question) -> Answer:
        asked.append(question)
        return Answer(Choice.NO)

    await gate.authorise(effect, ask)
    live.cwd = "/etc"
    await gate.authorise(effect, ask)
    assert [question.rule for question in asked] == ["gate.exec", "destructive"]


def make_folder(path: str) -> str:
    Path(path).mkdir(parents=True)
    return path


def exists(path: str) -> bool:
    return os.path.lexists(path)


async def test_what_the_sandbox_has_denied_can_be_asked_for_outside(hiding, tmp_path):
    fence, home = hiding
    outside = Path(tempfile.mkdtemp(prefix="outside", dir="/var"))
    try:
        write = {"command": f"echo x > {outside}/x"}
        denied = await tools(home, fence).call("run", write, Context())
        assert denied.is_error and "outside_sandbox=true" in denied.parts[0].text
        assert (
            "outside_sandbox"
            not in (await tools(home, fence).call("run", {"command": "false"}, Context())).parts[0].text
        )
        done = await tools(home, fence).call("run", {**write, "outside_sandbox": True}, Context())
        assert not done.is_error and (outside / "x").read_text() == "x\n"
    finally:
        shutil.rmtree(outside)


async def test_root_cannot_undo_the_sandbox(hiding):
    fence, home = hiding
    command = (
        "mount -o remount,rw,bind / ; umount .ssh ; umount store.db; mount -t proc proc /proc; chroot / true; "
        "for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger; do : >> $f && echo changed; done; "
        "touch /opt/aish-was-here ; rm -f store.db .ssh/id_rsa; cat .ssh/* store.db; grep CapEff /proc/self/status"
    )
    text = (await tools(home, fence).call("run", {"command": command}, Context())).parts[0].text
    assert "hush" not in text and "changed" not in text and not exists("/opt/aish-was-here")
    held = int(text.rpartition("CapEff:")[2].split()[0], 16)
    assert held in (0, 0b1011 if os.geteuid() == 0 else 0)  # CHOWN, DAC_OVERRIDE, FOWNER


@pytest.mark.parametrize("folder", ["/tmp/some.service{}/deeper", "/tmp/emacs{}"])
async def test_a_socket_in_a_common_folder_is_out_of_reach(hiding, folder):
    fence, home = hiding
    place = make_folder(folder.format(secrets.token_hex(8)))
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(10))
        writer.close()

    server = await asyncio.start_unix_server(hear, f"{place}/s")
    try:
        code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{place}/s'); s.send(b'act')"
        text = (await tools(home, fence).call("run", {"command": f'python3 -c "{code}"'}, Context())).parts[0].text
    finally:
        server.close()
        shutil.rmtree(place)
    assert "Error" in text and heard == []


MAKES_SETUID = """
import os, ctypes
def tried(name, act):
    try: act()
    except OSError as exc: print(name, exc.strerror)
for mode in (0o4755, 0o2755, 0o6711):
    tried("chmod", lambda: os.chmod("f", mode))
    tried("fchmod", lambda: os.fchmod(os.open("f", os.O_RDWR), mode))
    tried("fchmodat", lambda: os.chmod("f", mode, dir_fd=os.open(".", os.O_RDONLY)))
    tried("mknod", lambda: os.mknod(f"n{mode}", 0o100000 | mode))
    tried("open", lambda: os.open(f"o{mode}", os.O_CREAT | os.O_WRONLY, mode))
    tried("tmpfile", lambda: os.open(".", os.O_TMPFILE | os.O_RDWR, mode))
    tried("creat", lambda: os.close(ctypes.CDLL(None).creat(f"c{mode}".encode(), mode)))
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, mode, 0)
    tried("openat2", lambda: os.close(ctypes.CDLL(None).syscall(437, -100, f"p{mode}".encode(), how, 24)))
os.chmod("f", 0o1700); os.open("f", os.O_RDONLY, 0o6000); os.open("new", os.O_CREAT, 0o600); print("end")
"""


async def test_no_file_gets_the_setuid_bit_in_the_sandbox(hiding):
    fence, home = hiding
    folder = home / "made"
    folder.mkdir()
    (folder / "f").write_text("")
    (folder / "program.py").write_text(MAKES_SETUID)
    output = await tools(folder, fence).call("run", {"command": f"{sys.executable} program.py"}, Context())
    text = output.parts[0].text
    assert text.endswith("end\n") and text.count("not permitted") == 18, text
    assert [path for path in home.rglob("*") if path.stat().st_mode & 0o6000] == []


async def test_what_steers_bash_is_not_taken_from_the_environment(tmp_path):
    (tmp_path / ".hidden").touch()
    env = {
        "PATH": os.environ["PATH"], "BASH_FUNC_free%%": "() { echo function\n}", "BASHOPTS": "dotglob",
        "SHELLOPTS": "noexec", "CDPATH": "/usr",
    }  # fmt: skip
    made = ShellTools(cwd=lambda: tmp_path, workspace=tmp_path, sandbox=NoSandbox(), env=env)
    text = (await made.call("run", {"command": "free; echo *; cd lib && echo there"}, Context())).parts[0].text
    assert "function" not in text and ".hidden" not in text and "there" not in text


async def test_npm_obeys_no_file_of_the_project_when_it_only_reads(tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(100))
        writer.close()

    project = tmp_path / "project"
    project.mkdir()
    async with await asyncio.start_server(hear, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        settings = f"registry=http://127.0.0.1:{port}/${{HOME}}/\nlogs-dir={tmp_path}/logs\ncache={tmp_path}/cache\n"
        (project / ".npmrc").write_text(settings + "update-notifier=true\nlogs-max=10\n")
        (project / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
        made = ShellTools(cwd=lambda: project, workspace=project, sandbox=NoSandbox(), env=env)
        for line in ("npm ls", "npm --version", "npm root", "npm explain x", "npm pkg get name"):
            await made.call("run", {"command": line}, Context())
    assert heard == []
    assert {path.name for path in tmp_path.iterdir()} <= {"project", "home"}
