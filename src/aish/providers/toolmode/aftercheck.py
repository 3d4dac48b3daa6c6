"""What can be checked in a weak model's call without a model: what it says beside what was asked.

An optional argument that nobody spoke of is left out, and one that the request names word for word is put in; a
percentage and a date get the form that the tool's own description asks for; names, times, numbers and lists that went
wrong while they were copied get the request's spelling.
Nothing is guessed: where it is not sure, the call stays as it is. What does not fit the schema is another's business
(`calls.mend`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any

import msgspec

from aish.providers.toolmode.lacking import named_options
from aish.providers.toolmode.lists import completed
from aish.providers.toolmode.numerals import placed, signed
from aish.providers.toolmode.spelling import clock_of, respelled
from aish.types.messages import AssistantMessage, Message, SystemMessage, UserMessage
from aish.types.tools import Repair, RepairKind, ToolSpec

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_STEM_CHARS = 4
# Words that stand for numbers: in one of these a number may be meant that no digit says.
_COUNTING = re.compile(
    r"\b(zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|\w+ty|hundred|thousand|million|billion"
    r"|once|twice|thrice|single|both|pair|couple|double|triple|dozen|half|quarter|first|second|last"
    r"|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|twelfth|\w+teenth|\w+tieth|fortnight|century|decade|zeros?|pi"
    r"|squared?|cubed?|eine?[nrms]?|zwei|drei|vier|sechs|sieben|acht|neun|zehn|elf|halb\w*|viertel|dutzend"
    r"|une?|deux|trois|quatre|cinq|sept|huit|neuf|dix|demie?|uno?|dos|tres|cuatro|cinco|seis|siete|ocho|diez|medi[ao])\b",
    re.I,
)
# What is written as a power, a product or a fraction may be worked out.
_FORMULA = re.compile(r"\^|\*|×|²|³|\d\s*x\s*\d|\de[-+]?\d|\d\s*/\s*\d", re.I)
# Words of time stand for some, and turn others into these.
_SPANS = re.compile(
    r"\b(daily|weekly|monthly|quarterly|annual\w*|semi\w*|yearly|(hour|day|week|month|year)\w*)\b", re.I
)
_SPAN_NUMBERS = (1, 2, 4, 7, 12, 24, 30, 31, 52, 60, 365, 366)
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_IN_DATES = re.compile(
    rf"\b\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}\b|\b{_DAY} (?:of )?{_MONTH}(?:,? \d{{4}})?\b"
    rf"|\b{_MONTH} {_DAY}(?:,? \d{{4}})?\b|\b\d{{1,2}}:\d{{2}}\b"
)
_DATE_NAMES = re.compile(r"date|day|month|year|hour|minute|time|when|start|end|from|until|since", re.I)
_PERCENTAGE = re.compile(r"(\d+(?:[.,]\d+)*)\s*(?:%|percent|per cent|prozent|por ciento|pour cent)")
_FRACTION = re.compile(r"decimal|fraction|between 0 and 1|\b0?\.\d+", re.I)
_PERCENT = re.compile(r"percent|%", re.I)
# What is called so and is no whole number is a fraction, unless its description speaks of percent.
_RATE = re.compile(
    r"(?:^|_)(?:rate|interest|yield|probability|ratio|fraction|share)(?:_|$)|[a-z](?:Rate|Yield|Ratio)\b"
)
_DATE_FORMS = {
    "YYYY-MM-DD": "%Y-%m-%d", "YYYY/MM/DD": "%Y/%m/%d", "MM-DD-YYYY": "%m-%d-%Y", "MM/DD/YYYY": "%m/%d/%Y",
    "DD-MM-YYYY": "%d-%m-%Y", "DD/MM/YYYY": "%d/%m/%Y", "DD.MM.YYYY": "%d.%m.%Y",
}  # fmt: skip
# Forms that can be read in one way only.
_SURE_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%B %d, %Y", "%B %d %Y", "%d %B %Y", "%b %d, %Y", "%b %d %Y", "%d %b %Y")
# Where a description speaks of these, the value is not meant to be what the request says.
_CODED = re.compile(r"\b(code|codes|iso|abbreviat\w*|identifier|slug|normali[sz]ed|translat\w*)\b", re.I)
_MAX_SHOWN = 80


class Asked:
    """What has been said so far by the user and by tools."""

    def __init__(self, messages: Iterable[Message]) -> None:
        heard = [message for message in messages if not isinstance(message, SystemMessage)]
        spoken = [message for message in heard if not isinstance(message, AssistantMessage)]
        self.original = "\n".join(message.text for message in spoken)
        self.text = self.original.casefold()
        self.latest = next((message.text for message in reversed(spoken) if isinstance(message, UserMessage)), "")
        self._stems = {word[:_STEM_CHARS] for word in _WORD.findall(self.text)}
        self._numbers = _numbers(self.text)
        self._undated = _numbers(_IN_DATES.sub(" ", self.text))
        # A number that the model itself has named may be meant by "that".
        told = [message.text for message in heard if isinstance(message, AssistantMessage)]
        self._heard = self._numbers | _numbers("\n".join(told))
        self.percentages = {_as_number(found) for found in _PERCENTAGE.findall(self.text)}

    def speaks_of(self, value: Any, name: str = "") -> bool:
        """Whether the value of the argument may come from there. What is not sure may."""
        if isinstance(value, bool) or value is None:
            return True
        if isinstance(value, int | float):
            return self._has_number(float(value), self._numbers if _DATE_NAMES.search(name) else self._undated)
        if isinstance(value, str):
            return self._has_text(value.casefold())
        items = value.values() if isinstance(value, dict) else value
        return not items or any(self.speaks_of(item, name) for item in items)

    def makes_up(self, value: Any) -> bool:
        """Whether it is a number that cannot come from anything that was said. None and one are often not said."""
        if isinstance(value, bool) or not isinstance(value, int | float) or value in (0, 1):
            return False
        return not self._has_number(float(value), self._heard)

    def _has_number(self, value: float, numbers: set[float]) -> bool:
        if _COUNTING.search(self.text) or _FORMULA.search(self.text) or not self.text.isascii():
            return True
        if _SPANS.search(self.text):
            spans = {span * number for span in _SPAN_NUMBERS for number in (1, *numbers)}
            numbers = numbers | spans | {number / span for span in _SPAN_NUMBERS for number in numbers}
        made = {value, -value, round(value * 100, 6), round(value / 100, 6), value * 1000, value / 1000}
        return not numbers.isdisjoint(made)

    def _has_text(self, value: str) -> bool:
        if value in self.text or not self.text.isascii():
            return True  # other languages have other words for the same choice
        words = _WORD.findall(value)
        if any(word[:_STEM_CHARS] in self._stems for word in words if len(word) > 1):
            return True
        return any(_as_number(found) in self._numbers for found in _NUMBER.findall(value))


def checked(spec: ToolSpec, arguments: str, asked: Asked) -> tuple[str, tuple[Repair, ...]]:
    """The arguments as they should be, and what was changed. What is no JSON object stays as it is."""
    try:
        given = msgspec.json.decode(arguments, type=dict[str, Any])
    except msgspec.DecodeError:
        return arguments, ()
    properties = spec.schema.get("properties")
    if not isinstance(properties, dict):
        return arguments, ()
    required = spec.schema.get("required") or ()
    kept: dict[str, Any] = {}
    repairs: list[Repair] = []
    for name, value in given.items():
        schema = properties.get(name)
        if not isinstance(schema, dict):
            kept[name] = value
        elif name not in required and value != schema.get("default", _NONE) and not asked.speaks_of(value, name):
            repairs.append(Repair(RepairKind.UNASKED, f"/{name}", _shown(value), "left out"))
        else:
            kept[name], done = _in_form(f"/{name}", value, schema, asked)
            repairs += done
    for name, value in named_options(spec, kept, asked.latest).items():
        kept[name], _ = _in_form(f"/{name}", value, properties[name], asked)
        repairs.append(Repair(RepairKind.NAMED, f"/{name}", "", _shown(kept[name])))
    return (msgspec.json.encode(kept).decode(), tuple(repairs)) if repairs else (arguments, ())


_NONE = object()


def find_made_up(spec: ToolSpec, arguments: str, asked: Asked) -> str:
    """The name of a required number that nobody spoke of; "" if there is none. Whoever makes up what a tool cannot do
    without has taken the wrong tool, or was told too little."""
    try:
        given = msgspec.json.decode(arguments, type=dict[str, Any])
    except msgspec.DecodeError:
        return ""
    properties, required = spec.schema.get("properties") or {}, spec.schema.get("required") or ()
    for name in map(str, required):
        schema = properties.get(name)
        if name not in given or not isinstance(schema, dict) or schema.keys() & {"enum", "const"}:
            continue
        if given[name] != schema.get("default", _NONE) and asked.makes_up(given[name]):
            return name
    return ""


def _in_form(path: str, value: Any, schema: Mapping[str, Any], asked: Asked) -> tuple[Any, list[Repair]]:
    described = schema.get("description")
    said = described if isinstance(described, str) else ""
    steps: tuple[tuple[RepairKind, Any], ...] = ()
    if isinstance(value, int | float) and not isinstance(value, bool):
        steps = (
            (RepairKind.PERCENT, _percentage(value, schema.get("type"), f"{path}: {said}", asked)),
            (RepairKind.DIGITS, _placed(value, schema, asked)),
        )
    elif isinstance(value, str) and "enum" not in schema and "const" not in schema:
        steps = (
            (RepairKind.DATE, _date(value, said)),
            (RepairKind.CLOCK, clock_of(value, asked.original)),
            (RepairKind.SPELLING, value if _CODED.search(said) else respelled(value, asked.original)),
        )
    elif isinstance(value, list):
        return _items_in_form(path, value, schema.get("items"), asked)
    for kind, changed in steps:
        if changed != value:
            return changed, [Repair(kind, path, _shown(value), _shown(changed))]
    return value, []


def _placed(value: float, schema: Mapping[str, Any], asked: Asked) -> float:
    is_percentage = any(_digits(number) == _digits(value) for number in asked.percentages)
    found = value if is_percentage or "enum" in schema else signed(placed(value, asked.original), asked.original)
    return found if schema.get("type") == "number" or isinstance(found, int) else value


def _items_in_form(path: str, values: list[Any], schema: Any, asked: Asked) -> tuple[Any, list[Repair]]:
    """The list that the request spells out; names and times in a list of texts. Lists of lists are left alone."""
    if not isinstance(schema, dict) or "enum" in schema:
        return values, []
    whole = completed([signed(v, asked.original) if isinstance(v, int | float) else v for v in values], asked.latest)
    if whole != values and all(isinstance(value, str | float | int) for value in values):
        return whole, [Repair(RepairKind.SPELLING, path, _shown(values), _shown(whole))]
    if not all(isinstance(value, str) for value in values):
        return values, []
    said = [value for value in values if asked.speaks_of(value)]
    if said and len(said) < len(values):
        return said, [Repair(RepairKind.UNASKED, path, _shown(values), _shown(said))]
    pairs = [_in_form(f"{path}/{index}", value, schema, asked) for index, value in enumerate(values)]
    return [value for value, _ in pairs], [repair for _, done in pairs for repair in done]


def _percentage(value: float, kind: Any, said: str, asked: Asked) -> float:
    """5 of "5 %" is 0.05 where the tool wants a fraction, and 5 where it wants a percentage. The digits have to be
    those of one percentage in the request; where they are, only their place can be wrong. `said` is the argument's
    name and description."""
    meant = [number for number in asked.percentages if _digits(number) == _digits(value)]
    if len(meant) != 1:
        return value
    name, _, described = said.partition(": ")
    is_rate = value == meant[0] and _RATE.search(name.strip("/")) and not _PERCENT.search(said)
    if _FRACTION.search(described) or is_rate:
        return _plain(meant[0] / 100) if kind == "number" else value
    return _plain(meant[0]) if _PERCENT.search(said) else value


def _date(value: str, said: str) -> str:
    wanted = {pattern for name, pattern in _DATE_FORMS.items() if name in said.upper()}
    if len(wanted) != 1:
        return value
    (pattern,) = wanted
    found = _read_date(value.strip(), ())
    if found is None or _read_date(value, (pattern,)) is not None:
        return value
    return found.strftime(pattern)


def _read_date(text: str, patterns: tuple[str, ...]) -> date | None:
    plain = re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", text)
    for pattern in patterns or _SURE_DATES:
        try:
            return datetime.strptime(plain, pattern).date()
        except ValueError:
            continue
    return None


def _numbers(text: str) -> set[float]:
    return {_as_number(found) for found in _NUMBER.findall(text)}


def _as_number(text: str) -> float:
    """As written in English: commas part thousands."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return float("nan")


def _digits(number: float) -> str:
    """Those that count, wherever the point stands."""
    return f"{number:.6f}".replace(".", "").strip("0-")


def _plain(value: float) -> float:
    rounded = round(value, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:_MAX_SHOWN]
