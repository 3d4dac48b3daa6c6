"""Options that a request names and a weak model's call lacks.

Small models fill in what a tool requires and pass over the rest. Only what is said word for word is put in: one of the
choices, a language, a switch by its own name, a number beside its name, the unit of all numbers. What another argument
has taken is not taken twice, and a word that the tool itself uses says nothing. Where two things can be meant, the call
stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from aish.types.tools import ToolSpec

_TAKEN = " \x00 "
_STEM_CHARS = 5
_MAX_CHOICES = 40
_MAX_REQUEST_CHARS = 4000
_MAX_VALUES = 40
_MIN_CHARS = 3
# Choices that are said in every second request, meaning something else.
_VAGUE = frozenset(
    ("all", "and", "any", "auto", "both", "default", "none", "normal", "off", "one", "other", "the", "yes")
)
_LISTED = re.compile(
    r"(?:one of|such as|e\.g\.?,?|for example,?|either|can be|options:?|values:?)\s+([^.()]{3,200})", re.I
)
_QUOTED = re.compile(r"['\"]([\w +-]{2,30})['\"]")
_CODED = re.compile(r"\b(codes?|iso|abbreviat\w*|bcp)\b", re.I)
_SORTS = re.compile(r"^(sort|order|group)")
_NOT = re.compile(
    r"(?:\b(?:no|not|never|neither|nor|without|except|excluding|than|instead of)|n't)\s+(?:[\w-]+\s+){0,4}$", re.I
)
_TITLE = re.compile(r"\b[A-Z][a-z]*\.? $")  # Dr. Light
_NEAR = 80  # characters before a word
_LEFT_OUT = re.compile(
    r"\b(?:no|not|without|exclud\w+|omit\w*|skip\w*|stop|disabl\w+|mute|(?:leav\w+|turn|switch) (?:out|off)|don't \w+)"
    r"\W+(?:\w+\W+){0,2}$",
    re.I,
)
# It is spoken of, and not asked for.
_SPOKEN_OF = re.compile(r"\b(?:if|is|are|does|hate|whether|why|how)\W+(?:\w+\W+){0,2}$", re.I)
_LANGUAGES = re.compile(
    r"\bin (Arabic|Bengali|Bulgarian|Chinese|Czech|Danish|Dutch|English|Finnish|French|German|Greek|Hebrew|Hindi"
    r"|Hungarian|Indonesian|Italian|Japanese|Korean|Latin|Mandarin|Norwegian|Persian|Polish|Portuguese|Romanian|Russian"
    r"|Spanish|Swahili|Swedish|Thai|Turkish|Ukrainian|Urdu|Vietnamese)\b"
    # In German forests nobody need speak it.
    r"(?! (?!(?:please|and|or|about|with|for|on|to|of|only|instead|if|by|from|that|which)\b)[a-z])"
)
_PREFIXES = frozenset(
    ("add", "allow", "enable", "exclude", "get", "has", "include", "included", "is", "needs", "only", "require",
     "return", "returns", "should", "show", "use", "want", "with")
)  # fmt: skip
_NUMBERING = frozenset(
    ("a", "amount", "count", "for", "in", "max", "min", "n", "num", "number", "of", "per", "the", "to", "value")
)
_COUNTED = {word: number for number, word in enumerate(
    ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), 1
)}  # fmt: skip
_NUMBER = rf"(\d{{1,3}}(?:,\d{{3}})+|\d+(?:\.\d+)?|{'|'.join(_COUNTED)})"
_UNITS = re.compile(
    r"\d\s*(mm|cm|m|km|inches|inch|in|feet|foot|ft|yards?|miles?|met(?:er|re)s?|centimet(?:er|re)s?|kilomet(?:er|re)s?"
    r"|kg|kilograms?|grams?|pounds?|lbs?|lit(?:er|re)s?|ml)\b"
)
_OF_RESULT = re.compile(r"result|output|return|answer", re.I)

_RANGE = re.compile(rf"\b{_NUMBER}\s*(?:or|to|and|-)\s*$", re.I)


def named_options(spec: ToolSpec, given: Mapping[str, Any], request: str) -> dict[str, Any]:
    """What is to be put in, by its name."""
    properties = spec.schema.get("properties")
    required = spec.schema.get("required") or ()
    if not isinstance(properties, dict) or not request.isascii() or len(request) > _MAX_REQUEST_CHARS:
        return {}
    rest = _without(given.values(), request)
    has_number = any(isinstance(value, int | float) for value in given.values())
    found: dict[str, Any] = {}
    for name, schema in properties.items():
        if name in given or name in required or not isinstance(schema, dict):
            continue
        own = _stems(f"{spec.name} {spec.description} {' '.join(other for other in properties if other != name)}")
        value = _said(str(name), schema, rest, own)
        if value is None:
            value = _unit(str(name), schema, request) if has_number else None
        if value is not None:
            found[name] = value
            rest = _without([value], rest)
    return found


def _said(name: str, schema: Mapping[str, Any], rest: str, own: set[str]) -> Any:
    kind = schema.get("type")
    if kind == "boolean":
        return _switch(name, rest, own)
    if kind in ("integer", "number") and "enum" not in schema:
        return _number(name, str(kind), rest, own)
    if kind != "string":
        return None
    about = schema.get("description")
    about = about if isinstance(about, str) else ""
    if choices := _choices(schema, about):
        return _choice(name, choices, rest, own)
    if name.casefold().endswith(("language", "lang")) and not _CODED.search(about):
        languages = {found[1] for found in _LANGUAGES.finditer(rest) if not _is_denied(rest, found.start())}
        return languages.pop() if len(languages) == 1 else None
    return None


def _unit(name: str, schema: Mapping[str, Any], request: str) -> str | None:
    """The one that all numbers of the request have, where they have one."""
    about = str(schema.get("description") or "")
    if name not in ("unit", "units") or schema.get("type") != "string" or "enum" in schema or _OF_RESULT.search(about):
        return None
    units = _UNITS.findall(request)
    is_all = len(units) == len(re.findall(r"\d+(?:[.,]\d+)*", request))
    return units[0] if units and is_all and len(set(units)) == 1 else None


def _choices(schema: Mapping[str, Any], about: str) -> list[str]:
    """Those that the schema names, or else its description."""
    if isinstance(listed := schema.get("enum"), list):
        return [choice for choice in listed if isinstance(choice, str)][:_MAX_CHOICES]
    if len(quoted := _QUOTED.findall(about)) > 1:
        return quoted[:_MAX_CHOICES]
    if _CODED.search(about) or not (found := _LISTED.search(about)):
        return []
    parts = [part.strip(" '\"") for part in re.split(r",|/|\bor\b|\band\b", found[1])]
    return [part for part in parts if part and len(part.split()) < 3][:_MAX_CHOICES]


def _choice(name: str, choices: Iterable[str], rest: str, own: set[str]) -> str | None:
    """One that is said and is not denied; of what is sorted by, only after "by"."""
    before, own = (r"\bby (?:the )?", set()) if _SORTS.match(name) else (r"(?<!\w-)\b", own)
    found: set[str] = set()
    for choice in choices:
        if len(choice) < _MIN_CHARS or choice.casefold() in _VAGUE or _stems(choice) & own:
            continue
        match = re.search(before + _pattern(choice) + r"\b(?!-)", rest, re.I)
        if match and not _is_denied(rest, match.start()):
            found.add(choice)
    return found.pop() if len(found) == 1 else None


def _is_denied(rest: str, at: int) -> bool:
    before = rest[max(0, at - _NEAR) : at]
    return _NOT.search(before) is not None or (rest[at].isupper() and _TITLE.search(before) is not None)


def _pattern(choice: str) -> str:
    """The words, apart or joined, one or many."""
    words = [re.escape(word) for word in re.split(r"[\s_-]+", choice) if word]
    last = words[-1] if words else ""
    words[-1:] = [rf"{last[:-1]}(?:y|ies)" if last.endswith("y") else rf"{last}(?:e?s)?"]
    return r"[\s_-]*".join(words)


def _switch(name: str, rest: str, own: set[str]) -> bool | None:
    """By its own name: `include_history` and "with its history", "without history"."""
    words = _words(name)
    telling = [word for word in words if word not in _PREFIXES]
    if not telling or any(len(word) < _MIN_CHARS for word in telling) or _stems(" ".join(telling)) & own:
        return None
    if "only" in words and not re.search(r"\b(only|just)\b", rest, re.I):
        return None
    places = [re.search(rf"\b{re.escape(word[:_STEM_CHARS])}\w*", rest, re.I) for word in telling]
    found = [place.start() for place in places if place]
    if len(found) < len(telling):
        return None
    before = rest[max(0, min(found) - _NEAR) : min(found)]
    is_wanted = _LEFT_OUT.search(before) is None
    return None if is_wanted and _SPOKEN_OF.search(before) else is_wanted


def _number(name: str, kind: str, rest: str, own: set[str]) -> float | None:
    """One that stands beside the argument's name: "60 trees", "4 decimal places", "a radius of 5"."""
    telling = [
        word for word in _words(name.partition("_per_")[0]) if word not in _NUMBERING and len(word) >= _MIN_CHARS
    ]
    found: set[float] = set()
    for word in telling:
        stem = re.escape(word[:_STEM_CHARS].removesuffix("s"))
        if _stems(word) & own:
            continue
        after = rf"\b{_NUMBER}(?![\d.,]{{0,12}}\s?%|[.,]\d)[\s-]+(?:more )?{stem}\w*"
        before = rf"\b{stem}\w*\s+(?:(?:of|is|are|at|to|=|:|least|most|up)\s+)*{_NUMBER}\b(?!\s*(?:%|percent)|[.,]\d)"
        for match in [*re.finditer(after, rest, re.I), *re.finditer(before, rest, re.I)]:
            found |= {
                _read(number)
                for number in (match[1], *_RANGE.findall(rest[max(0, match.start(1) - _NEAR) : match.start(1)]))
            }
    if len(found) != 1:
        return None
    value = found.pop()
    return int(value) if value.is_integer() else value if kind == "number" else None


def _read(text: str) -> float:
    return float(_COUNTED.get(text.casefold(), 0) or text.replace(",", ""))


def _without(values: Iterable[Any], request: str) -> str:
    """The request less what the call has taken from it."""
    for value in islice(values, _MAX_VALUES):
        if isinstance(value, str) and len(value) > _MAX_REQUEST_CHARS:
            continue
        if isinstance(value, dict | list):
            request = _without(value.values() if isinstance(value, dict) else value, request)
        elif not isinstance(value, bool) and value not in (None, ""):
            request = re.sub(rf"(?<![\w.])(?:{_spelled(value)})(?!\w|\.\d)", _TAKEN, request, count=1, flags=re.I)
    return request


def _spelled(value: str | float) -> str:
    if isinstance(value, str):
        return re.escape(value.replace("_", " "))
    word = next((word for word, number in _COUNTED.items() if number == value), "")
    ways = {f"{value:g}", f"{value:,}", f"{value * 100:g}", *([word] if word else [])}
    return "|".join(sorted(map(re.escape, ways), key=len, reverse=True))


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())


def _stems(text: str) -> set[str]:
    return {word[:_STEM_CHARS] for word in _words(text) if len(word) >= _MIN_CHARS}
