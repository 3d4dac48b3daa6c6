"""Other forms of the same value: a tool may want dates and percentages as its author likes, and says so.

What is asked stays as it was; the description of the argument and the value in the call change together.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date
from typing import Any

from train.frames import Argument, Written

_DATES = {
    "MM-DD-YYYY": "%m-%d-%Y",
    "DD-MM-YYYY": "%d-%m-%Y",
    "MM/DD/YYYY": "%m/%d/%Y",
    "DD/MM/YYYY": "%d/%m/%Y",
    "DD.MM.YYYY": "%d.%m.%Y",
    "YYYY/MM/DD": "%Y/%m/%d",
}
_DATE_WORDS = ("{}", "Date in the format {}.", "The date, {}", "Formatted as {}.", "In {} format.")
_IN_PERCENT = ("In percent, e.g. 5 for 5%.", "Percentage such as 7.5", "Rate in percent", "Percent, 0 to 100")
_AS_FRACTION = (
    "As a decimal, e.g. 0.05 for 5%.", "Decimal between 0 and 1.", "Fraction, 0.1 means 10%", "In decimal form.",
)  # fmt: skip


def reformed(version: Written, given: dict[str, Any], rng: random.Random) -> tuple[Written, dict[str, Any]]:
    arguments, values = [], dict(given)
    for argument in version.arguments:
        changed, value = _changed(argument, given.get(argument.name), rng)
        arguments.append(changed)
        if argument.name in values:
            values[argument.name] = value
    return replace(version, arguments=tuple(arguments)), values


def _changed(argument: Argument, value: Any, rng: random.Random) -> tuple[Argument, Any]:
    if argument.slot == "date" and rng.random() < 0.3:
        name, pattern = rng.choice(list(_DATES.items()))
        said = rng.choice(_DATE_WORDS).format(name)
        return _described(argument, said), date.fromisoformat(value).strftime(pattern) if value else value
    if argument.schema.get("type") != "number" or rng.random() > 0.4:
        return argument, value
    if argument.slot == "rate":
        return _described(argument, rng.choice(_IN_PERCENT)), _number(value, 100)
    if argument.slot == "pct":
        return _described(argument, rng.choice(_AS_FRACTION)), _number(value, 0.01)
    return argument, value


def _described(argument: Argument, said: str) -> Argument:
    return replace(argument, schema={**argument.schema, "description": said})


def _number(value: Any, times: float) -> Any:
    if value is None:
        return None
    result = round(value * times, 4)
    return int(result) if result == int(result) else result
