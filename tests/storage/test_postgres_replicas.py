"""Real servers on one database: what one of them was told, all of them know."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.postgres import Database
from support.recorded_replies import Gate, Hold, Reply, Text
from support.recording_upstream import RecordingUpstream, call, calls, text
from support.replicas import Replica, replicas
from support.serving import request

CONFIG = """
[cost]
cap_per_day = 1.0
[prices."up:some-model"]
prompt = 0.0
completion = 50000.0
"""

ADD = {"type": "function", "function": {"name": "runtime__add"}}
RUN = {"type": "function", "function": {"name": "shell__run"}}
MINE = {"type": "function", "function": {"name": "mine", "parameters": {"type": "object", "properties": {}}}}

Pair = tuple[RecordingUpstream, Sequence[Replica]]


@pytest.fixture
def pair(database: Database, tmp_path: Path) -> Iterator[Pair]:
    with replicas(tmp_path, database.url, 2) as running:
        yield running


def said(answer: Any) -> str:
    return str(answer["choices"][0]["message"]["content"])


def waited(find: Any, seconds: float = 20) -> Any:
    """What `find` finds, once it finds something."""
    deadline = time.monotonic() + seconds
    while not (found := find()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
    return found


class Asking(threading.Thread):
    """A request that takes as long as the test likes."""

    def __init__(self, replica: Replica, question: str, **fields: Any) -> None:
        super().__init__(daemon=True)
        self._ask = lambda: replica.chat(question, **fields)
        self._answer: tuple[int, Any] | None = None
        self._failed: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._answer = self._ask()
        except Exception as exc:
            self._failed = exc

    def answer(self) -> tuple[int, Any]:
        self.join(30)
        assert self._answer is not None, self._failed
        return self._answer


def test_what_was_said_on_one_is_known_on_the_other(pair: Pair) -> None:
    upstream, (a, b) = pair
    upstream.reply(text("Hello Ann"), text("You are Ann"))
    assert a.chat("I am Ann", session_id="s1")[0] == 200
    status, answer = b.chat("Who am I?", session_id="s1", use_server_history=True)
    assert (status, said(answer)) == (200, "You are Ann")
    assert [message["content"] for message in upstream.requests[-1].messages[-3:]] == [
        "I am Ann",
        "Hello Ann",
        "Who am I?",
    ]
    listed = [replica.ask("GET", "/v1/sessions")[1] for replica in (a, b)]
    assert listed[0] == listed[1]


def test_a_request_that_was_answered_by_one_is_given_again_by_the_other(pair: Pair) -> None:
    upstream, (a, b) = pair
    upstream.reply(call("runtime__add", {"a": 2, "b": 3}), text("five"))
    key = {"idempotency-key": "once"}
    first = a.chat("add", tools=[ADD], headers=key)
    assert first == b.chat("add", tools=[ADD], headers=key)
    assert said(first[1]) == "five"
    assert len(upstream.requests) == 2


def test_a_request_that_one_is_answering_is_waited_for_by_the_other(pair: Pair) -> None:
    upstream, (a, b) = pair
    gate = Gate()
    upstream.reply(Reply((Text("slow"), Hold(gate))))
    key = {"idempotency-key": "once"}
    first = Asking(a, "slowly", headers=key)
    waited(lambda: upstream.requests)
    second = Asking(b, "slowly", headers=key)
    second.join(0.5)
    assert second.is_alive()
    gate.open()
    assert first.answer() == second.answer()
    assert said(first.answer()[1]) == "slow"
    assert len(upstream.requests) == 1


def test_a_request_whose_server_was_killed_is_not_begun_again_and_whoever_waits_is_told(pair: Pair) -> None:
    upstream, (a, b) = pair
    gate = Gate()
    upstream.reply(Reply((Text("slow"), Hold(gate))))
    key = {"idempotency-key": "once"}
    Asking(a, "slowly", headers=key)
    waited(lambda: upstream.requests)
    waiting = Asking(b, "slowly", headers=key)
    waiting.join(0.5)
    a.kill()
    status, answer = waiting.answer()
    assert (status, answer["error"]["code"]) == (409, "idempotency_conflict")
    assert len(upstream.requests) == 1
    gate.open()


def test_two_requests_on_one_session_are_answered_one_after_the_other_whoever_gets_them(pair: Pair) -> None:
    upstream, (a, b) = pair
    gate = Gate()
    upstream.reply(Reply((Text("first"), Hold(gate))), text("second"))
    one = Asking(a, "one", session_id="s1")
    waited(lambda: upstream.requests)
    two = Asking(b, "two", session_id="s1", use_server_history=True)
    two.join(0.5)
    assert len(upstream.requests) == 1
    gate.open()
    assert (said(one.answer()[1]), said(two.answer()[1])) == ("first", "second")
    assert "first" in json.dumps(upstream.requests[-1].messages)


def test_a_question_of_one_is_seen_and_answered_on_the_other(pair: Pair, tmp_path: Path) -> None:
    upstream, (a, b) = pair
    upstream.reply(call("shell__run", {"command": "rm -rf build"}), text("done"))
    asking = Asking(a, "clean up", tools=[RUN])
    [question] = waited(lambda: b.ask("GET", "/v1/approvals")[1]["data"])
    assert "rm -rf build" in json.dumps(question)
    assert b.ask("POST", f"/v1/approvals/{question['id']}", {"choice": "no", "note": "not today"})[0] == 200
    assert said(asking.answer()[1]) == "done"
    assert "not today" in json.dumps(upstream.requests[-1].messages)


def test_results_that_one_holds_are_merged_by_the_other(pair: Pair) -> None:
    upstream, (a, b) = pair
    upstream.reply(calls(("runtime__add", {"a": 2, "b": 3}), ("mine", {}), ids=("call_ours", "call_mine")), text("all"))
    question = {"role": "user", "content": "both"}
    _, answer = a.chat("both", tools=[ADD, MINE])
    message = answer["choices"][0]["message"]
    assert [made["function"]["name"] for made in message["tool_calls"]] == ["mine"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "from the client"}
    _, answer = b.chat("", tools=[ADD, MINE], messages=[question, message, result])
    assert said(answer) == "all"
    results = [sent["content"] for sent in upstream.requests[-1].messages if sent["role"] == "tool"]
    assert len(results) == 2 and "5" in results[0] and "from the client" in results[1]


def test_a_stream_begun_on_one_is_followed_and_cancelled_on_the_other(pair: Pair) -> None:
    upstream, (a, b) = pair
    gate = Gate()
    upstream.reply(Reply((Text("so far"), Hold(gate))))
    body = {"model": "up:some-model", "input": "go on", "background": True, "stream": False}
    _, begun = a.ask("POST", "/v1/responses", body)
    path = f"/v1/responses/{begun['id']}"
    assert b.ask("GET", path)[1]["status"] in ("queued", "in_progress")
    streamed: list[bytes] = []
    following = threading.Thread(target=lambda: streamed.append(request(b.port, "GET", f"{path}?stream=true")[1]))
    following.start()
    waited(lambda: upstream.requests)
    assert b.ask("POST", f"{path}/cancel")[1]["status"] == "cancelled"
    following.join(30)
    assert b"so far" in streamed[0]
    assert a.ask("GET", path)[1]["status"] == "cancelled"
    gate.open()


def test_what_all_of_them_spend_is_held_to_one_cap(database: Database, tmp_path: Path) -> None:
    with replicas(tmp_path, database.url, 2, CONFIG) as (upstream, (a, b)):
        upstream.always(text("a dear answer", usage=(1, 10)))  # half a dollar
        fields = {"max_tokens": 10}
        statuses = [replica.chat("hi", **fields)[0] for replica in (a, b, a, b)]
    assert statuses == [200, 200, 402, 402]


def test_a_session_whose_server_was_killed_goes_on_elsewhere(pair: Pair) -> None:
    upstream, (a, b) = pair
    gate = Gate()
    upstream.reply(Reply((Text("half an"), Hold(gate))), text("I am back"))
    Asking(a, "one", session_id="s1")
    waited(lambda: upstream.requests)
    a.kill()
    status, answer = b.chat("two", session_id="s1", use_server_history=True)
    assert (status, said(answer)) == (200, "I am back")
    gate.open()


def test_a_key_opens_every_server_and_its_end_closes_them_all(pair: Pair) -> None:
    _, (a, b) = pair
    a.run("keys", "create", "bob")
    ann = {"authorization": f"Bearer {a.run('keys', 'create', 'ann').strip()}"}
    for replica in (a, b):
        waited(partial(status_is, replica, 401))
        assert replica.ask("GET", "/v1/models", **ann)[0] == 200
    b.run("keys", "revoke", "ann")
    for replica in (a, b):
        waited(partial(status_is, replica, 401, **ann))


def test_what_a_key_may_spend_is_counted_over_all_servers(pair: Pair) -> None:
    upstream, (a, b) = pair
    upstream.always(text("a hundred", usage=(0, 100)))
    bearer = {"authorization": f"Bearer {a.run('keys', 'create', 'ann', '--tokens-per-day', '300').strip()}"}
    waited(partial(status_is, b, 200, **bearer))
    assert [replica.chat("hi", headers=bearer)[0] for replica in (a, b, a)] == [200, 200, 200]
    for replica in (b, a):
        waited(lambda replica=replica: replica.chat("hi", headers=bearer)[0] == 402)


def status_is(replica: Replica, status: int, **headers: str) -> bool:
    return replica.ask("GET", "/v1/models", **headers)[0] == status
