"""What can be checked in a weak model's call without a model: what it says beside what was asked.

An optional argument that nobody spoke of is left out, and one that the request names word for word is put in; a
percentage and a date get the form that the tool's own description asks for; names, times, numbers and lists that went
wrong while they were copied get the request's spelling.
Nothing is guessed: where it is not sure, the call stays as it is. What does not fit the schema is another's business
(`calls.mend`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from aish.providers.toolmode.choices import chosen
from aish.providers.toolmode.copies import right_side, whole_quotation, without_others
from aish.providers.toolmode.dates import in_date_form
from aish.providers.toolmode.lacking import named_options
from aish.providers.toolmode.lists import completed
from aish.providers.toolmode.numerals import placed, signed
from aish.providers.toolmode.percents import has_digits_of, in_percent_form, percentages
from aish.providers.toolmode.spelling import clock_of, respelled
from aish.providers.toolmode.units import in_unit, is_in_unit, may_be_converted, names_unit, wants_unit
from aish.types.messages import AssistantMessage, Message, SystemMessage, UserMessage
from aish.types.tools import Repair, RepairKind, ToolSpec

_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*|(?<![\d.])\.\d+")
_DIGITS = re.compile(r"\d{1,300}")  # the parts of a version, of a date
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
_FORMULA = re.compile(r"\^|\*|×|²|³|\d\s*x\s*\d|\de[-+]?\d|\d\s*/\s*\d|\btimes\b|\bbasis\b", re.I)
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
_MONTH_NAMES = re.compile(rf"\b{_MONTH}")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_AFTERNOON = re.compile(r"\b(\d{1,2})(?:[:.]\d{2})?\s*p\.?m\b")
# What a currency's code may stand for.
_MONEY = re.compile(
    r"[$€£¥]|\b(?:dollars?|bucks|euros?|pounds?|quid|francs?|yen|rupees?|kron\w*|crowns?|pesos?|yuan)\b"
)
_DATE_NAMES = re.compile(r"date|day|month|year|hour|minute|time|when|start|end|from|until|since", re.I)
# Where a description speaks of these, the value is not meant to be what the request says.
_CODED = re.compile(
    r"\b(code|codes|iso|abbreviat\w*|identifier|slug|normali[sz]ed|translat\w*|symbols?|tickers?)\b", re.I
)
# Names, and the words by which they are meant.
_OTHERWISE = tuple((re.compile(names, re.I), re.compile(words)) for names, words in (
    (r"sort|order|rank", r"\b\w{2,}est\b|\b(?:best|cheap\w*|most|recent|least|worst|top|popular|first)\b"),
    (r"priorit|urgen|importan", r"\b(?:urgent\w*|asap|important|immediately|critical|whenever|no rush|soon)\b"),
    (r"hour|time|when", r"\b(?:noon|midnight|midday|morning|evening|afternoon|tonight|night|dawn|lunch\w*)\b"),
    (r"year|decade|date|from|to|start|end", r"\b\d0s\b|ties\b"),
    (r"guest|adult|people|person|passenger|party|traveler|child|infant|kid|seat|ticket",
     r"\b(?:me|i|my|us|we|our|wife|husband|partner|baby|alone|myself|family)\b"),
    (r"formal|tone|style|polite", r"\b(?:polite\w*|friend\w*|boss|casual\w*)\b"),
    (r"length|detail|verbos", r"\b(?:short\w*|brief\w*|long\w*|concise\w*|thorough\w*)\b"),
))  # fmt: skip
_PERCENTAGE = re.compile(r"(?<![\d.,])\d+(?:[.,]\d+)*\s?(?:%|percent|per cent|prozent|por ciento|pour cent)")
# 12.500, 12 500, 12'500 and 3,5: elsewhere numbers are written so.
_OTHER_THOUSANDS = re.compile(r"\d[.' ]\d{3}(?!\d)|\d,\d{1,2}(?!\d)")
_NO_SIGN = re.compile(r"\bpositive\b|\babsolute\b|\bmagnitude\b", re.I)
# Of these lists the request may name one end, or a kind.
_OPEN_LIST = re.compile(
    r"\b(?:through|thru|until|till|to|except|all|every|each|others?|rest|weekdays?|weekends?|synonyms?|like|similar|such|related"
    r"|any|kinds?|ideas?|some|suggest\w*|including)\b|\d\s*-\s*\d"
)
_MAX_COPIED_CHARS = 10_000  # beside a longer text nothing is looked for that went wrong while it was copied
_MAX_ITEMS = 30
_MAX_SHOWN = 80


class Asked:
    """What has been said so far by the user and by tools."""

    def __init__(self, messages: Iterable[Message]) -> None:
        heard = [message for message in messages if not isinstance(message, SystemMessage)]
        spoken = [message for message in heard if not isinstance(message, AssistantMessage)]
        said = "\n".join(message.text for message in spoken)
        self.original = said if len(said) <= _MAX_COPIED_CHARS else ""
        self.text = said.casefold()
        latest = next((message.text for message in reversed(spoken) if isinstance(message, UserMessage)), "")
        self.latest = latest if len(latest) <= _MAX_COPIED_CHARS else ""
        self._stems = {word[:_STEM_CHARS] for word in _WORD.findall(self.text)}
        self._numbers = _numbers(self.text) | {12.0 + int(hour) for hour in _AFTERNOON.findall(self.text)}
        self._months = {1.0 + _MONTHS.index(name) for name in _MONTH_NAMES.findall(self.text)}
        self._undated = _numbers(_IN_DATES.sub(" ", self.text))
        # A number that the model itself has named may be meant by "that".
        told = [message.text for message in heard if isinstance(message, AssistantMessage)]
        self.told = "\n".join(told).casefold()
        self._heard = self._numbers | _numbers(self.told) | set(map(float, _DIGITS.findall(self.text)))
        self.percentages = percentages(self.text)
        # What is also said without the sign may be meant without it.
        self.sure_percentages = self.percentages - _numbers(_PERCENTAGE.sub(" ", self.text))

    def speaks_of(self, value: Any, name: str = "") -> bool:
        """Whether the value of the argument may come from there. What is not sure may."""
        if isinstance(value, bool) or value is None:
            return True
        if isinstance(value, int | float):
            dated = self._numbers | self._months if _DATE_NAMES.search(name) else self._undated
            return self._has_number(float(value), dated)
        if isinstance(value, str):
            is_money = "currency" in name.lower() and _MONEY.search(self.text) is not None
            return is_money or self._has_text(value.casefold())
        items = value.values() if isinstance(value, dict) else value
        return not items or any(self.speaks_of(item, name) for item in items)

    def makes_up(self, value: Any) -> bool:
        """Whether it is a number that cannot come from anything that was said. None and one are often not said."""
        if isinstance(value, bool) or not isinstance(value, int | float) or value in (0, 1):
            return False
        if self._has_other_amounts:
            return False
        return not self._has_number(float(value), self._heard)

    def says_otherwise(self, name: str) -> bool:
        """Whether the request may mean the argument in words of its own: "cheap" is an order by price."""
        return any(names.search(name) and words.search(self.text) for names, words in _OTHERWISE)

    @cached_property
    def _may_be_worked_out(self) -> bool:
        return bool(_COUNTING.search(self.text) or _FORMULA.search(self.text)) or not self.text.isascii()

    @cached_property
    def _has_other_amounts(self) -> bool:
        return may_be_converted(self.text) or _OTHER_THOUSANDS.search(self.text) is not None

    def _has_number(self, value: float, numbers: set[float]) -> bool:
        if self._may_be_worked_out:
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
        others = [other for key, other in given.items() if key != name]
        if not isinstance(schema, dict):
            kept[name] = value
        elif name not in required and value != schema.get("default", _NONE) and _is_unasked(name, value, schema, asked):
            repairs.append(Repair(RepairKind.UNASKED, f"/{name}", _shown(value), "left out"))
        else:
            kept[name], done = _in_form(f"/{name}", value, schema, asked, others)
            repairs += done
    for name in kept.keys() & properties.keys():
        kept[name], done = _beside_others(name, kept, properties[name], asked)
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
        is_span = wants_unit(name, _said(schema)) and _SPANS.search(asked.text)  # a day may be 86400
        if given[name] != schema.get("default", _NONE) and not is_span and asked.makes_up(given[name]):
            return name
    return ""


def _is_unasked(name: str, value: Any, schema: Mapping[str, Any], asked: Asked) -> bool:
    said = _said(schema)
    if _is_number(value) and (not asked.original or is_in_unit(value, name, said, asked.original)):
        return False
    if _is_number(value) and wants_unit(name, said) and may_be_converted(asked.original):
        return False
    return not asked.speaks_of(value, name) and not asked.says_otherwise(name)


def _in_form(
    path: str, value: Any, schema: Mapping[str, Any], asked: Asked, others: Sequence[Any] = ()
) -> tuple[Any, list[Repair]]:
    said = _said(schema)
    steps: tuple[tuple[RepairKind, Any], ...] = ()
    if _is_number(value):
        steps = (
            (RepairKind.PERCENT, in_percent_form(value, path[1:], schema, asked.sure_percentages)),
            (RepairKind.DIGITS, _placed(path[1:], value, schema, asked)),
        )
    elif isinstance(value, str) and "enum" not in schema and "const" not in schema:
        # What the model itself has proposed, the user may have taken.
        request = "" if value.casefold() in asked.told else asked.original
        is_item = path.count("/") > 1  # of a list that has other parts of what is quoted
        steps = (
            (RepairKind.DATE, in_date_form(value, path, said)),
            (RepairKind.ENUM, chosen(value, said)),
            (RepairKind.COPY, right_side(whole_quotation(value, "" if is_item else path, asked.latest), path, said)),
            (RepairKind.CLOCK, clock_of(value, request)),
            (RepairKind.SPELLING, value if _CODED.search(said) else respelled(value, request)),
        )
    elif isinstance(value, list):
        return _items_in_form(path, value, schema, asked, others)
    for kind, changed in steps:
        if changed != value:
            return changed, [Repair(kind, path, _shown(value), _shown(changed))]
    return value, []


def _beside_others(name: str, given: dict[str, Any], schema: Any, asked: Asked) -> tuple[Any, list[Repair]]:
    """What one argument says need not be said by another; a number that two have was meant for one of them."""
    value, changed, kind = given[name], given[name], RepairKind.COPY
    if isinstance(value, str):
        changed = without_others(value, name, _said(schema) if isinstance(schema, dict) else "", given)
    elif _is_number(value) and isinstance(schema, dict) and list(given.values()).count(value) == 1:
        if any(map(names_unit, given.values())):
            return value, []
        changed, kind = _converted(name, value, schema, asked), RepairKind.UNIT
    return changed, [] if changed == value else [Repair(kind, f"/{name}", _shown(value), _shown(changed))]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _converted(name: str, value: float, schema: Mapping[str, Any], asked: Asked) -> float:
    found = value if "enum" in schema else in_unit(value, name, _said(schema), asked.latest)
    return found if schema.get("type") == "number" or isinstance(found, int) else value


def _placed(name: str, value: float, schema: Mapping[str, Any], asked: Asked) -> float:
    if "enum" in schema or has_digits_of(value, asked.percentages):
        return value
    is_converted = is_in_unit(value, name, _said(schema), asked.original)
    found = value if is_converted else placed(value, asked.original)
    found = found if _NO_SIGN.search(_said(schema)) else signed(found, asked.original)
    return found if schema.get("type") == "number" or isinstance(found, int) else value


def _items_in_form(
    path: str, values: list[Any], listed: Mapping[str, Any], asked: Asked, others: Sequence[Any]
) -> tuple[Any, list[Repair]]:
    """The list that the request spells out; names and times in a list of texts. Lists of lists are left alone."""
    schema = listed.get("items")
    if not isinstance(schema, dict) or len(values) > _MAX_ITEMS or _CODED.search(_said(listed)):
        return values, []
    whole = [signed(value, asked.original) if _is_number(value) else value for value in values]
    longer = completed(whole, asked.latest, is_chosen="enum" in schema)
    if not _are_taken(longer, values, others):
        whole = longer
    if "enum" in schema:
        whole = _among(schema["enum"], whole) or values
    if whole != values and all(isinstance(value, str | float | int) for value in values):
        return whole, [Repair(RepairKind.SPELLING, path, _shown(values), _shown(whole))]
    if "enum" in schema:
        return values, []
    if not all(isinstance(value, str) for value in values):
        return values, []
    said = [value for value in values if asked.speaks_of(value)]
    if said and len(said) < len(values) and not _OPEN_LIST.search(asked.text):
        return said, [Repair(RepairKind.UNASKED, path, _shown(values), _shown(said))]
    pairs = [_in_form(f"{path}/{index}", value, schema, asked) for index, value in enumerate(values)]
    return [value for value, _ in pairs], [repair for _, done in pairs for repair in done]


def _are_taken(longer: list[Any], values: list[Any], others: Sequence[Any]) -> bool:
    """Whether another argument has what the longer list would have more."""
    taken = f" {' '.join(map(_shown, others))} ".casefold()
    return any(
        re.search(rf"(?<![\w.]){re.escape(str(item).casefold())}(?![\w.])", taken)
        for item in longer
        if item not in values
    )


def _among(choices: Any, values: list[Any]) -> list[Any]:
    """The choices that the values are; none where one of them is no choice."""
    known = {_letters(choice): choice for choice in choices} if isinstance(choices, list) else {}
    return [known[_letters(value)] for value in values] if known.keys() >= set(map(_letters, values)) else []


def _letters(value: Any) -> str:
    return re.sub(r"[\W_]", "", str(value).casefold())


def _said(schema: Mapping[str, Any]) -> str:
    described = schema.get("description")
    return described if isinstance(described, str) else ""


def _numbers(text: str) -> set[float]:
    return {_as_number(found) for found in _NUMBER.findall(text)}


def _as_number(text: str) -> float:
    """As written in English: commas part thousands."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return float("nan")


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:_MAX_SHOWN]
