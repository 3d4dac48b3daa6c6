"""The rules of the house, checked: who may import whom, who may start processes, what loads when."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "aish"
MODULES = sorted(SOURCE.rglob("*.py"))

_STARTERS = {"create_subprocess_exec", "create_subprocess_shell", "Popen", "fork", "forkpty", "posix_spawn", "system"}
_MODULES = {"os", "asyncio", "subprocess"}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    linter = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [linter, "--no-cache", "--config", folder / "pyproject.toml"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("module", "wrong"),
    [
        ("types/ids.py", "import aish.engine.turn.loop"),
        ("engine/turn/loop.py", "import aish.providers.openai.provider"),
        ("frontends/shell/plain_prompt.py", "import aish.frontends.admin.inspection"),
        ("engine/turn/budget.py", "import socket"),
        ("tools/registry.py", "import subprocess"),
    ],
)
def test_a_wrong_import_breaks_the_contracts(tmp_path, module, wrong):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "src" / "aish" / module).open("a") as file:
        file.write(f"\n{wrong}\n")
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "BROKEN" in done.stdout


def test_only_the_process_owner_starts_processes():
    offenders = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in MODULES
        if path.parent != SOURCE / "process"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in _STARTERS and ast.unparse(node.value) in _MODULES
    ]
    assert offenders == []


def test_only_config_and_app_read_the_environment():
    offenders = [
        str(path.relative_to(SOURCE))
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    ]
    # app hands the environment to config; the process owner passes a chosen part of it on to children.
    # `aish serve` hands its command line to its workers that way. Help is as wide as `COLUMNS` says, as argparse's own.
    allowed = {"app/container.py", "process/child.py", "frontends/http/server/serve.py", "cli/parsers.py"}
    assert set(offenders) <= allowed, offenders


def test_every_module_says_what_it_is_for():
    silent = [str(path.relative_to(SOURCE)) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert set(silent) <= {"__init__.py"}, silent


def test_nothing_that_must_work_on_windows_imports_posix_at_the_top():
    code = (
        "import sys\n"
        "for name in ('fcntl', 'termios', 'tty', 'pty', 'resource', 'grp', 'pwd', 'readline'):\n"
        "    sys.modules[name] = None\n"
        "import aish.cli, aish.app, aish.process.child, aish.net.http.client, aish.storage.sqlite.store\n"
        "import aish.frontends.shell.one_shot\n"
        "import aish.frontends.admin.inspection\n"
        "import aish.frontends.admin.inspection\n"
        "import aish.frontends.admin.store\n"
        "import aish.providers.openai.provider\n"
        "import aish.providers.ollama.provider\n"
        "import aish.providers.embedded.provider\n"
        "import aish.providers.model_store.cache\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("imports", "absent"),
    [
        ("aish.cli", {"asyncio", "msgspec", "ssl"}),
        ("aish.app", {"aish.tools.code.facade", "aish.tools.code.lsp", "aish.tools.code.backends", "tree_sitter"}),
        ("aish.app", {"xllamacpp", "gguf", "numpy", "aiohttp", "sqlite3", "jsonschema"}),
    ],
)
def test_heavy_libraries_load_when_first_needed(imports, absent):
    code = f"import sys, {imports}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not absent & set(done.stdout.split())


def _callers(names: set[str]) -> set[str]:
    """Modules that call an attribute or a function of one of these names."""
    found = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _called(node) in names:
                found.add(path.relative_to(SOURCE).as_posix())
    return found


def _called(node: ast.Call) -> str:
    target = node.func
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")


def test_a_tool_is_run_from_one_place_only_behind_the_gate():
    """The executor calls the registry, the registry its sources, an MCP source its session; nobody else does. A source
    that a request has brought stands around another, whose results it reads over."""
    callers = {name for name in _callers({"call"}) if not name.startswith("safety/")}  # whose calls are of commands
    assert callers == {"engine/tools/executor.py", "tools/registry.py", "tools/mcp/dynamic.py"}
    assert _callers({"call_tool"}) <= {
        "tools/code/backends/mcp.py",  # an IDE's own tools, behind ours
        "tools/mcp/server.py",
        "autonomy/worker.py",  # for `CMD:` lines, through the engine
        "engine/engine.py",  # the front door to `engine/turn/runner.py`
        "frontends/admin/mcp.py",
        "frontends/mcp/protocol.py",
        "frontends/shell/approvals/proposals.py",
    }


def test_processes_are_started_only_by_those_who_own_one():
    owners = {
        "providers/embedded/server.py",  # llama.cpp
        "providers/model_store/wheel.py",  # pip
        "tools/code/lsp/connection.py",  # language servers, found or configured
        "tools/code/search/search.py",
        "tools/builtin/sandbox.py",  # tries bwrap
        "tools/builtin/shell.py",  # behind the gate
        "frontends/mentions.py",  # git, for a range of commits
        "tools/bash/model_shell.py",  # a line of a model, on a pty of its own
        "tools/bash/shell.py",  # the live shell, on a pty
        "tools/mcp/transport/stdio.py",  # servers the user named
        "process/child_peer.py",  # reads from one, starts none
        "process/pty.py",  # starts what its owner asks for
    }
    importers = {
        path.relative_to(SOURCE).as_posix()
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "aish.process.child"
    }
    assert importers == owners


MAX_MODULES = 15
CROWDED: dict[str, str] = {}  # folders that hold more, and why


def test_a_folder_holds_at_most_fifteen_modules():
    folders = {path.parent for path in MODULES}
    sizes = {folder: len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) for folder in folders}
    crowded = {folder.relative_to(SOURCE).as_posix() for folder, size in sizes.items() if size > MAX_MODULES}
    assert crowded == set(CROWDED)
