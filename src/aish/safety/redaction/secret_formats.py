"""Recognises keys by their format.

Each format has a marker: a literal that every match contains near its start. Searching for a literal costs a fraction
of a regular expression, and searching for one character a fraction of that. So markers are grouped by a character that
is rare in ordinary text, and almost all text is skipped quickly.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from functools import cache
from typing import NamedTuple


class Format(NamedTuple):
    marker: str
    regex: str

    def sub(self, replace: Callable[[re.Match[str]], str], text: str) -> str:
        return _compile(self.regex).sub(replace, text)


Groups = tuple[tuple[str, tuple[Format, ...]], ...]


# Where a key may begin: not after a letter or digit; inside JSON also after an escaped line end, tab or control
# character.
_BEGIN = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf])|(?<=\\u00[01][0-9a-f]))"


# Bounded on both ends, so that matching stays fast; the formats are those that the issuers document.
_FORMATS: tuple[tuple[str, str], ...] = (
    ("sk-", r"\bsk-(?:ant-|proj-|or-v1-|svcacct-)?[A-Za-z0-9_-]{20,200}"),
    ("AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
    ("ASIA", r"\bASIA[0-9A-Z]{16}\b"),
    ("ghp_", r"\bghp_[A-Za-z0-9]{36,255}"),
    ("gho_", r"\bgho_[A-Za-z0-9]{36,255}"),
    ("ghu_", r"\bghu_[A-Za-z0-9]{36,255}"),
    ("ghs_", r"\bghs_[A-Za-z0-9]{36,255}"),
    ("ghr_", r"\bghr_[A-Za-z0-9]{36,255}"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{22,255}"),
    ("glpat-", r"\bglpat-[A-Za-z0-9_-]{20,100}"),
    ("xox", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}"),
    ("AIza", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("sk_live_", r"\bsk_live_[0-9A-Za-z]{20,250}"),
    ("rk_live_", r"\brk_live_[0-9A-Za-z]{20,250}"),
    ("hf_", r"\bhf_[A-Za-z0-9]{30,100}"),
    ("npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("pypi-", r"\bpypi-[A-Za-z0-9_-]{50,400}"),
    ("eyJ", r"\beyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,1000}"),
    ("PRIVATE KEY", r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,20000}-----END [A-Z ]{0,30}PRIVATE KEY-----"),
    ("earer ", r"(?<=[Bb]earer )[A-Za-z0-9._~+/-]{20,2000}=*"),
    ("://", r"(?<=://)[^\s/@:\"']{1,100}:[^\s/@\"']{1,200}(?=@)"),
)

# Assignments in text: `password=hunter2`, `"api_key": "…"`. Keys such as `token` are left out: programs hand such
# values to and fro, as for the next page. A value has a letter and a digit; a name with a bracket behind it is code.
_ASSIGNED_KEYS = ("password", "passwd", "secret", "api_key", "PASSWORD", "PASSWD", "SECRET", "API_KEY")
_ASSIGNMENTS = ("=", '="', "='", ": ", ': "', ": '", '": "', '":"', '\\": \\"', '\\":\\"', ' = "', " = '")
_VALUE_CHARS = r"[A-Za-z0-9_.~+/=-]"
_ASSIGNED_VALUE = (
    rf"(?={_VALUE_CHARS}{{0,199}}[0-9])(?={_VALUE_CHARS}{{0,199}}[A-Za-z])(?!{_VALUE_CHARS}{{1,200}}[(\[{{])"
    rf"(?<![=:]=){_VALUE_CHARS}{{6,200}}"
)


def _assignment(key: str) -> tuple[str, str]:
    begins = "|".join(f"(?<=(?<![A-Za-z0-9]){re.escape(key + sign)})" for sign in _ASSIGNMENTS)
    return key, f"(?:{begins}){_ASSIGNED_VALUE}"


_ALL_FORMATS = (*_FORMATS, *map(_assignment, _ASSIGNED_KEYS))

_RARE = "_-KSzxJ:"  # a marker is grouped by the first of these that it contains


def _rare_in(marker: str) -> str:
    return next((char for char in _RARE if char in marker), marker)


@cache
def _compile(regex: str) -> re.Pattern[str]:
    """Compiles a format when its marker is found for the first time. To compile them all takes longer than a prompt."""
    return re.compile(regex.replace(r"\b", _BEGIN, 1))


# The formats by the character to search first.
GROUPS: Groups = tuple(
    (rare, tuple(Format(marker, regex) for marker, regex in _ALL_FORMATS if _rare_in(marker) == rare))
    for rare in dict.fromkeys(_rare_in(marker) for marker, _ in _ALL_FORMATS)
)


# What may follow each beginning before its end: more than any of the formats allows.
_OF_A_WORD = r"[A-Za-z0-9_.-]{0,7100}+"  # no backtracking: it reaches the end or fails
_OF_A_LOGIN = r"[^\s/@\"']{0,301}"
_OF_A_BEARER = r"[A-Za-z0-9._~+/-]{0,2000}=*"
_OF_A_BLOCK = r"[A-Z ]{0,41}(?:(?<=PRIVATE KEY)-(?:(?!-----END [A-Z ]{0,30}PRIVATE KEY-----)[\s\S]){0,20100})?"
_RUN = string.ascii_letters + string.digits + "_-.~+/=:"  # all characters of beginnings, except for a login and a block
_BEFORE_RUN_CHARS = len('"password\\": \\"')
_OF_AN_ASSIGNMENT = rf"[\\\"' ]{{0,3}}(?:[=:][\\\"' ]{{0,3}}{_VALUE_CHARS}{{0,200}})?"
_LONGEST = 20_300  # a block; anything that begins earlier has ended


def find_beginning(text: str) -> int:
    """Returns where the text ends with the beginning of a key; its length if it does not."""
    start = max(0, len(text.rstrip(_RUN)) - _BEFORE_RUN_CHARS)
    for longer in ("-----BEGIN", "://"):
        if (place := text.rfind(longer)) >= 0:
            start = min(start, place)
    found = _beginning_pattern().search(text, max(start, len(text) - _LONGEST))
    return found.start() if found else len(text)


@cache
def _beginning_pattern() -> re.Pattern[str]:
    words = "|".join(_prefixes_of(marker, _OF_A_WORD) for marker, regex in _FORMATS if regex.startswith(r"\b"))
    login, block = _prefixes_of("://", _OF_A_LOGIN), _prefixes_of("-----BEGIN ", _OF_A_BLOCK)
    bearer = f"[Bb](?:{_prefixes_of('earer ', _OF_A_BEARER)})?"
    escape = r"\\(?:[nrtbf]|u(?:0(?:0[01]?[0-9a-f]?)?)?)?"  # after which a key may begin, see _BEGIN
    keys = "|".join(_prefixes_of(key, _OF_AN_ASSIGNMENT) for key in _ASSIGNED_KEYS if key.islower())
    assigned = rf"(?<![A-Za-z0-9])(?i:{keys})"
    return re.compile(rf"(?:(?:{escape})?{_BEGIN}(?:{words})|{escape}|{login}|{block}|{bearer}|{assigned})\Z")


def _prefixes_of(literal: str, rest: str) -> str:
    """Matches the literal with what follows it, and all prefixes of that."""
    for char in reversed(literal):
        rest = f"{re.escape(char)}(?:{rest})?"
    return rest


_SECRET_NAME = re.compile(
    r"(?:^|_)(?:(?:API|ACCESS|SECRET|PRIVATE|SIGNING|ENCRYPTION)?_?KEYS?|TOKENS?|SECRETS?|PASSPHRASE|CREDENTIALS?|CREDS?"
    r"|AUTH|SALT|PEPPER|JWT|COOKIE|PAT|MNEMONIC)(?:_|$)|PASSWORD|PASSWD|_PWD$|_PASS$"
)
_NOT_SECRET_NAME = re.compile(r"_(?:FILE|PATH|DIR|URL|NAME|ID|SOCK|ENV)$")
# URLs that contain a login.
_LOGINS = frozenset({"AISH_STORE__URL", "DATABASE_URL"})


def looks_secret(variable: str) -> bool:
    """Whether an environment variable's name says that it holds a secret."""
    name = variable.upper()
    return name in _LOGINS or (bool(_SECRET_NAME.search(name)) and not _NOT_SECRET_NAME.search(name))
