"""Copies that went wrong: a name or a time in a call that the request has in another spelling.

Small models copy by pieces of words, and now and then go astray after the first: "Delhi" becomes "Dedigarh". Where one
word of the request, and only one, can have been meant, its own spelling is taken. Knows nothing of tools.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_CLOCK = re.compile(r"(?<![\d:])(\d{1,2}):(\d{2})(?![\d:])\s*([ap])?\.?(?:m\b)?", re.I)
# Times that are not written so, and what a time may be reckoned with.
_OTHER_CLOCK = re.compile(
    r"\d|\b(?:noon|mid(?:day|night)|o'clock|quarter|half|hours?|minutes?|before|after|earlier|later|early|late|utc|gmt|zone"
    r"|timezone|convert\w*|until|till|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|stunden?|heures?|horas?"
    r"|vor|nach|avant|antes|later|sp\xe4ter)\b",
    re.I,
)
_TIME = re.compile(r"(\d{1,2}):(\d{2})(:00)?")
_PEOPLE = re.compile(r"(?:ish|ese|ian|ean|ch)$")  # Polish is no misspelt Poland
_MIN_CHARS = 4  # shorter words are near to too many others
_STEM_CHARS = 4
_PREFIX_CHARS = 2  # a piece that was copied before the rest went astray
_LONG = 7  # from here on two letters may differ
_MAX_WORDS = 400
_MAX_VALUE_WORDS = 20  # a longer text was written, not copied
# What a model knows by heart it means; the request may have it in another language.
_NAMES = """
    amsterdam ankara athens barcelona basel beijing belgrade berlin bern brasilia brussels bucharest budapest cairo
    cologne copenhagen dublin edinburgh florence geneva genoa hamburg hanover havana istanbul krakow lima lisbon
    london lucerne lyon madrid marseille mexico milan moscow munich naples nuremberg oslo paris prague rome salzburg
    seoul seville sofia stockholm tokyo turin venice vienna warsaw york zurich argentina australia austria belgium
    brazil bulgaria canada chile china colombia croatia czechia denmark egypt england estonia europe finland france
    germany greece hungary iceland india indonesia iran iraq ireland israel italy japan korea latvia lithuania
    luxembourg malaysia morocco netherlands norway pakistan peru philippines poland portugal romania russia scotland
    serbia singapore slovakia slovenia spain sweden switzerland taiwan thailand turkey ukraine vietnam monday
    tuesday wednesday thursday friday saturday sunday january february march april june july august september
    october november december
"""
_WELL_KNOWN = frozenset(_NAMES.split())
# Who asks for these wants another spelling, or what is not named.
_UNNAMED = re.compile(
    r"\b(?:correct\w*|fix\w*|spell\w*|misspel\w*|typos?|proofread\w*|rhym\w*|capital|birthplace|hometown|headquarters)\b",
    re.I,
)
_WAYS = (
    ("our", "or"),
    ("is", "iz"),
    ("ys", "yz"),
    ("re", "er"),
    ("ll", "l"),
    ("ae", "a"),
    ("oe", "o"),
    ("ue", "u"),
    ("men", "man"),
)
_MARKS = str.maketrans("äöüáéíóúàèìòùâêîôûãõñçåø", "aouaeiouaeiouaeiouaoncao")


def respelled(value: str, request: str) -> str:
    """The value with the request's spelling of its words, where it has another for them."""
    if value.casefold() in request.casefold() or _UNNAMED.search(request) or value.count(" ") >= _MAX_VALUE_WORDS:
        return value
    said = list(dict.fromkeys(_WORD.findall(request)))[:_MAX_WORDS]
    known = {word.casefold() for word in said}
    strange = [word for word in _WORD.findall(value) if word.casefold() not in known]
    is_lost = len(strange) == len(_WORD.findall(value))
    for word in strange:
        meant = _meant(word, value, said, is_lost=is_lost)
        value = value.replace(word, meant, 1)
    return value


def _meant(word: str, value: str, said: Sequence[str], *, is_lost: bool) -> str:
    """Itself, where nothing or more than one thing can have been meant."""
    folded = word.casefold()
    if len(word) < _MIN_CHARS or word.isupper() or folded in _WELL_KNOWN:
        return word
    others = [other for other in said if len(other) >= _MIN_CHARS and other not in value]
    if any(other.casefold()[:_STEM_CHARS] == folded[:_STEM_CHARS] and not _is_near(word, other) for other in others):
        return word  # another form of it: German, Germany
    near = [other for other in others if _is_near(word, other)]
    if any(_plain(word) == _plain(other) for other in near):
        return word  # colour and color
    if not near and is_lost and word[0].isupper():
        near = [other for other in others if other[0].isupper() and other[:_PREFIX_CHARS] == word[:_PREFIX_CHARS]]
        near = [other for other in near if not _PEOPLE.search(other)]
    return near[0] if len(near) == 1 else word


def _plain(word: str) -> str:
    """The same for all ways to write a word."""
    plain = word.casefold().translate(_MARKS)
    for one, other in _WAYS:
        plain = plain.replace(one, other)
    return plain


def _is_near(word: str, other: str) -> bool:
    """A letter or two apart, and not the one within the other, as a plural holds its singular."""
    one, two = word.casefold(), other.casefold()
    if one[0] != two[0] or one.startswith(two) or two.startswith(one):
        return False
    return _distance(one, two) <= (2 if min(len(one), len(two)) >= _LONG else 1)


def _distance(one: str, two: str) -> int:
    """Letters to add, to take away or to change. Far is as good as further."""
    if abs(len(one) - len(two)) > 2:
        return 3
    row = list(range(len(two) + 1))
    for i, left in enumerate(one, 1):
        above, row = row, [i]
        for j, right in enumerate(two, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (left != right)))
    return row[-1]


def clock_of(value: str, request: str) -> str:
    """A time of day that the request does not name, where it names one: that one."""
    found = _TIME.fullmatch(value.strip())
    times = {_minutes(*match) for match in _CLOCK.findall(request)}
    if found is None or len(times) != 1 or _OTHER_CLOCK.search(_CLOCK.sub(" ", request)):
        return value
    (meant,) = times
    given = _minutes(found[1], found[2], "")
    if meant is None or given is None or given % 720 == meant % 720:
        return value  # the same, or the other half of the day, for which there may be a reason
    if given % 60 != meant % 60 and given // 60 % 12 != meant // 60 % 12:
        return value  # nothing of it was copied
    return f"{meant // 60:02}:{meant % 60:02}" + (found[3] or "")


def _minutes(hour: str, minute: str, half: str) -> int | None:
    hours = int(hour) % 12 + (12 if half.lower() == "p" else 0) if half else int(hour)
    return hours * 60 + int(minute) if hours < 24 and int(minute) < 60 else None
