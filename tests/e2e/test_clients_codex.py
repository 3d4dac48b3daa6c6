"""codex against `aish serve`: whole turns with its own tools and ours, over /v1/responses.

Installs codex under `.cache/clients` when it is not there.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.clients import Client, CodexRan, codex, codex_program
from support.mcp_peers import node_server
from support.recording_upstream import Cut, Reply, Seen, Text, Thought, call, calls, ends_with_role, failure, text
from support.serving import DIRECT, ECHO, NOTE, WAIT, Served, serving

pytestmark = [pytest.mark.real_servers, pytest.mark.timeout(900)]  # the first one to run installs
ours = pytest.mark.skipif(DIRECT, reason="CLIENTS_DIRECT: there is no server in between")

HEARTBEATS = "heartbeat_s = 0.5\n"


@pytest.fixture(scope="session")
def everything() -> tuple[str, ...]:
    """Made before any test has a home of its own, so that npm finds its settings."""
    codex_program()
    return node_server("everything")


@pytest.fixture
def aish_server(everything: tuple[str, ...], private_home: Path) -> Iterator[Served]:
    with serving(private_home, everything, config=HEARTBEATS) as served:
        yield served


@pytest.fixture
def client(aish_server: Served, private_home: Path) -> Client:
    return Client(private_home / "client", aish_server.url)


def shell(command: str) -> tuple[str, dict[str, Any]]:
    return "exec_command", {"cmd": command, "login": False}


def results(seen: Seen) -> list[str]:
    """What the model was told its calls came to, whichever API the upstream speaks."""
    chat = [one["content"] for one in seen.messages if one.get("role") == "tool"]
    return chat or [one["output"] for one in seen.messages if one.get("type") == "function_call_output"]


def complaints(ran: CodexRan) -> str:
    shown = [event.get("message") or event.get("error", {}).get("message", "") for event in ran.events]
    return " ".join(filter(None, shown)) + ran.err


def test_an_answer_arrives_whole_with_its_usage_in_one_request(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("It ", "is ", "done ✓."))
    ran = codex(client, "say it")
    assert (ran.code, ran.answer) == (0, "It is done ✓.")
    assert [item["text"] for item in ran.items("agent_message")] == ["It is done ✓."]
    usage = next(event["usage"] for event in ran.events if event["type"] == "turn.completed")
    assert (usage["input_tokens"], usage["output_tokens"]) == (12, 5)
    assert len(aish_server.upstream.requests) == 1


def test_every_turn_gets_the_whole_conversation(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("Hello Ann."), text("You are Ann."))
    assert codex(client, "I am Ann").answer == "Hello Ann."
    assert codex(client, "Who am I?", resume=True).answer == "You are Ann."
    told = json.dumps(aish_server.upstream.requests[-1].messages)
    assert "I am Ann" in told and "Hello Ann." in told and "Who am I?" in told
    assert len(aish_server.upstream.requests) == 2


def test_codex_runs_its_own_tool_and_goes_on_with_what_came_of_it(aish_server: Served, client: Client):
    (client.work / "note.txt").write_text("a line in a file\n")
    aish_server.upstream.reply(call(*shell("cat note.txt")), text("Read it."))
    ran = codex(client, "read the note")
    assert (ran.code, ran.answer) == (0, "Read it.")
    assert "a line in a file" in results(aish_server.upstream.requests[-1])[0]
    assert len(aish_server.upstream.requests) == 2


@ours
def test_its_strange_tools_are_passed_over_and_ours_are_offered(aish_server: Served, client: Client):
    aish_server.upstream.reply(text("ok"))
    assert codex(client, "x").code == 0
    offered = aish_server.upstream.requests[0].offered
    assert {"exec_command", ECHO, NOTE} <= set(offered)
    assert "" not in offered  # web_search has no name
    roles = [message["role"] for message in aish_server.upstream.requests[0].messages]
    assert roles[0] in ("system", "developer") and roles[-1] == "user"


@ours
def test_a_tool_of_the_server_runs_without_codex_taking_it_for_its_own(aish_server: Served, client: Client):
    aish_server.upstream.reply(call(NOTE, {"text": "one"}), call(ECHO, {"message": "two"}), text("Done."))
    ran = codex(client, "go")
    assert (ran.code, ran.answer) == (0, "Done.")
    assert aish_server.desk.notes == ["one"]
    assert len(aish_server.upstream.requests) == 3
    assert "unsupported call" not in complaints(ran)


@ours
def test_a_step_with_a_tool_of_codex_and_one_of_ours_completes(aish_server: Served, client: Client):
    aish_server.upstream.reply(calls((NOTE, {"text": "ours"}), shell("echo theirs")), text("Both."))
    ran = codex(client, "go")
    assert (ran.code, ran.answer) == (0, "Both.")
    first, second = results(aish_server.upstream.requests[-1])
    assert first == "noted: ours" and "theirs" in second
    assert aish_server.desk.notes == ["ours"]
    assert len(aish_server.upstream.requests) == 2


@ours
def test_several_turns_with_tools_of_both_stay_in_order(aish_server: Served, client: Client):
    aish_server.upstream.reply(call(NOTE, {"text": "first"}), call(*shell("echo second")), text("Turn one."))
    aish_server.upstream.reply(calls(shell("echo third"), (NOTE, {"text": "fourth"})), text("Turn two."))
    assert codex(client, "one").answer == "Turn one."
    assert codex(client, "two", resume=True).answer == "Turn two."
    assert aish_server.desk.notes == ["first", "fourth"]
    assert len(aish_server.upstream.requests) == 5
    told = results(aish_server.upstream.requests[-1])[-2:]
    assert "third" in told[0] and told[1] == "noted: fourth"


@ours
def test_thoughts_do_not_become_the_answer(aish_server: Served, client: Client):
    aish_server.upstream.reply(Reply((Thought("hm"), Text("Yes."))))
    ran = codex(client, "x")
    assert (ran.code, ran.answer) == (0, "Yes.")


@ours
def test_a_long_tool_call_does_not_run_into_its_idle_timeout(aish_server: Served, client: Client):
    aish_server.upstream.reply(call(WAIT, {}), text("Waited."))
    idle_s = 3.0
    ran: list[CodexRan] = []
    thread = threading.Thread(target=lambda: ran.append(codex(client, "go", idle_ms=int(idle_s * 1000))))
    thread.start()
    aish_server.desk.wait_until_waited_at()
    thread.join(idle_s * 1.5)  # it would have given up by now
    assert thread.is_alive()
    aish_server.desk.go()
    thread.join(60)
    assert (ran[0].code, ran[0].answer) == (0, "Waited.")
    assert len(aish_server.upstream.requests) == 2


@pytest.mark.parametrize("status", [402, 403])
def test_a_refusal_is_shown_with_its_status_and_words(aish_server: Served, client: Client, status: int):
    """Without retries: those of codex are its own choice, and it repeats whatever the status is."""
    aish_server.upstream.always(failure(status, "no money left"))
    ran = codex(client, "x")
    assert ran.code != 0
    assert str(status) in complaints(ran) and "no money left" in complaints(ran)
    assert len(aish_server.upstream.requests) == 1


@ours
def test_an_unknown_model_is_shown(aish_server: Served, client: Client):
    client.model = "nobody:nothing"
    ran = codex(client, "x")
    assert ran.code != 0 and "nobody:nothing" in complaints(ran)
    assert aish_server.upstream.requests == []


@ours
def test_a_stream_that_breaks_off_is_shown_with_its_reason(aish_server: Served, client: Client):
    aish_server.upstream.always(Reply((Text("half "), Cut())))
    ran = codex(client, "x")
    assert ran.code != 0 and complaints(ran)
    assert "stream closed before response.completed" not in complaints(ran)  # response.failed came instead


@ours
def test_a_turn_that_breaks_off_after_our_tool_does_not_run_it_twice(aish_server: Served, client: Client):
    aish_server.upstream.always(call(NOTE, {"text": "once"}), when=ends_with_role("user"))
    aish_server.upstream.reply(Reply((Text("half "), Cut())), when=ends_with_role("tool"))
    aish_server.upstream.always(text("Done."), when=ends_with_role("tool"))
    codex(client, "go", retries=2)  # whether it tries again (it does not after response.failed) is its own choice
    assert aish_server.desk.notes == ["once"]
