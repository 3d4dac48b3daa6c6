"""Numbers in a query string: within bounds, or a 400 that names the field."""

from __future__ import annotations

from aish.frontends.http.server.http_errors import bad_field

# More than any bound has. Python refuses to read thousands of them.
_MAX_DIGITS = 18


def read_number(field: str, given: str, *, least: int = 1, most: int) -> int:
    is_number = given.isascii() and given.isdecimal() and len(given) <= _MAX_DIGITS
    if not is_number or not least <= int(given) <= most:
        raise bad_field(field, f"must be a number from {least} to {most}")
    return int(given)
