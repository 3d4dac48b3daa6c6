"""Numbers, dates and times as they are said in German and Chinese. Seeded by the caller's generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Said = tuple[str, Any]
Slot = Callable[[random.Random], Said]

_GERMAN = ["null", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"]
_GERMAN_MONTHS = [
    "Januar",
    "Februar",
    "März",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
]
_CHINESE = "零一二三四五六七八九"


def german_number(value: int) -> str:
    if value <= 12:
        return _GERMAN[value] if value != 1 else "eins"
    if value < 20:
        return {16: "sechzehn", 17: "siebzehn"}.get(value, f"{_GERMAN[value - 10]}zehn")
    tens = ["_", "_", "zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"][
        value // 10
    ]
    return f"{_GERMAN[value % 10]}und{tens}" if value % 10 else tens


def chinese_number(value: int) -> str:
    if value < 10:
        return _CHINESE[value]
    tens = ("" if value // 10 == 1 else _CHINESE[value // 10]) + "十"
    return tens + (_CHINESE[value % 10] if value % 10 else "")


def integer(low: int, high: int, in_words: Callable[[int], str]) -> Slot:
    def draw(rng: random.Random) -> Said:
        value = rng.randint(low, high)
        return (in_words(value) if 2 <= value < 100 and rng.random() < 0.5 else str(value)), value

    return draw


def german_decimal(rng: random.Random) -> Said:
    value = round(rng.uniform(1, 400), rng.choice((0, 1, 2)))
    number: float = int(value) if value == int(value) else value
    shown = f"{number:.2f}" if isinstance(number, float) and rng.random() < 0.6 else str(number)
    return shown.replace(".", ","), number


def german_date(rng: random.Random) -> Said:
    year, month, day = rng.randint(2015, 2031), rng.randint(1, 12), rng.randint(1, 28)
    name = _GERMAN_MONTHS[month - 1]
    ways = (f"{day}. {name} {year}", f"{day}. {name} {year}", f"{day}.{month}.{year}", f"{day:02}.{month:02}.{year}")
    return rng.choice(ways), f"{year}-{month:02}-{day:02}"


def german_time(rng: random.Random) -> Said:
    hour, minute = rng.randint(0, 23), rng.choice((0, 0, 15, 30, 45, 5, 20, 50))
    value = f"{hour:02}:{minute:02}"
    if 1 <= hour <= 11 and minute in (0, 15, 30, 45) and rng.random() < 0.5:
        name, following = german_number(hour), german_number(hour + 1)
        said = {0: f"{name} Uhr" if hour > 1 else "ein Uhr", 15: f"Viertel nach {name}", 30: f"halb {following}"}
        return said.get(minute, f"Viertel vor {following}"), value
    plain = f"{hour} Uhr {minute}" if minute else f"{hour} Uhr"
    return rng.choice((f"{value} Uhr", value, plain)), value


def chinese_date(rng: random.Random) -> Said:
    year, month, day = rng.randint(2015, 2031), rng.randint(1, 12), rng.randint(1, 28)
    return rng.choice((f"{year}年{month}月{day}日", f"{year}年{month}月{day}号")), f"{year}-{month:02}-{day:02}"


def chinese_time(rng: random.Random) -> Said:
    hour, minute = rng.randint(5, 23), rng.choice((0, 0, 30, 15, 45, 10))
    part = "早上" if hour < 9 else "上午" if hour < 12 else "中午" if hour == 12 else "下午" if hour < 18 else "晚上"
    twelve = hour if hour <= 12 else hour - 12
    name = "两" if twelve == 2 else chinese_number(twelve)
    tail = {0: "", 30: "半", 15: "一刻"}.get(minute, f"{chinese_number(minute)}分")
    value = f"{hour:02}:{minute:02}"
    digits = f"{part}{twelve}点" + (f"{minute}分" if minute else "")
    return rng.choice((f"{part}{name}点{tail}", f"{part}{name}点{tail}", digits, value)), value


TONGUES: dict[str, Slot] = {
    "de n": integer(2, 30, german_number), "de small": integer(2, 10, german_number), "de money": german_decimal,
    "de dec": german_decimal, "de sum": german_decimal, "de date": german_date, "de time": german_time,
    "de num": german_decimal, "zh n": integer(2, 30, chinese_number), "zh small": integer(3, 10, chinese_number),
    "zh date": chinese_date, "zh time": chinese_time,
}  # fmt: skip
