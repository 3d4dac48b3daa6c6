"""What a read leads to on a real disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish.safety.commands.bounds import TooBig
from aish.safety.commands.verdict import Read
from aish.tools.real_paths import RealPaths


def read(path: Path | str, *, deep: bool = False, glob: bool = False) -> Read:
    return Read(str(path), True, (0, 1), deep=deep, glob=glob)


def look(root: Path) -> RealPaths:
    return RealPaths(root, lambda path: path.endswith(".env"))


def test_a_plain_file_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    assert list(look(tmp_path)(read(tmp_path / "a"))) == []


def test_a_link_leads_to_its_target_and_so_does_a_folder_that_is_one(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key").write_text("x")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(outside / "key")
    (root / "folder").symlink_to(outside)
    assert list(look(root)(read(root / "link"))) == [str(outside / "key")]
    assert list(look(root)(read(f"{root}/folder/key"))) == [str(outside / "key")]
    assert list(look(root)(read(f"{root}/folder/../root/link"))) == [str(outside / "key")]


def test_a_wildcard_leads_to_what_the_shell_would_match(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("a.py", ".env"):
        (folder / name).write_text("x")
    assert list(look(folder)(read(folder / "*", glob=True))) == [str(folder / "a.py")]
    assert list(look(folder)(read(folder / ".e*", glob=True))) == [str(folder / ".env")]


def test_below_a_folder_only_secrets_are_found_also_in_packages(tmp_path: Path) -> None:
    for name in ("src/.env", "src/a.py", "node_modules/x/.env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert list(look(tmp_path)(read(tmp_path, deep=True))) == [
        str(tmp_path / "src/.env"),
        str(tmp_path / "node_modules/x/.env"),
    ]
    (tmp_path / "node_modules/x/.env").unlink()
    (tmp_path / "src/inside").symlink_to(tmp_path / "src/a.py")
    (tmp_path / "src/link").symlink_to("/etc/passwd")
    assert sorted(look(tmp_path)(read(tmp_path, deep=True))) == ["/etc/passwd", str(tmp_path / "src/.env")]


def test_a_workspace_that_is_reached_through_a_link_is_still_the_workspace(tmp_path: Path) -> None:
    real, named = tmp_path / "real", tmp_path / "named"
    real.mkdir()
    (real / "a").write_text("x")
    named.symlink_to(real)
    assert list(look(named)(read(named / "a"))) == []
    assert list(look(named)(read(real / "a"))) == [str(named / "a")]


def test_classes_of_characters_match_as_they_do_in_the_shell(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("/etc/passwd")
    for pattern in ("[[:alpha:]]*", "[^x]ink", "[k-m]ink"):
        assert list(look(root)(read(root / pattern, glob=True))) == ["/etc/passwd"], pattern


def test_wildcards_that_match_too_much_are_an_error_also_where_links_go_in_a_circle(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"a{number}").symlink_to(tmp_path)
    with pytest.raises(TooBig):
        list(look(tmp_path)(read(f"{tmp_path}/" + "/".join(["a*"] * 30), glob=True)))


def test_a_program_of_the_workspace_is_found_where_the_search_path_finds_it(tmp_path: Path) -> None:
    root, system, linked = tmp_path / "root", tmp_path / "system", tmp_path / "linked"
    for program in (root / "bin/free", root / "bin/ls", root / "free", system / "ls"):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(mode=0o755)
    linked.symlink_to(root / "bin")

    def find(search_path: str, name: str, cwd: Path = root) -> str:
        return RealPaths(root, lambda path: False, lambda: search_path).find_own_program(name, str(cwd))

    assert find(f"{root}/bin:{system}", "ls") == f"{root}/bin/ls"
    assert find(f"{system}:{root}/bin", "ls") == ""
    assert find(f"{system}:{root}/bin", "free") == f"{root}/bin/free"
    assert find(f"{linked}:{system}", "ls") == f"{linked}/ls"
    for relative in ("bin", "./bin", "../root/bin"):
        assert find(f"{relative}:{system}", "ls") != ""
    assert find(f":{system}", "free") == find(f".:{system}", "free").replace("./", "")
    assert find(f"bin:{system}", "ls", tmp_path) == "" and find(str(system), "free") == ""
