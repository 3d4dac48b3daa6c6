"""What was asked, as the checks of a call need it: whether a value may come from there.

"May" is the word: numbers may be counted in words, converted, worked out; choices may be meant in other words. Knows
nothing of calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from aish.providers.toolmode.percents import percentages, without_percentages
from aish.providers.toolmode.units import may_be_converted
from aish.types.messages import AssistantMessage, Message, SystemMessage, UserMessage

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
# 12.500, 12 500, 12'500 and 3,5: elsewhere numbers are written so.
_OTHER_THOUSANDS = re.compile(r"\d[.' ]\d{3}(?!\d)|\d,\d{1,2}(?!\d)")
_MAX_COPIED_CHARS = 10_000  # beside a longer text nothing is looked for that went wrong while it was copied


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
        self.sure_percentages = self.percentages - _numbers(without_percentages(self.text))

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
    def speaks_of_time(self) -> bool:
        return _SPANS.search(self.text) is not None

    @cached_property
    def _may_be_worked_out(self) -> bool:
        return bool(_COUNTING.search(self.text) or _FORMULA.search(self.text)) or not self.text.isascii()

    @cached_property
    def _has_other_amounts(self) -> bool:
        return may_be_converted(self.text) or _OTHER_THOUSANDS.search(self.text) is not None

    def _has_number(self, value: float, numbers: set[float]) -> bool:
        if self._may_be_worked_out:
            return True
        if self.speaks_of_time:
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


def _numbers(text: str) -> set[float]:
    return {_as_number(found) for found in _NUMBER.findall(text)}


def _as_number(text: str) -> float:
    """As written in English: commas part thousands."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return float("nan")
