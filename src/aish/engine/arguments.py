"""Reads a call's arguments as they stand, without mending: for those that judge calls rather than run them."""

from __future__ import annotations

from aish.calls.mend import BadArguments, parse
from aish.calls.validate import schema_errors
from aish.types.tools import Arguments

__all__ = ["BadArguments", "parse_arguments", "schema_errors"]


def parse_arguments(text: str) -> Arguments:
    """Nothing at all (empty or null) means no arguments: many models write that for a tool without parameters."""
    return parse(text, repair=False)[0]
