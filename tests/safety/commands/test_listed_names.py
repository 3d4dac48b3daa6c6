"""Names that one command lists and another reads, and other reads that only the disk decides."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from aish.safety.commands import Level, ShellContext, classify
from aish.safety.policy.gate import PolicyGate
from aish.tools.real_paths import RealPaths
from aish.types.decisions import Verdict
from aish.types.tools import Effect, ToolSpec

SHELL = ToolSpec("shell__run", "", {"type": "object"}, Effect.EXEC, "shell")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A repository with ordinary files; secrets and links only where a test puts them."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "empty").mkdir()
    (tmp_path / "outside.txt").write_text("outside")
    for name in ("notes.txt", "src/a.py", "src/b.txt"):
        (root / name).write_text("x")
    subprocess.run(["git", "init", "-q", root], check=True)
    return root


def ask(root: Path, line: str) -> Verdict:
    context = ShellContext(cwd=str(root), home=str(root.parent), roots=(str(root),))
    real_paths = RealPaths(root, lambda path: path.endswith(("/.env", ".key")))
    return PolicyGate(shell=context, real_paths=real_paths).judge(SHELL, {"command": line}).verdict


LISTS = [
    "find . -print0 | xargs -0 cat",
    "find src -type f -print0 | xargs -0 head -n 1",
    "find . -name '*.txt' -print0 | xargs -0 cat",
    "find . -name '*.txt' -exec cat {} +",
    "git ls-files -z | xargs -0 cat",
    "git ls-files -zo | xargs -0 head -c 60",
    "git ls-files -z | sort -z | xargs -0 -I{} grep '' {}",
    "diff -N src empty",
    "git diff --no-index empty src",
    "grep -R x .",
    "grep -R --include=*.txt x .",
    "rg -uu --follow x src",
    f"cat {'notes.txt ' * 60} src/b.txt",
]


@pytest.mark.parametrize("line", LISTS)
def test_ordinary_files_are_read_unasked(workspace: Path, line: str) -> None:
    assert ask(workspace, line) is Verdict.ALLOW


@pytest.mark.parametrize("line", LISTS)
def test_a_link_to_a_file_outside_is_asked_about(workspace: Path, line: str) -> None:
    (workspace / "src/b.txt").unlink()
    (workspace / "src/b.txt").symlink_to("/etc/passwd")
    assert ask(workspace, line) is Verdict.ASK


@pytest.mark.parametrize("line", [line for line in LISTS if ".txt" not in line])
def test_a_secret_below_is_asked_about(workspace: Path, line: str) -> None:
    (workspace / "src/.env").write_text("KEY=1")
    assert ask(workspace, line) is Verdict.ASK


@pytest.mark.parametrize("line", ["find . -name '*.txt' -print0 | xargs -0 cat", "grep -R --include=*.txt x ."])
def test_a_secret_that_the_pattern_leaves_out_does_not_matter(workspace: Path, line: str) -> None:
    (workspace / "src/.env").write_text("KEY=1")
    assert ask(workspace, line) is Verdict.ALLOW


@pytest.mark.parametrize(
    "line",
    [
        "find . -print0 -name '*.txt' | xargs -0 cat",
        "find . -name '*.txt' -o -print0 | xargs -0 cat",
        "find . ! -name '*.txt' -print0 | xargs -0 cat",
        "find . -exec cat {} + -name '*.txt'",
        "find . -name 's*' -exec grep -r KEY {} +",
        "find . -name 's*' -print0 | xargs -0 grep -r KEY",
        "find . -name 's*' -print0 | xargs -0 -I{} diff -N {} empty",
        "grep -r --exclude=x --include=*.txt KEY .",
        "grep -r --include='[.]*' KEY .",
        "rg --hidden -g '{a,.env}' KEY",
        "find . -name '*.txt' -print0 -o -name 'x' -print0 | xargs -0 cat",
    ],
)
def test_a_pattern_that_does_not_decide_alone_leaves_nothing_out(workspace: Path, line: str) -> None:
    (workspace / "src/.env").write_text("KEY=1")
    assert ask(workspace, line) is Verdict.ASK


def test_many_files_are_all_looked_at(workspace: Path) -> None:
    (workspace / "link").symlink_to("/etc/passwd")
    assert ask(workspace, f"cat {'notes.txt ' * 150} link") is Verdict.ASK
    names = " ".join(f"n{number}" for number in range(500))
    assert ask(workspace, f"cat {names} link") is Verdict.ASK
    assert ask(workspace, f'for f in {names} link; do cat "$f"; done') is Verdict.ASK


@pytest.mark.parametrize(
    "line",
    [
        "git ls-files -zo :/ | xargs -0 cat",
        "git grep --untracked '' :/",
        "git grep --untracked '' -- ':(top)'",
        "git grep --untracked '' -- ':(icase,top)x'",
        "git log -p -- :/other",
        "git ls-files -zo .. | xargs -0 cat",
    ],
)
def test_magic_of_git_does_not_lead_above_the_workspace(workspace: Path, line: str) -> None:
    assert ask(workspace / "src", line) is Verdict.ASK


@pytest.mark.parametrize(
    "line", ["find . -name .env -print0 | xargs -0 cat", "find . -name 'id_*' -print0 | xargs -0 cat"]
)
def test_a_listing_of_secrets_is_not_fed_to_a_reader(line: str) -> None:
    context = ShellContext(cwd="/home/ann/project", home="/home/ann", roots=("/home/ann/project",))
    found = classify(line, context)
    assert found.level is Level.UNKNOWN and found.reasons[0].kind == "secret"


def test_a_token_in_the_settings_of_git_is_a_secret(workspace: Path) -> None:
    assert ask(workspace, "grep -rh url .") is Verdict.ALLOW
    with (workspace / ".git/config").open("a") as file:
        file.write('[remote "origin"]\n\turl = https://ann:ghp_x@github.com/a/b\n')
    assert ask(workspace, "grep -rh url .") is Verdict.ASK
    assert ask(workspace, "git diff --no-index empty .") is Verdict.ASK


@pytest.mark.parametrize("line", ["git remote -v", "git remote get-url origin", "git config --get remote.origin.url"])
def test_an_address_with_a_token_is_a_secret(workspace: Path, line: str) -> None:
    for url, verdict in (("https://github.com/a/b", Verdict.ALLOW), ("https://ann:x@github.com/a/b", Verdict.ASK)):
        subprocess.run(["git", "-C", workspace, "config", "remote.origin.url", url], check=True)
        assert ask(workspace, line) is verdict
        assert ask(workspace / "src", line) is verdict


@pytest.mark.parametrize("line", ["grep -R root .", "grep --dereference-recursive root .", "rg -uuu --follow root"])
def test_links_in_packages_count_where_links_are_followed(workspace: Path, line: str) -> None:
    package = workspace / "node_modules" / "p"
    package.mkdir(parents=True)
    (package / "own").symlink_to("../../notes.txt")
    assert ask(workspace, line) is Verdict.ALLOW
    (package / "link").symlink_to("/etc/shadow")
    assert ask(workspace, line) is Verdict.ASK
    assert ask(workspace, "grep -r root .") is Verdict.ALLOW


@pytest.mark.parametrize("line", ["ls -R away/", "find away/ -ls", "du -a away/", "ls -l away/x"])
def test_names_behind_a_link_are_names_outside(workspace: Path, line: str) -> None:
    (workspace / "away").symlink_to(Path.home())
    assert ask(workspace, line) is Verdict.ASK


def test_a_name_that_means_a_program_of_the_workspace_is_asked_about(workspace: Path) -> None:
    context = ShellContext(cwd=str(workspace), home=str(workspace.parent), roots=(str(workspace),))

    def judge(line: str) -> Verdict:
        own = {"free": f"{workspace}/bin/free"}
        gate = PolicyGate(shell=context, find_own_program=lambda name, cwd: own.get(name, ""))
        return gate.judge(SHELL, {"command": line}).verdict

    assert judge("ls | head") is Verdict.ALLOW
    assert judge("free") is Verdict.ASK
    assert judge("ls | xargs -0 free") is Verdict.ASK


@pytest.mark.parametrize(
    "line",
    [
        "find . -path './s*' -print0 | xargs -0 cat",
        "find . -path './s*' -exec cat {} +",
        "find . -name '*.txt' -exec cat {} +",
        "git grep --untracked KEY -- 's*key'",
    ],
)
def test_what_leads_to_a_secret_under_another_name_is_asked_about(workspace: Path, line: str) -> None:
    (workspace / "src/own.key").write_text("KEY")
    (workspace / "src/.env").write_text("KEY=1")
    (workspace / "src/link.txt").symlink_to(".env")
    assert ask(workspace, line) is Verdict.ASK


def test_a_pattern_says_nothing_of_names_below_a_link(workspace: Path) -> None:
    (workspace / "all").symlink_to("/etc")
    assert ask(workspace, "grep -R --include=*.txt x .") is Verdict.ASK


def test_settings_of_a_submodule_may_hold_a_token(workspace: Path) -> None:
    settings = workspace / ".git/modules/lib/config"
    settings.parent.mkdir(parents=True)
    settings.write_text("[core]\n")
    assert ask(workspace, "grep -rh url .") is Verdict.ALLOW
    settings.write_text('[remote "origin"]\n\turl = https://ann:x@github.com/a/b\n')
    assert ask(workspace, "grep -rh url .") is Verdict.ASK


@pytest.mark.parametrize(
    "line",
    [
        "npm_config_cache=x; npm ls",
        "for npm_config_logs_max in 9; do npm ls; done",
        "read npm_config_cache < f; npm ls",
    ],
)
def test_settings_of_npm_are_not_changed(line: str) -> None:
    assert classify(line, ShellContext(cwd="/w", home="/home/ann")).level is Level.UNKNOWN


@pytest.mark.parametrize("line", ["grep -rn KEY .", "grep -rn --include=*.txt KEY .", "rg KEY", "rg -t py KEY src"])
def test_links_that_a_search_passes_over_do_not_matter(workspace: Path, line: str) -> None:
    (workspace / "src/out.txt").symlink_to("/etc/passwd")
    assert ask(workspace, line) is Verdict.ALLOW
    (workspace / "named.txt").symlink_to("/etc/passwd")
    assert ask(workspace, f"{line} named.txt") is Verdict.ASK


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("rg KEY", Verdict.ALLOW),
        ("rg -l KEY -t py", Verdict.ALLOW),
        ("rg --files | head -50", Verdict.ALLOW),
        ("rg --files --hidden", Verdict.ALLOW),
        ("rg --hidden KEY", Verdict.ASK),
        ("rg -uu KEY", Verdict.ASK),
        ("rg -. KEY", Verdict.ASK),
        ("rg -g '*' KEY", Verdict.ASK),
        ("rg KEY .env", Verdict.ASK),
        ("grep -rn KEY .", Verdict.ASK),
    ],
)
def test_rg_passes_over_hidden_files(workspace: Path, line: str, verdict: Verdict) -> None:
    (workspace / ".env").write_text("KEY=1")
    assert ask(workspace, line) is verdict


@pytest.mark.parametrize("file", [".gitignore", "src/.ignore", ".rgignore"])
def test_a_project_may_say_that_hidden_files_are_searched(workspace: Path, file: str) -> None:
    (workspace / "src/.env").write_text("KEY=1")
    (workspace / file).write_text("*.log\n!.env\n")
    assert ask(workspace, "rg KEY") is Verdict.ASK


def test_packages_may_hold_public_keys_but_no_secrets_or_links(workspace: Path) -> None:
    package = workspace / "node_modules/p"
    package.mkdir(parents=True)
    (package / "test.key").write_text("x")
    assert ask(workspace, "grep -rn KEY .") is Verdict.ALLOW
    (package / "link").symlink_to("/etc/passwd")
    assert ask(workspace, "grep -rn KEY .") is Verdict.ALLOW
    assert ask(workspace, "find . -type f -exec cat {} +") is Verdict.ASK
    (package / "link").unlink()
    (package / ".env").write_text("x")
    assert ask(workspace, "grep -rn KEY .") is Verdict.ASK


@pytest.mark.parametrize(
    "line",
    ["grep -R BEGIN docs", "rg -L BEGIN docs", "diff -r -N docs empty", "zcat -rf docs"],
)
def test_a_folder_behind_a_link_is_looked_at_too(workspace: Path, line: str) -> None:
    (workspace / "docs").mkdir()
    (workspace / "docs/c").symlink_to("../src")
    assert ask(workspace, line) is Verdict.ALLOW
    (workspace / "src/.env").write_text("x")
    assert ask(workspace, line) is Verdict.ASK


@pytest.mark.parametrize("line", ["find -L . -name x", "find . -follow -name x", "du -L .", "tree -l .", "ls -LR ."])
def test_names_behind_links_below_count_where_links_are_followed(workspace: Path, line: str) -> None:
    assert ask(workspace, line) is Verdict.ALLOW
    (workspace / "src/away").symlink_to("/root")
    assert ask(workspace, line) is Verdict.ASK


def test_names_of_a_folder_behind_a_link_in_the_middle_count(workspace: Path) -> None:
    (workspace / "root").symlink_to("/")
    assert ask(workspace, "ls -R root/etc") is Verdict.ASK


@pytest.mark.parametrize("line", ["git ls-files -z src | xargs -0 cat", "find -P src -print0 | xargs -0 cat"])
def test_where_listed_names_lie_is_what_was_named(workspace: Path, line: str) -> None:
    (workspace / ".env").write_text("x")
    assert ask(workspace, line) is Verdict.ALLOW
    (workspace / "src/.env").write_text("x")
    assert ask(workspace, line) is Verdict.ASK


def test_a_further_worktree_has_the_addresses_of_its_repository(workspace: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", workspace, "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True)

    git("commit", "-q", "--allow-empty", "-m", "first")
    git("worktree", "add", "-q", "src/other")
    other = workspace / "src/other"
    assert ask(other, "git remote -v") is Verdict.ALLOW
    git("config", "remote.origin.url", "https://ann:x@github.com/a/b")
    assert ask(other, "git remote -v") is Verdict.ASK


def test_in_a_repository_a_diff_of_folders_shows_what_is_tracked(workspace: Path) -> None:
    (workspace / "src/.env").write_text("x")
    assert ask(workspace, "git diff main..feature -- src") is Verdict.ALLOW
    assert ask(workspace, "git diff empty src") is Verdict.ALLOW
    assert ask(workspace, "git diff --no-index empty src") is Verdict.ASK
    shutil.rmtree(workspace / ".git")
    assert ask(workspace, "git diff empty src") is Verdict.ASK
