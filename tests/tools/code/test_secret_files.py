"""Files that hold secrets by their names: no tool shows them unless they are named, which the gate asks about."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath

import msgspec
import pytest

from aish.app.safety import make_gate
from aish.config.schema.config import Config
from aish.safety.commands import ShellContext
from aish.safety.policy.gate import PolicyGate
from aish.tools.code.facade import Ide, IdeSettings
from aish.tools.code.languages import ServerChoice
from aish.tools.code.toolset import SPECS
from aish.types.decisions import Verdict
from support.ide_tools import Tools, ide_with
from support.secret_names import secret_names

RIPGREP = shutil.which("rg")
SECRETS = {
    ".env": "KEY=1\n",
    "conf/.env.local": "KEY=2\n",
    ".aws/credentials": "KEY=3\n",
    ".aws/config": "KEY=4\n",
    "server.pem": "KEY=5\n",
    "deploy/kubeconfig": "KEY=6\n",
    "conf/secrets/.env.prod": "KEY=7\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name, text in {**SECRETS, "app.py": "KEY = 0\n", ".git/config": "url = KEY\n"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.fixture(params=["ripgrep", "aish"])
async def tools(request: pytest.FixtureRequest, root: Path) -> AsyncIterator[Tools]:
    if request.param == "ripgrep" and RIPGREP is None:
        pytest.skip("ripgrep is not installed here: apt-get install ripgrep")
    path = str(Path(RIPGREP).parent) if RIPGREP and request.param == "ripgrep" else ""
    settings = IdeSettings(ServerChoice(search_path=path), is_secret=secret_names(root))
    made = Ide(root, settings, state=root.parent / "edits")
    yield Tools(made)
    await made.aclose()


def found_in(result: str) -> set[str]:
    return {line for line in result.split("\n")[1:] if line and not line.startswith((" ", "note:"))}


async def test_a_search_leaves_out_what_holds_secrets_and_says_how_to_read_it(tools: Tools) -> None:
    result = await tools("search", pattern="KEY")
    assert found_in(result) == {"app.py"}
    assert "status=partial" in result
    assert f"{len(SECRETS)} files hold secrets by their names and are left out" in result
    assert "name it as `path`, and the user is asked" in result


@pytest.mark.parametrize("narrowed", [{"glob": "config"}, {"glob": "*"}, {"path": ".git"}, {"path": ".aws"}])
async def test_a_glob_or_a_folder_that_may_mean_others_opens_no_secret(tools: Tools, narrowed: dict[str, str]) -> None:
    assert found_in(await tools("search", pattern="KEY", **narrowed)) <= {"app.py"}


@pytest.mark.parametrize(
    ("narrowed", "found"),
    [
        ({"path": ".env"}, {".env"}),
        ({"glob": ".env"}, {".env"}),
        ({"glob": "*.pem"}, {"server.pem"}),
        ({"glob": ".aws/*"}, {".aws/config", ".aws/credentials"}),
        ({"path": "conf/secrets"}, {"conf/secrets/.env.prod"}),
    ],
)
async def test_secrets_asked_for_by_name_are_searched(
    tools: Tools, root: Path, narrowed: dict[str, str], found: set[str]
) -> None:
    assert found_in(await tools("search", pattern="KEY", **narrowed)) == found
    assert judged(gate_in(root), "ide__search", pattern="KEY", **narrowed) == "secret"


async def test_a_folder_behind_a_link_is_what_the_link_leads_to(tools: Tools, root: Path) -> None:
    (root / "deep/.aws/sub").mkdir(parents=True)
    (root / "deep/.aws/sub/config").write_text("KEY=7\n")
    (root / "docs").symlink_to("deep/.aws")
    assert judged(gate_in(root), "ide__search", pattern="KEY", path="docs") == "gate.read"
    assert found_in(await tools("search", pattern="KEY", path="docs")) == set()


async def test_symbols_and_uses_are_shown_without_the_text_of_secrets(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "app.py").write_text("from passwords import KEY\n\nprint(KEY)\n")
    (root / "passwords.py").write_text('KEY = "hunter2"\n')
    async with ide_with(root, is_secret=secret_names(root)) as tools:
        for name in ("definition", "references", "hover"):
            assert "hunter2" not in await tools(name, path="app.py", line=3, symbol="KEY")
        assert "1 files hold secrets" in await tools("symbols", query="KEY")
        assert "hunter2" in await tools("definition", path="passwords.py", line=1, symbol="KEY")


async def test_what_a_language_server_finds_is_shown_without_the_text_of_secrets(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "app.py").write_text("from passwords import key\n\nprint(key())\n")
    (root / "passwords.py").write_text('def key() -> str: return "hunter2"\n')
    async with ide_with(root, "ty", is_secret=secret_names(root)) as tools:
        definition = await tools("definition", path="app.py", line=3, symbol="key")
        assert "passwords.py:1 (holds a secret by its name, not shown)" in definition
        uses = await tools("references", path="app.py", line=3, symbol="key")
        assert "passwords.py" in uses and "hunter2" not in definition + uses
        assert "hunter2" in await tools("definition", path="passwords.py", line=1, symbol="key")


def gate_in(root: Path) -> PolicyGate:
    context = ShellContext(cwd=str(root), home=str(root.parent / "home"), roots=(str(root),))
    env = {"HOME": str(root.parent / "home")}
    return make_gate(Config(), env, context, lambda turn: str(root), lambda: True)


def judged(gate: PolicyGate, tool: str, **arguments: object) -> str:
    """The rule by which the gate asks or allows."""
    spec = next(spec for spec in SPECS if f"ide__{spec.name}" == tool)
    found = gate.judge(msgspec.structs.replace(spec, name=tool), arguments)
    assert (found.verdict is Verdict.ASK) == (found.rule != "gate.read")
    return found.rule


@pytest.mark.parametrize("tool", ["ide__read_file", "ide__outline", "ide__diagnostics"])
def test_a_link_to_a_secret_is_asked_about_like_the_secret(root: Path, tool: str) -> None:
    (root / "notes.md").symlink_to(".env")
    (root / "plain.md").symlink_to("app.py")
    (root / "key.md").symlink_to(root.parent / "home/.ssh/id_rsa")
    assert judged(gate_in(root), tool, path="notes.md") == "secret"
    assert judged(gate_in(root), tool, path="key.md") == "secret"
    assert judged(gate_in(root), tool, path="plain.md") == "gate.read"


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"glob": "*.py"}, "gate.read"),
        ({"glob": "**/*"}, "gate.read"),
        ({"glob": "src/**/*.json"}, "gate.read"),
        ({"glob": "**/.env"}, "secret"),
        ({"glob": ".env", "path": "conf"}, "secret"),
        ({"glob": ".e*"}, "secret"),
        ({"path": "src"}, "gate.read"),
        ({"path": "conf", "glob": "*.md"}, "gate.read"),
    ],
)
def test_a_glob_that_means_secrets_is_asked_about(root: Path, arguments: dict[str, str], rule: str) -> None:
    assert judged(gate_in(root), "ide__search", pattern="x", **arguments) == rule


def test_the_question_names_what_is_read(root: Path) -> None:
    spec = next(spec for spec in SPECS if spec.name == "search")
    reason = gate_in(root).judge(spec, {"pattern": "x", "glob": "**/.env"}).reason
    assert "**/.env" in reason and "secret" in reason
    (root / "notes.md").symlink_to(".env")
    reason = gate_in(root).judge(spec, {"pattern": "x", "path": "notes.md"}).reason
    assert f"notes.md, which leads to {PurePosixPath(root) / '.env'}" in reason
