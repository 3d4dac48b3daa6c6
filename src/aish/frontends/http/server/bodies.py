"""Reading a body of JSON: what is wrong with it is a 400 that names the field."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from aish.frontends.http.server.http_errors import Problem

T = TypeVar("T")

_MISSING = re.compile("Object missing required field `([^`]+)`")
# How gzip and zstd begin. Others cannot be told from rubbish.
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")


def decode_body(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as exc:
        raise validation_problem(exc) from exc
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        if body.startswith(_PACKED):
            raise Problem(415, "the body is compressed: send it as it is", code="unsupported_encoding") from exc
        raise Problem(400, f"the body is not JSON: {exc}", code="invalid_json") from exc
    except RecursionError as exc:
        raise Problem(400, "the body is nested too deeply", code="invalid_json") from exc


def validation_problem(exc: msgspec.ValidationError) -> Problem:
    """msgspec says it like this: Expected `int`, got `str` - at `$.messages[0].role`."""
    text, _, place = str(exc).partition(" - at `")
    field = place.rstrip("`").removeprefix("$").removeprefix(".")
    if missing := _MISSING.match(text):
        field = f"{field}.{missing[1]}" if field else missing[1]
        return Problem(400, f"{field}: is missing", param=field, code="missing_field")
    return Problem(400, f"{field or 'body'}: {text}", param=field or None, code="invalid_type")
