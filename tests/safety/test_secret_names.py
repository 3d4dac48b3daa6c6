"""The fast test for secrets gives the same answers as the plain one, for each entry of the table and near it."""

from __future__ import annotations

import itertools

import pytest

from aish.safety.commands import ShellContext, program_tables
from aish.safety.commands.proof.exposure import is_secret
from aish.safety.commands.shell_state import Scope
from aish.safety.policy.secret_names import SecretNames

HERE = ShellContext(cwd="/home/u/work", home="/home/u", roots=("/home/u/work",))
FOLDERS = ("/", "/home/u", "/home/u/work", "/home/u/work/src/deep", "/home/other", "/root", "/srv", "/usr/share/x")


def files_of(glob: str) -> set[str]:
    """Files that the glob matches, and some that it nearly matches."""
    filled = {glob.replace("*", text).replace("?", "_") for text in ("x", "", "a/b", "a/b.py", "[x]")}
    return {*filled, *(f"{text}x" for text in filled), *(f"{text}/x" for text in filled), *(t.upper() for t in filled)}


@pytest.mark.parametrize("table", ["paths", "home", "home_plain", "names", "names_plain", "exemplars"])
def test_it_says_the_same_as_the_plain_test_for_each_entry(table: str) -> None:
    fast, scope = SecretNames(HERE), Scope(HERE)
    files = {file for glob in getattr(program_tables.secrets(), table) for file in files_of(glob)}
    paths = {f"{folder.rstrip('/')}/{file}".replace("//", "/") for folder in FOLDERS for file in files}
    wrong = [path for path in sorted(paths) if fast(path) is not is_secret(path, scope)]
    assert wrong == []
    assert any(map(fast, paths)) or table in ("home_plain", "names_plain")


def test_patterns_are_judged_as_patterns() -> None:
    fast, scope = SecretNames(HERE), Scope(HERE)
    for folder, glob in itertools.product(FOLDERS, (".e*", "*.pem", "**/.env", ".aws/*", "*.py", "*", "[.]env")):
        assert fast(f"{folder}/{glob}", glob=True) is is_secret(f"{folder}/{glob}", scope, glob=True)
