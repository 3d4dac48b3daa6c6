"""The base class of all tables of the schema, and types of values that several tables use."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=1)]
TopK = Annotated[int, Meta(ge=-1, le=2**31 - 1)]  # -1: vLLM's word for all of them
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
# A title describes the pattern in words.
Url = Annotated[str, Meta(pattern=r"^https?://[^\s/?#]+\S*$", title="a URL such as http://127.0.0.1:8080")]
UrlOrUnset = Annotated[str, Meta(pattern=r"^$|^https?://[^\s/?#]+\S*$", title="a URL such as http://127.0.0.1:8080")]
UrlPattern = Annotated[
    str,
    Meta(
        pattern=r"^https?://(\[[0-9A-Fa-f:.]+\]|[^\s/?#:@\[\]]+)(:(\*|\d{1,5}))?(/[^\s?#]*)?$",
        title="a URL such as https://mcp.example.com/* or http://127.0.0.1:*",
    ),
]
Variable = Annotated[str, Meta(pattern=r"^$|^[A-Za-z_][A-Za-z0-9_]*$", title="the name of a variable")]


class Section(msgspec.Struct, frozen=True):
    """A table of the file."""
