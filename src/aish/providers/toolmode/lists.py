"""Lists of a call beside those that the request spells out: "a, b and c", "[1, 2, 3]".

A small model stops a list too early, or goes astray in the middle of it. Where the request has one list that the call's
own was plainly copied from, the request's is taken whole. Knows nothing of tools.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_ONE = r"-?(?<!\d)\d{1,15}(?!\d)(?:\.\d{1,15})?"
_RUN = re.compile(rf"{_ONE}(?:\s*(?:,\s*and|,|\band\b|&)\s*{_ONE})+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_THOUSANDS = re.compile(r"\d,\d{3}(?!\d)")
_END = re.compile(r"[.?!;:)\]](?:\s|$)")
_PARTS = re.compile(r"\s*,\s*(?:and|or|&)\s+|\s*,\s+|\s+(?:and|or|&)\s+")
_ARTICLE = re.compile(r"^(?:an?|the) ", re.I)
# What goes on after "and" with these is no list.
_NO_ITEM = re.compile(
    r"(?:add|allow|also|ask|attach|book|buy|call|check|create|delete|do|email|find|get|give|heat|help|how|it|keep|leave|let|lock|make"
    r"|me|mention|move|no|not|nothing|notify|open|order|play|please|post|put|remind|remove|run|save|see|send|set|share|she|show|so"
    r"|sort|start|stop|take|tell|that|them|then|there|they|turn|update|use|we|what|when|where|which|who|why|write|you)\b",
    re.I,
)
_JOINED = re.compile(r"\s(?:and|or|&)\s")
# What follows a list within its sentence.
_AFTER = re.compile(
    r"\s+(?:in|for|of|to|with|on|at|by|from|if|that|which|who|using|as|is|are|was|were|into|over|between|per|have|has"
    r"|please|fit|via|without|during|when|since|until|within|do|does|can|will|out|too|among)\b.*",
    re.I | re.S,
)
# What leads to a list.
_LEAD = (
    r"\b(?:about|against|are|between|by|compare|do|for|from|have|in|include|including|of|on|to|using|with) (?:the )?"
)
_AND = re.compile(r"['\"]?\s*,?\s+(?:and|&)\s+", re.I)
_MAX_ITEM_WORDS = 4
_MAX_ITEMS = 30
_MAX_REQUEST_CHARS = 4000


def completed(items: Sequence[Any], request: str, *, is_chosen: bool = False) -> list[Any]:
    """The list as the request has it, or as it is. After one item alone much may follow that is no other, unless there
    are choices to tell by."""
    found: list[Any] | None = None
    request = " ".join(request[:_MAX_REQUEST_CHARS].split())
    if items and all(isinstance(item, str) for item in items):
        found = _texts(items, request) if len(items) > 1 else None  # one alone may be all that is meant
        found = found or (_gone_on(items, request) if len(items) > 1 or is_chosen else None)
    elif items and all(isinstance(item, int | float) and not isinstance(item, bool) for item in items):
        found = _numbers(items, request)
    return list(items) if found is None or _folded(found) == _folded(items) else found


def _folded(items: Sequence[Any]) -> list[Any]:
    return [item.casefold() if isinstance(item, str) else item for item in items]


def _texts(items: Sequence[str], request: str) -> list[str] | None:
    folded = request.casefold()
    begin = folded.find(items[0].casefold())
    if begin < 0:
        begin = _begin_before(items[1], request)
    if begin < 0:
        return None
    parts = _spelled_out(request[begin:])
    return parts if parts and _is_source(items, parts, folded) else None


def _gone_on(items: Sequence[str], request: str) -> list[str] | None:
    """With what the request goes on after the last of them: "a, b" of "a, b, and c for you"."""
    places = [found.end() for found in re.finditer(rf"\b{re.escape(items[-1])}\b", request, re.I)]
    if len(places) != 1 or not (more := _AND.match(request, places[0])):
        return None
    text = request[more.end() :]
    if end := _END.search(text):
        text = text[: end.start()]
    last = _ARTICLE.sub("", _AFTER.sub("", _PARTS.split(text)[0]).strip(" ,'\""))
    return [*items, last] if last and _is_item(last, items) else None


def _is_item(last: str, items: Sequence[str]) -> bool:
    """Whether it may be one more of them: as short as they are, and not what is to be done next."""
    return len(last.split()) <= max(len(item.split()) for item in items) and not _NO_ITEM.match(last)


def _begin_before(item: str, request: str) -> int:
    """Where the item before this one begins: after the word that leads to it. -1 if that cannot be told."""
    found = re.match(rf".*{_LEAD}([\w' -]{{1,60}}?)(?:,| and| or|, and) {re.escape(item)}\b", request, re.I | re.S)
    return found.start(1) if found else -1


def _spelled_out(text: str) -> list[str]:
    """The list that the text begins with, to its "and" and what follows that; empty if it has none."""
    if end := _END.search(text):
        text = text[: end.start()]
    if (join := _JOINED.search(text)) is None:
        return []
    last = _AFTER.sub("", _PARTS.split(text[join.end() :])[0].strip(" ,"))
    parts = [_ARTICLE.sub("", part.strip(" ,'\"")) for part in (*_PARTS.split(text[: join.start()]), last)]
    return [part for part in parts if part][:_MAX_ITEMS]


def _is_source(items: Sequence[str], parts: Sequence[str], request: str) -> bool:
    """Whether the items were meant to be these: all but one are among them, and that one is from nowhere."""
    if len(items) > len(parts) or any(len(part.split()) > _MAX_ITEM_WORDS for part in parts):
        return False
    if len(items) < len(parts) and not _is_item(parts[-1], items):
        return False
    known = {part.casefold() for part in parts}
    strange = [item for item in items if item.casefold() not in known]
    if any(item.isupper() for item in strange):
        return False  # a code, a symbol
    return len(strange) <= 1 and strange != list(items) and not any(item.casefold() in request for item in strange)


def _numbers(items: Sequence[float], request: str) -> list[float] | None:
    if _THOUSANDS.search(request):
        return None
    runs = [[_read(text) for text in _NUMBER.findall(run)] for run in _RUN.findall(request)]
    like = [run for run in runs if len(run) <= _MAX_ITEMS and len(set(run) & set(items)) * 2 > len(run)]
    if list(items) in runs or len(like) != 1 or len(items) > len(like[0]):
        return None
    return like[0]


def _read(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number
