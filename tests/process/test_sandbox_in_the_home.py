"""A sandbox whose workspace contains the files of aish: a command can put nothing in their place for the next aish."""

from __future__ import annotations

import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aish.app.engines import hidden_paths, own_folders
from aish.config.schema.config import Config
from aish.errors import ToolError
from aish.process.child import ProcessSpec, run
from aish.process.landlock import find_abi
from aish.process.sandbox import Sandbox, SandboxMode, make_sandbox, seatbelt_profile

KINDS = [
    pytest.param("bwrap", marks=pytest.mark.skipif(shutil.which("bwrap") is None, reason="no bubblewrap")),
    pytest.param("landlock", marks=pytest.mark.skipif(not find_abi(), reason="this kernel has no Landlock")),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Below /tmp, and outside of it: the workspace is writable in both ways."""
    home = tmp_path / "home"
    (home / ".config" / "aish" / "tools").mkdir(parents=True)
    (home / ".config" / "aish" / "config.toml").write_text("own = 1")
    (home / ".config" / "other").mkdir()
    (home / ".config" / "gh").mkdir()
    (home / ".config" / "gh" / "token").write_text("hush")
    (home / ".local").mkdir()
    (home / "venv" / "lib").mkdir(parents=True)
    return home


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder that no sandbox here can write to."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        yield Path(folder)


def fence_around(home: Path, kind: SandboxMode, workspace: Path | None = None) -> Sandbox:
    env, cwd = {"HOME": str(home)}, workspace or home
    return make_sandbox(
        kind, cwd, network=False, hides=hidden_paths(Config(), env, cwd), folders=own_folders(env),
        read_only=(home / "venv",), home=home,
    )  # fmt: skip


async def run_in(fence: Sandbox, cwd: Path, command: str) -> str:
    if not await fence.probe():
        pytest.skip("this machine forbids this sandbox")
    argv = await fence.wrap(("sh", "-c", f"exec 2>&1; {command}"), cwd)
    spec = ProcessSpec(argv, name="sh", confinement=fence.confinement, cwd=cwd)
    done = await run(spec, timeout_s=30, max_output_bytes=100_000)
    return done.stdout.decode()


ATTACKS = (
    "mv .config .config2; mkdir -p .config/aish/tools && echo evil > .config/aish/tools/evil.py",
    "mv .config/aish .config/old; mkdir -p .config/aish/tools && echo evil > .config/aish/tools/evil.py",
    "rm -rf .config; mkdir -p evil/aish/tools; echo evil > evil/aish/tools/evil.py; ln -s ../evil .config",
    "rmdir .config/aish; ln -s ../other .config/aish; echo evil > .config/aish/evil.py",
    "mkdir -p .local/share/aish && echo evil > .local/share/aish/trust.json",
    "mv .local .local2; mkdir -p .local/share/aish && echo evil > .local/share/aish/trust.json",
    "mkdir -p .local/share; ln -s ../../evil .local/share/aish; mkdir -p evil && echo evil > evil/trust.json",
    "mkdir -p .cache/aish && echo evil > .cache/aish/x; mkdir -p evil/aish; echo evil > evil/aish/x; ln -s evil .cache",
    "echo evil > venv/lib/zz.pth; rm -rf venv/lib; mv venv venv2; mkdir -p venv/lib; echo evil > venv/lib/zz.pth",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["home", "above"])
@pytest.mark.parametrize("attack", ATTACKS)
async def test_nothing_takes_the_place_of_files_of_aish(home: Path, kind: SandboxMode, where: str, attack: str) -> None:
    fence = fence_around(home, kind, home if where == "home" else home.parent)
    await run_in(fence, home, attack)
    for folder in (".config/aish", ".local/share/aish", ".cache/aish", "venv"):
        found = [path for path in (home / folder).rglob("*") if path.is_file() and "evil" in path.read_text()]
        assert not found, folder
    assert (home / ".config" / "aish" / "config.toml").read_text() == "own = 1"
    assert (home / "venv" / "lib").is_dir() and not (home / ".config").is_symlink()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_secret_stays_hidden_after_its_parent_was_to_be_renamed(home: Path, kind: SandboxMode) -> None:
    fence = fence_around(home, kind)
    await run_in(fence, home, "mv .config .config2")
    text = await run_in(fence, home, "cat .config*/gh/token; echo end")
    assert "hush" not in text and text.endswith("end\n")


async def test_work_in_the_home_goes_on_in_bubblewrap(home: Path) -> None:
    command = (
        "echo a > file && mv file .config/other/file && mkdir .config/new && mv .config/new .config/newer && "
        "echo b > .local/b && mkdir -p deep/er && ln -s deep link && rm -r deep && cat .config/other/file .local/b"
    )
    assert await run_in(fence_around(home, "bwrap"), home, command) == "a\nb\n"


async def test_missing_folders_of_aish_are_made_for_their_owner_only(home: Path) -> None:
    assert await run_in(fence_around(home, "bwrap"), home, "ls -A .local/share/aish .cache/aish") != ""
    for folder in (".local/share", ".local/share/aish", ".cache/aish"):
        assert stat.S_IMODE((home / folder).stat().st_mode) == 0o700


async def test_no_folder_is_made_where_commands_could_not_make_it(home: Path, short: Path) -> None:
    (short / "work").mkdir()
    await run_in(fence_around(Path("/usr/no-home"), "bwrap", short / "work"), short / "work", "true")
    assert not Path("/usr/no-home").exists()  # noqa: ASYNC240


async def test_a_folder_that_cannot_be_made_runs_nothing(home: Path) -> None:
    (home / ".cache").write_text("a file is in the way")
    with pytest.raises(ToolError, match="cannot protect"):
        await run_in(fence_around(home, "bwrap"), home, "touch ran")
    assert not (home / "ran").exists()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_link_to_the_settings_cannot_be_replaced(home: Path, kind: SandboxMode, short: Path) -> None:
    """Links cannot be mounted over: the folder with the link is read-only."""
    (home / ".config" / "aish").rename(short / "mine")
    (home / ".config" / "aish").symlink_to(short / "mine")
    fence = fence_around(home, kind)
    text = await run_in(
        fence, home, "rm .config/aish; mkdir -p .config/aish && echo evil > .config/aish/evil; echo end"
    )
    assert (home / ".config" / "aish").is_symlink() and text.endswith("end\n")
    assert not (short / "mine" / "evil").exists()


async def test_a_link_beside_the_work_is_left_to_landlock(home: Path) -> None:
    (home / ".config").rename(home / "dotfiles")
    (home / ".config").symlink_to("dotfiles")
    fence = fence_around(home, "bwrap")
    assert not await fence.probe() and f"{home}/.config is a link" in await fence.describe()
    with pytest.raises(ToolError, match="is a link"):
        await fence.wrap(("true",), home)
    if find_abi():
        automatic = fence_around(home, "auto")
        await run_in(automatic, home, "rm .config; mkdir -p .config/aish; echo evil > .config/aish/evil")
        assert (await automatic.describe()).startswith("Landlock") and (home / ".config").is_symlink()


@pytest.mark.parametrize("kind", KINDS)
async def test_the_environment_of_aish_can_be_read_and_run(home: Path, kind: SandboxMode) -> None:
    (home / "venv" / "run").write_text("#!/bin/sh\necho it runs\n")
    (home / "venv" / "run").chmod(0o755)
    text = await run_in(fence_around(home, kind), home, "venv/run; touch venv/new || echo refused")
    assert text.startswith("it runs\n") and text.endswith("refused\n")


def test_the_profile_for_macos_holds_the_ways_to_what_is_hidden(home: Path) -> None:
    lines = seatbelt_profile((home,), (home / ".local/share/aish",), network=False, read_only=(home / "venv",))
    assert f'(deny file-write* (literal "{home}/.local/share"))' in lines
    assert f'(deny file-write* (literal "{home}/.local"))' in lines
    assert f'(deny file-write* (subpath "{home}/venv"))' in lines
    assert lines.index("(allow file-write* (subpath") < lines.index("(deny file-write* (literal")


def test_what_aish_runs_on_is_read_only_for_commands_of_models(tmp_path: Path) -> None:
    from aish.app.safety import CommandRunner
    from aish.config.schema.tools import SafetyConfig
    from aish.frontends.runtime import LaunchContext

    runner = CommandRunner(LaunchContext(tmp_path, {"HOME": str(tmp_path)}), SafetyConfig(sandbox="landlock"))
    assert Path(sys.prefix) in getattr(runner.sandbox, "_read_only")  # noqa: B009
