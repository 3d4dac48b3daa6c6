"""Scans code of other languages given as text, and queries given to database clients. May only raise danger."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from aish.safety.commands.danger.findings import Findings
from aish.safety.commands.path_kinds import absolute_path, is_precious, recursive_target
from aish.safety.commands.program_tables import QueryClient, ScriptLanguage
from aish.safety.commands.shell_state import Scope
from aish.safety.commands.syntax.model import Span

_LITERAL = re.compile(r"""'''(.*?)'''|\"\"\"(.*?)\"\"\"|'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`([^`]*)`""", re.DOTALL)
# Adjacent string literals, as in a list of arguments: ["rm", "-rf", "x"].
_ROW = re.compile(r"""(?:(?:'[^'\n]*'|"[^"\n]*")\s*,\s*)+(?:'[^'\n]*'|"[^"\n]*")""")
_QUERY = re.compile(r"(?i)\b(drop|truncate|delete\s+from|update\s+\w+\s+set)\b")
# Longer programs are really files; scanning all of one would cost more than it finds.
_MAX_LITERALS = 64
_TREE = re.compile(
    r"\b(rmtree|rm_rf|rm_r|remove_tree|remove_dir|remove_entry\w*|rmSync|rmdirSync|removeSync|emptyDirSync|rimraf|unlink"
    r"|fs(\.promises)?\s*\.\s*rm(dir)?|fs\s*\.\s*remove|Deno\s*\.\s*remove|rm)\b"
)
_HOME = re.compile(r"""\(\s*(expanduser\(|os\.environ\[?.?["']HOME["']\]\s*\)|ENV\[["']HOME["']\]\s*\))""")
_DOT_SHELL = re.compile(r"(?m)(?:^|;)\s*(?:\.(?:shell|system)|\\!)\s+(.+)$")


def check_code(language: ScriptLanguage, text: str, span: Span, scope: Scope, findings: Findings) -> Iterator[str]:
    """Records what the code destroys, and yields the shell lines that it would run."""
    match = _compile(language.destroys).search(text)
    if match:
        what = match[0].strip(" .(\n")[:40]
        findings.danger(f"{language.name} code that calls {what}", span, "code.destroys", "interpreter")
        _note_precious(text, span, scope, findings)
    if _compile(language.hides).search(text):
        findings.danger(f"{language.name} code that runs hidden code", span, "code.hides", "interpreter")
    if _compile(language.writes).search(text):
        findings.doubt(f"{language.name} code that writes files", span, "code.writes", "write")
        for path in re.findall(r"""["']((?:/etc|/usr|/boot|/bin|/lib|/dev|~/\.\w|/home/\w+/\.)[^"']*)["']""", text)[:8]:
            findings.danger(f"{language.name} code that writes {path}", span, "code.writes-system", "system")
    if _QUERY.search(text):
        for literal in _find_literals(text):
            _note_loss(find_loss(literal), span, findings)
    if _compile(language.spawns).search(text):
        yield from _find_commands(text)


def _note_precious(text: str, span: Span, scope: Scope, findings: Findings) -> None:
    """Finds `shutil.rmtree("/")` and similar: a whole tree is removed, and the statement names a precious one."""
    for statement in re.split(r"[;\n]", text)[:_MAX_LITERALS]:
        match = _TREE.search(statement)
        if match is None:
            continue
        rest = statement[match.start() :]
        for literal in _find_literals(rest):
            path = absolute_path(scope.home + literal[1:] if literal[:1] == "~" else literal, scope)
            if _HOME.search(rest) or (
                literal[:1] in ("/", "~") and path and is_precious(recursive_target(path), scope)
            ):
                text = f"code that removes {literal} and everything in it"
                findings.danger(text, span, "code.precious", "removal", catastrophe=True)
                return


def _find_literals(text: str) -> list[str]:
    found = [next((group for group in match.groups() if group is not None), "") for match in _LITERAL.finditer(text)]
    return found[:_MAX_LITERALS]


def _find_commands(text: str) -> Iterator[str]:
    for row in _ROW.findall(text)[:_MAX_LITERALS]:
        yield " ".join(_quote_word(literal) for literal in _find_literals(row))
    yield from (literal for literal in _find_literals(text) if " " in literal or literal.isalpha())


def _quote_word(text: str) -> str:
    return text if re.fullmatch(r"[\w./:=@%+-]+", text) else "'" + text.replace("'", "'\\''") + "'"


def check_query(client: QueryClient, text: str, span: Span, findings: Findings) -> Iterator[str]:
    """Like `check_code` for SQL and similar languages; clients can run shell commands, too."""
    loss = find_mongo_loss(text) if client.mongo else find_loss(text)
    _note_loss(loss, span, findings)
    if client.local and _REPLACES.search(text):
        findings.doubt("it may replace rows of the database", span, "write.rows", "write")
    yield from _DOT_SHELL.findall(text)[:_MAX_LITERALS]


def _note_loss(loss: str | None, span: Span, findings: Findings) -> None:
    if loss:
        findings.danger(loss, span, "database.loss", "database")


def find_applescript_commands(text: str) -> list[str]:
    return _find_literals(text) if "shell script" in text else []


@functools.lru_cache(maxsize=128)
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


# `.read` runs statements of a file.
_REPLACES = re.compile(r"\bINSERT\s+OR\s+REPLACE\b|\bREPLACE\s+INTO\b|^\s*\.read\b", re.IGNORECASE | re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/|#[^\n]*", re.DOTALL)
_STRING = re.compile(r"'(?:[^']|'')*'")
_DROP = re.compile(
    r"\b(?:DROP\s+(?:DATABASE|SCHEMA|TABLE|USER|ROLE|INDEX|VIEW|MATERIALIZED|KEYSPACE|COLUMN|PARTITION|TABLESPACE|"
    r"COLLECTION|SEQUENCE|FUNCTION|TRIGGER|TYPE|EXTENSION|OWNED|MEASUREMENT|SERIES|SHARD|WAREHOUSE|STAGE|CONSTRAINT)"
    r"|TRUNCATE\b|PURGE\s+BINARY|RESET\s+MASTER|FLUSHALL\b|FLUSHDB\b|DETACH\s+TABLE)",
    re.IGNORECASE,
)
_ALTER_DROP = re.compile(r"\bALTER\s+TABLE\b.*\bDROP\b", re.IGNORECASE | re.DOTALL)
_DELETE = re.compile(r"\bDELETE\s+FROM\s+[\w.\"`\[\]]+(.*)", re.IGNORECASE | re.DOTALL)
_UPDATE = re.compile(r"\bUPDATE\s+(?:ONLY\s+)?[\w.\"`\[\]]+\s+SET\b(.*)", re.IGNORECASE | re.DOTALL)
_WHERE = re.compile(r"\b(WHERE|LIMIT|USING)\b\s*(.*)", re.IGNORECASE | re.DOTALL)
_ALWAYS = re.compile(r"\(?\s*(true|(\d+)\s*=\s*\2|not\s+false|1)\s*\)?\s*$", re.IGNORECASE)
_MONGO = re.compile(
    r"\b(dropDatabase|dropIndexes|dropUser|dropAllUsersFromDatabase|dropRole|shutdownServer)\s*\(|\.\s*drop\s*\("
    r"|\.\s*(deleteMany|remove|updateMany)\s*\(\s*(\{\s*\}|\))|\.\s*deleteMany\s*\(\s*\{\s*\}",
    re.IGNORECASE,
)


def find_loss(text: str) -> str | None:
    """Returns what the statements lose, in words, or None."""
    for statement in _COMMENT.sub(" ", text).split(";"):
        loss = _statement_loss(statement)
        if loss:
            return loss
    return None


def _statement_loss(statement: str) -> str | None:
    match = _DROP.search(_STRING.sub("''", statement))
    if match:
        return f"{' '.join(match[0].upper().split())} removes data for good"
    if _ALTER_DROP.search(statement):
        return "ALTER TABLE … DROP removes data for good"
    for pattern, text in ((_DELETE, "DELETE without a bound empties the table"),
                          (_UPDATE, "UPDATE without a bound changes every row")):  # fmt: skip
        match = pattern.search(statement)
        if match and _is_unbounded(match[1]):
            return text
    return None


def _is_unbounded(tail: str) -> bool:
    where = _WHERE.search(tail)
    return where is None or _ALWAYS.match(where[2].strip()) is not None


def find_mongo_loss(text: str) -> str | None:
    match = _MONGO.search(text)
    return f"{match[0].strip(' .(){')} removes data for good" if match else None
