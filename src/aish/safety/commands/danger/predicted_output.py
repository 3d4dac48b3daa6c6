"""Computes what a few harmless commands would print, without running them: `$(echo rm)`, `echo … | base64 -d`.

Used only to raise danger: a wrong result can never make a line look safe.
"""

from __future__ import annotations

import base64
import binascii
import re

from aish.safety.commands.path_kinds import absolute_path
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.expansion import DYNAMIC, Field, expand
from aish.safety.commands.syntax.model import Block, BlockKind, Node, Redirect, Simple
from aish.safety.commands.syntax.quoting import decode_ansi

_MAX_DEPTH = 6
_FORMAT = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[sdbqixc]|%%")
PLAIN_WRAPPERS = frozenset({"command", "builtin", "sudo", "doas", "nohup"})  # common before `tee`


def predict_output(node: Node, scope: Scope, stdin: str | None = None, depth: int = 0) -> str | None:
    """Returns the output, with DYNAMIC for unknown parts; None if nothing is known."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(node, Simple):
        return _predict_simple(node, scope, stdin)
    if node.kind is BlockKind.PIPELINE:
        text = stdin
        for stage in node.body:
            text = predict_output(stage, scope, text, depth + 1)
        return text
    if node.kind in (BlockKind.SEQUENCE, BlockKind.GROUP, BlockKind.SUBSHELL) and node.body:
        texts = [predict_output(child, scope, stdin, depth + 1) for child in node.body[:32]]
        return None if any(text is None for text in texts) else "\n".join(text or "" for text in texts)
    return None


def evaluate_substitution(script: Block, scope: Scope) -> str | None:
    """Returns the value of `$(…)` if it is completely known."""
    text = predict_output(script, scope)
    return None if text is None or DYNAMIC in text else text.rstrip("\n")


def predict_input(redirects: tuple[Redirect, ...], scope: Scope) -> str | None:
    """Returns the text of a heredoc or here-string, or of a file that the line itself has written."""
    for redirect in reversed(redirects):
        if redirect.operator not in ("<", "<<", "<<<", "<<-") or redirect.target is None:
            continue
        text = " ".join(field.text for field in expand(redirect.target, scope, evaluate_substitution))
        return scope.files.get(absolute_path(text, scope) or "") if redirect.operator == "<" else text
    return None


def _predict_simple(node: Simple, scope: Scope, stdin: str | None) -> str | None:
    fields = [field for word in node.words for field in expand(word, scope, evaluate_substitution)]
    if not fields:
        return None
    fed = predict_input(node.redirects, scope)
    stdin = fed if fed is not None else stdin
    name = fields[0].text.rpartition("/")[2]
    arguments = fields[1:]
    while name in PLAIN_WRAPPERS and arguments:
        name, arguments = arguments[0].text.rpartition("/")[2], arguments[1:]
    if name == "echo":
        return _predict_echo(arguments)
    if name == "printf" and arguments:
        return _predict_printf([field.text for field in arguments])
    if name == "pwd":
        return scope.cwd
    if name == "cat" and (text := _predict_cat(arguments, scope)):
        return text
    return _predict_filter(name, [field.text for field in arguments], stdin)


def _predict_cat(arguments: list[Field], scope: Scope) -> str:
    """Returns what `cat` prints of files that the line has written, with unknown parts for others; "" if there is
    none."""
    known = [scope.files.get(absolute_path(field.text, scope) or "") for field in arguments] if scope.files else []
    return "".join(f"{text or ''}{DYNAMIC}" for text in known) if any(known) else ""


def _predict_echo(arguments: list[Field]) -> str:
    texts = [field.text for field in arguments]
    escapes = False
    while texts and re.fullmatch(r"-[neE]+", texts[0]):
        escapes = escapes or "e" in texts[0]
        del texts[0]
    joined = " ".join(texts)
    return decode_ansi(joined) if escapes else joined


def _predict_printf(texts: list[str]) -> str:
    layout, values = decode_ansi(texts[0]), texts[1:]
    slots = len([match for match in _FORMAT.findall(layout) if match != "%%"])
    if not slots:
        return layout.replace("%%", "%")
    rounds = max(1, -(-len(values) // slots))
    supply = iter(values)
    return "".join(
        _FORMAT.sub(lambda match: "%" if match[0] == "%%" else next(supply, ""), layout) for _ in range(min(rounds, 64))
    )


def _predict_filter(name: str, arguments: list[str], stdin: str | None) -> str | None:
    if stdin is None:
        return None
    if name == "cat" and not [text for text in arguments if text != "-"]:
        return stdin
    if name == "tee":
        return stdin
    if name == "rev":
        return "\n".join(line[::-1] for line in stdin.splitlines())
    if name in ("base64", "base32") and arguments[:1] in (["-d"], ["--decode"], ["-D"], ["-di"]):
        return _decode_base64(stdin)
    if name == "xxd" and "-r" in "".join(arguments) and "p" in "".join(arguments):
        return _decode_hex(stdin)
    return None


def _decode_base64(text: str) -> str | None:
    try:
        return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace").replace(DYNAMIC, "")
    except (binascii.Error, ValueError):
        return None


def _decode_hex(text: str) -> str | None:
    try:
        return bytes.fromhex("".join(text.split())).decode("utf-8", "replace").replace(DYNAMIC, "")
    except ValueError:
        return None
