from __future__ import annotations

import pytest

from aish.safety.policy.always_rules import make_command_rule
from aish.safety.policy.rules import Rule, example_errors, matches_command, matches_path
from aish.types.decisions import Verdict


@pytest.mark.parametrize(
    ("prefix", "words", "fits"),
    [
        ("git status", ("git", "status", "-s"), True),
        ("git status", ("git", "stash"), False),
        ("git status", ("git",), False),
        ("npm run *", ("npm", "run", "dev"), True),
        ("npm run *", ("npm", "run"), False),
        ("git status", ("git", None), False),
        ("", ("git",), False),
    ],
)
def test_a_prefix_is_compared_word_by_word(prefix, words, fits):
    assert matches_command(Rule(Verdict.ALLOW, commands=(prefix,)), words) is fits


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("src/**", "src/a/b.py", True),
        ("src/*", "src/a/b.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "a/b/c.py", True),
        ("docs", "docs/x", False),
        ("secrets/**", "secrets", True),
        ("**/a/**/b", "x/a/y/a/z/b", True),
        ("**/a/**/b", "x/b/y/a", False),
        ("a/**/b/*.c", "a/b/b/x/b/y.c", True),
        ("a/**/**", "a", True),
        ("**/x/**/y", "x/" * 1000 + "x", False),
    ],
)
def test_a_path_is_compared_component_by_component(glob, path, fits):
    assert matches_path(Rule(Verdict.ALLOW, paths=(glob,)), path) is fits


def test_examples_hold_or_are_told():
    good = Rule(Verdict.ALLOW, commands=("git status",), match=("git status -s",), not_match=("git push",))
    bad = Rule(Verdict.ALLOW, name="r", commands=("git",), match=("svn up",), not_match=("git push",))
    everything = Rule(Verdict.ALLOW, name="all")
    assert example_errors([good]) == []
    assert len(example_errors([bad])) == 2
    assert "matches everything" in example_errors([everything])[0]


@pytest.mark.parametrize(
    ("words", "prefix"),
    [
        (("git", "log", "--oneline"), "git log --oneline"),
        (("git", "add", "src/a.py"), "git add *"),
        (("npm", "run", "dev", "--", "x"), "npm run dev -- x"),
        (("docker", "compose", "ps"), "docker compose ps"),
        (("terraform", "plan"), "terraform plan"),
        (("mytool", "sub", "x"), "mytool sub x"),
        (("git",), None),
        (("rm", "-rf", "x"), None),
        (("python3", "x.py"), "python3 x.py"),
        (("python3",), None),
        (("sudo", "ls"), None),
        (("git", "-c", "x=y", "status"), None),
        (("git", None), None),
        (("./run", "x"), "./run x"),
        (("mytool", "a b"), "mytool 'a b'"),
        (("mytool", "it's"), """mytool 'it'"'"'s'"""),
        (("mytool", "a\nb"), None),
        (("my tool",), None),
        ((), None),
    ],
)
def test_always_means_the_narrowest_rule_or_none(words, prefix):
    rule = make_command_rule(words)
    assert (rule.commands[0] if rule else None) == prefix
    assert rule is None or example_errors([rule]) == []
