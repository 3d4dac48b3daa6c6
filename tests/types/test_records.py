"""What earlier versions recorded stays readable."""

from __future__ import annotations

import msgspec

from aish.types.events import Body, ToolResult
from aish.types.tools import ResultStatus

EARLIER = ("unasked", "named", "percent", "date", "spelling", "clock", "digits", "unit", "copy")


def test_repairs_that_nothing_makes_any_more_are_still_read() -> None:
    new = msgspec.json.decode(msgspec.json.encode(ToolResult("t", ResultStatus.OK, ())))
    for kind in EARLIER:
        recorded = {**new, "repairs": [{"kind": kind, "path": "x", "before": "a", "after": "b"}]}
        assert msgspec.convert(recorded, type=Body).repairs[0].kind == kind
