"""The rules of the house, checked: imports, processes, what loads when; sizes, names, words, commits.

Each rule of the second half is a function of sources, so that a test can show that it finds a violation. Exceptions
stand in a short list with their reasons.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

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
        ("frontends/shell/plain_prompt.py", "import aish.frontends.admin.diagnostics"),
        ("engine/turn/turn_limits.py", "import socket"),
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
        "import aish.frontends.admin.diagnostics\n"
        "import aish.frontends.admin.diagnostics\n"
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
    assert callers == {
        "engine/tools/executor.py",
        "tools/registry.py",
        "tools/mcp/dynamic.py",
        "testing/toolset_contract.py",  # holds the toolset of an author to its contract
    }
    assert _callers({"call_tool"}) <= {
        "tools/code/backends/mcp.py",  # an IDE's own tools, behind ours
        "tools/mcp/server.py",
        "autonomy/goal_worker.py",  # for `CMD:` lines, through the engine
        "engine/engine.py",  # the front door to `engine/turn/runner.py`
        "frontends/admin/mcp.py",
        "frontends/mcp/protocol.py",
        "frontends/admin/extensions.py",  # `aish tools test`, through the engine
        "library/client.py",  # `Aish.call`, through the engine
        "tools/extensions/toolset.py",  # a toolset, whose process runs it
        "tools/extensions/process.py",  # its session with that process
    }


def test_processes_are_started_only_by_those_who_own_one():
    owners = {
        "providers/embedded/server.py",  # llama.cpp
        "providers/model_store/wheel.py",  # pip
        "tools/code/lsp/connection.py",  # language servers, found or configured
        "tools/code/search/search.py",
        "process/bubblewrap.py",  # tries bwrap
        "process/sandbox.py",  # tries Landlock
        "tools/builtin/shell.py",  # behind the gate
        "tools/extensions/hooks.py",  # hooks that the user has configured
        "frontends/mentions.py",  # git, for a range of commits
        "tools/bash/model_shell.py",  # a line of a model, on a pty of its own
        "tools/bash/shell.py",  # the live shell, on a pty
        "tools/mcp/transport/stdio.py",  # servers the user named
        "process/child_jsonrpc.py",  # reads from one, starts none
        "process/pty.py",  # starts what its owner asks for
    }
    importers = {
        path.relative_to(SOURCE).as_posix()
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "aish.process.child"
    }
    assert importers == owners


# Sizes, names and words.

Sources = Mapping[str, str]  # text by path below src/aish
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def sources() -> Sources:
    return {path.relative_to(SOURCE).as_posix(): path.read_text() for path in MODULES}


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def functions(source: str) -> Iterator[Function]:
    return (node for node in ast.walk(parsed(source)) if isinstance(node, Function))


def words_in(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAX_MODULES = 15


def crowded_folders(modules: Sources) -> set[str]:
    sizes: defaultdict[str, int] = defaultdict(int)
    for path in modules:
        folder, _, name = path.rpartition("/")
        sizes[folder] += name != "__init__.py"
    return {folder for folder, size in sizes.items() if size > MAX_MODULES}


def test_a_folder_holds_at_most_fifteen_modules():
    assert crowded_folders(sources()) == set()
    assert crowded_folders({f"a/m{number}.py": "" for number in range(16)}) == {"a"}


MAX_MODULE_LINES = 500


def long_modules(modules: Sources) -> set[str]:
    return {path for path, source in modules.items() if source.count("\n") > MAX_MODULE_LINES}


def test_a_module_has_at_most_five_hundred_lines():
    assert long_modules(sources()) == set()
    assert long_modules({"a.py": "x = 1\n" * 501}) == {"a.py"}


MAX_FUNCTION_LINES = 40
LONG_FUNCTIONS = {
    "frontends/http/server/app.py:__call__": "each request passes here, and each further call costs it time",
    "frontends/http/server/connection.py:on_headers_complete": "each request passes here",
    "frontends/http/turns/delivery.py:stream_turn": "each streamed turn passes here; its errors are one nest",
    "frontends/http/turns/request_fields.py:build_turn_request": "one line for each field of a request",
}


def lines_of(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def long_functions(modules: Sources) -> set[str]:
    return {
        f"{path}:{function.name}"
        for path, source in modules.items()
        for function in functions(source)
        if lines_of(function) > MAX_FUNCTION_LINES
    }


def test_functions_are_short():
    assert long_functions(sources()) == set(LONG_FUNCTIONS)
    assert median(lines_of(function) for source in sources().values() for function in functions(source)) <= 8
    assert long_functions({"a.py": "def f():\n" + "    x = 1\n" * 40}) == {"a.py:f"}


# In all text, comments and messages included: say who or what it is.
BANNED_WORDS = re.compile(r"\b(?:whoever|whomever|whosoever|nobody|somebody|asker)\b", re.I)
TEXT_FILES = ("*.py", "*.js", "*.css", "*.html", "*.sh", "*.toml")
WORDS_OF_THE_WIRE = {"frontends/http/sessions/approvals.py": {"asker"}}  # a field of stored questions


def banned_words(text: str) -> set[str]:
    return {word.lower() for word in BANNED_WORDS.findall(text)}


def test_banned_words_are_nowhere_in_the_sources_and_the_docs():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    assert {path.name for path in pages if banned_words(path.read_text())} == set()
    files = {path for kind in TEXT_FILES for path in SOURCE.rglob(kind)}
    found = {path.relative_to(SOURCE).as_posix(): banned_words(path.read_text()) for path in files}
    assert {path: words for path, words in found.items() if words} == WORDS_OF_THE_WIRE
    assert banned_words('"""Whoever asks; nobody else."""') == {"whoever", "nobody"}


# In names, as one of their words: each was an old name for something that now has one name. See GLOSSARY.md.
OLD_WORDS = words_in(
    """
    told said guest guests settle settled settles settling murmur scribe errand errands outbox shelf lanes tallies
    person surroundings discretion wired narrate mend toolmode
    """
)
OLD_MODULES = words_in(
    """
    asking asked held alone aside past offer pieces hazards advice watch live served problems talking attached
    working sweep owners near tolerant ways recall made making turns record pump meter choose loops strict
    thoughts unseen elsewhere norris_heard norris_words facts_book chat_frames kept following responses_again
    responses_forms brought
    """
)
OLD_CLASSES = words_in(
    """
    Means Floor Lanes Surroundings Discretion Shelf Wired Words Listener PlainWords
    """
)
NAMES_OF_THE_WIRE = {"types/tools.py:SURROUNDINGS"}  # a value in records


def words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]


def defined_names(source: str) -> Iterator[str]:
    for node in ast.walk(parsed(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name


def old_names(modules: Sources) -> set[str]:
    found = set()
    for path, source in modules.items():
        if Path(path).stem in OLD_MODULES:
            found.add(path)
        for name in defined_names(source):
            is_old = name in OLD_CLASSES or name.lstrip("_").startswith("MOST_") or OLD_WORDS & set(words_of(name))
            if is_old:
                found.add(f"{path}:{name}")
    return found


def test_old_names_do_not_come_back():
    assert old_names(sources()) == NAMES_OF_THE_WIRE
    module = "MOST_CALLS = 3\nclass Means: ...\ndef read(told): self.guest_name = said = told\n"
    expected = {"held.py", *(f"held.py:{name}" for name in ("MOST_CALLS", "Means", "told", "guest_name", "said"))}
    assert old_names({"held.py": module}) == expected


# Of irregular verbs, and not those that are also a present tense: put, set, cut, read, split.
PARTICIPLES = words_in(
    """
    begun bound brought built caught chosen done drawn driven fallen fed felt found gone given grown heard held
    kept known left lost made met paid seen sent shown sold sought spent spoken sworn taken taught thought told
    worn written
    """
)
VERBS_IN_ED = words_in(
    """
    embed exceed feed need proceed seed shed speed
    """
)


def is_participle(name: str) -> bool:
    word = name.strip("_")
    return word in PARTICIPLES or (word.endswith("ed") and word.isalpha() and word not in VERBS_IN_ED)


def is_property(function: Function) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def participles(modules: Sources) -> set[str]:
    return {
        f"{path}:{function.name}"
        for path, source in modules.items()
        for function in functions(source)
        if is_participle(function.name) and not is_property(function)
    }


def test_a_function_is_named_by_a_verb_and_not_by_a_participle():
    assert participles(sources()) == set()
    module = "class A:\n    @property\n    def closed(self): ...\n    def joined(self): ...\n\ndef _shown(): ...\n"
    assert participles({"a.py": module}) == {"a.py:joined", "a.py:_shown"}


def test_the_first_line_of_a_docstring_is_a_sentence():
    first_lines = {
        path: (ast.get_docstring(parsed(source)) or "").split("\n\n")[0] for path, source in sources().items()
    }
    assert {path for path, text in first_lines.items() if text and not re.search(r"[.:!?)]$", text)} == set()


# Duplicate names.

SAME_CLASSES: dict[str, str] = {}
SAME_FUNCTIONS = {
    "main": "the entry of a process",
    "run": "runs a command, each in the module of that command",
    "usage_object": "the same for another API",
    "read_sampling": "the same for another API",
    "read_tools": "the same for another API",
    "read_choice": "the same for another API",
    "encode_request": "the same for another backend",
    "read_usage": "the same for another backend",
    "classify": "the package imports the module only when it is called",
    "content_hash": "the same; the start of aish does not load OpenSSL for it",
}
# The adapters of the store; commands, which are functions named as they are typed.
SAME_NAMES_INSIDE = ("storage/", "frontends/shell/commands/")


def repeated_names(modules: Sources, kinds: tuple[Any, ...]) -> set[str]:
    homes = defaultdict(set)
    for path, source in modules.items():
        for node in parsed(source).body:
            if isinstance(node, kinds) and not node.name.startswith("_"):
                homes[node.name].add(path)
    return {
        name
        for name, paths in homes.items()
        if len({next((place for place in SAME_NAMES_INSIDE if path.startswith(place)), path) for path in paths}) > 1
    }


def test_a_public_name_exists_once():
    assert repeated_names(sources(), (ast.ClassDef,)) == set(SAME_CLASSES)
    outside = {path: source for path, source in sources().items() if not path.startswith(SAME_NAMES_INSIDE)}
    assert repeated_names(outside, (ast.FunctionDef, ast.AsyncFunctionDef)) == set(SAME_FUNCTIONS)
    both = {"a.py": "class Table: ...\ndef read(): ...\n", "b.py": "class Table: ...\ndef read(): ...\n"}
    assert repeated_names(both, (ast.ClassDef,)) == {"Table"}
    assert repeated_names(both, (ast.FunctionDef,)) == {"read"}


def private_imports(modules: Sources) -> set[str]:
    return {
        f"{path}: {alias.name}"
        for path, source in modules.items()
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("aish")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.endswith("__")
    }


def test_no_module_imports_a_private_name_of_another():
    assert private_imports(sources()) == set()
    assert private_imports({"a.py": "from aish.b import _x, y\n"}) == {"a.py: _x"}


# Small modules.

SMALL_LINES = 80
SEAMS = {
    "library/inline_tools.py": "a toolset of its own, as those in `tools` are, which authors hold to its contract",
    "autonomy/model_advice.py": "asks models; `prompts` beside it holds texts only",
    "engine/turn/text_relay.py": "the one optimisation of the loop, apart from it",
    "frontends/shell/commands/mode.py": "a command of its own, loaded when it is typed",
    "process/clock.py": "the adapter of the port Clock, which tests and benchmarks use too",
    "providers/openai/chunk_templates.py": "an optimisation, apart from the plain reading",
    "tool_calls/repair/common_words.py": "data only",
    "tools/builtin/runtime.py": "a source of tools, as its siblings are",
}


def name_of(path: str) -> str:
    return "aish." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported_modules(source: str, names: set[str]) -> Iterator[tuple[str, bool]]:
    """The modules that a source imports, and whether it does so only when a function runs."""
    late = {id(node) for function in functions(source) for node in ast.walk(function)}
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield (whole if whole in names else node.module), id(node) in late
        elif isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in late) for alias in node.names)


def lonely_modules(modules: Sources) -> set[str]:
    """Small modules with one importer. Those that are imported when they are needed, or by name, delay an import."""
    importers: defaultdict[str, set[str]] = defaultdict(set)
    at_start = set()
    names = {name_of(path) for path in modules}
    for path, source in modules.items():
        for name, is_late in imported_modules(source, names):
            importers[name].add(path)
            if not is_late and f"if TYPE_CHECKING:\n    from {name} " not in source:
                at_start.add(name)
    return {
        path
        for path, source in modules.items()
        if source.count("\n") < SMALL_LINES
        and not path.endswith(("__init__.py", "__main__.py"))
        and len(importers[name_of(path)]) == 1
        and name_of(path) in at_start
    }


def unused_modules(modules: Sources) -> set[str]:
    """Modules that no other imports or names in a string, with a function or as a part of a longer name."""
    names = {name_of(path) for path in modules}
    used = {name for source in modules.values() for name, _ in imported_modules(source, names)}
    strings = {
        node.value
        for source in modules.values()
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    words = {word for text in strings for word in re.split(r"[.:]", text) if " " not in text}
    return {
        path
        for path in modules
        if name_of(path) not in used and Path(path).stem not in words | {"__init__", "__main__"}
    }


def test_a_small_module_with_one_importer_stands_in_it():
    assert lonely_modules(sources()) == set(SEAMS)
    modules = {"a.py": "x = 1\n", "b.py": "from aish.a import x\n", "c.py": "def f():\n    from aish.b import x\n"}
    assert lonely_modules(modules) == {"a.py"}


def test_no_module_is_unused():
    assert unused_modules(sources()) == set()
    assert unused_modules({"alone.py": "x = 1\n", "b.py": "import aish.b\n"}) == {"alone.py"}


# Exports: `__init__` of other packages holds a docstring, and `cli` its functions.

EXPORTS = {
    "app": {"launch_context", "runtime", "serving_runtime"},
    "testing": {"ContractBroken", "Scripted", "call", "provider_contract", "toolset_contract"},
    "safety/commands": {"Level", "LineVerdict", "PathChange", "Reason", "ShellContext", "Write", "classify"},
}


def exports_of(source: str) -> set[str]:
    """What `__all__` lists, or whatever else a package imports or defines."""
    names = set()
    for node in parsed(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return set(ast.literal_eval(value))
            case ast.ImportFrom(module=module, names=aliases) if module and module.startswith("aish."):
                names |= {alias.name for alias in aliases}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
    return names


def exports(modules: Sources) -> dict[str, set[str]]:
    return {
        path.removesuffix("/__init__.py"): names
        for path, source in modules.items()
        if path.endswith("/__init__.py") and path != "cli/__init__.py" and (names := exports_of(source))
    }


def ways_around_exports(modules: Sources) -> set[str]:
    """Imports of an exported name from a module of the package, made outside of the package."""
    return {
        f"{path}: {alias.name}"
        for package, names in exports(modules).items()
        for path, source in modules.items()
        if not path.startswith(f"{package}/")
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{name_of(package)}.")
        for alias in node.names
        if alias.name in names
    }


def test_a_package_exports_what_its_init_lists():
    assert exports(sources()) == EXPORTS
    assert ways_around_exports(sources()) == set()
    modules = {"a/__init__.py": "from aish.a.b import X\n", "a/b.py": "X = 1\n", "c.py": "from aish.a.b import X\n"}
    assert exports(modules) == {"a": {"X"}} and ways_around_exports(modules) == {"c.py: X"}


# Commits.

MAX_SUBJECT = 72
RULED_SINCE = "dcf4f81d"


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def long_subjects(subjects: str) -> list[str]:
    return [subject for subject in subjects.splitlines() if len(subject) > MAX_SUBJECT]


def test_the_subject_of_a_commit_has_at_most_seventy_two_characters():
    assert long_subjects(f"{'a' * 73}\n{'b' * 72}\n") == ["a" * 73]
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("these sources are no clone")
    if git("rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        pytest.skip("this clone has no history")
    log = git("log", "--no-merges", "--format=%s", f"{RULED_SINCE}..HEAD")
    assert log.returncode == 0, log.stderr
    assert long_subjects(log.stdout) == []
