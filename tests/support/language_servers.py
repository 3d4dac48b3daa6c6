"""Real language servers: basedpyright, ty and ruff from PyPI, TypeScript from npm, clangd from the system.

Each has a folder of its own, so that a test chooses which of them is found.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.installed import node_modules, python_programs

_PYPI = "language-servers"
_NPM = ("typescript", "typescript-language-server")
_PROGRAMS = {
    "basedpyright": "basedpyright-langserver",
    "ty": "ty",
    "ruff": "ruff",
    "typescript": "tsc",
    "typescript-language-server": "typescript-language-server",
    "clangd": "clangd",
}


def folder_of(server: str) -> str:
    """A folder for PATH that has the server. Skips where it cannot be had."""
    if server == "clangd":
        return _system("clangd", "apt-get install clangd")
    if server in _NPM:
        _system("npm", "install Node.js")
        folder = node_modules(server) / ".bin"
    else:
        folder = python_programs(_PYPI)
    assert (folder / _PROGRAMS[server]).exists()
    return str(folder)


def search_path(*servers: str) -> str:
    """PATH with these servers in front of what every program needs."""
    system = [str(Path(found).parent) for name in ("node", "python3") if (found := shutil.which(name))]
    return ":".join([*(folder_of(server) for server in servers), *system, "/usr/bin", "/bin"])


def _system(program: str, hint: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed here: {hint}")
    return str(Path(found).parent)
