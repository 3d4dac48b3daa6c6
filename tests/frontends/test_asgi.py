"""The body of a request over a real socket: whole, and bounded, however it comes."""

import pytest

from aish.frontends.asgi import CONNECTION, Exchange, HttpRefusal
from support.eventually import eventually
from support.http_listening import client, listening

HEAD = b"POST / HTTP/1.1\r\nhost: localhost\r\n"


@pytest.mark.parametrize(("body", "status"), [(b"four", 200), (b"5five", 413)])
@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("is_there", [True, False])
async def test_a_body_is_read_whole_and_only_up_to_its_bound(body, status, *, chunked, is_there):
    begun = []

    async def app(scope, receive, send):
        exchange = Exchange(scope, receive, send)
        begun.append(not scope[CONNECTION].more_body)
        try:
            await exchange.reply(200, await exchange.body(4))
        except HttpRefusal as exc:
            await exchange.reply(exc.status)

    head = b"transfer-encoding: chunked\r\n\r\n" if chunked else b"content-length: %d\r\n\r\n" % len(body)
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    async with listening(app) as (port, _), client(port) as (reader, writer):
        writer.write(HEAD + head + (sent if is_there else b""))
        await eventually(lambda: begun)
        writer.write(b"" if is_there else sent)
        raw = await reader.readuntil(body if status == 200 else b"\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 %d " % status)
    assert begun == [is_there]
