"""What a request may name: pairs of how people say it and what the argument is. Seeded by the caller's generator."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from train.invented import INVENTED
from train.tongues import TONGUES

Said = tuple[str, Any]
Slot = Callable[[random.Random], Said]

_UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
]
_UNITS += ["seventeen", "eighteen", "nineteen"]
_TENS = ["_", "_", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


def in_words(number: int) -> str:
    if number < 20:
        return _UNITS[number]
    if number < 100:
        return _TENS[number // 10] + (f"-{_UNITS[number % 10]}" if number % 10 else "")
    if number < 1000:
        rest = f" and {in_words(number % 100)}" if number % 100 else ""
        return f"{_UNITS[number // 100]} hundred{rest}"
    rest = f" {in_words(number % 1000)}" if number % 1000 else ""
    return f"{in_words(number // 1000)} thousand{rest}"


def integer(low: int, high: int, words: float = 0.25) -> Slot:
    def draw(rng: random.Random) -> Said:
        value = rng.randint(low, high)
        if rng.random() < words and value < 10_000 and (value <= 30 or value % 10 == 0):
            return in_words(value), value
        return (f"{value:,}" if value > 9999 and rng.random() < 0.4 else str(value)), value

    return draw


def amount(rng: random.Random) -> Said:
    """Larger sums, as people write them: with a sign, in thousands, in millions."""
    thousands = rng.choice([rng.randint(1, 99), rng.randint(1, 40) * 5, rng.randint(1, 9) * 100])
    value = thousands * 1000
    if rng.random() < 0.2:
        tenths = rng.randint(10, 60)
        return f"{tenths / 10:g} million", tenths * 100_000
    ways = (f"${value:,}", f"{value:,}", f"{thousands}k", f"{thousands},000", str(value))
    plain = in_words(thousands) + " thousand"
    return (plain if rng.random() < 0.15 and thousands <= 30 else rng.choice(ways)), value


def sometimes(share: float, other: Slot, usual: Slot) -> Slot:
    return lambda rng: other(rng) if rng.random() < share else usual(rng)


def decimal(low: float, high: float, places: int = 1) -> Slot:
    def draw(rng: random.Random) -> Said:
        value = round(rng.uniform(low, high), rng.choice([0, places, places]))
        number: float = int(value) if value == int(value) else value
        return str(number), number

    return draw


def rate(rng: random.Random) -> Said:
    """A percentage that the schema wants as a fraction."""
    tenths = rng.choice([rng.randint(1, 30) * 10, rng.randint(5, 199)])
    value = tenths / 10
    shown = f"{value:g}"
    said = rng.choice([f"{shown}%", f"{shown}%", f"{shown} percent", f"{shown} %"])
    return said, round(tenths / 1000, 4)


def percent(rng: random.Random) -> Said:
    value = rng.choice([5, 10, 15, 18, 20, 25, 30, 40, 50, 75, 80, 90, 12.5, 7.5, 100, 3, 60])
    return rng.choice([f"{value:g}%", f"{value:g} percent", f"{value:g}%"]), value


def date(rng: random.Random) -> Said:
    year, month, day = rng.randint(1990, 2031), rng.randint(1, 12), rng.randint(1, 28)
    name = _MONTHS[month - 1]
    ending = "th" if 10 < day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    ways = (
        f"{name} {day}, {year}",
        f"{day} {name} {year}",
        f"{year}-{month:02}-{day:02}",
        f"{name} {day}{ending} {year}",
        f"the {day}{ending} of {name} {year}",
        f"{name[:3]} {day} {year}",
        f"{day}.{month}.{year}" if day > 12 else f"{day} {name[:3]} {year}",
    )
    return rng.choice(ways), f"{year}-{month:02}-{day:02}"


def clock(rng: random.Random) -> Said:
    hour, minute = rng.randint(0, 23), rng.choice([0, 0, 15, 30, 45, 5, 20])
    value = f"{hour:02}:{minute:02}"
    half, twelve = ("am" if hour < 12 else "pm"), hour % 12 or 12
    if rng.random() < 0.25 and minute in (0, 15, 30, 45):
        return _in_clock_words(hour, minute), value
    short = f"{twelve}{half}" if minute == 0 else f"{twelve}:{minute:02}{half}"
    return rng.choice([value, short, short.replace(half, f" {half}"), short.replace(half, f" {half}").upper()]), value


def _in_clock_words(hour: int, minute: int) -> str:
    if (hour, minute) in ((12, 0), (0, 0)):
        return "noon" if hour else "midnight"
    part = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
    now, following = in_words(hour % 12 or 12), in_words((hour + 1) % 12 or 12)
    said = {0: f"{now} o'clock", 15: f"quarter past {now}", 30: f"half past {now}", 45: f"quarter to {following}"}
    return f"{said[minute]} {part}"


def several(inner: Slot, low: int = 2, high: int = 5) -> Slot:
    def draw(rng: random.Random) -> Said:
        parts = [inner(rng) for _ in range(rng.randint(low, high))]
        said = [str(part[0]) for part in parts]
        if len(said) == 1:
            return said[0], [parts[0][1]]
        joiner = rng.choice([" and ", ", and ", ", "])
        return ", ".join(said[:-1]) + joiner + said[-1], [part[1] for part in parts]

    return draw


def one_of(*choices: str) -> Slot:
    """`said=value` where the two differ."""
    pairs = [(said, value or said) for said, _, value in (choice.partition("=") for choice in choices)]
    return lambda rng: rng.choice(pairs)


def mostly_invented(name: str, usual: Slot) -> Slot:
    """Sometimes one of the words that are listed, sometimes one that nobody has seen."""
    if name not in INVENTED:
        return usual
    invent, share = INVENTED[name]

    def other(rng: random.Random) -> Said:
        return (value := invent(rng)), value

    return sometimes(share, other, usual)


def email(rng: random.Random) -> Said:
    name = rng.choice(
        [
            "anna",
            "ben.k",
            "carla",
            "dev.team",
            "e.lund",
            "farid",
            "gina.m",
            "hugo",
            "info",
            "jo_ivanova",
            "k.tanaka",
            "lena",
            "maria",
            "nils",
        ]
    )
    return (value := f"{name}@{rng.choice(['example.com', 'example.org', 'mail.example.net', 'acme.example'])}"), value


def path(rng: random.Random) -> Said:
    folder = rng.choice(
        ["", "src/", "docs/", "/tmp/", "/var/log/", "~/Documents/", "./data/", "app/models/", "tests/", "/home/kim/"]
    )
    name = rng.choice(
        [
            "notes",
            "report",
            "main",
            "config",
            "index",
            "invoice",
            "photo_01",
            "server",
            "users",
            "backup",
            "setup",
            "utils",
            "budget2024",
            "README",
        ]
    )
    ending = rng.choice([".txt", ".py", ".md", ".csv", ".json", ".log", ".ts", ".pdf", ".png", ".yaml", ".rs", ".go"])
    return (value := folder + name + ending), value


def folder(rng: random.Random) -> Said:
    value = rng.choice(
        [
            "/tmp",
            "/var/log",
            "~/Downloads",
            "src",
            "docs",
            "/etc/nginx",
            "./build",
            "/home/kim/photos",
            "~/projects/web",
            "tests/unit",
            "data/raw",
        ]
    )
    return value, value


def code(rng: random.Random) -> Said:
    letters = "".join(rng.choices("ABCDEFGHJKLMNPQRSTUVWXYZ", k=rng.randint(2, 3)))
    value = rng.choice(
        [f"{letters}-{rng.randint(100, 99999)}", f"{letters}{rng.randint(10, 9999)}", f"{rng.randint(10000, 999999)}"]
    )
    return rng.choice([value, value, f"#{value}"]).lstrip("#"), value


def phone(rng: random.Random) -> Said:
    value = f"+{rng.choice([1, 44, 49, 33, 34, 86])}{rng.randint(200000000, 999999999)}"
    return value, value


def url(rng: random.Random) -> Said:
    value = f"https://{rng.choice(['example.com', 'news.example.org', 'shop.example.net', 'blog.example.com'])}"
    value += rng.choice(["", "/about", "/feed.xml", "/p/42", "/index.html", "/api/v1/items"])
    return value, value


def point(rng: random.Random) -> Said:
    lat, lon = round(rng.uniform(-80, 80), rng.choice([2, 4])), round(rng.uniform(-170, 170), rng.choice([2, 4]))
    north, east = "north" if lat >= 0 else "south", "east" if lon >= 0 else "west"
    turned = (
        f"{abs(lat)}° {north[0].upper()}, {abs(lon)}° {east[0].upper()}",
        f"{abs(lat)}°{north[0].upper()} {abs(lon)}°{east[0].upper()}",
        f"{abs(lat)} degrees {north} and {abs(lon)} degrees {east}",
    )
    plain = (f"{lat}, {lon}", f"latitude {lat}, longitude {lon}", f"({lat}, {lon})", f"{lat} / {lon}")
    said = rng.choice(turned if rng.random() < 0.35 else plain)
    return said, {"lat": lat, "lon": lon}


# Choices that are only words are data: `said=value` where the two differ.
_WORDS: dict[str, list[str]] = json.loads((Path(__file__).parent / "words.json").read_text())
_LISTS = {"names": (1, 3), "foods": (1, 5), "items": (1, 4), "symptoms": (1, 3)}

_PLAIN: dict[str, Slot] = {
    "n": integer(2, 30),
    "small": integer(1, 10, 0.35),
    "int": integer(2, 500),
    "big": sometimes(0.4, amount, integer(100, 2_000_000, 0.05)),
    "num": sometimes(0.2, decimal(120, 9000), decimal(1, 120)),
    "dec": decimal(0.1, 9.9, 2),
    "temp": integer(-20, 110, 0),
    "money": decimal(2, 4000, 2),
    "sum": integer(1, 900, 0.1),
    "rate": rate,
    "pct": percent,
    "date": date,
    "time": clock,
    "year": integer(1800, 2025, 0),
    "yrs": integer(2, 40),
    "age": integer(1, 95, 0.15),
    "cm": integer(140, 205, 0),
    "kg": integer(40, 130, 0.05),
    "ints": several(sometimes(0.2, integer(-50, 2000, 0.0), integer(1, 99, 0.0)), 2, 7),
    "nums": several(sometimes(0.15, decimal(-60, 0), decimal(1, 99)), 3, 6),
    "email": email,
    "path": path,
    "folder": folder,
    "code": code,
    "phone": phone,
    "url": url,
    "point": point,
    **{name: one_of(*choices) for name, choices in _WORDS.items() if name not in _LISTS},
    **TONGUES,
}
SLOTS: dict[str, Slot] = {name: mostly_invented(name, usual) for name, usual in _PLAIN.items()} | {
    name: several(mostly_invented(name, one_of(*_WORDS[name])), low, high) for name, (low, high) in _LISTS.items()
}
