"""Fetches a large file over HTTP into `.part`, resumes a broken download, and follows redirects.

A file beside `.part` has what is needed to resume: the URL and the server's validator for this version of the file. If
the version has changed, or the server has no validators, the download starts again.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import msgspec

from aish.errors import ProviderError, ProviderRejected, ProviderUnavailable, WireError
from aish.net.http.client import HttpClient, Response, Timeouts

_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_MAX_INTERRUPTIONS = 5  # in a row, without progress
_WRITE_BYTES = 4 * 1024 * 1024
_SPARE_BYTES = 64 * 1024 * 1024  # left free on the disk
_TIMEOUTS = Timeouts(connect_s=20, first_byte_s=60, idle_s=60, total_s=None)

Report = Callable[[int, int | None], None]


class _PartRecord(msgspec.Struct):
    """The version of the file that the bytes in `.part` belong to."""

    url: str
    validator: str


class Download:
    def __init__(self, fetch: HttpClient, url: str, part: Path, report: Report) -> None:
        self._fetch = fetch
        self._url = url
        self._part = part
        self._resume_file = part.with_name(part.name + ".json")
        self._report = report

    async def run(self) -> None:
        """Runs until `.part` is complete. Raises ProviderError; what has arrived stays for the next time."""
        interruptions = 0
        while True:
            before = _size(self._part)
            try:
                await self._fetch_rest(self._url, before)
                self._resume_file.unlink(missing_ok=True)
                return
            except WireError as exc:
                interruptions = interruptions + 1 if _size(self._part) <= before else 1
                if interruptions >= _MAX_INTERRUPTIONS:
                    raise _give_up_error(exc, _size(self._part)) from exc
            await asyncio.sleep(0.5 * (interruptions - 1))

    async def _fetch_rest(self, url: str, have: int) -> None:
        validator = self._read_validator()
        headers = [("range", f"bytes={have}-"), ("if-range", validator)] if have and validator else []
        for _ in range(_MAX_REDIRECTS + 1):
            async with self._fetch.request("GET", url, headers=headers, timeouts=_TIMEOUTS) as response:
                if response.status not in _REDIRECTS:
                    await self._receive(response, have if headers else 0)
                    return
                url = _resolve_redirect(url, response.headers.get("location"))
        raise ProviderRejected(f"{_host(self._url)} redirects again and again")

    async def _receive(self, response: Response, have: int) -> None:
        if response.status == 416 and have:  # the file has changed, or none of it is left: start again
            self._part.unlink(missing_ok=True)
            raise WireError("the server cannot continue the file")
        if response.status not in (200, 206):
            raise ProviderRejected(f"{_host(self._url)} answered {response.status}", status=response.status)
        start = have if response.status == 206 else 0
        if response.status == 206 and not response.headers.get("content-range").startswith(f"bytes {have}-"):
            raise ProviderRejected(f"{_host(self._url)} sent another part of the file than was asked for")
        length = response.headers.get("content-length")
        total = start + int(length) if length.isdigit() else None
        self._check_room(total, start)
        self._write_validator(response)
        await self._append(response, start, total)

    async def _append(self, response: Response, start: int, total: int | None) -> None:
        waiting = bytearray()
        done = start
        self._report(done, total)
        with self._part.open("r+b" if start else "wb") as file:
            file.seek(start)
            try:
                async for piece in response:
                    waiting += piece
                    if len(waiting) >= _WRITE_BYTES:
                        await asyncio.to_thread(file.write, bytes(waiting))
                        done += len(waiting)
                        waiting.clear()
                        self._report(done, total)
            finally:
                file.write(waiting)  # also after a break: the next attempt resumes here
                file.truncate()
        self._report(done + len(waiting), total)

    def _check_room(self, total: int | None, have: int) -> None:
        free = shutil.disk_usage(self._part.parent).free
        if total is not None and total - have + _SPARE_BYTES > free:
            needed = f"{(total - have) / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free"
            raise ProviderError(f"there is not enough room in {self._part.parent}: {needed}")

    def _read_validator(self) -> str:
        try:
            record = msgspec.json.decode(self._resume_file.read_bytes(), type=_PartRecord)
        except (OSError, msgspec.DecodeError):
            return ""
        return record.validator if record.url == self._url else ""

    def _write_validator(self, response: Response) -> None:
        etag = response.headers.get("etag")
        validator = etag if etag and not etag.startswith("W/") else response.headers.get("last-modified")
        self._resume_file.write_bytes(msgspec.json.encode(_PartRecord(url=self._url, validator=validator)))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _host(url: str) -> str:
    return urlsplit(url).hostname or "the server"


def _resolve_redirect(url: str, location: str) -> str:
    target = urljoin(url, location)
    allowed = ("https",) if url.startswith("https:") else ("http", "https")
    if not location or urlsplit(target).scheme not in allowed:
        raise ProviderRejected(f"{_host(url)} redirects to a place that is not https")
    return target


def _give_up_error(exc: WireError, have: int) -> ProviderUnavailable:
    if not have:
        hint = "check the address and the network"
        return ProviderUnavailable(f"the download did not start: {exc.message}", hint=hint)
    message = f"the download broke off after {have / 1e6:.1f} MB: {exc.message}"
    return ProviderUnavailable(message, hint="run the same command again: it goes on from there")
