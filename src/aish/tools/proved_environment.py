"""The environment of lines that run because they are proved harmless: each word means what the proof assumes.

The proof knows programs and their options, not the variables that load code into them, add options to them or name
other programs and files. Lines that a user allowed keep all of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import translate
from functools import cache
from pathlib import Path

# Why a variable is left out, and its names.
_LEFT_OUT = {
    "decides what bash makes of a line": (
        "BASH_COMPAT BASH_ENV BASH_FUNC_* BASHOPTS BASH_XTRACEFD CDPATH ENV EXECIGNORE GLOBIGNORE IFS POSIXLY_CORRECT"
        " PS4 SHELLOPTS TIMEFORMAT"
    ),
    "loads code into every program": "LD_* DYLD_* GCONV_PATH GLIBC_TUNABLES LOCPATH NLSPATH OPENSSL_*",
    "loads code into an interpreter": (
        "PYTHON* PERL* RUBY* GEM_* BUNDLE_* LUA_INIT* LUA_PATH* LUA_CPATH* NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS"
        " NODE_REPL_EXTERNAL_MODULE BUN_OPTIONS JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_OPTS CLASSPATH"
        " PHPRC PHP_INI_SCAN_DIR DOTNET_STARTUP_HOOKS CORECLR_* COR_* ERL_* ELIXIR_ERL_OPTIONS AWKPATH AWKLIBPATH"
        " JQ_LIBRARY_PATH"
    ),
    # Repositories, settings and programs other than those in the workspace; GIT_TRACE writes files.
    "steers git": "GIT_*",
    "adds options to a program": (
        "GREP_OPTIONS RIPGREP_CONFIG_PATH TAR_OPTIONS GZIP BZIP BZIP2 XZ_OPT XZ_DEFAULTS UNZIP UNZIPOPT ZIPINFO"
        " ZIPINFOOPT BAT_* LESS* MORE MANOPT MANPAGER *_PAGER SYSTEMD_* ACKRC npm_* NPM_CONFIG_* PIP_*"
    ),
    "makes a program write a file": "NODE_V8_COVERAGE NODE_REDIRECT_WARNINGS SSLKEYLOGFILE GMON_OUT_PREFIX",
}
# `bash -c` reads the file that these name, or takes its options and functions from them. Left out of all lines.
_STEERS_BASH = re.compile(r"BASH_FUNC_.*|BASH_ENV|ENV|BASHOPTS|SHELLOPTS|CDPATH|GLOBIGNORE|POSIXLY_CORRECT")
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def steers_bash(name: str) -> bool:
    """Whether a variable of the environment changes what bash makes of any line."""
    return _STEERS_BASH.fullmatch(name) is not None


def steers_programs(name: str) -> bool:
    """Whether a variable is left out where a line is proved harmless."""
    return _left_out().match(name) is not None


@cache
def _left_out() -> re.Pattern[str]:
    return re.compile("|".join(translate(name) for names in _LEFT_OUT.values() for name in names.split()))


def proved_environment(env: Mapping[str, str], workspace: Path) -> dict[str, str]:
    kept = {name: value for name, value in env.items() if not steers_programs(name)}
    return {**kept, "PATH": proved_search_path(env.get("PATH", ""), workspace)}


def proved_search_path(search_path: str, workspace: Path) -> str:
    """Returns PATH without relative folders and folders of the workspace, so that programs which run others by name
    (`zcat`, `#!/usr/bin/env node`) find those of the system. The gate asks about a line that names one of them."""
    roots = (workspace, workspace.resolve())
    folders = [folder for folder in search_path.split(os.pathsep) if Path(folder).is_absolute()]
    outside = (folder for folder in folders if not any(_is_below(Path(folder), root) for root in roots))
    return os.pathsep.join(outside) or _DEFAULT_PATH


def _is_below(folder: Path, root: Path) -> bool:
    return folder.resolve().is_relative_to(root) or Path(os.path.normpath(folder)).is_relative_to(root)
