"""Converts a server's content into parts for a model: text and images as they are, everything else as placeholders."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from aish.errors import ToolError
from aish.tools.mcp.text import clean
from aish.types.messages import AssistantMessage, ImagePart, Message, Part, TextPart, UserMessage, text_of
from aish.types.tools import ToolOutput

_BASE64 = re.compile(r"[A-Za-z0-9+/=_\s-]*")
_IMAGE_TYPES = re.compile(r"image/[a-z0-9.+-]{1,40}")
_LABEL_CHARS = 200


class CallResult(msgspec.Struct):
    content: Any = None
    structuredContent: Any = None
    isError: Any = False
    resultType: Any = "complete"


class ResourceResult(msgspec.Struct):
    contents: Any = None


class PromptResult(msgspec.Struct):
    messages: Any = None


def tool_output(result: CallResult) -> ToolOutput:
    if result.resultType == "input_required":
        return ToolOutput(
            (TextPart("the tool asks for input from the user, which aish does not give to servers"),), True
        )
    parts, given = read_parts(result.content), result.structuredContent
    if not parts and given is not None:
        parts = (TextPart(msgspec.json.encode(given).decode()),)
    # 2026-07-28 allows any value. Earlier revisions, which our clients may use, allow only objects.
    return ToolOutput(parts, result.isError is True, given if isinstance(given, dict) else None)


def resource_output(result: ResourceResult) -> ToolOutput:
    contents = result.contents if isinstance(result.contents, list) else [result.contents]
    return ToolOutput(tuple(_resource_part(entry) for entry in contents if isinstance(entry, dict) and entry))


def resource_text(result: ResourceResult, uri: str) -> str:
    """The text of a resource that has only text. Raises ToolError."""
    contents = result.contents if isinstance(result.contents, list) else [result.contents]
    texts = [entry.get("text") for entry in contents if isinstance(entry, dict)]
    if not texts or not isinstance(texts[0], str):
        raise ToolError(f"{clean(uri, _LABEL_CHARS)} is not text")
    return texts[0]


def prompt_messages(result: PromptResult) -> tuple[Message, ...]:
    messages: list[Message] = []
    for entry in result.messages if isinstance(result.messages, list) else ():
        if not isinstance(entry, dict):
            continue
        parts = read_parts(entry.get("content"))
        if entry.get("role") == "assistant":
            messages.append(AssistantMessage(text_of(parts)))
        else:
            messages.append(UserMessage(parts))
    return tuple(messages)


def read_parts(content: Any) -> tuple[Part, ...]:
    """Accepts a list of blocks, a single block, bare text, or an empty Lua table."""
    if isinstance(content, str):
        return (TextPart(content),)
    blocks = content if isinstance(content, list) else [content]
    return tuple(_part(block) for block in blocks if block not in (None, {}, []))


def _part(block: Any) -> Part:
    if isinstance(block, str):
        return TextPart(block)
    if not isinstance(block, dict):
        return TextPart(str(block))
    match block.get("type"):
        case "text":
            return TextPart(_text_field(block, "text"))
        case "image":
            return _image(block)
        case "audio":
            return TextPart(_placeholder("audio", block))
        case "resource":
            resource = block.get("resource")
            return _resource_part(resource) if isinstance(resource, dict) else TextPart("[resource]")
        case "resource_link":
            return TextPart(_link(block))
        case other:
            return TextPart(_placeholder(clean(str(other or ""), 40) or "unknown content", block))


def _image(block: dict[str, Any]) -> Part:
    media_type, data = _text_field(block, "mimeType").lower(), _text_field(block, "data")
    if data and _IMAGE_TYPES.fullmatch(media_type) and _BASE64.fullmatch(data):
        return ImagePart(media_type, data)
    return TextPart(_placeholder("image", block))


def _resource_part(resource: dict[str, Any]) -> Part:
    """Converts a resource: text with its address, an image as such, other bytes as a placeholder."""
    uri = clean(_text_field(resource, "uri"), _LABEL_CHARS)
    if isinstance(resource.get("text"), str):
        return TextPart(f"[resource: {uri}]\n{resource['text']}")
    block = {"mimeType": _text_field(resource, "mimeType"), "data": _text_field(resource, "blob")}
    image = _image(block)
    return image if isinstance(image, ImagePart) else TextPart(_placeholder(f"resource: {uri}", block))


def _link(block: dict[str, Any]) -> str:
    words = (_text_field(block, "uri"), _text_field(block, "name"), _text_field(block, "description"))
    return f"[resource: {', '.join(clean(word, _LABEL_CHARS) for word in words if word)}]"


def _placeholder(kind: str, block: dict[str, Any]) -> str:
    """Formats `[audio: audio/wav, 12 kB]`."""
    facts = [clean(_text_field(block, "mimeType"), 60), _size(_text_field(block, "data"))]
    details = ", ".join(fact for fact in facts if fact)
    return f"[{kind}: {details}]" if details and ":" not in kind else f"[{kind}, {details}]" if details else f"[{kind}]"


def _size(data: str) -> str:
    size = len(data) * 3 // 4
    if not data:
        return ""
    return f"{size} B" if size < 1000 else f"{size // 1000} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def _text_field(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""
