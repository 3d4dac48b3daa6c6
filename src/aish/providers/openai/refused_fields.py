"""Finds out from a refusal which fields of a request a backend does not know.

A field name counts only right beside such words. Elsewhere the text may describe a valid value, list other fields, or
repeat the request. A wrong value, or fields that exclude each other, are for the caller to correct. This module is
imported only after a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_READ_CHARS = 2000  # refusals are a line or two, and the time grows with the square of a list of names
# Behind these words some backends list the fields that they know.
_WHAT_IS_KNOWN = re.compile(
    r"\bexpected one of\b|(?<!not )(?<!not a )\b(?:allowed|permitted|supported|valid|known)"
    r"(?: (?:field|param(?:eter)?|argument|propertie|key|name)s?)?(?: are\b|:)",
    re.I,
)

_KIND = r"(?:field|param(?:eter)?|argument|propert(?:y|ie))s?"
_NOT_KNOWN = r"un(?:known|recogni[sz]ed|supported|expected)"
_AND = r"(?:, ?(?:and |or )?| and | or )"
_BARE = r"(?:body(?:\.| -> ))?\w++(?![.\[]\w)"
_QUOTED = rf"[`'\"]{_BARE}[`'\"]"
_NAMES = rf"(?P<names>(?>{_QUOTED}(?:{_AND}{_QUOTED})*+|{_BARE}(?:{_AND}{_BARE})*+))"
_NOT_IN_A_PATH = r"(?<![\w.`'\"])(?<!-> )"
_HERE = r" (?:by|for|with|on|in) (?:(?:this|the) )?(?:\w+ )?(?:model|backend|server|api|endpoint|engine|provider)\b"
_GIVEN = r" (?:supplied|provided|passed|given|found|in (?:the )?(?:request|object|body))"
_EXTRA = rf"(?:extra|additional) (?:inputs?|{_KIND}) (?:is |are )?(?:not (?:permitted|allowed)|forbidden)"
_UNKNOWN_FIELDS = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        # Unknown parameter: 'top_k'.
        rf"\b(?:{_NOT_KNOWN}|not a valid|does(?: not|n't) (?:support|accept|take))(?: the)?"
        rf"(?: (?:request|keyword|extra))? (?:{_KIND}|inputs?|names?|options?|keys?(?:\(s\))?)(?:{_GIVEN})*(?: ?: ?| )"
        rf"[\[(]?{_NAMES}(?=\s*$|[^\w\s=]| \(| at line\b|{_GIVEN}\b|{_HERE})",
        # top_k is not supported with this model.
        rf"{_NOT_IN_A_PATH}(?<!of )(?<!for )(?<!value )(?<!value: ){_NAMES}(?: {_KIND})?(?: ?:)?"
        rf"(?: (?:is|are|was|were))? (?:(?:an? )?{_NOT_KNOWN}"
        rf"|not (?:yet |currently )?(?:supported|permitted|allowed|accepted|known|recogni[sz]ed)"
        rf"|not an? (?:valid|known|recogni[sz]ed|supported)(?= {_KIND}))(?: {_KIND})?"
        rf"(?=\s*$|[`'\")\]}}]|[.!](?:\W|$)|{_HERE})",
        # body.top_k: Extra inputs are not permitted
        rf"{_NOT_IN_A_PATH}{_NAMES}[\s,:'\"]{{0,4}}(?:msg\W{{1,5}})?{_EXTRA}",
        # Extra inputs are not permitted: body.top_k
        rf"{_EXTRA}(?:[\s,:('\"]{{1,5}}loc\W{{1,5}}|: ?| \(| (?=body)){_NAMES}(?! ->)",
    )
)
_LOC = re.compile(r"""[\[(]['"]body['"], ?['"](\w+)['"][\])]""")  # as Python or JSON writes it


def at_fault(refusal: str) -> str:
    """Removes the list of the fields that the backend knows."""
    return _WHAT_IS_KNOWN.split(refusal[:_READ_CHARS])[0]


def unknown_in(fault: str) -> Iterable[str]:
    text = _LOC.sub(r"body.\1", fault)
    found = (match["names"] for pattern in _UNKNOWN_FIELDS for match in pattern.finditer(text))
    return (name for names in found for name in re.findall(r"\w+", names))
