"""Parses a line of Markdown: the quotes and list items that it is in, and its kind.

Pure. For a line that is still arriving the answer may be "not known yet". More lenient than CommonMark where models are
careless: a list indented by two columns under `1.` is nested, and there is no lazy continuation.
"""

from __future__ import annotations

import re
from enum import Enum, auto

import msgspec

# A line whose kind is not known by then is text, and so is one that is nested more deeply than this.
MAX_LINE = 2000
_MAX_DEPTH = 10


class LineKind(Enum):
    BLANK = auto()
    TEXT = auto()
    HEADING = auto()
    RULE = auto()
    FENCE = auto()
    ROW = auto()
    INDENTED = auto()


class Box(msgspec.Struct, frozen=True):
    """A quote (no mark), or a list item with its mark, whose content is indented by that many columns."""

    mark: str = ""
    indent: int = 0

    @property
    def is_quote(self) -> bool:
        return not self.mark


class MarkdownLine(msgspec.Struct, frozen=True):
    """`kept` counts the boxes that were open before; the others begin with this line. `indent` is the number of blanks
    before `rest` inside the boxes."""

    kind: LineKind
    boxes: tuple[Box, ...]
    kept: int
    indent: int
    rest: str


_BLANKS = re.compile(r"[ \t]*")
_RULE = re.compile(r"(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$")
_RULE_BEGUN = re.compile(r"(?:[* ]+|[- ]+|[_ ]+)$")
_MARK = re.compile(r"([-*+]|\d{1,9}[.)])( +|$)")
_MARK_BEGUN = re.compile(r"(?:[-*+]|\d{1,9}[.)]?) *$")
_TASK = re.compile(r"\[([ xX])\](?: +|$)")
_TASK_BEGUN = re.compile(r"\[(?:[ xX](?:\] *)?)?$")
_FENCE = re.compile(r"(`{3,})([^`]*)$|(~{3,})(.*)$")
_FENCE_BEGUN = re.compile(r"`{1,2}$|`{3,}[^`]*$|~{1,2}$|~{3,}")
_HEADING = re.compile(r"#{1,6}(?: |$)")
_CLOSING_HASHES = re.compile(r"(?:^| +)#+ *$")
_TASK_MARKS = {" ": "☐", "x": "☑", "X": "☑"}


def read_markdown_line(line: str, open_boxes: tuple[Box, ...], *, whole: bool, in_text: bool) -> MarkdownLine | None:
    """None if the kind of the line is not known yet. `in_text`: it follows a line of text."""
    line = _expand(line)
    if len(line) <= MAX_LINE:
        return _read(line, open_boxes, whole=whole, in_text=in_text)
    # Judged by its beginning alone, so that the result does not depend on how much of it has arrived.
    head = _read(line[: MAX_LINE + 1], open_boxes, whole=False, in_text=in_text)
    if head is None:
        return MarkdownLine(LineKind.TEXT, (), 0, 0, line)
    return msgspec.structs.replace(head, rest=head.rest + line[MAX_LINE + 1 :])


def _read(line: str, open_boxes: tuple[Box, ...], *, whole: bool, in_text: bool) -> MarkdownLine | None:
    boxes, at = _match_open_boxes(line, open_boxes)
    kept = len(boxes)
    while True:
        blanks = _count_blanks(line, at)
        rest = line[at + blanks :]
        if not rest:
            return _blank(boxes, kept) if whole else None
        if not whole and _may_open_box(rest):
            return None
        box, used = _parse_box(rest, blanks, depth=len(boxes))
        if box is None:
            break
        if not whole and not box.is_quote and _TASK_BEGUN.match(rest[used:]):
            return None
        boxes.append(box)
        at += blanks + used
    in_text = in_text and kept == len(boxes) == len(open_boxes)
    kind = _find_kind(rest, blanks, whole=whole, in_text=in_text)
    return MarkdownLine(kind, tuple(boxes), kept, blanks, rest) if kind else None


def _expand(line: str) -> str:
    if "\t" not in line:
        return line
    end = _count_blanks(line, 0)
    return line[:end].expandtabs(4) + line[end:].replace("\t", "    ")


def _count_blanks(line: str, at: int) -> int:
    found = _BLANKS.match(line, at)
    return found.end() - at if found else 0


def _match_open_boxes(line: str, open_boxes: tuple[Box, ...]) -> tuple[list[Box], int]:
    """The open boxes that this line continues, and the offset of their content."""
    boxes: list[Box] = []
    at = 0
    for box in open_boxes:
        blanks = _count_blanks(line, at)
        if box.is_quote:
            if blanks > 3 or line[at + blanks : at + blanks + 1] != ">":
                break
            at = _after_quote(line, at + blanks)
        elif at + blanks < len(line):
            if blanks < min(box.indent, 2):
                break
            at += min(blanks, box.indent)
        boxes.append(box)
    return boxes, at


def _after_quote(line: str, at: int) -> int:
    return at + 2 if line[at + 1 : at + 2] == " " else at + 1


def _blank(boxes: list[Box], kept: int) -> MarkdownLine:
    """A blank line. It leaves list items open; a list item without text counts as text."""
    kind = LineKind.TEXT if len(boxes) > kept and not boxes[-1].is_quote else LineKind.BLANK
    return MarkdownLine(kind, tuple(boxes), kept, 0, "")


def _parse_box(rest: str, blanks: int, *, depth: int) -> tuple[Box | None, int]:
    """The quote or list item that begins here, and the length of its mark."""
    if depth == _MAX_DEPTH:
        return None, 0
    if rest[0] == ">" and blanks < 4:
        return Box(), _after_quote(rest, 0)
    return (None, 0) if _RULE.match(rest) else _parse_item(rest, blanks, nested=depth > 0)


def _may_open_box(rest: str) -> bool:
    return bool(_RULE_BEGUN.match(rest) or _MARK_BEGUN.match(rest))


def _parse_item(rest: str, blanks: int, *, nested: bool) -> tuple[Box | None, int]:
    found = _MARK.match(rest) if blanks < 4 or nested else None
    if not found:
        return None, 0
    mark, space = found.groups()
    used = len(mark) + (len(space) if 1 <= len(space) <= 4 else 1)
    task = _TASK.match(rest, used) if mark in "-*+" else None
    shown = _TASK_MARKS[task.group(1)] if task else "•" if mark in "-*+" else mark
    return Box(shown, blanks + used), task.end() if task else min(used, len(rest))


def _find_kind(rest: str, blanks: int, *, whole: bool, in_text: bool) -> LineKind | None:
    if blanks >= 4 and not in_text:
        return LineKind.INDENTED if whole else None
    match rest[0]:
        case "#":
            if _HEADING.match(rest):
                return LineKind.HEADING if whole else None
            return LineKind.TEXT
        case "`" | "~":
            if whole:
                return LineKind.FENCE if _FENCE.match(rest) else LineKind.TEXT
            return None if _FENCE_BEGUN.match(rest) else LineKind.TEXT
        case "|":
            return LineKind.ROW if whole else None
        case "-" | "*" | "_" if _RULE_BEGUN.match(rest):
            if whole:
                return LineKind.RULE if _RULE.match(rest) else LineKind.TEXT
            return None
        case _:
            return LineKind.TEXT


class Fence(msgspec.Struct, frozen=True):
    mark: str  # as it is written: ``` or longer, or tildes
    info: str

    @property
    def language(self) -> str:
        words = self.info.replace("{", " ").replace("}", " ").split()
        return words[0].lstrip(".").rstrip(",") if words else ""

    def is_closed_by(self, line: str) -> bool:
        stripped = line.strip(" ")
        return len(stripped) >= len(self.mark) and stripped == self.mark[0] * len(stripped)


def parse_fence(rest: str) -> Fence:
    found = _FENCE.match(rest)
    ticks, tick_info, tildes, tilde_info = found.groups() if found else (rest, "", None, None)
    return Fence(ticks or tildes or "", (tick_info or tilde_info or "").strip())


def strip_boxes(line: str, boxes: tuple[Box, ...], indent: int) -> str | None:
    """A line of code without the marks of its boxes; None if it has left a quote. Missing indents are accepted."""
    at = 0
    for box in boxes:
        blanks = _count_blanks(line, at)
        if not box.is_quote:
            at += min(blanks, box.indent)
        elif line[at + blanks : at + blanks + 1] == ">":
            at = _after_quote(line, at + blanks)
        else:
            return None
    return line[at + min(_count_blanks(line, at), indent) :]


def parse_heading(rest: str) -> tuple[int, str]:
    """Level and text."""
    level = len(rest) - len(rest.lstrip("#"))
    return level, _CLOSING_HASHES.sub("", rest[level:].strip(" ")) or rest[level:].strip(" ")
