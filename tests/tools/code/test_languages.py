"""The table of languages, and which program of this machine is a server: never a stranger's, never downloaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aish.tools.code.languages import (
    ServerChoice,
    ServerEntry,
    ServerLimits,
    find_named_server,
    find_server,
    language_table,
    server_spec,
)


def program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def typescript(root: Path, version: str) -> Path:
    package = root / "node_modules" / "typescript"
    real = program(package / "bin", "tsc")
    (package / "package.json").write_text(json.dumps({"name": "typescript", "version": version}))
    folder = root / "node_modules" / ".bin"
    folder.mkdir(exist_ok=True)
    (folder / "tsc").symlink_to(real)
    return folder


def test_every_server_that_a_language_names_is_in_the_table():
    known = language_table()
    for name, language in known.language.items():
        assert {*language.servers, *filter(None, [language.formatter])} <= set(known.server), name
        assert set(language.documents) <= set(language.grammar), name
    assert all(
        isinstance(server, ServerEntry) and server.command and server.install for server in known.server.values()
    )


@pytest.mark.parametrize(
    ("path", "language"),
    [("a.py", "python"), ("a/b.TSX", "typescript"), ("x.h", "c"), ("x.cpp", "c"), ("Makefile", ""), ("a.md", "")],
)
def test_the_ending_of_a_file_says_its_language(path, language):
    assert language_table().language_of(path) == language


def test_the_first_server_that_is_there_is_used_and_the_config_may_choose_another(tmp_path):
    program(tmp_path / "bin", "ty")
    choice = ServerChoice(search_path=str(tmp_path / "bin"))
    assert find_server("python", tmp_path, choice).server == "ty"
    program(tmp_path / "bin", "basedpyright-langserver")
    assert find_server("python", tmp_path, choice).server == "basedpyright"
    chosen = ServerChoice(use={"python": "ty"}, search_path=str(tmp_path / "bin"))
    assert find_server("python", tmp_path, chosen).command == (str(tmp_path / "bin" / "ty"), "server")


def test_a_program_of_the_project_is_not_run_unless_the_config_says_so(tmp_path):
    own = program(tmp_path / ".venv" / "bin", "basedpyright-langserver")
    found = find_named_server("basedpyright", tmp_path, ServerChoice())
    assert found.command == () and "ide.project_programs = true" in found.missing
    allowed = find_named_server("basedpyright", tmp_path, ServerChoice(project_programs=True))
    assert allowed.command == (str(own), "--stdio") and allowed.where == "the project"


def test_a_relative_part_of_the_search_path_is_not_looked_into(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program(tmp_path, "ty")
    program(tmp_path / "bin", "ty")
    assert find_named_server("ty", tmp_path, ServerChoice(search_path=".:bin:")).command == ()


def test_what_the_config_says_is_started_as_it_is(tmp_path):
    found = find_named_server("clangd", tmp_path, ServerChoice(commands={"clangd": ("/opt/clangd", "-j2")}))
    assert (found.command, found.where) == (("/opt/clangd", "-j2"), "config")


def test_a_name_that_is_no_server_says_which_there_are(tmp_path):
    found = find_server("python", tmp_path, ServerChoice(use={"python": "pylsp"}))
    assert found.command == () and "no server is named pylsp; there are: basedpyright" in found.missing


@pytest.mark.parametrize(("version", "native"), [("7.0.2", True), ("5.9.3", False), ("nonsense", False)])
def test_the_compiler_is_a_server_from_version_7_on(tmp_path, version, native):
    folder = typescript(tmp_path, version)
    choice = ServerChoice(search_path=str(folder))
    found = find_named_server("typescript", tmp_path, choice)
    assert bool(found.command) is native
    program(folder, "typescript-language-server")
    (tmp_path / "node_modules" / "typescript" / "lib").mkdir()
    (tmp_path / "node_modules" / "typescript" / "lib" / "tsserver.js").write_text("")
    expected = "typescript" if native else "typescript-language-server"
    assert find_server("typescript", tmp_path, choice).server == expected


def test_a_server_of_typescript_does_not_run_the_projects_own_compiler_unasked(tmp_path):
    theirs = tmp_path / "root"
    typescript(theirs, "5.9.3")
    alone = program(tmp_path / "alone" / "bin", "typescript-language-server").parent
    choice = ServerChoice(search_path=str(alone))
    found = find_named_server("typescript-language-server", theirs, choice)
    assert found.command == () and "project's own TypeScript" in found.missing
    compiler = tmp_path / "global" / "typescript" / "lib" / "tsserver.js"
    compiler.parent.mkdir(parents=True)
    compiler.write_text("")
    beside = program(tmp_path / "global" / "typescript-language-server" / "lib", "typescript-language-server").parent
    choice = ServerChoice(search_path=str(beside))
    found = find_named_server("typescript-language-server", theirs, choice)
    spec = server_spec("typescript", found, theirs, choice, ServerLimits())
    assert spec.options["tsserver"] == {"path": str(compiler)}


def test_clangd_without_a_compilation_database_is_known_to_be_incomplete(tmp_path):
    program(tmp_path / "bin", "clangd")
    choice = ServerChoice(search_path=str(tmp_path / "bin"))
    found = find_server("c", tmp_path, choice)
    spec = server_spec("c", found, tmp_path, choice, ServerLimits())
    assert "compile_commands.json" in spec.incomplete("src/a.c")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "compile_commands.json").write_text("[]")
    assert spec.incomplete("src/deep/a.c") == ""
    assert spec.incomplete("other/a.c") != ""


def test_the_projects_own_interpreter_is_asked_only_where_its_programs_may_run(tmp_path):
    python = program(tmp_path / ".venv" / "bin", "python")
    program(tmp_path / "bin", "basedpyright-langserver")
    settings = []
    for allowed in (False, True):
        choice = ServerChoice(search_path=str(tmp_path / "bin"), project_programs=allowed)
        spec = server_spec("python", find_server("python", tmp_path, choice), tmp_path, choice, ServerLimits())
        settings.append(spec.settings["python"].get("pythonPath"))
    assert settings == [None, str(python)]
