"""Secrets stay secret, whatever is done with them short of asking."""

from __future__ import annotations

import copy
import pickle
import traceback

import msgspec
import pytest

from aish.config.reference import show_rows
from aish.config.schema.config import Config
from aish.config.schema.models import ProviderConfig
from aish.config.schema.values import Secret
from aish.config.validation import decode_secret
from aish.errors import ConfigError

HUSH = "sk-hush-1234"


def test_a_secret_shows_nowhere_but_when_asked() -> None:
    secret = Secret(HUSH)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret:>20}", f"{secret!r}", "%s" % secret, repr([secret])]  # noqa: UP031
    shown.append(repr(ProviderConfig(key=secret, headers={"a": secret})))
    assert not any(HUSH in text for text in shown)
    assert not hasattr(secret, "__dict__")
    assert secret.reveal() == HUSH


def test_a_secret_cannot_be_written() -> None:
    secret = Secret(HUSH)
    for write in (pickle.dumps, msgspec.json.encode, msgspec.msgpack.encode, msgspec.to_builtins):
        with pytest.raises(TypeError) as caught:
            write(ProviderConfig(key=secret))
        assert HUSH not in str(caught.value)


def test_secrets_are_equal_by_value_and_only_to_secrets() -> None:
    assert Secret(HUSH) == Secret(HUSH)
    assert Secret(HUSH) != Secret("other")
    assert Secret(HUSH) != HUSH
    assert Secret("é\udc80") == Secret("é\udc80")
    assert len({Secret(HUSH), Secret(HUSH)}) == 1


def test_a_copy_is_the_same_secret_and_an_empty_one_is_false() -> None:
    secret = Secret(HUSH)
    assert copy.copy(secret) is secret
    assert copy.deepcopy([secret])[0] is secret
    assert secret
    assert not Secret("")


def test_secrets_in_settings_are_not_shown(world) -> None:
    world.user(
        f'[providers.p]\nurl = "http://ann:{HUSH}@box"\nkey = "{HUSH}"\nheaders = {{x = "{HUSH}"}}\n'
        f'[network]\nhttp_proxy = "http://a:{HUSH}@p"\n'
    )
    world.env |= {"HTTPS_PROXY": HUSH, "AISH_PROVIDERS__Q__KEY": HUSH, "AISH_PROVIDERS__Q__URL": "http://q"}
    loaded = world.load()
    rows = show_rows(loaded)
    assert HUSH not in str(rows)
    assert ("providers.p.key", "***", f"{world.user_file}:3") in rows
    assert ("providers.q.key", "***", "AISH_PROVIDERS__Q__KEY") in rows
    assert HUSH not in repr(loaded).replace(f"ann:{HUSH}@", "")
    assert loaded.config.providers["p"].headers["x"].reveal() == HUSH


@pytest.mark.parametrize(
    "text",
    [
        f'[providers.p]\nkey = ["{HUSH}"]',
        f'[providers.p]\nkey_env = "{HUSH}"\nurl = "http://x"',
        f'[providers.p]\nheaders = ["{HUSH}"]',
        f'[providers.p]\nkey = "{HUSH}',
        f'[providers.p]\nurl = "http:/ann:{HUSH}"\nkey = "{HUSH}"\nkey = 1',
        f'[network]\nhttp_proxy = {{a = "{HUSH}"}}',
    ],
)
def test_secrets_are_not_in_errors_nor_their_tracebacks(world, text: str) -> None:
    world.user(text)
    with pytest.raises(ConfigError) as caught:
        world.load()
    assert HUSH not in "".join(traceback.format_exception(caught.value))


def test_only_text_becomes_a_secret() -> None:
    assert msgspec.convert({"network": {"http_proxy": "x"}}, Config, dec_hook=decode_secret).network.http_proxy
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"network": {"http_proxy": 3}}, Config, dec_hook=decode_secret)
