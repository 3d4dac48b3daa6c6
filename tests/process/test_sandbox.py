"""What a sandbox allows, and what it does not, with the kernel's own means."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from aish.errors import SpawnFailed
from aish.process import landlock
from aish.process.child import ProcessSpec, run
from aish.process.landlock import Confinement, find_abi
from aish.process.sandbox import AutomaticSandbox, LandlockSandbox, NoSandbox, make_sandbox, seatbelt_profile

needs_landlock = pytest.mark.skipif(not find_abi(), reason="this kernel has no Landlock")


async def output_of(command: str, confinement: Confinement, cwd: Path) -> str:
    spec = ProcessSpec(("sh", "-c", f"exec 2>&1; {command}"), name="sh", confinement=confinement, cwd=cwd)
    done = await run(spec, timeout_s=30, max_output_bytes=100_000)
    return done.stdout.decode()


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("work/notes", "keys/private", "plain", "keys-of-others/public"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@needs_landlock
async def test_only_the_workspace_is_writable_and_what_is_hidden_is_not_readable(home: Path) -> None:
    rules = Confinement((home / "work",), (home / "keys",))
    command = (
        "cat notes ../plain ../keys-of-others/public; cat ../keys/private; echo x > ../new; echo x >> ../plain; "
        "rm ../plain; mv ../plain moved; ln ../keys/private mine; ln -s ../keys/private link; cat link; "
        "echo fine > made && mkdir -p deep/er && mv made deep/er && cat deep/er/made"
    )
    text = await output_of(command, rules, home / "work")
    assert "work/notesplainkeys-of-others/public" in text and text.endswith("fine\n")
    assert "keys/private" not in text.replace("../keys/private", "")
    assert (home / "plain").read_text() == "plain" and not (home / "new").exists()


@needs_landlock
async def test_a_workspace_around_what_is_hidden_stays_of_use(home: Path) -> None:
    text = await output_of(
        "cat plain; echo y > work/notes; cat work/notes keys/private", Confinement((home,), (home / "keys",)), home
    )
    assert text.startswith("plainy\n") and "denied" in text


@needs_landlock
@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX"])
async def test_no_socket_can_be_made(family: str, home: Path) -> None:
    command = f"{sys.executable} -c 'import socket; socket.socketpair(); socket.socket(socket.{family})'"
    assert "PermissionError" in await output_of(command, Confinement((home / "work",)), home)
    allowed = await output_of(command, Confinement((home / "work",), network=True), home)
    assert ("PermissionError" in allowed) == (family == "AF_UNIX")


@needs_landlock
@pytest.mark.skipif(find_abi() < 6, reason="this kernel does not confine signals")
async def test_signals_reach_no_process_outside(home: Path) -> None:
    text = await output_of(f"kill -0 {os.getpid()}; sleep 60 & kill $! && echo own", Confinement((home,)), home)
    assert "not permitted" in text and text.endswith("own\n")


@needs_landlock
async def test_the_environment_of_other_processes_and_their_terminals_are_out_of_reach(home: Path) -> None:
    ours, theirs = os.openpty()
    try:
        name = os.ttyname(theirs)
        command = f"cat /proc/{os.getpid()}/environ; echo x > {name}; head -c1 {name}; echo ok > /dev/null && echo end"
        text = await output_of(command, Confinement((home,)), home)
    finally:
        os.close(ours)
        os.close(theirs)
    assert "PATH=" not in text and text.count("denied") == 3 and text.endswith("end\n")


@needs_landlock
async def test_rights_stay_lost_for_what_it_starts(home: Path) -> None:
    inner = shlex.quote(f"echo x > {home}/new; (setsid sh -c 'echo x > {home}/newer')")
    await output_of(f"sh -c {inner}; sh -c {inner} & wait", Confinement((home / "work",)), home)
    assert not {"new", "newer"} & names_in(home)


@needs_landlock
async def test_rules_that_cannot_be_made_start_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "_MAX_RULES", 3)
    with pytest.raises(SpawnFailed):
        await output_of("touch ran", Confinement((home,), (home / "keys",)), home)
    assert not (home / "ran").exists()


@needs_landlock
async def test_a_rule_that_is_refused_between_fork_and_exec_starts_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "_RESTRICT_SELF", 99_999)
    with pytest.raises(SpawnFailed):
        await output_of("touch ran", Confinement((home,)), home)
    assert not (home / "ran").exists()


class Broken(NoSandbox):
    async def describe(self) -> str:
        return "broken"


async def test_the_first_sandbox_that_works_is_chosen_and_the_last_says_what_is_missing(tmp_path: Path) -> None:
    works = LandlockSandbox(tmp_path, required=False, network=False, hides=(), home=None)
    works._works = True
    chosen = AutomaticSandbox((Broken(), works))
    assert not chosen.is_active and chosen.confinement is None
    assert await chosen.probe() and chosen.is_active and chosen.confinement is not None
    none = AutomaticSandbox((works, Broken()))
    works._works = False
    assert not await none.probe() and await none.describe() == "broken"


@needs_landlock
async def test_without_bubblewrap_landlock_holds_and_says_what_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_sh = tmp_path / "bin"
    only_sh.mkdir()
    (only_sh / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(only_sh))
    fence = make_sandbox("auto", tmp_path, network=False)
    assert await fence.probe()
    assert (await fence.describe()).startswith(
        "Landlock"
    ) and "cannot hold changes of permissions" in await fence.describe()


def test_the_profile_for_macos_denies_what_is_hidden_after_it_allows_the_workspace(tmp_path: Path) -> None:
    lines = seatbelt_profile((tmp_path / "work",), (tmp_path / 'a"b',), network=False).splitlines()
    assert lines[:3] == ["(version 1)", "(allow default)", "(deny file-write*)"]
    allowed, denied = (
        f'(allow file-write* (subpath "{tmp_path}/work"))',
        f'(deny file-read* file-write* (subpath "{tmp_path}/a\\"b"))',
    )
    assert lines.index(allowed) < lines.index(denied) and "(deny network*)" in lines
    assert "(deny network*)" not in seatbelt_profile((), (), network=True)
