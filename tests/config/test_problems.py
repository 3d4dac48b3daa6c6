"""What is wrong is said in one sentence each, all at once, with file and line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aish.errors import ConfigError

FILE = "~/.config/aish/config.toml"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[limits]\nmax_step = 3", ':2: unknown key "limits.max_step"; did you mean "max_steps"?'),
        ("max_steps = 3", ':1: unknown key "max_steps"; did you mean "limits.max_steps"?'),
        ("xyzzy = 3", ':1: unknown key "xyzzy"'),
        ("[limit]\nmax_steps = 3", ':1: unknown key "limit"; did you mean "limits"?'),
        ('[providers.p]\nurll = "http://x"', ':2: unknown key "providers.p.urll"; did you mean "url"?'),
        ("model = 3", ":1: model: expected text, found the number 3"),
        ("model = true", ":1: model: expected text, found true"),
        ("model = [1]", ":1: model: expected text, found a list"),
        ("model = {}", ":1: model: expected text, found a table"),
        ("model = 1979-05-27", ":1: model: expected text, found something else"),
        ("limits = 3", ":1: limits: expected a table, found the number 3"),
        ("providers = []", ":1: providers: expected a table, found a list"),
        ('providers.p = "x"', ':1: providers.p: expected a table, found "x"'),
        ('[limits]\nmax_steps = "4"', ':2: limits.max_steps: expected a whole number of at least 1, found "4"'),
        (
            "[limits]\nmax_steps = 4.5",
            ":2: limits.max_steps: expected a whole number of at least 1, found the number 4.5",
        ),
        ("[limits]\nwall_s = nan", ":2: limits.wall_s: expected a number above 0, found the number nan"),
        ("[limits]\nwall_s = inf", ":2: limits.wall_s: expected a number above 0, found the number inf"),
        ("[store]\nenabled = 1", ":2: store.enabled: expected true or false, found the number 1"),
        ('[gate]\nread = "yes"', ':2: gate.read: expected one of "allow", "ask", "deny", found "yes"'),
        ('[gate]\ndeny = "x"', ':2: gate.deny: expected a list of texts, found "x"'),
        ("[gate]\ndeny = [1]", ":2: gate.deny: expected a list of texts, found a list"),
        (
            '[providers.p]\nkind = "gpt"\nurl = "http://x"',
            ':2: providers.p.kind: expected one of "openai", "ollama", "embedded", "scripted", "extension", '
            'found "gpt"',
        ),
        (
            '[providers.p]\nurl = "box:80"',
            ':2: providers.p.url: expected a URL such as http://127.0.0.1:8080, found "box:80"',
        ),
        (
            '[providers.p]\nurl = "ftp://ann:hush@box"',
            ':2: providers.p.url: expected a URL such as http://127.0.0.1:8080, found "ftp://***@box"',
        ),
        (
            '[providers.p]\nurls = ["box"]',
            ":2: providers.p.urls: expected a list, each a URL such as http://127.0.0.1:8080, found a list",
        ),
        ("[discovery]\ntimeout_s = 0", ":2: discovery.timeout_s: expected a number above 0, found the number 0"),
        ("[presets.p]\ntop_p = 2", ":2: presets.p.top_p: expected a number from 0 to 1, found the number 2"),
        ("[presets.p]\ntop_k = -2",
         ":2: presets.p.top_k: expected a whole number from -1 to 2147483647, found the number -2"),
        ("[presets.p]\nseed = 1\nmax_tokens = 0",
         ":3: presets.p.max_tokens: expected a whole number of at least 1, found the number 0"),
        ("[providers.p]", ":1: providers.p: it needs a url, or urls"),
        ('[providers."a:b"]\nurl = "http://x"', ':1: "a:b" cannot be a name here: use letters, digits, - and _'),
        (
            '[discovery]\nservers = [{name = "x"}]',
            ":2: discovery.servers: expected a list of tables with name, url, kind, found a list: "
            "Object missing required field `url` - at `$[0]`",
        ),
        (
            '[[gate.rules]]\nverdict = "deny"\ncommands = ["curl"]\nwy = "x"',
            ":1: gate.rules: expected a list of tables with verdict, name, tools, effects, commands, paths, reads, "
            "match, not_match, why, found a list: Object contains unknown field `wy` - at `$[0]`",
        ),
        ("model = ", ":1: the file is not valid TOML: Invalid value"),
        ("\n\nmodel", ":3: the file is not valid TOML: Expected '=' after a key in a key/value pair"),
        ('a = 1\na = 2', ":2: the file is not valid TOML: Cannot overwrite a value"),
        ("a = " + "[" * 5000, ": the file is nested too deeply"),
        ("a = " + "9" * 5000, None),
    ],
)  # fmt: skip
def test_each_mistake_is_one_sentence_with_file_and_line(world, text: str, sentence: str | None) -> None:
    world.user(text)
    problems = world.problems()
    assert len(problems) == 1
    if sentence is not None:
        assert problems == [FILE + sentence]


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("AISH_LIMITS__MAX_STEP", "3", 'unknown key "limits.max_step"; did you mean "max_steps"?'),
        ("AISH_MODELS", "3", 'unknown key "models"; did you mean "model"?'),
        ("AISH_MODEL__X", "3", 'unknown key "model.x"'),
        ("AISH_LIMITS", "3", '"limits" is a table: name a key in it, as in AISH_LIMITS__…'),
        ("AISH_LIMITS__MAX_STEPS", "four", 'limits.max_steps: expected a whole number of at least 1, found "four"'),
        ("AISH_STORE__ENABLED", "maybe", 'store.enabled: expected true or false, found "maybe"'),
        ("OLLAMA_HOST", "a b",
         'providers.ollama.url: expected a URL such as http://127.0.0.1:8080, found "http://a b:11434"'),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_named(world, variable: str, value: str, sentence: str) -> None:
    world.env[variable] = value
    assert world.problems() == [f"{variable}: {sentence}"]


def test_a_wrong_flag_is_named(world) -> None:
    flags = {"limits": {"max_steps": "four", "max_step": 1}}
    assert world.problems(flags) == [
        'flag limits.max_steps: limits.max_steps: expected a whole number of at least 1, found "four"',
        'flag limits.max_step: unknown key "limits.max_step"; did you mean "max_steps"?',
    ]


def test_all_problems_of_all_layers_are_told_at_once(world) -> None:
    world.user('model = 1\n[limits]\nmax_step = 2\n[gate]\nread = "x"')
    world.project_says("tolls = 3", trusted=True)
    world.env["AISH_LIMITS__WALL_S"] = "long"
    with pytest.raises(ConfigError) as caught:
        world.load()
    lines = caught.value.message.splitlines()
    assert len(lines) == 5
    assert lines == [str(line).replace("~", str(world.home)) for line in world.problems()]
    assert caught.value.hint


def test_a_file_that_is_not_utf8_is_told_with_its_line(world) -> None:
    world.user("")
    world.user_file.write_bytes(b'# fine\nmodel = "caf\xe9"\n')
    assert world.problems() == [f"{FILE}:2: the file is not UTF-8 text"]


def test_a_byte_order_mark_does_not_matter(world) -> None:
    world.user("")
    world.user_file.write_bytes(b'\xef\xbb\xbfmodel = "m"\n')
    assert world.load().config.model == "m"


def test_a_directory_in_the_place_of_the_file_is_told(world) -> None:
    world.user_file.mkdir(parents=True)
    assert world.problems() == [f"{FILE}: the file is not a file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_the_place_of_the_file_does_not_hang(world) -> None:
    os.mkfifo(world.project_file)
    assert world.problems() == ["~/work/thing/.aish.toml: the file is not a file"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_told(world) -> None:
    world.user('model = "m"')
    world.user_file.chmod(0)
    assert world.problems() == [f"{FILE}: the file cannot be read: Permission denied"]


def test_a_file_that_cannot_be_looked_at_is_told(world) -> None:
    world.project_file.symlink_to(world.project_file)
    assert len(world.problems()) == 1
    assert "~/work/thing/.aish.toml: the file cannot be read: " in world.problems()[0]


def test_a_dangling_link_is_no_file(world) -> None:
    world.project_file.symlink_to(world.project / "nowhere")
    assert world.problems() == []


def test_a_huge_file_is_refused_unread(world) -> None:
    world.user("#" * (1024 * 1024 + 1))
    assert world.problems() == [f"{FILE}: the file is larger than 1 MiB"]


def test_a_file_of_one_mebibyte_of_brackets_and_spaces_is_quick_to_refuse(world) -> None:
    world.user('model = 3\n"' + " " * 500_000 + "[" * 400_000)
    assert len(world.problems()) == 1


def test_without_a_home_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from aish.config.load import load_config

    def no_home() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(ConfigError, match="there is no home directory"):
        load_config(cwd=tmp_path, env={})
