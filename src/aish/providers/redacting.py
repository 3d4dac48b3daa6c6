"""A provider that receives no secrets: they are replaced on the way out and restored on the way in.

They are restored in text for the reader. In the arguments of a call, in a plan and in a proposed command line the
placeholder stays, unless the user has named the tool or the program as a recipient. Otherwise a model could have a
secret sent anywhere.

It wraps any other provider, for models marked `redact`. Names, capabilities and failures are those of the inner
provider.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import msgspec

from aish.errors import ProviderError, ProviderRejected
from aish.ports import Provider, TextRelay
from aish.providers.http_errors import SEND_TEXT
from aish.safety.policy.rules import SHELL_TOOL
from aish.safety.policy.secret_recipients import Recipients
from aish.safety.redaction.redactor import Redactor
from aish.safety.redaction.vault import Restorer, Vault
from aish.tool_calls.detect.proposals import BEGINNING, BEGINNING_CHARS, FenceTracker
from aish.types.chunks import Batch, CallFragment, Chunk, StepFinished
from aish.types.events import ReasoningDelta, TextDelta
from aish.types.messages import (
    AssistantMessage,
    ImagePart,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from aish.types.models import ModelProfile
from aish.types.requests import EmbeddingResult, Inputs, Knobs, Sampling, StepRequest, ToolChoice, texts_of
from aish.types.tools import ToolSpec

NO_RECIPIENTS = Recipients()


class RedactingProvider:
    def __init__(self, inner: Provider, redactor: Redactor, recipients: Recipients = NO_RECIPIENTS) -> None:
        self._recipients = recipients
        self._inner = inner
        self._redactor = redactor

    @property
    def name(self) -> str:
        return self._inner.name

    async def list_models(self) -> Sequence[ModelProfile]:
        return await self._inner.list_models()

    async def describe(self, model: str) -> ModelProfile:
        return await self._inner.describe(model)

    @asynccontextmanager
    async def stream(
        self, request: StepRequest, relay: TextRelay | None = None
    ) -> AsyncIterator[AsyncGenerator[Batch, None]]:
        async with aclosing(self._batches(request)) as batches:
            yield batches

    def prepare(self, request: StepRequest) -> StepRequest:
        """Placeholders are counted by `count_tokens`, which sees the text."""
        return self._inner.prepare(request)

    async def count_tokens(self, model: str, text: str) -> int | None:
        return await self._inner.count_tokens(model, self._redactor.text(text))

    async def count_prompt(self, request: StepRequest) -> int | None:
        return await self._inner.count_prompt(_redact_request(request, Vault(self._redactor, request.session)))

    async def embed(self, model: str, inputs: Inputs) -> EmbeddingResult:
        """Secrets cannot be found in token ids, so ids are refused."""
        if (texts := texts_of(inputs)) is None:
            raise ProviderError(f"{self.name} is set to `redact`, and secrets are not found in ids", hint=SEND_TEXT)
        return await self._inner.embed(model, [self._redactor.text_everywhere(text) for text in texts])

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _batches(self, request: StepRequest) -> AsyncGenerator[Batch, None]:
        vault = Vault(self._redactor, request.session)
        reply = _ReplyRestorer(vault, request, self._recipients)
        async with self._inner.stream(_redact_request(request, vault)) as batches:
            async for batch in batches:
                if restored := [whole for chunk in batch for whole in reply.restore(chunk)]:
                    yield restored


class _ReplyRestorer:
    """Restores secrets in the streams of a reply: text (which may have to be JSON), reasoning, and the arguments of
    each call."""

    def __init__(self, vault: Vault, request: StepRequest, recipients: Recipients) -> None:
        self._vault = vault
        self._recipients = recipients
        self._tools = {tool.name for tool in request.tools}
        self._text = Restorer(_text_restorer(vault, request))
        self._reasoning = Restorer(vault.restore)
        self._calls: dict[int | None, _ArgumentsRestorer] = {}

    def restore(self, chunk: Chunk) -> list[Chunk]:
        if isinstance(chunk, TextDelta):
            return [TextDelta(text)] if (text := self._text.feed(chunk.text)) else []
        if isinstance(chunk, ReasoningDelta):
            return [ReasoningDelta(text)] if (text := self._reasoning.feed(chunk.text)) else []
        if isinstance(chunk, CallFragment):
            if chunk.index not in self._calls:
                # A misspelt name may be repaired to another tool, so it counts as none.
                name = name if (name := self._vault.restore_name(chunk.name)) in self._tools else ""
                self._calls[chunk.index] = _ArgumentsRestorer(self._vault, self._recipients, name)
            arguments = self._calls[chunk.index].feed(chunk.arguments)
            return [msgspec.structs.replace(chunk, name=self._vault.restore_name(chunk.name), arguments=arguments)]
        if isinstance(chunk, StepFinished):
            return [*self._flush(), chunk]
        return [chunk]

    def _flush(self) -> list[Chunk]:
        rest: list[Chunk] = []
        if text := self._reasoning.finish():
            rest.append(ReasoningDelta(text))
        if text := self._text.finish():
            rest.append(TextDelta(text))
        rest += [CallFragment(index, arguments=t) for index, call in self._calls.items() if (t := call.finish())]
        return rest


class _ArgumentsRestorer:
    """Restores secrets in the arguments of one call. The command of the shell tool is known only when all of it has
    come."""

    def __init__(self, vault: Vault, recipients: Recipients, tool: str) -> None:
        self._vault = vault
        self._recipients = recipients
        self._tool = tool
        self._restorer = Restorer(vault.restore_json if recipients.has_tool(tool) else str)
        self._waits = tool == SHELL_TOOL and bool(recipients.programs) and not recipients.has_tool(tool)
        self._waiting: list[str] = []

    def feed(self, text: str) -> str:
        if self._waits:
            self._waiting.append(text)
            return ""
        return self._restorer.feed(text)

    def finish(self) -> str:
        if not self._waits:
            return self._restorer.finish()
        whole = "".join(self._waiting)
        return self._vault.restore_json(whole) if self._recipients.has_programs_of(self._tool, whole) else whole


def _text_restorer(vault: Vault, request: StepRequest) -> Callable[[str], str]:
    if request.plans_calls:
        return str
    if request.sampling.json_object or request.sampling.json_schema is not None:
        return vault.restore_json
    return _ProseRestorer(vault).restore


_LINE_CHARS = 300  # more than the line of a code fence has


class _ProseRestorer:
    """Restores secrets in streamed text, except in what may be run: lines that propose a command, and shell code."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._begun = ""  # the beginning of the current line
        self._fence = FenceTracker()

    def restore(self, piece: str) -> str:
        return "".join(map(self._restore_line, piece.splitlines(keepends=True)))

    def _restore_line(self, piece: str) -> str:
        self._begun = (self._begun + piece)[:_LINE_CHARS]
        is_command = self._fence.is_for_shell or BEGINNING.match(self._begun[:BEGINNING_CHARS]) is not None
        if piece.splitlines()[0] != piece:
            self._fence.feed(self._begun.rstrip("\r\n"))
            self._begun = ""
        return piece if is_command else self._vault.restore(piece)


def _redact_request(request: StepRequest, vault: Vault) -> StepRequest:
    return msgspec.structs.replace(
        request,
        messages=_redact_messages(request.messages, vault),
        tools=tuple(_redact_tool(tool, vault) for tool in request.tools),
        tool_choice=_redact_choice(request.tool_choice, vault),
        sampling=_redact_sampling(request.sampling, vault),
    )


def _redact_choice(choice: ToolChoice, vault: Vault) -> ToolChoice:
    if not choice.named and not choice.among:
        return choice
    return msgspec.structs.replace(
        choice, named=vault.scrub_name(choice.named), among=tuple(map(vault.scrub_name, choice.among))
    )


def _redact_tool(tool: ToolSpec, vault: Vault) -> ToolSpec:
    """Returns the same object where there is nothing to replace, which is nearly always: caches know tools by
    identity."""
    text = msgspec.json.encode((tool.name, tool.description, tool.schema)).decode()
    if vault.scrub(text) is text:
        return tool
    description, schema = vault.scrub(tool.description), _redact_json(tool.schema, vault)
    return msgspec.structs.replace(tool, name=vault.scrub_name(tool.name), description=description, schema=schema)


def _redact_sampling(sampling: Sampling, vault: Vault) -> Sampling:
    """Stop texts become placeholders, too: the model knows no other form of the secret."""
    stop = tuple(vault.scrub(text) for text in sampling.stop)
    knobs = None if sampling.knobs is None else _redact_knobs(sampling.knobs, vault)
    schema = _redact_field(sampling.json_schema, vault, "json_schema")
    effort = vault.scrub(sampling.reasoning_effort)
    return msgspec.structs.replace(sampling, stop=stop, knobs=knobs, json_schema=schema, reasoning_effort=effort)


def _redact_knobs(knobs: Knobs, vault: Vault) -> Knobs:
    return Knobs(**_redact_field(msgspec.structs.asdict(knobs), vault, "chat_template_kwargs"))


def _redact_field(value: Any, vault: Vault, field: str) -> Any:
    try:
        return _redact_json(value, vault)
    except RecursionError as exc:
        raise ProviderRejected(f"`{field}` is nested too deeply to look for secrets in it") from exc


def _redact_json(value: Any, vault: Vault) -> Any:
    if isinstance(value, str):
        return vault.scrub(value)
    if isinstance(value, dict):
        return {vault.scrub(key): _redact_json(item, vault) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_redact_json(item, vault) for item in value])
    return value


def _redact_messages(messages: Sequence[Message], vault: Vault) -> tuple[Message, ...]:
    """Texts of one role are also read as one text, in which a secret may be split over parts and messages."""
    texts: dict[type[Message], list[str]] = {}
    for message in messages:
        texts.setdefault(type(message), []).extend(_texts(message))
    scrubbed = {role: iter(vault.scrub_joined(of_role)) for role, of_role in texts.items()}
    return tuple([_redact_message(message, scrubbed[type(message)], vault) for message in messages])


def _texts(message: Message) -> list[str]:
    if isinstance(message, SystemMessage | AssistantMessage):
        return [message.text]
    return [part.text for part in message.parts if isinstance(part, TextPart)]


def _redact_message(message: Message, texts: Iterator[str], vault: Vault) -> Message:
    """`texts` are the scrubbed ones. Returns the same object where nothing was replaced: caches know messages by
    identity."""
    match message:
        case SystemMessage(text):
            return message if (scrubbed := next(texts)) is text else SystemMessage(scrubbed)
        case UserMessage(parts):
            return message if (new := _redact_parts(parts, texts, vault)) == parts else UserMessage(new)
        case AssistantMessage(text, calls, reasoning):
            redacted = AssistantMessage(
                next(texts), tuple([_redact_call(call, vault) for call in calls]), vault.scrub(reasoning)
            )
            return message if redacted == message else redacted
        case ToolMessage(call, name, parts):
            new = _redact_parts(parts, texts, vault)
            result = ToolMessage(vault.scrub_name(call), vault.scrub_name(name), new)
            return message if result == message else result


def _redact_call(call: ToolCall, vault: Vault) -> ToolCall:
    return ToolCall(vault.scrub_name(call.id), vault.scrub_name(call.name), vault.scrub(call.arguments))


def _redact_parts(parts: Sequence[Part], texts: Iterator[str], vault: Vault) -> tuple[Part, ...]:
    return tuple([TextPart(next(texts)) if isinstance(p, TextPart) else _redact_image(p, vault) for p in parts])


def _redact_image(image: ImagePart, vault: Vault) -> Part:
    """A file in which something was replaced is no image any more, and an address leads elsewhere."""
    if vault.scrub(image.url) is image.url and vault.scrub(image.data) is image.data:
        return image
    return TextPart(f"{image.mark} (not sent: a secret was found in it)")
