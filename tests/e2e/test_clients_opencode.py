"""opencode against `aish serve`: whole turns with its own tools and ours, over chat completions, watched by its feed.

Installs opencode under `.cache/clients` when it is not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.clients import Client, Opencode, opencode_program, opencode_run, opencode_serving
from support.mcp_peers import node_server
from support.recording_upstream import (
    Cut,
    Gate,
    Hold,
    Reply,
    Seen,
    Text,
    Thought,
    call,
    calls,
    ends_with_role,
    failure,
    offers,
    offers_nothing,
    text,
)
from support.serving import DIRECT, ECHO, NOTE, WAIT, Served, serving

pytestmark = [pytest.mark.real_servers, pytest.mark.timeout(900)]  # the first one to run installs
ours = pytest.mark.skipif(DIRECT, reason="CLIENTS_DIRECT: there is no server in between")

HEARTBEATS = "heartbeat_s = 0.5\n"
TITLE = "A title"


def asks_for_a_title(seen: Seen) -> bool:
    """It comes beside the first real request, and without opencode's tools; ours may have been added to it."""
    return "read" not in seen.offered


@pytest.fixture(scope="session")
def everything() -> tuple[str, ...]:
    """Made before any test has a home of its own, so that npm finds its settings."""
    opencode_program()
    return node_server("everything")


@pytest.fixture
def aish_server(everything: tuple[str, ...], private_home: Path) -> Iterator[Served]:
    with serving(private_home, everything, config=HEARTBEATS) as served:
        served.upstream.always(text(TITLE), when=asks_for_a_title)
        yield served


@pytest.fixture
def client(aish_server: Served, private_home: Path) -> Client:
    return Client(private_home / "client", aish_server.url)


@pytest.fixture
def opencode(client: Client) -> Iterator[Opencode]:
    with opencode_serving(client, chunkTimeout=4000) as running:
        yield running


def turns(served: Served) -> list[Seen]:
    """The requests of the work itself, without the titles."""
    return [seen for seen in served.upstream.requests if not asks_for_a_title(seen)]


def said(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


def tools_shown(opencode: Opencode) -> set[str]:
    parts = [properties["part"] for properties in opencode.of("message.part.updated")]
    return {part["tool"] for part in parts if part["type"] == "tool"}


def results(seen: Seen) -> list[str]:
    return [one["content"] for one in seen.messages if one["role"] == "tool"]


def errors(opencode: Opencode) -> list[str]:
    return [json.dumps(properties.get("error")) for properties in opencode.of("session.error")]


def retries(opencode: Opencode) -> list[Any]:
    return [one["status"] for one in opencode.of("session.status") if one["status"]["type"] == "retry"]


def test_an_answer_arrives_token_for_token_with_its_usage(aish_server: Served, opencode: Opencode):
    aish_server.upstream.reply(text("It ", "is ", "done ✓."), when=offers("read"))
    message = opencode.ask(opencode.new_session(), "say it")
    assert said(message) == "It is done ✓."
    opencode.wait_for(lambda seen: seen.deltas() == ["It ", "is ", "done ✓."], "the text token for token")
    assert (message["info"]["tokens"]["input"], message["info"]["tokens"]["output"]) == (12, 5)
    assert message["info"]["finish"] == "stop"
    assert len(turns(aish_server)) == 1


def test_a_piece_is_shown_before_the_next_one_leaves_the_upstream(aish_server: Served, opencode: Opencode):
    gate = Gate()
    aish_server.upstream.reply(Reply((Text("one "), Hold(gate), Text("two"))), when=offers("read"))
    asking = opencode.start(opencode.new_session(), "say it")
    opencode.wait_for(lambda seen: seen.deltas() == ["one "], "the first piece")
    gate.open()
    asking.join(60)
    opencode.wait_for(lambda seen: seen.deltas() == ["one ", "two"], "the second piece")


def test_every_turn_gets_the_whole_conversation(aish_server: Served, opencode: Opencode):
    aish_server.upstream.reply(text("Hello Ann."), text("You are Ann."), when=offers("read"))
    session = opencode.new_session()
    assert said(opencode.ask(session, "I am Ann")) == "Hello Ann."
    assert said(opencode.ask(session, "Who am I?")) == "You are Ann."
    told = [message["content"] for message in turns(aish_server)[-1].messages if message["role"] != "system"]
    assert told == ["I am Ann", "Hello Ann.", "Who am I?"]


def test_opencode_runs_its_own_tool_and_goes_on_with_what_came_of_it(
    aish_server: Served, client: Client, opencode: Opencode
):
    note = client.work / "note.txt"
    note.write_text("a line in a file\n")
    aish_server.upstream.reply(call("read", {"filePath": str(note)}), text("Read it."), when=offers("read"))
    assert said(opencode.ask(opencode.new_session(), "read the note")) == "Read it."
    assert "a line in a file" in results(turns(aish_server)[-1])[0]
    assert len(turns(aish_server)) == 2


@ours
def test_tools_of_the_server_run_unseen_and_without_a_loop(aish_server: Served, opencode: Opencode):
    replies = (call(NOTE, {"text": "one"}, before="Let me see. "), call(ECHO, {"message": "two"}), text("Done."))
    aish_server.upstream.reply(*replies, when=offers("read"))
    message = opencode.ask(opencode.new_session(), "go")
    assert said(message).replace("\n", "") == "Let me see. Done."  # a paragraph each round
    assert tools_shown(opencode) == set()
    assert aish_server.desk.notes == ["one"]
    assert len(turns(aish_server)) == 3
    assert {"read", "bash", NOTE, ECHO} <= set(turns(aish_server)[0].offered)


@ours
def test_a_step_with_a_tool_of_opencode_and_one_of_ours_completes(
    aish_server: Served, client: Client, opencode: Opencode
):
    note = client.work / "note.txt"
    note.write_text("theirs\n")
    both = calls((NOTE, {"text": "ours"}), ("read", {"filePath": str(note)}))
    aish_server.upstream.reply(both, text("Both."), when=offers("read"))
    assert said(opencode.ask(opencode.new_session(), "go")) == "Both."
    first, second = results(turns(aish_server)[-1])
    assert first == "noted: ours" and "theirs" in second
    assert tools_shown(opencode) == {"read"}
    assert aish_server.desk.notes == ["ours"]
    assert len(turns(aish_server)) == 2


@ours
def test_several_turns_with_tools_of_both_stay_in_order(aish_server: Served, client: Client, opencode: Opencode):
    target = client.work / "made.txt"
    write = ("write", {"filePath": str(target), "content": "made\n"})
    aish_server.upstream.reply(call(NOTE, {"text": "first"}), call(*write), text("Turn one."), when=offers("read"))
    read = ("read", {"filePath": str(target)})
    aish_server.upstream.reply(calls(read, (NOTE, {"text": "second"})), text("Turn two."), when=offers("read"))
    session = opencode.new_session()
    assert said(opencode.ask(session, "one")) == "Turn one."
    assert said(opencode.ask(session, "two")) == "Turn two."
    assert target.read_text() == "made\n"
    assert aish_server.desk.notes == ["first", "second"]
    told = results(turns(aish_server)[-1])[-2:]
    assert "made" in told[0] and told[1] == "noted: second"
    assert len(turns(aish_server)) == 5


def test_thoughts_are_shown_as_thoughts(aish_server: Served, opencode: Opencode):
    aish_server.upstream.reply(Reply((Thought("hm, "), Thought("yes"), Text("Yes."))), when=offers("read"))
    message = opencode.ask(opencode.new_session(), "x")
    thoughts = "".join(part["text"] for part in message["parts"] if part["type"] == "reasoning")
    assert (thoughts, said(message)) == ("hm, yes", "Yes.")


@ours
def test_a_long_tool_call_does_not_run_into_its_timeouts(aish_server: Served, opencode: Opencode):
    """The client is told to wait 4 s for a piece; ours come as comments."""
    aish_server.upstream.reply(call(WAIT, {}), text("Waited."), when=offers("read"))
    asking = opencode.start(opencode.new_session(), "go")
    aish_server.desk.wait_until_waited_at()
    asking.join(6)  # it would have given up by now
    assert asking.is_alive() and not retries(opencode) and not errors(opencode)
    aish_server.desk.go()
    asking.join(60)
    opencode.wait_for(lambda seen: seen.deltas() == ["Waited."], "the answer")
    assert len(turns(aish_server)) == 2


@pytest.mark.parametrize("status", [402, 403])
def test_a_refusal_is_shown_and_not_repeated(aish_server: Served, opencode: Opencode, status: int):
    aish_server.upstream.always(failure(status, "no money left"), when=offers("read"))
    opencode.ask(opencode.new_session(), "x")
    opencode.wait_for(lambda seen: "no money left" in " ".join(errors(seen)), "the refusal")
    assert len(turns(aish_server)) == 1 and not retries(opencode)


@ours
def test_an_unknown_model_is_shown_and_not_repeated(aish_server: Served, client: Client):
    client.model = "nobody:nothing"
    with opencode_serving(client) as opencode:
        opencode.ask(opencode.new_session(), "x")
        opencode.wait_for(lambda seen: "nobody:nothing" in " ".join(errors(seen)), "the refusal")
        assert aish_server.upstream.requests == [] and not retries(opencode)


@ours
def test_a_turn_that_opencode_retries_does_not_run_our_tool_twice(aish_server: Served, opencode: Opencode):
    aish_server.upstream.always(call(NOTE, {"text": "once"}), when=ends_with_role("user"))
    aish_server.upstream.reply(Reply((Text("half "), Cut())), when=ends_with_role("tool"))
    aish_server.upstream.always(text("Done."), when=ends_with_role("tool"))
    opencode.start(opencode.new_session(), "go")
    opencode.wait_for(lambda seen: "Done." in seen.deltas(), "the answer")
    assert aish_server.desk.notes == ["once"]


@ours
def test_aborting_in_opencode_stops_the_upstream(aish_server: Served, opencode: Opencode):
    gate = Gate()
    aish_server.upstream.reply(Reply((Text("one "), Hold(gate), Text("two"))), when=offers("read"))
    session = opencode.new_session()
    opencode.start(session, "go")
    opencode.wait_for(lambda seen: seen.deltas() == ["one "], "the first piece")
    opencode.abort(session)
    assert aish_server.upstream.gone.wait(10)


def test_a_single_run_prints_the_answer_and_ends(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("run ", "said"), when=offers("read"))
    ended = opencode_run(client, "go")
    assert ended.code == 0 and "run said" in ended.out
    assert len(turns(aish_server)) == 1


def test_the_title_is_asked_for_beside_the_first_turn_only(aish_server: Served, opencode: Opencode):
    aish_server.upstream.reply(text("one"), text("two"), when=offers("read"))
    session = opencode.new_session()
    opencode.ask(session, "first")
    opencode.ask(session, "second")
    titles = [seen for seen in aish_server.upstream.requests if asks_for_a_title(seen)]
    assert len(titles) == 1 and (not DIRECT or offers_nothing(titles[0]))
