"""`POST /v1/embeddings` and `POST /tokenize`."""

from __future__ import annotations

import array
import base64
import sys
from collections.abc import Sequence
from typing import Annotated, Literal, cast

import msgspec

from aish.frontends.asgi import Exchange
from aish.frontends.http.auth.authentication import Caller
from aish.frontends.http.openai.models import count_text
from aish.frontends.http.server.http_errors import bad_field, decode_body
from aish.frontends.http.server.reply_stream import run_while_connected
from aish.frontends.http.server.routes import HttpRoute
from aish.frontends.http.server.service import Service
from aish.types.requests import Inputs
from aish.types.usage import NOTHING_USED

_MAX_INPUTS = 2048  # OpenAI's bound
_MAX_IDS = 128 * 1024  # in one input: more than any model that embeds can read

# Backends in C keep an id in 32 bits.
_Id = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Ids = Annotated[list[_Id], msgspec.Meta(min_length=1, max_length=_MAX_IDS)]


class EmbeddingsBody(msgspec.Struct, frozen=True):
    input: str | list[str | _Id | _Ids]
    model: str = ""
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None


class TokenizeBody(msgspec.Struct, frozen=True):
    """llama.cpp calls the text `content`, vLLM `prompt`, others `text`."""

    model: str = ""
    content: str | None = None
    prompt: str | None = None
    text: str | None = None


_embeddings_decoder = msgspec.json.Decoder(EmbeddingsBody)
_tokenize_decoder = msgspec.json.Decoder(TokenizeBody)


class Embeddings:
    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[HttpRoute]:
        return [
            HttpRoute(
                "POST", "/v1/embeddings", self.create, "Vectors for texts, or for token ids", body=EmbeddingsBody
            ),
            HttpRoute("POST", "/tokenize", self.tokenize, "How many tokens a text is", body=TokenizeBody),
        ]

    async def create(self, exchange: Exchange, caller: Caller) -> None:
        service = self._service
        given = decode_body(await exchange.body(service.config.max_body_bytes), _embeddings_decoder)
        service.check_model(caller, given.model)
        inputs = _inputs(given.input)
        route = await service.engine.router.resolve(given.model)
        embedded = await run_while_connected(exchange, service.engine.side_calls.embed(route, inputs, caller.payer))
        vectors, spent = embedded.vectors, embedded.usage or NOTHING_USED
        service.metrics.count_spent(service.metrics.model_counters(route.name), spent)
        await service.keys.save_spending(caller.key)
        _check_dimensions(given, vectors)
        encoded = _as_base64 if given.encoding_format == "base64" else list
        data = [{"object": "embedding", "index": n, "embedding": encoded(v)} for n, v in enumerate(vectors)]
        usage = {"prompt_tokens": spent.prompt_tokens, "total_tokens": spent.total_tokens}
        answer = {"object": "list", "data": data, "model": given.model or route.name, "usage": usage}
        await exchange.reply(200, msgspec.json.encode(answer))

    async def tokenize(self, exchange: Exchange, caller: Caller) -> None:
        given = decode_body(await exchange.body(self._service.config.max_body_bytes), _tokenize_decoder)
        self._service.check_model(caller, given.model)
        text = next((t for t in (given.content, given.prompt, given.text) if t is not None), None)
        if text is None:
            raise bad_field("content", "is missing")
        count = await run_while_connected(exchange, count_text(self._service, given.model, text))
        answer = {"count": count.tokens, "max_model_len": count.window, "estimated": count.estimated}
        await exchange.reply(200, msgspec.json.encode(answer))


def _inputs(given: str | list[str | int | list[int]]) -> Inputs:
    """A text, texts, the ids of one, or the ids of several."""
    if isinstance(given, str):
        given = [given]
    if not given:
        raise bad_field("input", "must not be empty")
    kinds = set(map(type, given))
    if len(kinds) > 1:
        raise bad_field("input", "must be texts, token ids or lists of token ids, and not some of each")
    if kinds == {int}:
        if len(given) > _MAX_IDS:
            raise bad_field("input", f"{len(given)} token ids are too many, {_MAX_IDS} at most")
        return [[id for id in given if isinstance(id, int)]]
    if len(given) > _MAX_INPUTS:
        raise bad_field("input", f"{len(given)} inputs are too many, {_MAX_INPUTS} at most")
    if "" in given:
        raise bad_field(f"input[{given.index('')}]", "must not be empty")
    return cast("Inputs", given)


def _check_dimensions(given: EmbeddingsBody, vectors: Sequence[Sequence[float]]) -> None:
    """Few backends can shorten vectors, and a vector of another length than requested fits nowhere."""
    there = {len(vector) for vector in vectors}
    if given.dimensions is not None and there != {given.dimensions}:
        raise bad_field("dimensions", f"{given.model} gives {', '.join(map(str, sorted(there)))}, and no other number")


def _as_base64(vector: Sequence[float]) -> str:
    """Little-endian 32-bit floats, which OpenAI's clients ask for by default."""
    packed = array.array("f", vector)
    if sys.byteorder == "big":
        packed.byteswap()
    return base64.b64encode(packed.tobytes()).decode()
