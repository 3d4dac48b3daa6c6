"""Other values for a whole request: a number or a name that is said once and meant once may as well be another one.

The text and the call change together. What anything else could depend on stays: dates, ids, lists, bounds in pairs,
numbers that the text says twice or in words, names of which a part is said again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from train.invented import coined, company, person, place, title

Given = dict[str, Any]

# A number that stands alone: no part of a date, a time, a range, a formula, a code or a larger number.
_NUMBER = re.compile(
    r"(?<![\w.,:/^*×+−–#'(\[{-])(?P<sign>-?)(?P<whole>\d{1,3}(?:,\d{3})+|\d+)(?P<rest>\.\d+)?"
    r"(?![\w/^*×+=:]|[.,'−–-]\d|\s*(?:[*×^/+=]|x\s?\d|[ap]\.?m\b|o'clock))"
)
_ANY_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
_WORDS = {
    0: "zero", 1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine",
    10: "ten", 11: "eleven", 12: "twelve",
    15: "fifteen", 20: "twenty", 25: "twenty-five", 30: "thirty", 40: "forty", 45: "forty-five", 50: "fifty",
    60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety", 100: "hundred", 1000: "thousand",
}  # fmt: skip
_MONTHS = re.compile(r"(?i)\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?,?\s*$")
_MONTH_AFTER = re.compile(r"(?i)\s*(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b")
_FIXED = re.compile(  # arguments whose numbers are no amounts
    r"\b(?:id|day|month|hour|minute|second|date|week|quarter|zip|code|version|lat|latitude|lng|lon|longitude|port|"
    r"base|seed|chapter|verse|level|grade|decimals|precision|digits|places)\b"
)
_BOUNDS = re.compile(
    r"\b(?:min|max|lower|upper|start|end|from|to|low|high|first|last|begin|minimum|maximum|major|minor|inner|outer|"
    r"long|short|longer|shorter|larger|smaller)\b"
)
_BETWEEN = re.compile(r"\b(\d+(?:\.\d+)?)\s*(?:to|and|-|–)\s*(\d+(?:\.\d+)?)")
_LEAST = re.compile(r"(?:at least|greater than|more than|above|minimum(?: of)?|from)\s*(\d+(?:\.\d+)?)")
_MOST = re.compile(r"(?:at most|less than|up to|below|maximum(?: of)?|no more than)\s*(\d+(?:\.\d+)?)")
_SHARE = re.compile(r"percent|probab|fraction|ratio|%|share")
_ANY_UNIT = r"%|[a-zµ°]+\b"
_UNITS: tuple[tuple[float, str], ...] = (
    (0.01, _ANY_UNIT), (100, _ANY_UNIT), (0.001, _ANY_UNIT), (1000, _ANY_UNIT), (1e6, _ANY_UNIT), (7, r"week|woche"),
    (60, r"hour|h\b|hr|min|stund|heure"), (3600, r"hour|h\b|hr|stund"), (24, r"day|tag"), (12, r"year|yr|jahr|dozen"),
)  # fmt: skip
_MAX_DRAWS = 12
_YEARS = range(1800, 2051)
_MAX_YEARS_APART = 40
_STATES = ["CA", "NY", "TX", "FL", "WA", "IL", "MA", "CO", "OR", "GA", "OH", "MI", "PA", "AZ", "NC", "MN", "TN", "VA"]
_SORTS: tuple[tuple[str, Callable[[random.Random], str]], ...] = (
    (r"movie|film|book|song|album|track|series|novel|painting|podcast|\bgame\b|\bplay\b|title|artwork|poem|event|project"
     r"|exhibition|museum|landmark|playlist|course", title),
    (r"company|brand|manufacturer|firm|employer|organi[sz]ation|vendor|supplier|restaurant|\bstore\b|client|hotel|\bbank\b"
     r"|airline|\bshop\b|\bclub\b|school|university|\bteam\b|agency|clinic|hospital|carrier|publisher", company),
    (r"city|town|location|destination|origin|\bplace\b|venue|village|\barea\b|station|resort|district|\bstop\b|harbour"
     r"|\bbeach\b|\blake\b|trail|neighbo|municipality|junction|airport", place),
    (r"player|author|artist|actor|composer|director|patient|employee|customer|singer|athlete|student|recipient|contact"
     r"|owner|guest|driver|person|full name|painter|writer|member|speaker|teacher|tenant|who\b|passenger|first name"
     r"|last name|attendee|performer|candidate|assignee|sender|friend|child", person),
)  # fmt: skip
_TOWN = re.compile(r"[A-Z][\w .'-]+, ([A-Z]{2})")
_NO_NAMES = re.compile(r"(?i)country|state|code|ticker|symbol|currency|language|format|nation|species|element|e\.g\.")


def revalued(text: str, given: Given, schemas: dict[str, Any], rng: random.Random) -> tuple[str, Given]:
    """Numbers in half of the cases, names in a third."""
    result = dict(given)
    for name, value in given.items():
        if _is_number(value) and rng.random() < 0.5:
            text, result[name] = _other_number(text, name, result, schemas[name], rng)
        elif isinstance(value, str) and rng.random() < 0.33:
            text, result[name] = _other_name(text, name, result, schemas[name], rng)
    return text, result


def renumbered(text: str, rng: random.Random) -> str:
    """A request that nothing is called for, with other numbers."""
    found = {found[0]: _read(found[0], 1, 0) for found in _NUMBER.finditer(text)}
    return revalued(text, found, {said: {"type": "number"} for said in found}, rng)[0]


def is_said(value: Any, text: str) -> bool:
    """Whether a value stands in the text as it is in the call."""
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return any(_worth(found) == value for found in _NUMBER.finditer(text))
    if isinstance(value, list):
        return all(is_said(item, text) for item in value)
    return isinstance(value, str) and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


def _other_number(
    text: str, name: str, given: Given, schema: dict[str, Any], rng: random.Random
) -> tuple[str, int | float]:
    value: int | float = given[name]
    place_of = _place(text, value)
    if place_of is None or value in (0, 1) or _worth(place_of[0]) == 1:
        return text, value
    found, times = place_of
    if _is_tied(name, _worth(found), given, schema) or _is_reckoned_with(text, name, given):
        return text, value
    low, high = _limits(schema)
    taken = (*_numbers(text), *(v for v in _scalars(list(given.values())) if _is_number(v)))
    for _ in range(_MAX_DRAWS):
        said = _like(found, rng)
        other = _read(said, times, value)
        if schema.get("type") == "integer" and not isinstance(other, int):
            continue
        if other in (0, 1) or not low <= other <= high or (value <= 100 < other and _is_share(name, schema)):
            continue
        if re.search(r"(?i)\ba $", text[: found.start()]) and re.match(r"8|1[18](?!\d)", said):
            continue
        if other not in taken and _number(said) not in taken:
            return text[: found.start()] + said + text[found.end() :], other
    return text, value


def _place(text: str, value: float) -> tuple[re.Match[str], float] | None:
    """Where the number is said, and what it is multiplied with: 7.1% may be 0.071, and 3.2 km 3200."""
    if found := _only_place(text, value):
        return found, 1
    if abs(value) in _numbers(text) or _word(value, text):
        return None
    places = [
        (found, times)
        for times, unit in _UNITS
        if (found := _only_place(text, round(value / times, 9)))
        and re.match(rf"[\s-]?(?:{unit})", text[found.end() :], re.I)
    ]
    return places[0] if len(places) == 1 else None


def _only_place(text: str, value: float) -> re.Match[str] | None:
    """Where the number is said, if that is once, in digits, and is part of nothing else."""
    places = [found for found in _NUMBER.finditer(text) if _worth(found) == value]
    if len(places) != 1 or _numbers(text).count(abs(value)) != 1:
        return None
    found = places[0]
    if re.search(r"(?i)\ban $", text[: found.start()]) or _MONTHS.search(text[: found.start()]):
        return None
    if _MONTH_AFTER.match(text[found.end() :]):
        return None
    if re.search(r"\d\s*,\s*$", text[: found.start()]) or re.match(r"\s*,\s*-?\d", text[found.end() :]):
        return None
    return None if _word(value, text) else found


def _word(value: float, text: str) -> bool:
    """Whether a small number is said in words."""
    return value in _WORDS and re.search(rf"(?i)\b{_WORDS[int(value)]}\b", text) is not None


def _is_tied(name: str, value: float, given: Given, schema: dict[str, Any]) -> bool:
    """Whether something else depends on it, or it is no amount."""
    words = _spaced(name)
    if "enum" in schema or "multipleOf" in schema or _FIXED.search(words):
        return True
    others = list(_scalars([other for key, other in given.items() if key != name]))
    if any(other == value for other in others if not isinstance(other, str | bool)):
        return True
    if any(abs(value) in _numbers(other) for other in others if isinstance(other, str)):
        return True
    bounds = [key for key, other in given.items() if _BOUNDS.search(_spaced(key)) and isinstance(other, int | float)]
    return name in bounds and len(bounds) > 1


def _is_reckoned_with(text: str, name: str, given: Given) -> bool:
    """Whether a number that the call has and the text has not comes of this one and another of the text."""
    value, numbers = given[name], [number for number in _numbers(text) if number]
    unsaid = [other for key, other in given.items() if key != name and _is_number(other) and other not in numbers]
    made = {m for n in numbers for m in (value + n, abs(value - n), value * n, value / n, n / value)}
    return any(abs(other) in made for other in unsaid)


def _like(found: re.Match[str], rng: random.Random) -> str:
    """Another number of the same shape: as many digits, the same zeros at the end, a year near that year."""
    digits, rest = found["whole"].replace(",", ""), found["rest"] or ""
    if not rest and "," not in found["whole"] and not found["sign"] and int(digits) in _YEARS:
        return str(int(digits) + rng.randint(-_MAX_YEARS_APART, _MAX_YEARS_APART))
    kept = len(digits) - len(digits.rstrip("0"))
    if kept == len(digits):
        whole = digits
    else:
        free = len(digits) - (kept if kept > 1 or rng.random() < 0.6 else 0)
        whole = str(rng.randint(10 ** (free - 1), 10**free - 1)) + "0" * (len(digits) - free)
    if "," in found["whole"]:
        whole = f"{int(whole):,}"
    return found["sign"] + whole + (f".{_tail(len(rest) - 1, rng)}" if rest else "")


def _tail(count: int, rng: random.Random) -> str:
    """Digits after the point; the last is no zero."""
    return "".join(rng.choice("0123456789") for _ in range(count - 1)) + rng.choice("123456789")


def _limits(schema: dict[str, Any]) -> tuple[float, float]:
    said = schema.get("description", "").replace(",", "")
    low = schema.get("minimum", schema.get("exclusiveMinimum", float("-inf")))
    high = schema.get("maximum", schema.get("exclusiveMaximum", float("inf")))
    if found := _BETWEEN.search(said):
        low, high = max(low, float(found[1])), min(high, float(found[2]))
    if found := _LEAST.search(said):
        low = max(low, float(found[1]))
    if found := _MOST.search(said):
        high = min(high, float(found[1]))
    return low, high


def _is_share(name: str, schema: dict[str, Any]) -> bool:
    return _SHARE.search(f"{_spaced(name)} {schema.get('description', '').lower()}") is not None


def _other_name(text: str, name: str, given: Given, schema: dict[str, Any], rng: random.Random) -> tuple[str, str]:
    value: str = given[name]
    invent = _sort(name, value, schema)
    if invent is None or not _stands_alone(text, name, given):
        return text, value
    other = invent(rng)
    if found := _TOWN.fullmatch(value):
        state = rng.choice(_STATES) if found[1] in _STATES else found[1]
        other = f"{other.partition(',')[0]}, {state}"
    elif "," not in value:
        other = other.partition(",")[0]
    if any(char.isdigit() for char in other) or other.casefold() in text.casefold():
        return text, value
    return re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", lambda _: other, text, count=1), other


def _sort(name: str, value: str, schema: dict[str, Any]) -> Callable[[random.Random], str] | None:
    """What kind of name it is, by the argument's name and description; None if it is none, or one of a few."""
    about = f"{_spaced(name)} {schema.get('description', '')}"
    if "enum" in schema or not value[:1].isupper() or value.isupper() or len(value) < 4:
        return None
    if _TOWN.fullmatch(value) and re.search(r"(?i)city|location", about):
        return place
    if _NO_NAMES.search(about):
        return None
    if not re.fullmatch(r"(?:[A-Z][\w.'-]*|of|the|and|de|la|in|von|[,&])(?:,? (?:[A-Z][\w.'-]*|of|the|and|&))*", value):
        return None
    if any(char.isdigit() for char in value):
        return None
    words = (_spaced(name), schema.get("description", "").lower())
    invent = next((invent for said in words for sort, invent in _SORTS if re.search(sort, said)), None)
    return _full_name if invent is person and " " in value else coined if invent is place and "-" in value else invent


def _full_name(rng: random.Random) -> str:
    for _ in range(_MAX_DRAWS):
        if " " in (name := person(rng)):
            return name
    return name


def _stands_alone(text: str, name: str, given: Given) -> bool:
    """Said once, no word of it said again, and nothing in the call that the text does not say."""
    value = given[name]
    if len(re.findall(rf"(?<!\w){re.escape(value)}(?!\w)", text)) != 1:
        return False
    around = text.replace(value, " ", 1).casefold()
    others = [other for key, other in given.items() if key != name]
    if any(word in around for word in re.findall(r"\w{4,}", value.casefold())):
        return False
    if any(isinstance(o, str) and (value in o or o in value) for o in _scalars(others)):
        return False
    return all(isinstance(other, bool) or is_said(other, text) or _is_plain(other) for other in others)


def _is_plain(value: Any) -> bool:
    """Dates, times, small numbers, choices in small letters: they do not follow from a name."""
    if isinstance(value, int):
        return value <= 12
    return isinstance(value, str) and (value.islower() or re.fullmatch(r"[\d:./T-]+", value) is not None)


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        yield value
        return
    for item in value:
        yield from _scalars(item)


def _worth(found: re.Match[str]) -> float:
    return _number(found[0])


def _numbers(text: str) -> list[float]:
    return [float(token.replace(",", "")) for token in _ANY_NUMBER.findall(text)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(said: str) -> float:
    return float(said.replace(",", ""))


def _read(said: str, times: float, like: float) -> int | float:
    worth = Decimal(said.replace(",", "")) * Decimal(str(times))
    return int(worth) if isinstance(like, int) and worth == int(worth) else float(worth)


def _spaced(name: str) -> str:
    return re.sub(r"([a-z])([A-Z])", r"\1 \2", name).replace("_", " ").lower()
