"""A project file that is not trusted can only tighten."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aish.config.load import covers
from aish.config.reference import show_value
from aish.config.schema.config import Config
from aish.config.user_decisions import (
    content_hash,
    distrust,
    is_trusted,
    refuse,
    trust_file,
    trust_project_file,
    was_refused,
)
from aish.errors import ConfigError
from aish.types.decisions import Verdict

STRICTNESS = [Verdict.ALLOW, Verdict.ASK, Verdict.DENY]


def test_an_untrusted_file_may_lower_limits_and_not_raise_them(world) -> None:
    world.user("[limits]\nmax_tokens = 100")
    world.project_says("[limits]\nmax_steps = 2\nwall_s = 9999\nmax_tokens = 200\nmax_cost = 0.5", trusted=False)
    loaded = world.load()
    limits = loaded.config.limits
    assert (limits.max_steps, limits.wall_s, limits.max_tokens, limits.max_cost) == (2, 600.0, 100, 0.5)
    assert loaded.origin("limits.max_steps").where == f"{world.project_file}:2"
    assert loaded.notices == (
        f"{world.project_file} is not trusted, so it can only make things stricter; "
        "ignored in it: limits.wall_s, limits.max_tokens. `aish config trust` accepts the file",
    )


def test_an_untrusted_file_may_make_verdicts_stricter_and_add_to_deny(world) -> None:
    world.user('[gate]\nread = "ask"\ndeny = ["a"]\nauto_approve = ["x"]')
    world.project_says('[gate]\nread = "allow"\nexec = "deny"\ndeny = ["b", "a"]\nauto_approve = ["*"]', trusted=False)
    loaded = world.load()
    gate = loaded.config.gate
    assert (gate.read, gate.exec, gate.deny, gate.auto_approve) == (Verdict.ASK, Verdict.DENY, ("a", "b"), ("x",))
    assert "ignored in it: gate.read, gate.auto_approve." in loaded.notices[0]


@pytest.mark.parametrize(
    ("below", "project", "offered"),
    [
        ('["*"]', '["files__*"]', ("files__*",)),
        ('["*"]', "[]", ()),
        ('["files__*"]', '["*"]', ("files__*",)),
        ('["files__*"]', '["files__read", "web__get"]', ("files__read",)),
        ('["files__*"]', '["web__*"]', ()),
        ('["a?"]', '["a*"]', ("a?",)),
        ('["a?"]', '["*b"]', ()),
        ("[]", '["*"]', ()),
    ],
)
def test_an_untrusted_file_may_narrow_the_tools(world, below: str, project: str, offered: tuple[str, ...]) -> None:
    world.user(f"[tools]\noffer = {below}")
    world.project_says(f"[tools]\noffer = {project}", trusted=False)
    assert world.load().config.tools.offer == offered


def test_everything_else_in_an_untrusted_file_is_ignored_and_named(world) -> None:
    world.project_says(
        'model = "evil"\nsystem = "obey"\n[providers.evil]\nurl = "http://evil"\nkey_env = "HOME"\n'
        '[store]\npath = "/x"\n',
        trusted=False,
    )
    loaded = world.load()
    assert loaded.config == world.load(cwd=world.home).config
    assert loaded.origins == {}
    assert "model, system, providers.evil.url, providers.evil.key_env, store.path" in loaded.notices[0]
    assert loaded.files[-1].state == "untrusted"


@pytest.mark.parametrize("text", ["hi", "tolls = 3", '[gate]\nexec = "x"', "\x00"])
def test_what_is_wrong_with_an_untrusted_file_stops_nobody_and_is_told(world, text: str) -> None:
    world.project_says(f"{text}\n", trusted=False)
    loaded = world.load()
    assert loaded.config == world.load(cwd=world.home).config
    (notice,) = loaded.notices
    assert str(world.project_file) in notice and "ignored, since the file is not trusted" in notice
    assert len(world.problems()) == 1, "`aish config check` says so"


def test_an_untrusted_file_that_only_tightens_needs_no_notice(world) -> None:
    world.project_says('[limits]\nmax_steps = 1\n[gate]\nread = "allow"\n', trusted=False)
    assert world.load().notices == ()


def test_a_trusted_file_counts_in_full_until_it_changes(world) -> None:
    world.project_says('model = "theirs"\n[limits]\nmax_steps = 99', trusted=True)
    loaded = world.load()
    assert (loaded.config.model, loaded.config.limits.max_steps, loaded.notices) == ("theirs", 99, ())
    assert loaded.files[-1].state == "read"
    world.project_file.write_text('model = "changed"\n[limits]\nmax_steps = 99')
    assert world.load().config.model == ""
    assert world.load().config.limits.max_steps == 8


def test_trust_is_for_one_place_only(world) -> None:
    world.project_says('model = "theirs"', trusted=True)
    other = world.home / "other"
    other.mkdir()
    (other / ".aish.toml").write_text('model = "theirs"')
    assert world.load(cwd=other).config.model == ""


def test_trust_can_be_taken_back(world) -> None:
    world.project_says('model = "theirs"', trusted=True)
    assert distrust(world.project_file, env=world.env) is True
    assert distrust(world.project_file, env=world.env) is False
    assert world.load().config.model == ""


def test_a_refusal_is_remembered_for_that_content_and_trusts_nothing(world) -> None:
    world.project_says('model = "theirs"', trusted=True)
    refuse(world.project_file, b'model = "theirs"', env=world.env)
    assert was_refused(world.project_file, b'model = "theirs"', env=world.env)
    assert not was_refused(world.project_file, b'model = "other"', env=world.env)
    assert world.load().config.model == ""
    trust_project_file(world.project_file, env=world.env)
    assert not was_refused(world.project_file, b'model = "theirs"', env=world.env)
    assert world.load().config.model == "theirs"


def test_a_notice_names_only_so_many_of_the_keys_that_are_ignored(world) -> None:
    world.project_says("".join(f'[presets.p{n}]\nmodel = "m"\n' for n in range(50)), trusted=False)
    loaded = world.load()
    assert "presets.p19.model and 30 more. " in loaded.notices[0] and "presets.p20" not in loaded.notices[0]
    assert len(loaded.files[-1].ignored) == 50


def test_the_list_of_trusted_files_is_private_and_keeps_what_was_there(world) -> None:
    other = world.home / "b.toml"
    other.write_text("")
    world.project_says('model = "theirs"', trusted=True)
    trust_project_file(other, env=world.env)
    pins = trust_file(world.env)
    assert stat.S_IMODE(pins.stat().st_mode) == 0o600
    assert stat.S_IMODE(pins.parent.stat().st_mode) == 0o700
    assert [file.name for file in pins.parent.iterdir()] == ["trust.json"]
    assert is_trusted(world.project_file, b'model = "theirs"', env=world.env)
    assert is_trusted(other, b"", env=world.env)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": 1}', b"\xff", b"null"])
def test_a_broken_list_of_trusted_files_trusts_nothing_and_can_be_written_again(world, content: bytes) -> None:
    world.project_says('model = "theirs"', trusted=True)
    trust_file(world.env).write_bytes(content)
    assert world.load().config.model == ""
    trust_project_file(world.project_file, env=world.env)
    assert world.load().config.model == "theirs"


def test_what_changed_since_it_was_shown_is_not_trusted(world) -> None:
    world.project_says('model = "theirs"', trusted=False)
    shown = content_hash(b'model = "shown"')
    with pytest.raises(ConfigError, match="has changed since it was shown"):
        trust_project_file(world.project_file, env=world.env, expected=shown)
    assert not trust_file(world.env).exists()


def test_a_file_that_is_not_there_cannot_be_trusted(world) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        trust_project_file(world.project_file, env=world.env)


def test_trust_that_cannot_be_written_is_an_error_in_words(world) -> None:
    world.project_says("", trusted=False)
    pins = trust_file(world.env)
    pins.parent.parent.mkdir(parents=True)
    pins.parent.write_text("a file in the way")
    with pytest.raises(ConfigError, match="cannot be written"):
        trust_project_file(world.project_file, env=world.env)


globs = st.text("ab*?[]!", max_size=5)
names = st.text("ab]!", max_size=5)


@given(wide=globs, narrow=globs, name=names)
@settings(max_examples=1500, deadline=None)
def test_a_glob_that_covers_another_matches_all_that_it_matches(wide: str, narrow: str, name: str) -> None:
    if covers(wide, narrow) and fnmatchcase(name, narrow):
        assert fnmatchcase(name, wide)


@pytest.mark.parametrize(
    ("wide", "narrow", "is_covered"),
    [
        ("*", "anything", True),
        ("a__*", "a__b*", True),
        ("a__*", "a__?", True),
        ("[ab]", "[ab]", True),
        ("a?", "a*", False),
        ("*]x", "[ab]x", False),
        ("[*]", "*", False),
        ("a", "A", False),
    ],
)
def test_covering_is_certain_or_denied(wide: str, narrow: str, is_covered: bool) -> None:  # noqa: FBT001
    assert covers(wide, narrow) is is_covered


verdicts = st.sampled_from(["allow", "ask", "deny"])
tool_globs = st.lists(st.sampled_from(["*", "a__*", "a__x", "b__*", "b__?", "[ab]__*", "c"]), max_size=3)


def section(**keys: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({}, optional=keys)


files = section(
    model=st.just("evil"),
    limits=section(
        max_steps=st.integers(1, 50),
        wall_s=st.floats(0, 5000, exclude_min=True),
        max_tokens=st.integers(1, 50),
        max_cost=st.floats(0, 9),
        repeat_limit=st.integers(1, 9),
    ),
    gate=section(
        read=verdicts, write=verdicts, exec=verdicts, network=verdicts, auto_approve=tool_globs, deny=tool_globs
    ),
    tools=section(offer=tool_globs),
    store=section(enabled=st.booleans()),
)


def as_toml(values: dict[str, object]) -> str:
    lines = [f"{key} = {show_value(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for name, table in values.items():
        if isinstance(table, dict):
            lines += [f"[{name}]", *(f"{key} = {show_value(value)}" for key, value in table.items())]
    return "\n".join(lines)


def loosened(before: Config, after: Config) -> Iterator[str]:
    for key in before.limits.__struct_fields__:
        low, high = getattr(after.limits, key), getattr(before.limits, key)
        if high is not None and (low is None or low > high):
            yield f"limits.{key}"
    for effect in ("read", "write", "exec", "network"):
        if STRICTNESS.index(getattr(after.gate, effect)) < STRICTNESS.index(getattr(before.gate, effect)):
            yield f"gate.{effect}"
    if not set(before.gate.deny) <= set(after.gate.deny):
        yield "gate.deny"
    for name in ("a__x", "a__", "b__y", "b__yy", "c", "d"):
        if _offers(after, name) and not _offers(before, name):
            yield f"tools.offer: {name}"
    same = ("model", "system", "provider", "providers", "presets", "store", "embedded", "discovery", "network")
    yield from (key for key in same if getattr(before, key) != getattr(after, key))
    if before.gate.auto_approve != after.gate.auto_approve:
        yield "gate.auto_approve"


def _offers(config: Config, name: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in config.tools.offer)


@given(user=files, project=files, variables=st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_untrusted_file_ever_loosens_anything(tmp_path_factory, user, project, variables) -> None:
    from aish.config.load import load_config

    home = tmp_path_factory.mktemp("home")
    folder: Path = home / "project"
    folder.mkdir()
    (home / ".config/aish").mkdir(parents=True)
    (home / ".config/aish/config.toml").write_text(as_toml(user))
    env = {"AISH_GATE__WRITE": "ask", "AISH_TOOLS__OFFER": "a__*", "AISH_LIMITS__MAX_STEPS": "5"} if variables else {}
    before = load_config(cwd=folder, env=env).config
    (folder / ".aish.toml").write_text(as_toml(project))
    after = load_config(cwd=folder, env=env).config
    assert list(loosened(before, after)) == []
