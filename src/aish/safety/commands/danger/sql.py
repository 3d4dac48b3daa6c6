"""Parses enough of SQL, Mongo and Redis to find what is dropped, emptied or changed without limits."""

from __future__ import annotations

import re

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
    for pattern, says in ((_DELETE, "DELETE without a bound empties the table"),
                          (_UPDATE, "UPDATE without a bound changes every row")):  # fmt: skip
        match = pattern.search(statement)
        if match and _unbounded(match[1]):
            return says
    return None


def _unbounded(tail: str) -> bool:
    where = _WHERE.search(tail)
    return where is None or _ALWAYS.match(where[2].strip()) is not None


def find_mongo_loss(text: str) -> str | None:
    match = _MONGO.search(text)
    return f"{match[0].strip(' .(){')} removes data for good" if match else None
