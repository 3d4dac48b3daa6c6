"""Removes secrets from a reply that is to be stored, also secrets that a stream splits over several events.

It knows events whose data is JSON, and nothing of any API: fragments of one text are at the same path, in events about
the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from aish.safety.redaction.redactor import TAGS

_DATA = "data: "
# These fields, besides its path, identify the text that a fragment belongs to.
_ABOUT = ("type", "index", "item_id", "output_index", "content_index")
_LOGPROBS = "logprobs"  # they repeat the whole text
_NO_TEXTS = frozenset({*_ABOUT, *TAGS, _LOGPROBS, "id", "model"})  # the same in every event

Path = tuple[str | int, ...]
RedactJson = Callable[[bytes], bytes]
RedactPieces = Callable[[Sequence[str]], Sequence[str]]


def redact_reply(body: str, redact_json: RedactJson, redact_pieces: RedactPieces) -> str:
    lines = body.split("\n")
    events = {index: event for index, line in enumerate(lines) if (event := _event_in(line)) is not None}
    if not events:
        return redact_json(body.encode()).decode()
    changed = _mask(events, redact_pieces)
    for index, event in events.items():
        data = lines[index][len(_DATA) :].encode()
        if changed:
            _clear_logprobs(event)
            data = msgspec.json.encode(event)
        lines[index] = _DATA + redact_json(data).decode()
    return "\n".join(lines)


def _event_in(line: str) -> Any:
    if not line.startswith(_DATA + "{"):
        return None
    try:
        return msgspec.json.decode(line[len(_DATA) :])
    except (msgspec.MsgspecError, RecursionError):
        return None


def _mask(events: dict[int, Any], redact_pieces: RedactPieces) -> bool:
    """Removes the secrets that several events contain together. Returns whether there were any."""
    texts: dict[tuple[Path, tuple[Any, ...]], list[tuple[int, str]]] = {}
    for index, event in events.items():
        for path, about, text in _texts_in(event, (), ()):
            texts.setdefault((path, about), []).append((index, text))
    changed = False
    for (path, _), fragments in texts.items():
        pieces = [text for _, text in fragments]
        for (index, old), new in zip(fragments, redact_pieces(pieces), strict=True):
            if new != old:
                _put(events[index], path, new)
                changed = True
    return changed


def _texts_in(value: Any, path: Path, about: tuple[Any, ...]) -> Iterator[tuple[Path, tuple[Any, ...], str]]:
    if isinstance(value, str):
        yield path, about, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts_in(item, (*path, index), about)
    elif isinstance(value, dict):
        about = (*about, *(str(value[name]) for name in _ABOUT if name in value))
        for key, item in value.items():
            if key not in _NO_TEXTS:
                yield from _texts_in(item, (*path, key), about)


def _put(event: Any, path: Path, text: str) -> None:
    for step in path[:-1]:
        event = event[step]
    event[path[-1]] = text


def _clear_logprobs(value: Any) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == _LOGPROBS and item:
                value[key] = type(item)()
            else:
                _clear_logprobs(item)
    elif isinstance(value, list):
        for item in value:
            _clear_logprobs(item)
