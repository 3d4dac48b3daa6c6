"""What upstreams do to us: each case a whole turn, over a real socket, that must end well or with a clear sentence.

Whatever happens, history stays valid and neither a task nor a socket is left.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from aish.engine.engine import flatten
from aish.net.http.client import HttpClient
from aish.providers.endpoint import Endpoint
from aish.providers.openai.provider import OpenAIProvider
from aish.types.events import Event, Failed, ReasoningDelta, Status, TextDelta, TurnEnd, UsageReported
from aish.types.messages import AssistantMessage, Message, ToolMessage
from aish.types.tools import ResultStatus
from support.backends import answer, body_of, chunked, delta, json_answer, sse, usage_chunk
from support.engines import Bench, Tools, bodies, finish, results
from support.raw_server import Peer, nothing_left, raw_server

Act = Callable[[Peer], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"  # the body ends when the connection does
CHUNKED_HEAD = chunked()[0]
WELL = chunked(*sse(delta(content="done"), delta("stop"), "[DONE]"))
STOP = delta("stop")


@dataclass
class Turned:
    events: list[Event]
    history: Sequence[Message]
    asked: list[dict[str, Any]]
    tools: Tools

    @property
    def text(self) -> str:
        return "".join(body.text for body in bodies(self.events, TextDelta))

    @property
    def end(self) -> TurnEnd:
        return finish(self.events).reason

    @property
    def failure(self) -> Failed:
        (failure,) = bodies(self.events, Failed)
        return failure

    @property
    def statuses(self) -> list[str]:
        return [body.text for body in bodies(self.events, Status)]


async def turn(*acts: Sequence[bytes] | Act, limits: dict[str, Any] | None = None, **endpoint: Any) -> Turned:
    """One turn whose model calls are answered by `acts` in order: bytes to send, or what to do with the peer."""
    left = list(acts)
    asked: list[dict[str, Any]] = []

    async def serve(peer: Peer) -> None:
        while True:
            request = await peer.request()
            if not request.path.endswith("/chat/completions"):
                await peer.send(json_answer({"error": "not here"}, 404))
                continue
            asked.append(body_of(request))
            await _act(peer, left.pop(0))

    tools = Tools().add("t__x")
    async with nothing_left(), HttpClient() as http, raw_server(serve) as server:
        bench = Bench(provider=OpenAIProvider("up", Endpoint(url=server.url, **endpoint), http), tools=tools)
        events = await bench.run(model="up:m", limits=limits or {})
        history = await bench.engine.history(events[0].session)
    assert left == []
    _check_valid(history)
    return Turned(events, history, asked, tools)


async def _act(peer: Peer, act: Sequence[bytes] | Act) -> None:
    if callable(act):
        await act(peer)
        return
    await peer.send(*act)
    if HEAD in act:
        raise ConnectionResetError  # ends the script, and with it the connection, in an orderly way


def _check_valid(history: Sequence[Message]) -> None:
    calls = [call.id for m in history if isinstance(m, AssistantMessage) for call in m.tool_calls]
    assert calls == [m.tool_call_id for m in history if isinstance(m, ToolMessage)]
    assert len(set(calls)) == len(calls)
    assert not history or (isinstance(history[-1], AssistantMessage) and not history[-1].tool_calls)


def call_delta(arguments: Any = "{}", *, name: Any = "t__x", id: Any = "c1", index: Any = 0, **more: Any) -> Any:
    function = {"name": name, "arguments": arguments, **more}
    fields = {"index": index, "id": id, "function": {k: v for k, v in function.items() if v is not ...}}
    return delta(tool_calls=[{k: v for k, v in fields.items() if v is not ...}])


def calling(*events: Any) -> list[bytes]:
    return chunked(*sse(*events, delta("tool_calls"), "[DONE]"))


# Answers that are understood.

_HELLO = b"".join(sse(delta(content="Grü"), delta(content="ße ✓"), STOP, "[DONE]"))


def _bytewise(body: bytes) -> Act:
    async def act(peer: Peer) -> None:
        await peer.send(CHUNKED_HEAD)
        for n in range(len(body)):
            await peer.send(b"1\r\n", body[n : n + 1], b"\r\n")
        await peer.send(b"0\r\n\r\n")

    return act


_WHOLE = {
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Grüße ✓"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}

UNDERSTOOD: dict[str, Sequence[bytes] | Act] = {
    "a byte at a time": _bytewise(_HELLO),
    "a character cut in two": chunked(_HELLO[: _HELLO.index(b"\xbc")], _HELLO[_HELLO.index(b"\xbc") :]),
    "CRLF": chunked(_HELLO.replace(b"\n", b"\r\n")),
    "CRLF cut in two": chunked(*_HELLO.replace(b"\n", b"\r\n").splitlines(keepends=True)),
    "comments and keep-alives": chunked(b": hi\n\n", b":\n\n", _HELLO.replace(b"\n\n", b"\n\n: ping\n\n")),
    "no space after the colon": chunked(_HELLO.replace(b"data: ", b"data:")),
    "a byte order mark": chunked(b"\xef\xbb\xbf" + _HELLO),
    "a byte order mark before a document": chunked(b"\xef\xbb\xbf\n" + json.dumps(_WHOLE).encode()),
    "no DONE": chunked(*sse(delta(content="Grüße ✓"), STOP)),
    "no DONE and no last blank line": chunked(b"".join(sse(delta(content="Grüße ✓"), STOP)).rstrip()),
    "ended by closing": [HEAD, _HELLO],
    "content as parts": chunked(
        *sse(delta(content=[{"type": "text", "text": "Grüße"}, {"text": None}, {"text": " ✓"}]), STOP)
    ),
    "choices missing, null or empty on the way": chunked(
        *sse({"id": 1}, {"choices": None}, {"choices": []}, delta(content="Grüße ✓"), STOP, "[DONE]")
    ),
    "delta null": chunked(
        *sse({"choices": [{"delta": None, "finish_reason": None}]}, delta(content="Grüße ✓"), STOP, "[DONE]")
    ),
    "not streamed": [json_answer(_WHOLE)],
    "not streamed and in pieces": chunked(*(bytes([b]) for b in json.dumps(_WHOLE).encode())),
    "escaped instead of UTF-8": chunked(
        b'data: {"choices":[{"delta":{"content":"Gr\\u00fc\\u00dfe \\u2713"}}]}\n\n', *sse(STOP)
    ),
    "numbers where words belong": chunked(*sse({**delta(content="Grüße ✓"), "id": 7, "created": "x"}, STOP, "[DONE]")),
    "text after the finish": chunked(*sse(delta(content="Grüße"), STOP, delta(content=" ✓"), "[DONE]")),
}


@pytest.mark.parametrize("case", UNDERSTOOD)
async def test_it_is_understood(case):
    turned = await turn(UNDERSTOOD[case])
    assert turned.text == "Grüße ✓"
    assert turned.end is TurnEnd.ANSWERED
    assert turned.statuses == []


@pytest.mark.parametrize("finish", [[STOP], []])
async def test_an_answer_whose_connection_stays_open_after_done_is_over_at_once(finish):
    async def act(peer: Peer) -> None:
        await peer.send(CHUNKED_HEAD, *chunked(*sse(delta(content="x"), *finish, "[DONE]"))[1:-1])
        assert await peer.left() == "eof"

    turned = await turn(act, limits={"wall_s": 5})
    assert (turned.text, turned.end) == ("x", TurnEnd.ANSWERED)


async def test_an_answer_that_is_finished_but_never_ended_is_over_soon():
    async def act(peer: Peer) -> None:
        await peer.send(CHUNKED_HEAD, *chunked(*sse(delta(content="x"), STOP))[1:-1])
        assert await peer.left() == "eof"

    turned = await turn(act, limits={"wall_s": 8})
    assert (turned.text, turned.end) == ("x", TurnEnd.ANSWERED)


async def test_a_connection_that_breaks_after_the_finish_loses_nothing():
    async def act(peer: Peer) -> None:
        await peer.send(CHUNKED_HEAD, *chunked(*sse(delta(content="x"), STOP))[1:-1])
        peer.writer.close()

    turned = await turn(act)
    assert (turned.text, turned.end) == ("x", TurnEnd.ANSWERED)


async def test_a_missing_finish_reason_is_mentioned():
    turned = await turn(chunked(*sse(delta(content="x"), "[DONE]")))
    assert (turned.text, turned.end) == ("x", TurnEnd.ANSWERED)
    assert turned.statuses == ["up ended the answer without a finish reason"]


async def test_an_unknown_finish_reason_is_mentioned():
    turned = await turn(chunked(*sse(delta(content="x"), delta("sunset"), "[DONE]")))
    assert (turned.text, turned.end) == ("x", TurnEnd.ANSWERED)
    assert turned.statuses == ["the backend gives a reason for its end that aish does not know: sunset"]


async def test_a_filtered_answer_says_so():
    turned = await turn(chunked(*sse(delta(content="x"), delta("content_filter"), "[DONE]")))
    assert turned.statuses == ["the backend withheld the rest of the answer (content filter)"]


async def test_halves_of_characters_become_a_mark_instead_of_an_error():
    events = [
        b'data: {"choices":[{"delta":{"content":"a\xe2\x9c"}}]}\n\n',
        rb'data: {"choices":[{"delta":{"content":"b\ud83d"}}]}' + b"\n\n",
    ]
    turned = await turn(chunked(*events, *sse(STOP, "[DONE]")))
    assert turned.text == "a\ufffdb?"
    assert turned.end is TurnEnd.ANSWERED


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_told_apart_from_the_answer(field):
    turned = await turn(chunked(*sse(delta(**{field: "hm"}), delta(content="x"), STOP, "[DONE]")))
    assert [body.text for body in bodies(turned.events, ReasoningDelta)] == ["hm"]
    assert turned.text == "x"


_USAGE = usage_chunk(30, 7)["usage"]
USAGE = {
    "with the finish": [delta(content="x"), {**STOP, "usage": _USAGE}],
    "in a chunk of its own": [delta(content="x"), STOP, usage_chunk(30, 7)],
    "before the finish": [delta(content="x"), usage_chunk(30, 7), STOP],
    "growing with every chunk": [
        {**delta(content="x"), "usage": usage_chunk(30, 1)["usage"]},
        {**STOP, "usage": _USAGE},
    ],
    "null on the way": [{**delta(content="x"), "usage": None}, STOP, usage_chunk(30, 7)],
}


@pytest.mark.parametrize("case", USAGE)
async def test_usage_is_found_wherever_it_comes(case):
    turned = await turn(chunked(*sse(*USAGE[case], "[DONE]")))
    (report,) = bodies(turned.events, UsageReported)
    assert (report.usage.prompt_tokens, report.usage.completion_tokens, report.usage.estimated) == (30, 7, False)


@pytest.mark.parametrize("odd", ["many", [], 3, {}])
async def test_usage_that_makes_no_sense_is_estimated_instead(odd):
    turned = await turn(chunked(*sse({**delta(content="x"), "usage": odd}, STOP, "[DONE]")))
    assert bodies(turned.events, UsageReported)[0].usage.estimated


REFUSALS = [
    {"error": {"message": "Unknown field: stream_options", "type": "invalid_request_error"}},
    {
        "detail": [
            {"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}
        ]
    },
]


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_backend_that_refuses_stream_options_is_asked_once_more_without(refusal):
    turned = await turn([json_answer(refusal, 422)], WELL)
    assert turned.text == "done"
    assert ["stream_options" in body for body in turned.asked] == [True, False]


async def test_a_backend_that_refuses_it_twice_is_not_asked_forever():
    refused = [json_answer(REFUSALS[0], 400)]
    turned = await turn(refused, refused)
    assert turned.end is TurnEnd.FAILED
    assert turned.failure.message == "up answered 400: Unknown field: stream_options"


# Failures, each with the sentence a person reads.


def _text_then(*pieces: bytes) -> list[bytes]:
    return [HEAD, *sse(delta(content="Half")), *pieces]


FAILURES: dict[str, tuple[Sequence[bytes], str, str]] = {
    "an error object in the stream": (
        _text_then(*sse({"error": {"message": "out of memory", "type": "server_error", "code": 500}})),
        "ProviderUnavailable",
        "up answered 500: out of memory",
    ),
    "an error named by its event": (
        _text_then(b'event: error\ndata: {"error": "gone"}\n\n'),
        "ProviderUnavailable",
        "up answered 500: gone",
    ),
    "a bare error of LMDeploy": (
        chunked(*sse({"object": "error", "message": "too many sessions", "code": 429})),
        "ProviderBusy",
        "up answered 429: too many sessions",
    ),
    "a finish reason of error": (
        _text_then(*sse(delta("error"))),
        "ProviderUnavailable",
        "up answered 500: it gave up on its answer",
    ),
    "truncated JSON": (
        _text_then(b'data: {"choices": [{"delta": {"con\n\n'),
        "ProviderProtocolError",
        'up sent a chunk that cannot be read (Input data was truncated): {"choices": [{"delta": {"con',
    ),
    "JSON of another shape": (
        _text_then(*sse({"choices": "none"})),
        "ProviderProtocolError",
        "up sent a chunk that cannot be read (Expected `array | null`, got `str` - at `$.choices`): "
        "{'choices': 'none'}",
    ),
    "nested without end": (
        _text_then(b"data: " + b'{"choices":' * 100_000 + b"\n\n"),
        "ProviderProtocolError",
        "up sent a chunk that cannot be read",
    ),
    "an HTML page": (
        [answer(200, b"<!doctype html><title>Login</title>", kind="text/html")],
        "ProviderProtocolError",
        "up answered with an HTML page instead of a stream",
    ),
    "an HTML error page": (
        [answer(502, b"<html><h1>502 Bad Gateway</h1></html>", kind="text/html")],
        "ProviderUnavailable",
        "up answered 502: an HTML page",
    ),
    "an empty body": ([answer(200, b"")], "ProviderProtocolError", "up ended its answer without saying anything"),
    "an empty stream": (
        chunked(*sse("[DONE]")),
        "ProviderProtocolError",
        "up ended its answer without saying anything",
    ),
    "only chunks without choices": (
        chunked(*sse({"id": "x"}, {"choices": None}, "[DONE]")),
        "ProviderProtocolError",
        "up ended its answer without saying anything",
    ),
    "compressed": (
        [answer(200, gzip.compress(b"data: {}\n\n"), content_encoding="gzip")],
        "ProviderProtocolError",
        "up compressed its answer (gzip) although it was asked not to",
    ),
    "busy": (
        [answer(429, b'{"error": {"message": "slow down"}}', retry_after="7")],
        "ProviderBusy",
        "up answered 429: slow down",
    ),
    "loading": (
        [json_answer({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, 503)],
        "ProviderBusy",
        "up answered 503: Loading model",
    ),
    "broken": ([answer(500, b"boom", kind="text/plain")], "ProviderUnavailable", "up answered 500: boom"),
    "a colourful error": (
        [answer(500, b"\x1b[31mred\x1b[0m\r\nand\x07 more", kind="text/plain")],
        "ProviderUnavailable",
        "up answered 500: [31mred[0m and more",
    ),
    "moved": (
        [answer(301, b"", location="https://elsewhere.example/v1?token=abc")],
        "ProviderRejected",
        "up answered 301: it has moved to https://elsewhere.example/v1",
    ),
    "no such model": (
        [json_answer({"error": {"message": "The model `m` does not exist.", "code": 404}}, 404)],
        "ModelNotFound",
        "up answered 404: The model `m` does not exist.",
    ),
    "no such path": ([answer(404, b"")], "ProviderRejected", "up answered 404"),
    "too long for llama.cpp": (
        [
            json_answer(
                {
                    "error": {
                        "code": 400,
                        "message": "request (9412 tokens) exceeds the available context size (8192 tokens), "
                        "try increasing it",
                        "type": "exceed_context_size_error",
                        "n_prompt_tokens": 9412,
                        "n_ctx": 8192,
                    }
                },
                400,
            )
        ],
        "PromptTooLong",
        "up answered 400: request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it",
    ),
    "a template of llama.cpp": (
        [
            json_answer(
                {"error": {"code": 500, "message": "Jinja Exception: roles must alternate", "type": "server_error"}},
                500,
            )
        ],
        "ProviderRejected",
        "up answered 500: Jinja Exception: roles must alternate",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
async def test_it_fails_with_a_clear_sentence(case):
    pieces, kind, sentence = FAILURES[case]
    turned = await turn(pieces)
    assert turned.end is TurnEnd.FAILED
    assert (turned.failure.kind, turned.failure.message[: len(sentence)]) == (kind, sentence)
    assert turned.history == () or turned.history[-1] == AssistantMessage("Half")


@pytest.mark.parametrize(
    ("case", "hint"),
    [
        ("busy", "it is busy; try again in 7 s"),
        ("loading", "it is busy; try again later"),
        ("an HTML page", "is the provider's url right? It usually ends in /v1"),
        ("moved", "set the provider's url to where it is now"),
        ("compressed", "turn off compression in the proxy or gateway before it"),
        ("too long for llama.cpp", "the conversation no longer fits the model: start a new session,"),
        ("a template of llama.cpp", "the model's chat template cannot render this conversation;"),
        ("no such model", "`aish models` lists what up has; asked for m"),
    ],
)
async def test_the_hint_says_what_to_do(case, hint):
    turned = await turn(FAILURES[case][0])
    assert turned.failure.hint.startswith(hint)


async def test_a_reset_before_the_first_token_is_a_failure_without_a_half_turn():
    async def act(peer: Peer) -> None:
        peer.reset()

    turned = await turn(act, act)  # a connection that was kept may die by chance, so a new one is tried
    assert turned.failure.kind == "ProviderUnavailable"
    assert turned.failure.message.endswith("the connection was closed before it answered")
    assert turned.history == ()


@pytest.mark.parametrize("how", ["reset", "close"])
async def test_a_connection_lost_after_the_first_token_keeps_what_was_said(how):
    async def act(peer: Peer) -> None:
        await peer.send(CHUNKED_HEAD, *chunked(*sse(delta(content="Half")))[1:-1])
        await text_seen.wait()
        peer.reset() if how == "reset" else peer.writer.close()

    text_seen = asyncio.Event()
    async with nothing_left(), HttpClient() as http, raw_server(_chat(act)) as server:
        bench = Bench(provider=OpenAIProvider("up", Endpoint(url=server.url), http))
        events = []
        async with asyncio.timeout(10), bench.engine.turn(bench.request(model="up:m")) as stream:
            async for event in flatten(stream):
                events.append(event)
                if isinstance(event.body, TextDelta):
                    text_seen.set()
        history = await bench.engine.history(events[0].session)
    (failure,) = bodies(events, Failed)
    assert failure.message.endswith("the connection was closed in the middle of its answer")
    assert history[-1] == AssistantMessage("Half")


def _chat(act: Act) -> Act:
    async def serve(peer: Peer) -> None:
        while not (await peer.request()).path.endswith("/chat/completions"):
            await peer.send(json_answer({}, 404))
        await act(peer)

    return serve


async def test_headers_and_then_silence_end_with_the_time_of_the_turn():
    async def act(peer: Peer) -> None:
        await peer.send(CHUNKED_HEAD)
        assert await peer.left() == "eof"

    turned = await turn(act, limits={"wall_s": 0.2})
    assert turned.end is TurnEnd.WALL_TIME
    assert turned.statuses == ["stopped after 0.2 s, the time limit for one turn"]
    assert turned.history == ()


def test_each_of_many_turns_ends_with_its_time_on_a_loop_whose_clock_is_coarser_than_theirs():
    """uvloop counts whole milliseconds: to it a deadline comes up to one of them before its time."""
    uvloop = pytest.importorskip("uvloop", reason="it does not exist for this system")

    async def act(peer: Peer) -> None:
        assert await peer.left() == "eof"

    async def behaviour() -> list[list[Event]]:
        async with nothing_left(), HttpClient() as http, raw_server(_chat(act)) as server:
            bench = Bench(provider=OpenAIProvider("up", Endpoint(url=server.url), http))
            wall_s = 1.01  # so much that the sweep has the first look
            return await asyncio.gather(*[bench.run(model="up:m", limits={"wall_s": wall_s}) for _ in range(40)])

    ends = [(finish(events).reason, bodies(events, Failed)) for events in uvloop.run(behaviour())]
    assert ends == [(TurnEnd.WALL_TIME, [])] * 40


async def test_a_backend_may_think_longer_before_its_first_word_than_between_words():
    async def act(peer: Peer) -> None:
        await peer.send(CHUNKED_HEAD, *[b""] * 50)  # many turns of the loop
        await peer.send(b"".join(WELL[1:]))

    assert (await turn(act, idle_timeout_s=0)).text == "done"


async def test_silence_in_the_middle_is_a_failure_that_says_how_long():
    async def act(peer: Peer) -> None:
        await peer.send(CHUNKED_HEAD, *chunked(*sse(delta(content="Half")))[1:-1])
        assert await peer.left() == "eof"

    turned = await turn(act, idle_timeout_s=0.1)
    assert turned.failure.kind == "ProviderTimeout"
    assert turned.failure.message.endswith("fell silent for 0.1 s in the middle of its answer")
    assert turned.history[-1] == AssistantMessage("Half")


async def test_a_line_of_fifty_megabytes_is_refused_before_it_is_held():
    async def act(peer: Peer) -> None:
        await peer.send(HEAD, b"data: ")
        for _ in range(50):
            await peer.send(b"x" * 1_000_000)

    turned = await turn(act)
    assert turned.failure.kind == "ProviderProtocolError"
    assert turned.failure.message == "up: an event is larger than 8388608 bytes"


async def test_an_error_body_that_never_ends_does_not_hold_up_the_error():
    async def act(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 500 X\r\ncontent-length: 999\r\n\r\nout of memory")
        assert await peer.left() == "eof"

    turned = await turn(act, limits={"wall_s": 15})
    assert turned.failure.message == "up answered 500: out of memory"


# Tool calls.

_ARGUMENTS = {"n": 1, "s": "é"}
_TEXT = json.dumps(_ARGUMENTS)

CALLS: dict[str, list[Any]] = {
    "in one piece": [call_delta(_TEXT)],
    "in fragments": [call_delta(_TEXT[:3]), call_delta(_TEXT[3:], name=..., id=...)],
    "name and id repeated with every fragment": [call_delta(_TEXT[:3]), call_delta(_TEXT[3:])],
    "without an id": [call_delta(_TEXT, id=...)],
    "with an id of null": [call_delta(_TEXT, id=None)],
    "with an id of a number": [call_delta(_TEXT, id=9)],
    "with an index as text": [call_delta(_TEXT[:3], index="0"), call_delta(_TEXT[3:], index=0, name=None, id=None)],
    "arguments as an object": [call_delta(_ARGUMENTS)],
    "id and name in a chunk of their own": [call_delta(""), call_delta(_TEXT, id=..., name=...)],
    "the name after the arguments": [call_delta(_TEXT, name=...), call_delta("", id=...)],
}


@pytest.mark.parametrize("case", CALLS)
async def test_a_call_is_put_together(case):
    turned = await turn(calling(*CALLS[case]), WELL)
    assert turned.tools.calls == [("t__x", _ARGUMENTS)]
    assert turned.text == "done"


async def test_two_calls_whose_fragments_interleave_are_told_apart():
    one, two = {"n": 1}, {"n": 2}
    first = [call_delta('{"n"', id="a", index=0), call_delta('{"n"', id="b", index=1)]
    rest = [call_delta(": 2}", id=..., name=..., index=1), call_delta(": 1}", id=..., name=..., index=0)]
    turned = await turn(calling(*first, *rest), WELL)
    assert turned.tools.calls == [("t__x", one), ("t__x", two)]
    assert [m.tool_call_id for m in turned.history if isinstance(m, ToolMessage)] == ["a", "b"]


async def test_two_calls_without_index_are_read_in_order_and_mentioned_once():
    turned = await turn(
        calling(
            call_delta('{"n"', id="a", index=...),
            call_delta(": 1}", id=..., name=..., index=...),
            call_delta('{"n": 2}', id="b", index=...),
        ),
        WELL,
    )
    assert [arguments for _, arguments in turned.tools.calls] == [{"n": 1}, {"n": 2}]
    assert turned.statuses == ["the backend leaves out the index of tool calls; reading them in order"]


async def test_calls_of_an_answer_that_is_not_streamed_are_all_run():
    function = {"name": "t__x", "arguments": ""}
    message = {"role": "assistant", "content": None, "tool_calls": [{"function": function}, {"function": function}]}
    turned = await turn([json_answer({"choices": [{"message": message, "finish_reason": "tool_calls"}]})], WELL)
    assert turned.tools.calls == [("t__x", {}), ("t__x", {})]
    assert turned.statuses == []


@pytest.mark.parametrize("empty", ["", "  ", None, ...])
async def test_no_arguments_at_all_are_an_empty_object(empty):
    turned = await turn(calling(call_delta(empty)), WELL)
    assert turned.tools.calls == [("t__x", {})]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("[1, 2]", "the arguments must be one JSON object, not an array"),
        ([1, 2], "the arguments must be one JSON object, not an array"),
        ('{"n": ', "the arguments are not complete"),
        ("{n n}", "the arguments are not valid JSON"),
        ("true", "the arguments must be one JSON object, not a boolean"),
    ],
)
async def test_arguments_that_are_no_object_are_told_to_the_model_and_sent_back_as_one(arguments, sentence):
    turned = await turn(calling(call_delta(arguments)), WELL)
    (result,) = results(turned.events)
    assert result.status is ResultStatus.BAD_ARGUMENTS
    assert sentence in result.parts[0].text
    (sent,) = turned.asked[1]["messages"][-2]["tool_calls"]
    assert isinstance(json.loads(sent["function"]["arguments"]), dict)
    assert turned.tools.calls == []


async def test_a_megabyte_of_arguments_arrives_whole():
    text = json.dumps({"s": "x" * 1_000_000})
    turned = await turn(calling(call_delta(text[:500_000]), call_delta(text[500_000:], id=..., name=...)), WELL)
    assert len(turned.tools.calls[0][1]["s"]) == 1_000_000


@pytest.mark.parametrize("name", [..., None, ""])
async def test_a_call_without_a_name_is_answered_to_the_model(name):
    turned = await turn(calling(call_delta(_TEXT, name=name)), WELL)
    (result,) = results(turned.events)
    assert result.status is ResultStatus.UNKNOWN_TOOL
    assert turned.text == "done"


async def test_a_call_that_the_end_of_the_stream_cuts_off_is_never_run():
    turned = await turn([HEAD, *sse(call_delta('{"path": "/tmp/a", "text": "all of'))])
    assert turned.failure.message == "up broke off its answer in a tool call"
    assert turned.tools.calls == []
    assert turned.history == ()


async def test_a_finish_reason_of_stop_does_not_hide_the_calls():
    turned = await turn(chunked(*sse(call_delta(_TEXT), STOP, "[DONE]")), WELL)
    assert turned.tools.calls == [("t__x", _ARGUMENTS)]


async def test_a_backend_that_fails_after_a_tool_ran_leaves_its_result_in_history():
    turned = await turn(calling(call_delta(_TEXT)), FAILURES["broken"][0])
    assert turned.end is TurnEnd.FAILED
    assert [type(message).__name__ for message in turned.history] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "AssistantMessage",
    ]


async def test_leaving_the_turn_closes_the_upstream_request_at_once():
    async def act(peer: Peer) -> None:
        await peer.send(CHUNKED_HEAD, *chunked(*sse(delta(content="Half")))[1:-1])
        departures.append(await peer.left())

    departures: list[str] = []
    async with nothing_left(), HttpClient() as http, raw_server(_chat(act)) as server:
        bench = Bench(provider=OpenAIProvider("up", Endpoint(url=server.url), http))
        async with asyncio.timeout(10), bench.engine.turn(bench.request(model="up:m")) as stream:
            async for event in flatten(stream):
                session = event.session
                if isinstance(event.body, TextDelta):
                    break
        await server.scripts_ended()
        assert departures == ["eof"]
        assert (await bench.engine.history(session))[-1] == AssistantMessage("Half")
