"""What functions return becomes content for a model, or an error that says why not."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aish import Image
from aish.extensions.results import MAX_RESULT_BYTES, ResultError, check_size, to_content


@dataclass
class Point:
    x: int
    y: int


class Model:
    """Like a model of pydantic."""

    def model_dump(self, mode: str) -> dict[str, Any]:
        return {"mode": mode}


def text(value: Any) -> str:
    (block,), _ = to_content(value)
    return str(block["text"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("plain", "plain"),
        (None, "done"),
        (3, "3"),
        (True, "true"),
        ([1, "two"], '[1,"two"]'),
        (Point(1, 2), '{"x":1,"y":2}'),
        ({"a": Path("/tmp/x")}, '{"a":"/tmp/x"}'),
        ({1: "one"}, '{"1":"one"}'),
        (range(3), "[0,1,2]"),
        (Model(), '{"mode":"json"}'),
        ({"when": {"deep": (1, 2)}}, '{"when":{"deep":[1,2]}}'),
        ("lone \ud83d half", "lone ? half"),
    ],
)
def test_values_become_text(value: Any, expected: str):
    assert text(value) == expected


def test_objects_are_structured_results_as_well():
    assert to_content(Point(1, 2))[1] == {"x": 1, "y": 2}
    assert to_content([1])[1] is None


def test_images_stand_alone_or_in_a_list():
    data = base64.b64encode(b"png").decode()
    assert to_content(Image(b"png"))[0] == [{"type": "image", "data": data, "mimeType": "image/png"}]
    blocks, _ = to_content(["before", Image(b"png", "image/webp"), 4])
    assert [block["type"] for block in blocks] == ["text", "image", "text"]


def test_what_is_no_json_or_too_large_is_an_error():
    loop: list[Any] = []
    loop.append(loop)
    for value in (object(), {"f": open}, loop):
        with pytest.raises(ResultError, match="cannot be written as JSON"):
            to_content(value)
    with pytest.raises(ResultError, match="at most"):
        to_content("x" * (MAX_RESULT_BYTES + 1))
    with pytest.raises(ResultError):
        check_size([{"type": "text", "text": "x" * MAX_RESULT_BYTES}, {"type": "text", "text": "y"}])
    assert msgspec.json.encode(to_content("fine")[0])
