"""Finds every place in a line where some reading has a command, for lines that cannot be read with certainty.

Used only to raise danger and for rules that forbid, never to prove or allow anything. It ignores quotes and
here-documents unless their end is certain, so it finds more than there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from aish.safety.commands import program_tables
from aish.safety.commands.syntax.quoting import decode_ansi

# The number of characters of them that are parsed at once, and the number of lines that are parsed as they are.
MAX_SCRIPT_CHARS = 2_048
MAX_SCRIPTS = 8
MAX_LINES = 24
MAX_WORDS_OF_COMMAND = 16

_BEFORE_COMMANDS = re.compile(r"[\n;&|()}`]|\{(?=\s)|!(?=[\s(])")
_KEYWORDS = frozenset({
    "if", "then", "elif", "else", "fi", "for", "do", "done", "while", "until", "case", "esac", "select", "function",
    "coproc", "time", "in", "!", "{", "}",
})  # fmt: skip
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*(?:\[[^]]*\])?\+?=.*", re.DOTALL)
_REDIRECT = re.compile(r"(?:\d*|\{\w+\})[<>]+[&|]?-?(.*)", re.DOTALL)
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_QUOTING = re.compile(r"['\"\\]|\$(?=['\"])")
_BALANCED = re.compile(r"(?:[^'\"\\]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\")*", re.DOTALL)
# Text that makes the parser read beyond the end of a line.
_HEREDOC_MARK = re.compile(r"(?<!<)<<-?(?!<)[ \t]*['\"\\]?\w*['\"]?|<<<")
_COMPARISON = re.compile(r"={2,}|=~")
_DYNAMIC = re.compile(r"[$*?\[~]")
# Text whose quotes can be paired in order, and its quoted pieces.
_UNCERTAIN_QUOTES = re.compile(r"<<|[`\\#]|\$['\"]|\"[^\"]*\$[({]")
_PAIRED = re.compile(r"(?:[^'\"]|'[^']*'|\"[^\"]*\")*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_HEREDOC = re.compile(
    r"(?P<head>[^<]*)<<(?P<tabs>-?)[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)"
    r"(?=[\s;|&>])(?P<tail>[^\n<]*)\n"
)
_NOT_HEREDOC = re.compile(r"[`\\#]|\(\(|\$['\"\[{]|\blet\b")
_SUBSTITUTED = re.compile(r"(?:\$\(|`).*")


def possible_scripts(text: str) -> Iterator[str]:
    """Returns the possible commands as shell text: the pieces, one in each line, then the lines as they are."""
    script: list[str] = []
    size = count = 0
    for command in dict.fromkeys(map(_sanitise, _pieces(text))):
        if size + len(command) > MAX_SCRIPT_CHARS and script:
            yield "\n".join(script)
            script, size, count = [], 0, count + 1
            if count == MAX_SCRIPTS:
                return
        script.append(command)
        size += len(command) + 1
    yield "\n".join(script)
    yield from dict.fromkeys(line for line in map(_sanitise, _lines(text)[:MAX_LINES]) if _BEFORE_COMMANDS.search(line))


def possible_words(text: str) -> tuple[tuple[str | None, ...], ...]:
    """Returns the words of each possible command, without assignments and redirections. None is an unknown word."""
    found = dict.fromkeys(words for piece in _pieces(text) for words in _words_of(piece))
    return tuple(found)


def _lines(text: str) -> list[str]:
    return [line for line in _without_heredoc(text).split("\n") if len(line) <= MAX_SCRIPT_CHARS]


def _sanitise(command: str) -> str:
    """Keeps quotes if they are paired, and removes what would make the parser read beyond the end."""
    command = _COMPARISON.sub("=", _HEREDOC_MARK.sub(" ", command)).strip()
    command = command if _BALANCED.fullmatch(command) else _remove_quotes(command)
    return "" if command.startswith("[") else command.rstrip("\\<>$")


def _pieces(text: str) -> list[str]:
    read = _without_heredoc(text)
    texts = [read, read.replace("\\\n", "")] if "\\\n" in read else [read]
    return [piece for each in texts for piece in _split(each)]


def _split(text: str) -> list[str]:
    if not _UNCERTAIN_QUOTES.search(text) and _PAIRED.fullmatch(text):
        masked = _QUOTED.sub(lambda match: "x" * len(match[0]), text)
    else:
        masked = text
    pieces, start = [], 0
    for match in _BEFORE_COMMANDS.finditer(masked):
        pieces.append(text[start : match.start()])
        start = match.end()
    return [_without_keywords(piece) for piece in (*pieces, text[start:])]


def _without_keywords(piece: str) -> str:
    words = piece.split(None, 1)
    while words and words[0] in _KEYWORDS:
        piece = words[1] if len(words) > 1 else ""
        words = piece.split(None, 1)
    return piece


def _words_of(piece: str) -> Iterator[tuple[str | None, ...]]:
    if len(piece) <= MAX_SCRIPT_CHARS:
        piece = _ANSI.sub(lambda match: decode_ansi(match[1]), piece)
    words = _remove_quotes(piece).split()
    words = words[_prefix(words) :]
    if not words:
        return
    yield _known_words(words)
    if _runs_others(words):
        for start in range(1, len(words)):
            yield _known_words(words[start : start + MAX_WORDS_OF_COMMAND])


def _prefix(words: list[str]) -> int:
    """Returns how many words precede the program: assignments, redirections, keywords."""
    at = 0
    while at < len(words):
        redirect = _REDIRECT.fullmatch(words[at])
        if redirect is not None:
            at += 1 if redirect[1] else 2
        elif _ASSIGNMENT.fullmatch(words[at]) or words[at] in _KEYWORDS:
            at += 1
        else:
            break
    return at


def _runs_others(words: list[str]) -> bool:
    """`sudo rm`, `git submodule foreach rm`: any of the words may be a program."""
    program = words[0].rpartition("/")[2]
    verbs = [wrapper.verb.split() for wrapper in program_tables.wrappers().find(program)]
    return program in program_tables.shells() or any(set(verb) <= set(words) for verb in verbs)


def _known_words(words: list[str]) -> tuple[str | None, ...]:
    return tuple(None if _DYNAMIC.search(word) else word for word in words[:MAX_WORDS_OF_COMMAND])


def _remove_quotes(text: str) -> str:
    return _QUOTING.sub("", text)


def _without_heredoc(text: str) -> str:
    """Removes the text of a here-document if there is only one and its end is certain. Substitutions in it stay."""
    match = _HEREDOC.match(text)
    if match is None or "<<" in text[match.end("end") :] or _NOT_HEREDOC.search(match["head"] + match["tail"]):
        return text
    if not _PAIRED.fullmatch(match["head"]) or not _PAIRED.fullmatch(match["tail"]):
        return text
    lines = text[match.end() :].split("\n")
    at = _find_heredoc_end(lines, match["end"], tabs=bool(match["tabs"]))
    if at is None:
        return text
    body = [] if match["quote"] else lines[:at]
    if any(line.endswith("\\") for line in body):
        return text
    kept = [found[0] for found in map(_SUBSTITUTED.search, body) if found is not None]
    return "\n".join([f"{match['head']} {match['tail']}", *kept, *lines[at + 1 :]])


def _find_heredoc_end(lines: list[str], word: str, *, tabs: bool) -> int | None:
    """Returns the line that ends a here-document. None if another line looks like it: not every shell ends it there."""
    bare = [line.strip() for line in lines]
    if bare.count(word) != 1:
        return None
    at = bare.index(word)
    return at if (lines[at].lstrip("\t") if tabs else lines[at]) == word else None
