"""Says how badly the arguments of a line fit its command: `set up a venv`, `kill the server`, `test if this works`.

Bash would take some of such lines with an effect, and report errors for the others. They are not meant as commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from aish.frontends.shell.prompt.prose import STRONG, bare_word, is_plain_word, word_tables

_SURE, _LIKELY, _MAYBE = 3, 2, 1
_NAME = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?(?:\+?=.*)?", re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d[\w.]*|%\S*")
_SUBCOMMAND = re.compile(r"[a-z][\w:-]*")

Exists = Callable[[str], bool]


def weigh_misfit(command: str, words: Sequence[str], prose: int, exists: Exists) -> int:
    """`words` are the arguments, which have no options and no shell syntax in them. `prose` is what they weigh."""
    shape = word_tables().shapes.get(command)
    check = _CHECKS.get(shape or "")
    misfit = check(words, prose, exists) if check else 0
    return max(misfit, _weigh_subcommand(command, words, prose))


def _check_options(words: Sequence[str], prose: int, exists: Exists) -> int:
    return _SURE if sum(map(is_plain_word, words)) > 1 else 0


def _check_numbers(words: Sequence[str], prose: int, exists: Exists) -> int:
    return _SURE if any(not _NUMBER.fullmatch(word) for word in words) else 0


def _check_names(words: Sequence[str], prose: int, exists: Exists) -> int:
    return _SURE if any(not _NAME.fullmatch(word) for word in words) else 0


def _check_settings(words: Sequence[str], prose: int, exists: Exists) -> int:
    return 0 if words[0].startswith(("-", "+")) else _SURE


def _check_one(words: Sequence[str], prose: int, exists: Exists) -> int:
    return _SURE if len(words) > 1 and is_plain_word(words[0]) else 0


def _check_paths(words: Sequence[str], prose: int, exists: Exists) -> int:
    is_path = words[0].startswith((".", "/", "~", "!", "(")) or "/" in words[0] or exists(words[0])
    return 0 if is_path else _SURE


def _check_expression(words: Sequence[str], prose: int, exists: Exists) -> int:
    return _SURE if len(words) > 1 and is_plain_word(words[0]) and is_plain_word(words[1]) else 0


def _check_address(words: Sequence[str], prose: int, exists: Exists) -> int:
    return _LIKELY if len(words) > 1 and is_plain_word(words[0]) else 0


def _check_script(words: Sequence[str], prose: int, exists: Exists) -> int:
    return _LIKELY if is_plain_word(words[0]) and not exists(words[0]) else 0


def _check_subcommand(words: Sequence[str], prose: int, exists: Exists) -> int:
    is_possible = _SUBCOMMAND.fullmatch(words[0]) and word_tables().weights.get(bare_word(words[0]), 0) < STRONG
    return 0 if is_possible else _LIKELY


def _weigh_subcommand(command: str, words: Sequence[str], prose: int) -> int:
    known = word_tables().subcommands.get(command)
    return 0 if known is None or not prose or words[0] in known else _LIKELY


def _has_missing(words: Sequence[str], exists: Exists) -> bool:
    weights = word_tables().weights
    names = [word for word in words if len(word) > 2 and is_plain_word(word) and bare_word(word) not in weights]
    return any(not exists(name) for name in names)


def _check_existing(words: Sequence[str], prose: int, exists: Exists) -> int:
    return _MAYBE if prose and _has_missing(words, exists) else 0


def _check_changed(words: Sequence[str], prose: int, exists: Exists) -> int:
    return _LIKELY if prose and _has_missing(words, exists) else 0


def _check_installation(words: Sequence[str], prose: int, exists: Exists) -> int:
    """`install` copies files to a folder, and is what people write for the program that adds packages."""
    has_target = len(words) > 1 and ("/" in words[-1] or exists(words[-1]))
    return 0 if has_target else _SURE


_CHECKS: dict[str, Callable[[Sequence[str], int, Exists], int]] = {
    "options": _check_options,
    "numbers": _check_numbers,
    "names": _check_names,
    "settings": _check_settings,
    "one": _check_one,
    "paths": _check_paths,
    "expression": _check_expression,
    "address": _check_address,
    "script": _check_script,
    "subcommand": _check_subcommand,
    "existing": _check_existing,
    "changed": _check_changed,
    "installation": _check_installation,
}
