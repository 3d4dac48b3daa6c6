"""Extensions are folders or packages that the user has enabled, as they were then."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from aish.config.extensions import (
    EXTENSION_FILE,
    enable_extension,
    find_available,
    find_extensions,
    read_extension,
    remove_extension,
)
from aish.config.paths import extensions_file
from aish.errors import ConfigError, UsageError

from .conftest import World


def write_extension(folder: Path, head: str = 'name = "tickets"\npython = ["tickets.py"]\n') -> Path:
    folder.mkdir(parents=True)
    (folder / EXTENSION_FILE).write_text(head)
    (folder / "tickets.py").write_text("from aish import tool\n")
    return folder


def test_a_folder_has_effect_once_enabled_and_only_as_it_was_then(world: World, tmp_path: Path) -> None:
    folder = write_extension(tmp_path / "ext")
    assert find_extensions(world.env) == []
    enable_extension(read_extension(str(folder)), world.env)
    (found,) = find_extensions(world.env)
    assert (found.name, found.state, [source.path for source in found.sources]) == (
        "tickets", "enabled", [str(folder / "tickets.py")],
    )  # fmt: skip
    (folder / "more.txt").write_text("anything")
    (found,) = find_extensions(world.env)
    assert found.state == "changed" and not found.is_usable and "extensions add" in found.problem
    enable_extension(read_extension(str(folder)), world.env)
    assert find_extensions(world.env)[0].is_usable
    assert remove_extension("tickets", world.env)
    assert not remove_extension("tickets", world.env)
    assert find_extensions(world.env) == []


def test_a_second_extension_of_one_name_is_refused_until_the_first_is_removed(world: World, tmp_path: Path) -> None:
    first, second = write_extension(tmp_path / "one"), write_extension(tmp_path / "two")
    enable_extension(read_extension(str(first)), world.env)
    with pytest.raises(UsageError, match="there is an extension tickets already"):
        enable_extension(read_extension(str(second)), world.env)
    remove_extension("tickets", world.env)
    enable_extension(read_extension(str(second)), world.env)
    assert find_extensions(world.env)[0].folder == second


def test_a_folder_that_is_gone_is_told(world: World, tmp_path: Path) -> None:
    folder = write_extension(tmp_path / "ext")
    enable_extension(read_extension(str(folder)), world.env)
    (folder / EXTENSION_FILE).unlink()
    (found,) = find_extensions(world.env)
    assert (found.name, found.state) == ("tickets", "broken") and EXTENSION_FILE in found.problem


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ('name = "Tickets"\n', "must be of small letters"),
        ('name = "shell"\n', "taken by aish"),
        ('name = "a__b"\n', "must be of small letters"),
        ('nam = "tickets"\n', "unknown field"),
        ('name = "tickets"\npython = ["../out.py"]\n', "leads out of the folder"),
        ('name = "tickets"\npython = ["missing.py"]\n', "cannot be read"),
        ("name = [\n", "not valid TOML"),
    ],
)
def test_a_wrong_head_says_what_is_wrong(world: World, tmp_path: Path, head: str, problem: str) -> None:
    folder = write_extension(tmp_path / "ext", head)
    with pytest.raises(UsageError) as caught:
        read_extension(str(folder))
    assert problem in caught.value.message


def test_links_and_large_folders_are_refused(world: World, tmp_path: Path) -> None:
    folder = write_extension(tmp_path / "ext")
    (folder / "link.py").symlink_to("/etc/hostname")
    with pytest.raises(UsageError, match="is a link"):
        read_extension(str(folder))
    (folder / "link.py").unlink()
    with (folder / "big.bin").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    with pytest.raises(UsageError, match="more than"):
        read_extension(str(folder))


def test_what_is_no_extension_is_an_error(world: World, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no extension nowhere"):
        read_extension("nowhere")


def test_damaged_pins_are_an_error_that_says_what_to_do(world: World) -> None:
    extensions_file(world.env).parent.mkdir(parents=True)
    extensions_file(world.env).write_text("{")
    with pytest.raises(ConfigError) as caught:
        find_extensions(world.env)
    assert "delete it" in caught.value.hint


def test_parts_that_are_named_and_missing_are_told(world: World, tmp_path: Path) -> None:
    folder = write_extension(tmp_path / "ext", 'name = "tickets"\nskills = "skills"\nagents = "agents"\n')
    (folder / "agents").mkdir()
    found = read_extension(str(folder))
    assert found.part("agents") == folder / "agents"
    assert found.part("commands") is None
    assert found.missing_parts() == [f"{folder / 'skills'} is not there"]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with an entry point, as an installer writes it, in a folder on the import path."""
    site = tmp_path / "site"
    (site / "tickets_ext").mkdir(parents=True)
    (site / "tickets_ext/__init__.py").write_text("from aish import tool\n")
    info = site / "tickets_ext-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tickets-ext\nVersion: 1.2\nSummary: Tickets\n")
    (info / "entry_points.txt").write_text("[aish.extensions]\ntickets = tickets_ext\n")
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    importlib.invalidate_caches()
    return site


def test_an_installed_package_is_available_and_works_once_enabled(world: World, installed: Path) -> None:
    (found,) = find_available(world.env)
    assert (found.name, found.state, found.version, found.description) == ("tickets", "available", "1.2", "Tickets")
    assert find_extensions(world.env) == []
    enable_extension(read_extension("tickets"), world.env)
    (found,) = find_available(world.env)
    assert found.state == "enabled" and [source.module for source in found.sources] == ["tickets_ext"]
    assert "tickets_ext" not in sys.modules


def test_a_package_outside_of_the_folders_of_installers_is_pinned_like_a_folder(world: World, installed: Path) -> None:
    """As `pip install --editable` leaves it: what works on its files could otherwise run unasked."""
    enable_extension(read_extension("tickets"), world.env)
    (installed / "tickets_ext/__init__.py").write_text("import os\n")
    (found,) = find_extensions(world.env)
    assert found.state == "changed" and not found.is_usable
