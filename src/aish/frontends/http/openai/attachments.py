"""Documents and images that come with a message, in the shapes of all APIs.

A text document becomes text under its name; of any other the model gets a note. Refusing it would not do: a client that
has read a PDF sends it again with each later request.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from aish.frontends.http.server.http_errors import bad_field
from aish.types.messages import (
    ImagePart,
    TextPart,
)

_TEXT_KINDS = ("application/json", "application/xml", "application/yaml")
_MAX_NOTE_CHARS = 200  # of what the client says about a document: enough for most addresses


def read_document(field: str, block: dict[str, Any]) -> TextPart:
    """A `document` of the messages API."""
    title, context, source = block.get("title"), block.get("context"), f"{field}.source"
    match block.get("source"):
        case {"type": "text", "data": str(text)} | {"type": "content", "content": str(text)}:
            text_body = text
        case {"type": "content", "content": list(blocks)}:
            text_body = _texts(f"{source}.content", blocks)
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            text_body = _decode(f"{source}.data", kind, data)
        case {"type": "url", "url": str(origin)} | {"type": "file", "file_id": str(origin)}:
            text_body = _note(origin)
        case _:
            raise bad_field(source, "must be text, content, base64 with its media_type, a url or a file")
    return _with_heading(text_body, title, context)


def read_search_result(field: str, block: dict[str, Any]) -> TextPart:
    content = block.get("content")
    if not isinstance(content, list):
        raise bad_field(f"{field}.content", "must be a list of blocks")
    return _with_heading(_texts(f"{field}.content", content), block.get("title"), block.get("source"))


def read_file_part(field: str, given: dict[str, Any]) -> TextPart:
    """A `file` of chat completions, or an `input_file` of responses."""
    match given:
        case {"file_data": str(data)} if data.startswith("data:"):
            text_body = _from_data_url(f"{field}.file_data", data)
        case {"file_data": str()}:
            text_body = _note("application/octet-stream")
        case {"file_url": str(origin)} | {"file_id": str(origin)}:
            text_body = _note(origin)
        case _:
            raise bad_field(f"{field}.file_data", "must be a data url with base64")
    return _with_heading(text_body, given.get("filename"))


def _from_data_url(field: str, url: str) -> str:
    head, comma, data = url[len("data:") :].partition(",")
    kind, *parameters = head.split(";")
    if not comma or "base64" not in parameters:
        raise bad_field(field, "a data url holds base64")
    return _decode(field, kind or "text/plain", data)


def _decode(field: str, kind: str, data: str) -> str:
    if not kind.startswith("text/") and kind not in _TEXT_KINDS:
        return _note(kind)
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError) as exc:
        raise bad_field(field, "is not base64") from exc


def _texts(field: str, blocks: list[Any]) -> str:
    texts: list[str] = []
    for index, block in enumerate(blocks):
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "image"}:
                texts.append(ImagePart("image/*").mark)
            case _:
                raise bad_field(f"{field}[{index}]", "must be a block of text or an image")
    return "\n".join(texts)


def _note(what: str) -> str:
    return f"[document: {what[:_MAX_NOTE_CHARS]}]"


def _with_heading(text_body: str, *heads: Any) -> TextPart:
    return TextPart("\n".join([*(head for head in heads if isinstance(head, str) and head), text_body]))


def read_image(field: str, url: str) -> ImagePart:
    if not url.startswith("data:"):
        if not url.startswith(("http://", "https://")):
            raise bad_field(field, "must be a data: or http(s) url")
        return ImagePart(url=url, media_type="image/*")
    head, comma, data = url[5:].partition(",")
    media_type, _, encoding = head.partition(";")
    if not comma or encoding != "base64":
        raise bad_field(field, "a data url holds base64")
    return ImagePart(media_type or "image/png", data=data)
