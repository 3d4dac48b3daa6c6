"""A PostgreSQL of the tests' own, from the system's binaries: started once, ended with the tests, on a disk of its own.

PostgreSQL refuses to run as root, so root hands it to the user `postgres`. Data is synced to disk as in production.
Tests share the server one after the other, and each gets an empty database.

    async def test_something(database: Database) -> None:
        store = PostgresStore(database.url)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from support.free_port import free_port

START_S = 60.0
STOP_S = 30.0
LOGIN = "aish"
PASSWORD = "swordfish-of-tests"


def find_binaries() -> Path | None:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: -float(folder.parent.name))
    folders += [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


class Database:
    """One server with one database, whose owner is no superuser."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._folder = folder
        self._user = _unprivileged()
        self._process: subprocess.Popen[bytes] | None = None
        # The kernel ends a child with the thread that started it, so that thread lives as long as this does.
        self._starter = ThreadPoolExecutor(1)
        self.port = free_port()

    @property
    def url(self) -> str:
        return self.url_by(self.port)

    def url_by(self, port: int) -> str:
        """The same database by way of another port."""
        return f"postgresql://{LOGIN}:{PASSWORD}@127.0.0.1:{port}/{LOGIN}"

    def create(self) -> None:
        if self._user:
            shutil.chown(self._folder, self._user, self._user)
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._call("initdb", "-D", self._data, "-U", "postgres", "--auth=scram-sha-256", f"--pwfile={secret}",
                   "--encoding=UTF8", "--locale=C", "--no-instructions")  # fmt: skip
        self.start()
        _run_apart(self._create_login())

    def start(self) -> None:
        command = [
            str(self._binaries / "postgres"), "-D", self._data, "-p", str(self.port), "-k", str(self._folder),
            "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=32MB", "-c", "max_connections=100",
            "-c", "wal_writer_delay=10s",  # so that what is not flushed is surely lost in a crash
        ]  # fmt: skip
        with (self._folder / "log").open("ab") as log:
            outputs = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            self._process = self._starter.submit(subprocess.Popen, self._as_user(command), **outputs).result()
        deadline = time.monotonic() + START_S
        while not self._is_ready():
            assert self._process.poll() is None and time.monotonic() < deadline, (self._folder / "log").read_text()
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        """The last line of its file says so."""
        file = Path(self._data, "postmaster.pid")
        return file.exists() and file.read_text().rstrip().endswith("ready")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends connections and closes in order, SIGQUIT is as good as a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=STOP_S)
            self._process.kill()
            self._process.wait()
            self._process = None

    async def rows(self, sql: str, *given: Any) -> list[tuple[Any, ...]]:
        """Asked past the store, as the tables' owner."""
        connection = await asyncpg.connect(self.url, server_settings={"search_path": "aish"})
        try:
            return [tuple(row) for row in await connection.fetch(sql, *given)]
        finally:
            await connection.close()

    async def rule(self, sql: str) -> None:
        """Said by the superuser, about databases and roles."""
        connection = await asyncpg.connect(f"postgresql://postgres:{PASSWORD}@127.0.0.1:{self.port}/postgres")
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    def empty(self) -> None:
        _run_apart(self._clear())

    async def _clear(self) -> None:
        await self.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1 AND pid <> pg_backend_pid()",
            LOGIN,
        )
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute("DROP SCHEMA IF EXISTS aish CASCADE")
        finally:
            await connection.close()

    async def _create_login(self) -> None:
        await self.rule(f"CREATE ROLE {LOGIN} LOGIN PASSWORD '{PASSWORD}'")
        await self.rule(f"CREATE DATABASE {LOGIN} OWNER {LOGIN}")

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    def _call(self, program: str, *words: str) -> None:
        done = subprocess.run(
            self._as_user([str(self._binaries / program), *words]), check=False, capture_output=True, timeout=START_S
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")

    def _as_user(self, command: list[str]) -> list[str]:
        """As somebody who is not root, and ended by the kernel should the tests be killed."""
        if shutil.which("setpriv") is None:
            assert not self._user, "root needs setpriv to start PostgreSQL"
            return command
        change = [f"--reuid={self._user}", f"--regid={self._user}", "--clear-groups"] if self._user else []
        return ["setpriv", *change, "--pdeathsig", "QUIT", *command]


def _run_apart(work: Coroutine[Any, Any, None]) -> None:
    """In a thread and a loop of its own: fixtures are asked for from within running loops, too."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result(timeout=START_S)


def _unprivileged() -> str:
    if os.geteuid() != 0:
        return ""
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            pwd.getpwnam(name)
            return name
    return ""


@contextlib.contextmanager
def running_database() -> Iterator[Database]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("there is no PostgreSQL here: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="aish-postgres-"))
    database = Database(binaries, folder)
    try:
        database.create()
        yield database
    finally:
        database.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def database_server() -> Iterator[Database]:
    with running_database() as database:
        yield database


@pytest.fixture
def database(database_server: Database) -> Database:
    """Empty, whatever was there before."""
    database_server.empty()
    return database_server
