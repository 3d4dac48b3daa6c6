"""Dates in the form that an argument's description asks for. Only what can be read in one way is written anew."""

from __future__ import annotations

import re
from datetime import date, datetime

_FORMS = {
    "YYYY-MM-DD": "%Y-%m-%d", "YYYY/MM/DD": "%Y/%m/%d", "MM-DD-YYYY": "%m-%d-%Y", "MM/DD/YYYY": "%m/%d/%Y",
    "DD-MM-YYYY": "%d-%m-%Y", "DD/MM/YYYY": "%d/%m/%Y", "DD.MM.YYYY": "%d.%m.%Y",
    "YEAR-MONTH-DAY": "%Y-%m-%d", "MONTH-DAY-YEAR": "%m-%d-%Y", "MONTH/DAY/YEAR": "%m/%d/%Y",
    "DAY-MONTH-YEAR": "%d-%m-%Y", "DAY/MONTH/YEAR": "%d/%m/%Y",
}  # fmt: skip
_YEAR = re.compile(r"Y{3,}")  # some write three
_SURE = ("%Y-%m-%d", "%Y/%m/%d", "%B %d, %Y", "%B %d %Y", "%d %B %Y", "%b %d, %Y", "%b %d %Y", "%d %b %Y")
_ISO = re.compile(r"\d{4}-\d\d-\d\d")
# A text may speak of a day in its own words.
_DATED = re.compile(
    r"date|day|when|time|start|end|from|to$|until|since|birth|dob|due|deadline|check|arriv|depart|at$|on$", re.I
)
_OTHER_FORMS = re.compile(r"\bnot\b|\bnatural\b|\bany\b|\bshow\w*|\bdisplay\w*|\bresults?\b|\boutput", re.I)
_ORDINAL = re.compile(r"(?<=\d)(st|nd|rd|th)\b")


def in_date_form(value: str, name: str, said: str) -> str:
    """The same date as the description has it, where that names one form and wants no other."""
    if not _DATED.search(name) or _OTHER_FORMS.search(said):
        return value
    described = _YEAR.sub("YYYY", said.upper())
    wanted = {pattern for name, pattern in _FORMS.items() if name in described}
    if len(wanted) != 1:
        return value
    (pattern,) = wanted
    found = _read(value.strip(), _SURE)
    if found is None or ("ISO" in described and _ISO.fullmatch(value.strip())) or _read(value, (pattern,)) is not None:
        return value
    return found.strftime(pattern)


def _read(text: str, patterns: tuple[str, ...]) -> date | None:
    plain = _ORDINAL.sub("", text)
    for pattern in patterns:
        try:
            return datetime.strptime(plain, pattern).date()
        except ValueError:
            continue
    return None
