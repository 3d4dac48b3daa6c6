"""Three servers on one database under load, one killed again and again: every request ends, and no effect is had twice.

AISH_CHAOS_KILLS sets how often; by default it is a small run.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.postgres import Database
from support.recorded_replies import Reply
from support.recording_upstream import Seen, call, text
from support.replicas import Replica, replicas

KILLS = int(os.environ.get("AISH_CHAOS_KILLS", "5"))
CLIENTS = 6
JOBS_BETWEEN_KILLS = 12
TRIES = 200
CONFIG = '[gate]\nexec = "allow"\nwrite = "allow"\n'
RUN = {"type": "function", "function": {"name": "shell__run"}}
# Refusals that tell the client what became of its request.
CLEAR = {"idempotency_conflict"}


def model(seen: Seen) -> Reply:
    """Writes the job down with a command, then says so."""
    job = next(message["content"] for message in seen.messages if message["role"] == "user")
    if seen.messages[-1]["role"] == "tool":
        return text(f"done {job}")
    return call("shell__run", {"command": f"echo {job} >> notes"})


class Clients:
    """Each asks for one job after the other, again elsewhere when a connection breaks, always with the job's key."""

    def __init__(self, servers: Sequence[Replica]) -> None:
        self.ended: dict[str, str] = {}  # a job and how its request ended
        self.stopping = False
        self._servers = servers
        self._threads = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(CLIENTS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        self.stopping = True
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a request never ended"

    def _work(self, client: int) -> None:
        number = 0
        while not self.stopping:
            number += 1
            job = f"job-{client}-{number}"
            self.ended[job] = self._ask(job)

    def _ask(self, job: str) -> str:
        for _ in range(TRIES):
            try:
                status, answer = random.choice(self._servers).chat(job, tools=[RUN], headers={"idempotency-key": job})
            except (OSError, http.client.HTTPException, json.JSONDecodeError):
                time.sleep(0.05)  # a server that was killed; the next try meets another
                continue
            if status == 200:
                return "answered"
            if status in (429, 503):
                time.sleep(0.05)
                continue
            return str(answer["error"].get("code") or answer["error"]["message"])
        return "no server could be reached"


@pytest.mark.timeout(600)
def test_servers_that_are_killed_under_load_have_no_effect_twice_and_every_request_ends(
    database: Database, tmp_path: Path
) -> None:
    chance = random.Random(7)
    with replicas(tmp_path, database.url, 3, CONFIG) as (upstream, servers):
        upstream.next_reply = model  # type: ignore[method-assign]
        clients = Clients(servers)
        clients.start()
        for _ in range(KILLS):
            wait_for_jobs(clients)
            victim = chance.choice(servers)
            victim.kill()
            victim.start()
            victim.wait_ready()
        wait_for_jobs(clients)
        clients.finish()
        notes = Counter(line for server in servers for line in notes_of(server))
    ends = Counter(clients.ended.values())
    print(f"{len(clients.ended)} jobs, {KILLS} kills: {dict(ends)}")  # noqa: T201
    assert set(ends) <= {"answered", *CLEAR}, ends
    assert {job: count for job, count in notes.items() if count > 1} == {}
    answered = [job for job, end in clients.ended.items() if end == "answered"]
    assert [job for job in answered if notes[job] != 1] == []
    assert len(answered) > KILLS * JOBS_BETWEEN_KILLS / 2


def wait_for_jobs(clients: Clients) -> None:
    goal, deadline = len(clients.ended) + JOBS_BETWEEN_KILLS, time.monotonic() + 60
    while len(clients.ended) < goal:
        assert time.monotonic() < deadline, f"no work is done any more: {Counter(clients.ended.values())}"
        time.sleep(0.02)


def notes_of(server: Replica) -> list[str]:
    file = server.folder / "notes"
    return file.read_text().split() if file.exists() else []
