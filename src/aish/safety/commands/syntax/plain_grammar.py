"""Reads commands as bash does, for the unambiguous part of its grammar.

It covers simple commands, pipes, lists, known redirections, comments, and compound commands whose words can be found
with certainty: `!`, `{ }`, `( )`, `if`, `for … in`, `while` and `until`. Everything else is outside: here-documents,
`[[`, `((`, `case`, functions, `coproc`, `select`, backticks, arrays, unusual terminators, control characters.
"""

from __future__ import annotations

import re

from aish.safety.commands.syntax.model import Assignment, Block, BlockKind, Node, Redirect, Simple, Word
from aish.safety.commands.syntax.plain_words import Outside, PlainWordReader

_MAX_DEPTH = 16
_ODD = re.compile(r"[^\t\n -~\x80-\xff]")
# An interactive shell reads a caret at the beginning of a line, quoted or not, as a correction of the last command.
_CORRECTION = re.compile(r"^\^", re.MULTILINE)
_BLANKS = re.compile(r"(?:[ \t]+(?:\\\n[ \t]*)*)?")
_COMMENT = re.compile(r"#[^\n]*")
_RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|for|in|do|done|while|until|case|esac|select|function|coproc|time|[{}!]|\[\[|\]\])"
    r"(?=[ \t\n;|&()<>]|$)"
)
_ENDS = frozenset({"then", "elif", "else", "fi", "do", "done", "}"})
_OPENING = re.compile(r"(?:if|while|until|for|\{|!)(?=[ \t\n])")
_FOR = re.compile(r"for[ \t]+([A-Za-z_]\w*)[ \t]+in(?=[ \t;\n])", re.ASCII)
_TIMED = re.compile(r"time[ \t]+(?=[\w./])(?![A-Za-z_]\w*\+?=)", re.ASCII)
_REDIRECT = re.compile(r"([0-9]{0,2})(<<<|<<|>>|>&|<&|>\||&>>|&>|<>|<|>)")
_DUPLICATE = re.compile(r"([0-9]{1,2}|-)(?=[ \t\n;|&)]|$)")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)
_ELEMENT = re.compile(r"[A-Za-z_]\w*\[", re.ASCII)
_DECLARATIONS = frozenset({"export", "declare", "typeset", "readonly", "local"})


def read_plain(text: str) -> tuple[Block, list[tuple[int, str]]]:
    """Returns the line as bash reads it, and its operators with their positions. Raises Outside."""
    reader = _Commands(text.encode("utf-8", "replace").decode("latin-1"))
    return reader.line(), reader.operators


class _Commands(PlainWordReader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        odd = _ODD.search(text)
        if odd is not None:
            raise Outside(f"the control character U+{ord(odd[0]):04X}")
        if _CORRECTION.search(text):
            raise Outside("a caret that begins a line")

    def line(self) -> Block:
        body = self._statements("")
        if self.at < len(self.text):
            raise Outside(f"{self.text[self.at]!r} where a command should be")
        return Block(BlockKind.SEQUENCE, body, (0, len(self.text)))

    def script(self, start: int) -> Block:
        body = self._statements(")")
        if not body:
            raise Outside("a substitution of nothing")
        return Block(BlockKind.SEQUENCE, body, (start, self.at + 1))

    def _operator(self, text: str) -> None:
        self.operators.append((self.at, text))
        self.at += len(text)

    def _skip_blanks(self) -> str:
        """Returns the next character, or "" at the end."""
        char = self.text[self.at : self.at + 1]
        if char != " " and char != "\t":
            return char
        match = _BLANKS.match(self.text, self.at)
        if match is not None and match.end() > self.at:
            self.at = match.end()
            if self.text.startswith("\n#", self.at - 1):
                raise Outside("a comment after a joined line")
        return self.text[self.at : self.at + 1]

    def _skip_lines(self) -> str:
        while (char := self._skip_blanks()) == "\n" or char == "#":
            if char == "\n":
                self.at += 1
            else:
                self._skip_comment()
        return char

    def _skip_comment(self) -> None:
        match = _COMMENT.match(self.text, self.at)
        assert match is not None
        self.check_comment(match[0])
        self.at = match.end()

    def _statements(self, *ends: str) -> tuple[Node, ...]:
        """Reads up to one of the ends and leaves it unread: a keyword, a closing parenthesis, or "" for the end of
        the text."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Outside("commands nested deeply")
        found: list[Node] = []
        while not self._is_at(ends):
            found += self._list()
            if not self._separator() and not self._is_at(ends, keywords=False):
                raise Outside("something after the end of a command")
        self._depth -= 1
        return tuple(found)

    def _is_at(self, ends: tuple[str, ...], *, keywords: bool = True) -> bool:
        char = self._skip_lines() if keywords else self._skip_blanks()
        if char in ("", ")"):
            if char not in ends:
                raise Outside("a command that is not closed")
            return True
        match = _RESERVED.match(self.text, self.at) if keywords else None
        if match is None or match[0] not in _ENDS:
            return False
        if match[0] not in ends:
            raise Outside(f"the word {match[0]} where it does not belong")
        return True

    def _separator(self) -> bool:
        if self._skip_blanks() == "#":
            self._skip_comment()
        for mark in (";", "&"):
            if self.text.startswith(mark, self.at) and not self.text.startswith((mark * 2, mark + "&"), self.at):
                self._operator(mark)
                return True
        if self.text.startswith("\n", self.at):
            self.at += 1
            return True
        return False

    def _list(self) -> list[Node]:
        found = [self._pipeline()]
        while self._skip_blanks() and self.text.startswith(("&&", "||"), self.at):
            self._operator(self.text[self.at : self.at + 2])
            self._skip_newlines()
            found.append(self._pipeline())
        return found

    def _skip_newlines(self) -> None:
        while self._skip_blanks() == "\n":
            self.at += 1

    def _pipeline(self) -> Node:
        self._skip_blanks()
        start = self.at
        if self.text.startswith("!", start) and _OPENING.match(self.text, start):
            self._operator("!")
            self._skip_blanks()
            if self.text.startswith("!", self.at):
                raise Outside("one negation after another")
        stages = [self._command()]
        while self._skip_blanks() == "|" and not self.text.startswith("||", self.at):
            self._operator("|&" if self.text.startswith("|&", self.at) else "|")
            self._skip_newlines()
            stages.append(self._command())
        return stages[0] if len(stages) == 1 else Block(BlockKind.PIPELINE, tuple(stages), (start, self.at))

    def _command(self) -> Node:
        start = self.at
        if self.text.startswith("(", start):
            if self.text.startswith("((", start):
                raise Outside("double parentheses")
            return self._compound(start, BlockKind.SUBSHELL, ("(", ")"))
        word = _RESERVED.match(self.text, start)
        if word is None:
            return self._simple()
        if word[0] == "time":
            return self._timed_command()
        if not _OPENING.match(self.text, start) or word[0] == "!":
            raise Outside(f"the word {word[0]} in the place of a command")
        if word[0] == "{":
            return self._compound(start, BlockKind.GROUP, ("{", "}"))
        if word[0] == "if":
            return self._if(start)
        return self._for(start) if word[0] == "for" else self._while(start, word[0])

    def _timed_command(self) -> Node:
        """`time` before a program is read as a program that runs another one; anything else after it is uncertain."""
        match = _TIMED.match(self.text, self.at)
        if match is None or _RESERVED.match(self.text, match.end()):
            raise Outside("the word time before something else than a program")
        return self._simple(timed=True)

    def _compound(self, start: int, kind: BlockKind, ends: tuple[str, str]) -> Block:
        self._operator(ends[0])
        body = self._body(ends[1])
        self._operator(ends[1])
        return self._with_redirections(Block(kind, body, (start, self.at)))

    def _body(self, *ends: str) -> tuple[Node, ...]:
        body = self._statements(*ends)
        if not body:
            raise Outside("a command that is empty")
        return body

    def _keyword(self) -> str:
        match = _RESERVED.match(self.text, self.at)
        assert match is not None
        self._operator(match[0])
        return match[0]

    def _if(self, start: int) -> Block:
        self._operator("if")
        body = list(self._body("then"))
        self._operator("then")
        body += self._body("elif", "else", "fi")
        while (word := self._keyword()) == "elif":
            body += self._body("then")
            self._operator("then")
            body += self._body("elif", "else", "fi")
        if word == "else":
            body += self._body("fi")
            self._operator("fi")
        return self._with_redirections(Block(BlockKind.IF, tuple(body), (start, self.at)))

    def _while(self, start: int, word: str) -> Block:
        self._operator(word)
        body = list(self._body("do"))
        self._operator("do")
        body += self._body("done")
        self._operator("done")
        return self._with_redirections(Block(BlockKind.WHILE, tuple(body), (start, self.at)))

    def _for(self, start: int) -> Block:
        match = _FOR.match(self.text, start)
        if match is None:
            raise Outside("a loop that is not over words")
        name = match[1]
        words = [Word((), name, match.span(1), name)]
        self.operators += [(start, "for"), (match.end() - 2, "in")]
        self.at = match.end()
        while self._skip_blanks() not in (";", "\n"):
            words.append(self.word())
        if self.text[self.at] == ";":
            self._operator(";")
        self._skip_newlines()
        if not self.text.startswith("do", self.at) or not _RESERVED.match(self.text, self.at):
            raise Outside("a loop without its body")
        self._operator(self._must_be("do"))
        body = self._body("done")
        self._operator("done")
        return self._with_redirections(Block(BlockKind.FOR, body, (start, self.at), tuple(words), name=name))

    def _must_be(self, word: str) -> str:
        match = _RESERVED.match(self.text, self.at)
        if match is None or match[0] != word:
            raise Outside(f"a command without its {word}")
        return word

    def _with_redirections(self, block: Block) -> Block:
        """Reads the redirections after a block; nothing else may follow."""
        redirects: list[Redirect] = []
        while self._skip_blanks() and _REDIRECT.match(self.text, self.at):
            redirects.append(self._redirect())
        if self.text[self.at : self.at + 1] not in ("", "\n", ";", "|", "&", ")", "#"):
            raise Outside("something after the end of a command")
        return Block(block.kind, block.body, (block.span[0], self.at), block.words, tuple(redirects), block.name)

    def _simple(self, *, timed: bool = False) -> Simple:
        start = end = self.at
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirects: list[Redirect] = []
        while (char := self._skip_blanks()) not in ("", "\n", ";", "|", ")", "#"):
            if char == "&" and not self.text.startswith("&>", self.at):
                break
            if char in "<>&0123456789" and (match := _REDIRECT.match(self.text, self.at)):
                if match[0] == "<" and self.text.startswith("(", match.end()):
                    words.append(self.process_substitution())
                else:
                    redirects.append(self._redirect())
            elif (not words or words[0].raw in _DECLARATIONS) and (assignment := self._assignment()) is not None:
                assignments.append(assignment)
            else:
                words.append(self._argument())
                if len(words) == 1 and not timed and _RESERVED.fullmatch(words[0].raw):
                    raise Outside(f"the word {words[0].raw} in the place of a command")
            end = self.at
        if end == start:
            raise Outside("a command is missing")
        return Simple(tuple(words), tuple(assignments), tuple(redirects), (start, end))

    def _argument(self) -> Word:
        word = self.word()
        if self.text[self.at : self.at + 1] in ("<", ">") and (word.raw.isdecimal() or word.raw[0] == "{"):
            raise Outside("a descriptor that is not plain")
        return word

    def _assignment(self) -> Assignment | None:
        match = _ASSIGNMENT.match(self.text, self.at)
        if match is None:
            if _ELEMENT.match(self.text, self.at):
                raise Outside("an element of an array")
            return None
        start, self.at = self.at, match.end()
        value: tuple[Word, ...] = ()
        if self.text[self.at : self.at + 1] not in ("", *" \t\n;|&)"):
            value = (self.word(),)
            if ":~" in value[0].raw:
                raise Outside("a tilde that is not plain")
        return Assignment(match[1], value, (start, self.at), bool(match[2]))

    def _redirect(self) -> Redirect:
        match = _REDIRECT.match(self.text, self.at)
        assert match is not None
        start, descriptor, operator = self.at, match[1], match[2]
        if operator == "<<" or (descriptor and operator[0] == "&"):
            raise Outside("a here-document" if operator == "<<" else "a descriptor that is not plain")
        self.at = match.end()
        if operator in (">&", "<&"):
            return self._duplicate(start, descriptor, operator)
        if self.text.startswith("(", self.at) or self._skip_blanks() == "#":
            raise Outside("a redirection that is not plain")
        target = self._argument()
        return Redirect(operator, target, (start, self.at), descriptor)

    def _duplicate(self, start: int, descriptor: str, operator: str) -> Redirect:
        self._skip_blanks()
        match = _DUPLICATE.match(self.text, self.at)
        if match is None:
            raise Outside("a redirection that is not plain")
        self.at = match.end()
        if match[0] == "-":
            return Redirect(f"{operator}-", None, (start, self.at), descriptor)
        return Redirect(operator, Word((), match[0], match.span(), match[0]), (start, self.at), descriptor)
