"""The messages of a conversation. Every wire format converts to and from these."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class TextPart(msgspec.Struct, frozen=True, tag="text"):
    text: str


class ImagePart(msgspec.Struct, frozen=True, tag="image"):
    """An image as base64 `data`, or as a `url` that the backend fetches itself. Exactly one is set."""

    media_type: str = "image/png"
    data: str = ""
    url: str = ""

    @property
    def mark(self) -> str:
        """The text that stands for the image where only text is possible."""
        return f"[image: {self.media_type}]"


Part = TextPart | ImagePart


class ToolCall(msgspec.Struct, frozen=True):
    """A call as the model wrote it: `arguments` is its text, not yet trusted to be JSON."""

    id: str
    name: str
    arguments: str


class SystemMessage(msgspec.Struct, frozen=True, tag_field="role", tag="system"):
    text: str


class UserMessage(msgspec.Struct, frozen=True, tag_field="role", tag="user"):
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        return text_of(self.parts)


class AssistantMessage(msgspec.Struct, frozen=True, tag_field="role", tag="assistant", omit_defaults=True):
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""


class ToolMessage(msgspec.Struct, frozen=True, tag_field="role", tag="tool"):
    """The one result of the call `tool_call_id`."""

    tool_call_id: str
    name: str
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        return text_of(self.parts)

    @property
    def images(self) -> tuple[ImagePart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ImagePart))


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


def user(text: str) -> UserMessage:
    return UserMessage((TextPart(text),))


def text_of(parts: Iterable[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def marked_text(parts: Iterable[Part]) -> str:
    """The text of the parts, with marks for images."""
    return "".join(part.text if isinstance(part, TextPart) else part.mark for part in parts)
