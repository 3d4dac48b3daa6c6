"""Modes: what runs without a question in each, what none of them lowers, and what a yes for a session covers."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish.safety.commands import ShellContext
from aish.safety.commands.verdict import Read
from aish.safety.policy.gate import PolicyGate
from aish.safety.policy.modes import ORDER, strictest
from aish.safety.policy.rules import Rule
from aish.safety.policy.secret_names import SecretNames
from aish.tools.real_paths import RealPaths
from aish.types.decisions import PROVED_RULE, Answer, Choice, Danger, EffectRequest, Mode, Verdict
from aish.types.tools import Effect, ToolSpec
from support.containment import FakeSandbox

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
SHELL = ToolSpec("shell__run", "", {}, Effect.EXEC, "shell")
EDIT = ToolSpec("ide__edit", "", {}, Effect.WRITE, "ide", paths=("path",), undoable=True)
RENAME = ToolSpec("ide__rename", "", {}, Effect.WRITE, "ide", paths=("path",), undoable=True, beyond=True)
FOREIGN = ToolSpec("fs__write", "", {}, Effect.WRITE, "fs", hints={})
FETCH = ToolSpec("web__fetch", "", {}, Effect.NETWORK, "web", hints={})
READ = ToolSpec("fs__read", "", {}, Effect.READ, "fs")


def make_gate(*rules: Rule, active: bool = True, **options) -> PolicyGate:
    shell = ShellContext(cwd="/work", home="/home/u", roots=("/work",))
    return PolicyGate(rules, shell=shell, sandbox=FakeSandbox("/work/keep", active=active), **options)


async def outcome(gate: PolicyGate, mode: Mode | None, tool: ToolSpec, owner: str = "", **arguments) -> str:
    """What happens: `runs`, `asked`, `insisted` (with a no as the answer), or `refused` without a question."""
    asked = []

    async def ask(question):
        asked.append(question)
        return Answer(Choice.NO)

    decision = await gate.authorise(EffectRequest("c", tool, arguments, owner, mode=mode), ask)
    if asked:
        return "insisted" if asked[0].insist else "asked"
    return "runs" if decision.verdict is ALLOW else "refused"


def line(command: str) -> tuple[ToolSpec, dict[str, str]]:
    return SHELL, {"command": command}


CALLS = {
    "read": line("git status"),
    "read tool": (READ, {"path": "a.py"}),
    "secret": line("cat .env"),
    "edit": (EDIT, {"edits": [{"path": "a.py"}]}),
    "rename": (RENAME, {"path": "a.py"}),
    "edit of a secret": (EDIT, {"edits": [{"path": "a.py"}, {"path": ".env"}]}),
    "edit of a hook": (EDIT, {"edits": [{"path": ".git/hooks/pre-commit"}]}),
    "edit outside": (EDIT, {"edits": [{"path": "/etc/hosts"}]}),
    "edit above": (EDIT, {"edits": [{"path": "../other/a.py"}]}),
    "command": line("make test"),
    "new file": line("echo x > new"),
    "overwrites": line("echo x > keep"),
    "removal": line("rm notes"),
    "destructive": line("rm -rf build"),
    "upload": line("git push origin main"),
    "catastrophe": line("rm -rf ~"),
    "foreign write": (FOREIGN, {"path": "a.py"}),
    "network": (FETCH, {"url": "https://example.com"}),
}
EXPECTED = {
    Mode.ASK: {"read": "runs", "read tool": "runs", "catastrophe": "insisted"},
    Mode.EDITS: {"read": "runs", "read tool": "runs", "edit": "runs", "rename": "runs", "catastrophe": "insisted"},
    Mode.AUTO: {
        "read": "runs", "read tool": "runs", "edit": "runs", "rename": "runs", "command": "runs", "new file": "runs",
        "catastrophe": "insisted",
    },
    Mode.PLAN: dict.fromkeys(CALLS, "refused") | {"read": "runs", "read tool": "runs"},
}  # fmt: skip


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("name", CALLS)
async def test_a_mode_lets_run_what_it_is_for_and_asks_about_the_rest(mode: Mode, name: str) -> None:
    tool, arguments = CALLS[name]
    assert await outcome(make_gate(), mode, tool, **arguments) == EXPECTED[mode].get(name, "asked")


@pytest.mark.parametrize(
    "path",
    [
        ".git", ".git/commondir", ".git/config.worktree", ".git/modules/x/hooks/y", "sub/.git", ".GIT/Config",
        ".vscode/tasks.json", ".claude/settings.json", ".bashrc", ".venv/bin/activate",
        ".venv/lib/python3.12/site-packages/x.pth", "node_modules/.bin/eslint", "link/commondir", "file",
    ],
)  # fmt: skip
async def test_edits_of_what_programs_run_by_themselves_are_asked_about(path: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").touch()
    (tmp_path / "link").symlink_to(".git")
    (tmp_path / "file").symlink_to(".git/config")
    shell = ShellContext(cwd=str(tmp_path), home="/home/u", roots=(str(tmp_path),))
    gate = PolicyGate(shell=shell, real_paths=RealPaths(tmp_path, SecretNames(shell)))
    assert await outcome(gate, Mode.EDITS, EDIT, edits=[{"path": path}]) == "asked"
    assert await outcome(gate, Mode.EDITS, EDIT, edits=[{"path": "src/a.py"}]) == "runs"


@pytest.mark.parametrize("name", ["command", "new file"])
async def test_without_a_sandbox_auto_asks_about_every_command_that_is_not_proved(name: str) -> None:
    tool, arguments = CALLS[name]
    assert await outcome(make_gate(active=False), Mode.AUTO, tool, **arguments) == "asked"
    assert await outcome(make_gate(active=False), Mode.AUTO, *CALLS["edit"][:1], **CALLS["edit"][1]) == "runs"


@pytest.mark.parametrize("mode", [Mode.EDITS, Mode.AUTO])
@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (Rule(ASK, tools=("ide__*",)), "edit"),
        (Rule(ASK, paths=("a.py",)), "edit"),
        (Rule(ASK, paths=("secrets/**",)), "rename"),
        (Rule(ASK, commands=("make",)), "command"),
        (Rule(ASK, tools=("shell__run",)), "new file"),
        (Rule(ASK, effects=(Effect.WRITE,)), "edit"),
    ],
)
async def test_a_rule_that_asks_is_not_lowered_by_a_mode(rule: Rule, name: str, mode: Mode) -> None:
    tool, arguments = CALLS[name]
    assert await outcome(make_gate(rule), mode, tool, **arguments) == "asked"


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("name", ["edit", "command", "read"])
async def test_a_rule_that_denies_holds_in_every_mode(name: str, mode: Mode) -> None:
    tool, arguments = CALLS[name]
    assert await outcome(make_gate(Rule(DENY, tools=(tool.name,))), mode, tool, **arguments) == "refused"


@pytest.mark.parametrize("effect", ["write", "exec"])
async def test_an_effect_that_the_configuration_denies_stays_denied(effect: str) -> None:
    gate = make_gate(verdicts={Effect.READ: ALLOW, Effect(effect): DENY})
    tool, arguments = CALLS["edit" if effect == "write" else "command"]
    assert await outcome(gate, Mode.AUTO, tool, **arguments) == "refused"


@pytest.mark.parametrize("name", ["edit", "command", "foreign write", "destructive"])
async def test_in_plan_mode_a_rule_that_allows_does_not_help_and_the_model_is_told_what_to_do(name: str) -> None:
    tool, arguments = CALLS[name]
    gate = make_gate(Rule(ALLOW, tools=(tool.name,)))
    decision = await gate.authorise(EffectRequest("c", tool, arguments, mode=Mode.PLAN), None)
    assert decision.verdict is DENY and "plan mode" in decision.reason and "end with a plan" in decision.reason


async def test_in_plan_mode_a_line_runs_as_proved_even_if_a_rule_allows_it() -> None:
    gate = make_gate(Rule(ALLOW, commands=("git status",)))
    decision = await gate.authorise(EffectRequest("c", *line("git status"), mode=Mode.PLAN), None)
    assert decision.rule == PROVED_RULE


async def test_a_tool_of_a_server_cannot_call_itself_undoable_by_its_hints() -> None:
    foreign = ToolSpec("fs__write", "", {}, Effect.WRITE, "fs", hints={"undoable": True, "destructiveHint": False})
    assert await outcome(make_gate(), Mode.AUTO, foreign, path="a.py") == "asked"


async def test_the_mode_of_the_configuration_is_for_the_local_user_and_never_loosens_what_a_tenant_may_do() -> None:
    gate = make_gate(mode=Mode.AUTO, confines_tenants=lambda: True)
    tool, arguments = CALLS["edit"]
    assert await outcome(gate, None, tool, **arguments) == "runs"
    assert await outcome(gate, None, tool, "key_ann", **arguments) == "asked"
    strict = make_gate(mode=Mode.PLAN, confines_tenants=lambda: True)
    assert await outcome(strict, None, tool, "key_ann", **arguments) == "refused"


@pytest.mark.parametrize(("mode", "seen"), [(Mode.ASK, False), (Mode.EDITS, True), (Mode.AUTO, True)])
def test_without_a_user_edits_are_offered_only_in_modes_in_which_they_run(mode: Mode, *, seen: bool) -> None:
    assert make_gate().is_visible(EDIT, interactive=False, mode=mode) is seen
    assert make_gate().is_visible(FOREIGN, interactive=False, mode=mode) is False


def test_modes_are_ordered_from_the_strictest() -> None:
    assert ORDER == (Mode.PLAN, Mode.ASK, Mode.EDITS, Mode.AUTO)
    assert strictest(Mode.AUTO, Mode.ASK) is Mode.ASK and strictest(Mode.PLAN, Mode.EDITS) is Mode.PLAN


# What a yes for the turn or the session covers.

INSIDE = [
    "make test",
    "touch a1",
    "touch a2",
    "pytest -q",
    "npm test",
    "python3 -m unittest",
    "./configure",
    "cargo build",
    "sed -i s/a/b/ keep",
    "git add -A",
    "git commit -m 'a b'",
    "cp a b",
    "make && pytest -q",
    "FOO=1 make",
    "for f in a b; do make $f; done",
    "make > log 2>&1",
    "cd src && make",
    "python3 tools/gen.py",
    "cat > new <<'E'\nx\nE",
]
NOT_INSIDE = [
    "rm notes",
    "rm -rf build",
    "git push",
    "git pull",
    "git fetch origin",
    "curl https://x.y",
    "sudo make install",
    "timeout 5 curl x",
    "pip install x",
    "python3 -m pip install x",
    "npm install",
    "npx x",
    "docker run x",
    "ssh h make",
    "echo x > /tmp/y",
    "make -C /other",
    "make --directory=/other",
    "cd /tmp && make",
    "cd .. && make",
    "cd $X && make",
    "python3 ../x.py",
    "cat .env; make",
    "kill -9 1",
    "$X y",
    "gh pr create",
    "systemctl stop x",
    "git -C . push",
    "python3 -c \"open('/tmp/x','w')\"",
    "git apply x.diff",
    "tar xf a.tar",
    "mv a /tmp/b",
    "cp a ~/b",
    "if true; then (",
    "bash <(curl x)",
    "make https://x.y",
    "touch link/../../x",
    "xargs curl < urls",
    "env curl x",
    "git checkout -- .",
    "chmod 777 ~",
    "crontab x",
    "echo x >> ~/.bashrc",
    "git config core.hooksPath x",
    "nohup curl x &",
]


@pytest.mark.parametrize("command", INSIDE)
def test_commands_that_stay_in_the_project_are_of_one_kind(command: str) -> None:
    judged = make_gate().judge(*line(command))
    assert judged.verdict is ASK and judged.like == "all commands like this that stay in the project"


@pytest.mark.parametrize("command", NOT_INSIDE)
def test_what_loses_something_leads_out_or_is_not_known_is_of_no_kind(command: str) -> None:
    judged = make_gate().judge(*line(command))
    assert judged.verdict is ASK and "stay in the project" not in judged.like


def test_a_command_that_writes_through_a_link_out_of_the_project_is_of_no_kind() -> None:
    def real_paths(read: Read) -> tuple[str, ...]:
        return ("/etc/passwd",) if read.path == "/work/link" else ()

    gate = make_gate(real_paths=real_paths)
    assert gate.judge(*line("echo x > other")).like and not gate.judge(*line("echo x > link")).like


def test_edits_are_of_one_kind_and_each_tool_of_a_server_is_its_own() -> None:
    gate = make_gate()
    assert gate.judge(EDIT, CALLS["edit"][1]).like == gate.judge(RENAME, {"path": "a.py"}).like
    assert gate.judge(FOREIGN, {"path": "a.py"}).like == "all calls of fs__write"
    for path in ("/etc/hosts", "/home/u/.ssh/config", ".git/config"):
        assert not gate.judge(FOREIGN, {"path": path}).like


def effect(command: str, session: str = "s", owner: str = "") -> EffectRequest:
    return EffectRequest("c", SHELL, {"command": command}, owner, session=session)


async def test_yes_for_the_session_covers_the_kind_in_that_session_and_never_what_is_grave() -> None:
    gate, asked = make_gate(confines_tenants=lambda: True), []

    async def ask(question):
        asked.append(question.arguments["command"])
        return Answer(Choice.SESSION)

    for command in ("make test", "touch a", "rm -rf build", "pytest -q", "rm notes", "rm -rf build", "git push"):
        assert (await gate.authorise(effect(command), ask)).verdict is ALLOW
    assert asked == ["make test", "rm -rf build", "rm notes", "rm -rf build", "git push"]
    asked.clear()
    for other in (effect("make", "t"), effect("make", "s", "key_bob"), effect("make", ""), effect("make", "")):
        await gate.authorise(other, ask)
    assert len(asked) == 4


async def test_yes_for_the_session_ends_where_a_rule_or_plan_mode_says_otherwise() -> None:
    gate = make_gate(Rule(ASK, commands=("make install",)))

    async def ask(question):
        return Answer(Choice.SESSION)

    await gate.authorise(effect("make"), ask)
    assert (await gate.authorise(effect("make test"), None)).verdict is ALLOW
    assert (await gate.authorise(effect("make install"), None)).verdict is DENY
    plan = EffectRequest("c", SHELL, {"command": "make test"}, session="s", mode=Mode.PLAN)
    assert (await gate.authorise(plan, None)).verdict is DENY


async def test_a_tool_that_changes_in_mid_session_is_asked_about_again() -> None:
    gate, asked = make_gate(), []

    async def ask(question):
        asked.append(question.tool)
        return Answer(Choice.SESSION)

    changed = ToolSpec("fs__write", "now it sends mail", {}, Effect.WRITE, "fs", hints={})
    for tool in (FOREIGN, FOREIGN, changed):
        await gate.authorise(EffectRequest("c", tool, {}, session="s"), ask)
    assert len(asked) == 2


async def test_the_kinds_of_sessions_are_bounded_and_the_oldest_session_is_asked_again() -> None:
    gate = make_gate()

    async def ask(question):
        return Answer(Choice.SESSION)

    for number in range(1001):
        await gate.authorise(effect("make", f"s{number}"), ask)
    assert (await gate.authorise(effect("make", "s0"), None)).verdict is DENY
    assert (await gate.authorise(effect("make", "s1000"), None)).verdict is ALLOW


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("vim README", "vim edits README"),
        ("make", "make may do more than read"),
        ("curl x", "curl may do more than read"),
        ("mkdir -p /opt", "creates /opt, unless it is there"),
        ("find . -name '*.pyc' -exec rm {} +", "removes the files it is given"),
        ("ls | xargs rm", "removes the files it is given"),
    ],
)
def test_reasons_say_in_plain_words_what_is_true(command: str, reason: str) -> None:
    judged = make_gate().judge(*line(command))
    assert reason in judged.reasons
    assert not any("without --" in text or "{}" in text for text in judged.reasons)


async def test_a_question_about_a_removal_says_what_is_lost_and_only_then_the_disk_is_looked_at() -> None:
    looked, asked = [], []

    async def count_loss(paths):
        looked.append(list(paths))
        return "removes 214 files, 3 not in git"

    async def ask(question):
        asked.append(question.loss)
        return Answer(Choice.NO)

    gate = make_gate(count_loss=count_loss)
    for command in ("make", "rm -rf build *.pyc", "rm -rf $X"):
        await gate.authorise(effect(command), ask)
    await gate.authorise(effect("rm -rf build"), None)
    assert looked == [["/work/build", "/work/*.pyc"]]
    assert asked == ["", "removes 214 files, 3 not in git", ""]


@pytest.mark.parametrize(
    ("command", "danger"),
    [("make", Danger.NONE), ("rm -rf build", Danger.DESTRUCTIVE), ("rm -rf ~", Danger.CATASTROPHE)],
)
async def test_a_question_says_how_much_may_be_lost(command: str, danger: Danger) -> None:
    asked = []

    async def ask(question):
        asked.append(question)
        return Answer(Choice.NO)

    await make_gate().authorise(effect(command), ask)
    assert asked[0].danger is danger


@pytest.mark.parametrize("mode", [Mode.ASK, Mode.EDITS, Mode.AUTO])
@pytest.mark.parametrize("command", ["git status", "make test", "echo x > new"])
async def test_to_run_outside_of_the_sandbox_is_asked_about_whatever_else_allows_the_command(mode, command) -> None:
    gate = make_gate(Rule(ALLOW, "all", ("shell__*",)))
    assert await outcome(gate, mode, SHELL, command=command) == "runs"
    assert await outcome(gate, mode, SHELL, command=command, outside_sandbox=True) == "asked"
    assert await outcome(gate, mode, SHELL, command="rm -rf ~", outside_sandbox=True) == "insisted"


async def test_to_run_outside_of_the_sandbox_is_refused_in_plan_mode_and_to_tenants() -> None:
    gate = make_gate(Rule(ALLOW, "all", ("shell__*",)), confines_tenants=lambda: True)
    assert await outcome(gate, Mode.PLAN, SHELL, command="git status", outside_sandbox=True) == "refused"
    assert await outcome(gate, Mode.ASK, SHELL, "key", command="git status", outside_sandbox=True) == "refused"
    denied = make_gate(Rule(DENY, "no", ("shell__*",), commands=("make",)))
    assert await outcome(denied, Mode.ASK, SHELL, command="make", outside_sandbox=True) == "refused"


async def test_a_yes_for_the_session_does_not_reach_outside_of_the_sandbox() -> None:
    gate, asked = make_gate(), []

    async def yes(question):
        asked.append(question)
        return Answer(Choice.SESSION)

    for arguments in ({}, {}, {"outside_sandbox": True}, {"outside_sandbox": True}):
        await gate.authorise(EffectRequest("c", SHELL, {"command": "make test", **arguments}, session="s"), yes)
    assert [question.like != "" for question in asked] == [True, False, False]
    assert "outside of the sandbox" in asked[1].reason and asked[1].always == ""
