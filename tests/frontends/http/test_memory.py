"""What a request leaves behind in memory: nothing, however it ended.

A collector that comes seldom would keep every large conversation that failed until then.
"""

import json

import pytest

from aish.errors import ProviderBusy, ProviderUnavailable
from aish.types.events import TextDelta
from support.engines import Bench
from support.garbage import left_to_the_collector
from support.http_face import face
from support.http_listening import client, listening

PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
ENDS = {
    "answered": ([TextDelta("said")], 200),
    "unavailable": ([ProviderUnavailable("down")], 502),
    "busy": ([ProviderBusy("later")], 429),
    "broken off": ([TextDelta("half"), ProviderUnavailable("lost")], None),
    "unknown model": ([], 404),
}


def request(path, key="", **fields):
    said = {"messages": [{"role": "user", "content": "hello"}], "input": "hello", "max_tokens": 9}
    body = json.dumps({"model": "scripted:model", **said, **fields}).encode()
    keyed = f"idempotency-key: {key}\r\n" if key else ""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{keyed}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def nothing_waits_for_the_collector(bench, requests, status):
    async with face(bench) as http, listening(http.app) as (port, _):

        async def ask(sent):
            async with client(port) as (reader, writer):
                writer.write(sent)
                raw = await reader.read()
            assert status is None or raw.startswith(b"HTTP/1.1 %d " % status)

        await ask(requests[0])  # what is made once is made
        with left_to_the_collector() as found:
            for sent in requests[1:]:
                await ask(sent)
    assert {type(thing).__name__ for thing in found} <= {
        "ClientConnection",
        "RequestCycle",
    }  # the transport of a closed one


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", PATHS)
async def test_nothing_of_a_request_waits_for_the_collector(path, stream, end):
    answer, status = ENDS[end]
    sent = request(path, stream=stream, model="nope" if end == "unknown model" else "scripted:model")
    await nothing_waits_for_the_collector(Bench(*[answer] * 3), [sent] * 3, status)


@pytest.mark.parametrize("stream", [True, False])
async def test_nor_does_a_reply_that_was_kept_for_a_retry(stream):
    sent = [request(PATHS[0], key, stream=stream) for key in ("a", "b", "c")]
    await nothing_waits_for_the_collector(Bench(*[[TextDelta("said")]] * 3), sent, 200)
