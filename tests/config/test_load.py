"""Layers: what is read, in which order, and who wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from aish.config.load import ConfigFile, Origin
from aish.config.schema.config import Config, LimitsConfig
from aish.config.schema.values import Secret
from aish.errors import ConfigError
from aish.types.decisions import Verdict
from aish.types.requests import Knobs, Sampling, TurnLimits


def test_with_no_files_at_all_the_defaults_hold(world) -> None:
    loaded = world.load()
    assert loaded.config.model == ""
    assert loaded.config.gate.read is Verdict.ALLOW
    assert loaded.config.gate.exec is Verdict.ASK
    assert loaded.config.tools.offer == ("*",)
    assert loaded.config.store.path == str(world.home / ".local/share/aish/aish.db")
    assert loaded.config.embedded.cache_dir == str(world.home / ".cache/aish/models")
    assert [server.name for server in loaded.config.discovery.servers][:2] == ["ollama", "llamacpp"]
    assert loaded.notices == ()
    assert loaded.files == (ConfigFile("user", world.user_file, "absent"),)
    assert loaded.origins == {}


def test_a_preset_turns_the_knobs_that_it_names_and_no_others(world) -> None:
    world.user("[presets.p]\ntop_k = 40\nmin_p = 0.05\nrepeat_penalty = 1.1\n[presets.q]\nseed = 1")
    presets = world.load().config.presets
    assert presets["p"].sampling() == Sampling(knobs=Knobs(top_k=40, min_p=0.05, repeat_penalty=1.1))
    assert presets["q"].sampling() == Sampling(seed=1)


def test_each_layer_wins_over_the_one_before(world) -> None:
    def model() -> tuple[str, str]:
        loaded = world.load(flags)
        return loaded.config.model, loaded.origin("model").layer

    flags: dict[str, str] = {}
    assert model() == ("", "default")
    world.user('model = "user"')
    assert model() == ("user", "user")
    world.project_says('model = "project"', trusted=True)
    assert model() == ("project", "project")
    world.env["AISH_MODEL"] = "environment"
    assert model() == ("environment", "environment")
    flags["model"] = "flags"
    assert model() == ("flags", "flags")


def test_tables_merge_key_by_key_and_lists_replace(world) -> None:
    world.user('[limits]\nmax_steps = 3\nwall_s = 5\n[gate]\ndeny = ["a", "b"]\n[providers.p]\nurl = "http://one"\n')
    world.project_says('[limits]\nmax_steps = 4\n[gate]\ndeny = ["c"]\n[providers.p]\nredact = true\n', trusted=True)
    config = world.load().config
    assert (config.limits.max_steps, config.limits.wall_s) == (4, 5.0)
    assert config.gate.deny == ("c",)
    assert (config.providers["p"].url, config.providers["p"].redact) == ("http://one", True)


def test_origins_name_file_and_line_variable_and_flag(world) -> None:
    world.user('# first\nmodel = "m"\n\n[limits]\nmax_steps = 3\nwall_s = 4\n[providers.p]\n"url" = "http://x"\n')
    world.env["AISH_LIMITS__WALL_S"] = "9"
    loaded = world.load({"system": "s"})
    assert loaded.origin("model") == Origin("user", f"{world.user_file}:2")
    assert loaded.origin("limits.max_steps") == Origin("user", f"{world.user_file}:5")
    assert loaded.origin("providers.p.url") == Origin("user", f"{world.user_file}:8")
    assert loaded.origin("limits.wall_s") == Origin("environment", "AISH_LIMITS__WALL_S")
    assert loaded.origin("system") == Origin("flags", "flag system")
    assert loaded.origin("gate.read") == Origin("default")


def test_lines_are_found_past_long_texts_and_dotted_keys(world) -> None:
    world.user('system = """\nmodel = "not this"\n[limits]\n"""\nlimits.max_steps = 3\nmodel = "m"\n')
    loaded = world.load()
    assert loaded.origin("limits.max_steps").where.endswith(":5")
    assert loaded.origin("model").where.endswith(":6")


def test_the_users_directory_follows_xdg(world, tmp_path: Path) -> None:
    world.env["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    (tmp_path / "xdg" / "aish").mkdir(parents=True)
    (tmp_path / "xdg" / "aish" / "config.toml").write_text('model = "xdg"')
    assert world.load().config.model == "xdg"


def test_a_relative_xdg_directory_is_ignored(world) -> None:
    world.env["XDG_CONFIG_HOME"] = "relative"
    world.user('model = "m"')
    assert world.load().config.model == "m"


def test_the_home_is_taken_from_the_environment_that_is_passed(world) -> None:
    world.user('model = "m"')
    home, world.home = world.home, None
    world.env["HOME"] = str(home)
    assert world.load().config.model == "m"


def test_the_project_file_is_found_from_deep_below_and_the_nearest_counts(world) -> None:
    deep = world.project / "a" / "b"
    deep.mkdir(parents=True)
    world.project_says("[limits]\nmax_steps = 3", trusted=True)
    assert world.load(cwd=deep).config.limits.max_steps == 3
    (world.project / "a" / ".aish.toml").write_text("[limits]\nmax_steps = 2")
    assert world.load(cwd=deep).config.limits.max_steps == 2


def test_a_file_in_the_home_or_above_is_no_project(world) -> None:
    (world.home / ".aish.toml").write_text("[limits]\nmax_steps = 1")
    (world.home.parent / ".aish.toml").write_text("[limits]\nmax_steps = 2")
    assert world.load().config.limits.max_steps == 8
    assert world.load(cwd=world.home).config.limits.max_steps == 8


def test_outside_the_home_the_search_goes_on_to_the_root(world, tmp_path: Path) -> None:
    elsewhere = tmp_path / "srv" / "app"
    elsewhere.mkdir(parents=True)
    (tmp_path / "srv" / ".aish.toml").write_text("[limits]\nmax_steps = 2")
    assert world.load(cwd=elsewhere).config.limits.max_steps == 2


def test_the_users_own_file_is_never_a_project_file(world) -> None:
    world.user('model = "m"')
    world.project_file.symlink_to(world.user_file)
    loaded = world.load()
    assert loaded.config.model == "m"
    assert [file.layer for file in loaded.files] == ["user"]


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("AISH_MODEL", "m", "model", "m"),
        ("AISH_MODEL", "", "model", ""),
        ("AISH_LIMITS__MAX_STEPS", "4", "limits.max_steps", 4),
        ("AISH_LIMITS__WALL_S", "1.5", "limits.wall_s", 1.5),
        ("AISH_LIMITS__MAX_TOKENS", "none", "limits.max_tokens", None),
        ("AISH_LIMITS__MAX_TOKENS", "7", "limits.max_tokens", 7),
        ("AISH_STORE__ENABLED", "false", "store.enabled", False),
        ("AISH_STORE__ENABLED", "0", "store.enabled", False),
        ("AISH_STORE__ENABLED", "TRUE", "store.enabled", True),
        ("AISH_STORE__ENABLED", "1", "store.enabled", True),
        ("AISH_GATE__EXEC", "deny", "gate.exec", Verdict.DENY),
        ("AISH_GATE__DENY", "a__*, b__c ,", "gate.deny", ("a__*", "b__c")),
        ("AISH_TOOLS__OFFER", "", "tools.offer", ()),
        ("AISH_NETWORK__HTTP_PROXY", "http://p", "network.http_proxy", Secret("http://p")),
    ],
)
def test_variables_are_read_as_their_keys_want_them(world, variable: str, text: str, key: str, value: object) -> None:
    world.env[variable] = text
    found: object = world.load().config
    for name in key.split("."):
        found = getattr(found, name)
    assert found == value


def test_a_variable_reaches_a_provider_by_its_configured_name(world) -> None:
    world.user('[providers.My-Box]\nurl = "http://one"\n')
    world.env["AISH_PROVIDERS__MY_BOX__URL"] = "http://two"
    world.env["AISH_PROVIDERS__NEW__URL"] = "http://three"
    world.env["AISH_PROVIDERS__NEW__HEADERS__X_TEAM"] = "blue"
    providers = world.load().config.providers
    assert {name: provider.url for name, provider in providers.items()} == {
        "My-Box": "http://two",
        "new": "http://three",
    }
    assert providers["new"].headers == {"x-team": Secret("blue")}


def test_a_variable_that_names_no_setting_is_noted_and_ignored(world) -> None:
    world.env["AISH_XYZZY"] = "1"
    assert world.load().notices == ("the variable AISH_XYZZY names no setting and is ignored",)


@pytest.mark.parametrize(
    ("variable", "host", "provider", "kind", "url"),
    [
        ("OLLAMA_HOST", "box:9999", "ollama", "ollama", "http://box:9999"),
        ("OLLAMA_HOST", "box", "ollama", "ollama", "http://box:11434"),
        ("OLLAMA_HOST", "0.0.0.0", "ollama", "ollama", "http://127.0.0.1:11434"),
        ("OLLAMA_HOST", "::1", "ollama", "ollama", "http://[::1]:11434"),
        ("OLLAMA_HOST", "[::]:80", "ollama", "ollama", "http://[::1]:80"),
        ("OLLAMA_HOST", "https://far.example/", "ollama", "ollama", "https://far.example"),
        ("MNN_HOST", "127.0.0.1", "mnn", "openai", "http://127.0.0.1:8000"),
        ("LMDEPLOY_HOST", "gpu:1", "lmdeploy", "openai", "http://gpu:1"),
    ],
)
def test_host_variables_make_providers(world, variable: str, host: str, provider: str, kind: str, url: str) -> None:
    world.env[variable] = host
    found = world.load().config.providers[provider]
    assert (found.kind, found.url) == (kind, url)


def test_the_other_variables_of_the_reference_runtime_are_honoured_below_ours(world) -> None:
    world.user('provider = "file"\n')
    world.env |= {"LLAMA_CPP_MODEL": "models/x.gguf", "RUNTIME_PROVIDER": "lmdeploy"}
    config = world.load().config
    assert config.embedded.model == str(world.project / "models/x.gguf")
    assert config.provider == "lmdeploy"
    world.env["AISH_PROVIDER"] = "mine"
    assert world.load().config.provider == "mine"


@pytest.mark.parametrize(
    ("lines", "token"),
    [
        ('auth_token = "own"\nauth_env = "WIKI_TOKEN"', "own"),
        ('auth_env = "WIKI_TOKEN"', "from-outside"),
        ('auth_env = "NOT_SET"', None),
        ("", None),
    ],
)
def test_a_token_for_an_mcp_server_is_its_own_or_that_of_its_variable(world, lines: str, token: str | None) -> None:
    world.env["WIKI_TOKEN"] = "from-outside"
    world.user(f'[mcp.servers.wiki]\nurl = "https://wiki.example/mcp"\n{lines}\n')
    found = world.load().config.mcp.servers["wiki"].auth_token
    assert (found.reveal() if found else None) == token


def test_mcp_hosts_without_an_alias_get_numbers_that_nobody_else_has(world) -> None:
    world.env |= {"MCP_HOST": "http://a.example/mcp?k=v", "MCP_HOSTS": "mcp1=http://b.example/mcp, c:9000, wiki = d ,"}
    servers = world.load().config.mcp.servers
    assert {name: server.url for name, server in servers.items()} == {
        "mcp2": "http://a.example/mcp?k=v",
        "mcp1": "http://b.example/mcp",
        "mcp3": "http://c:9000",
        "wiki": "http://d:80",
    }


def test_proxy_variables_hold_in_both_cases_unless_a_file_says_otherwise(world) -> None:
    world.env |= {"http_proxy": "http://low", "HTTP_PROXY": "http://up", "ALL_PROXY": "http://all", "NO_PROXY": "a, .b"}
    network = world.load().config.network
    assert network.http_proxy == Secret("http://low")
    assert network.https_proxy == Secret("http://all")
    assert network.no_proxy == ("a", ".b")
    world.user('[network]\nhttp_proxy = "http://file"')
    assert world.load().config.network.http_proxy == Secret("http://file")


def test_flags_may_be_typed_or_text_and_none_is_not_given(world) -> None:
    config = world.load(
        {"limits": {"max_steps": 2, "wall_s": "3.5", "max_tokens": None}, "gate": {"deny": ["x"]}}
    ).config
    assert (config.limits.max_steps, config.limits.wall_s, config.gate.deny) == (2, 3.5, ("x",))


def test_paths_start_at_the_file_they_stand_in_and_the_tilde_is_home(world) -> None:
    world.user('[store]\npath = "~/here.db"\n[providers.s]\nkind = "scripted"\nfile = "demo.json"\n')
    config = world.load().config
    assert config.store.path == str(world.home / "here.db")
    assert config.providers["s"].file == str(world.user_file.parent / "demo.json")
    world.env["AISH_STORE__PATH"] = "there.db"
    assert world.load().config.store.path == str(world.project / "there.db")


def test_a_key_is_taken_from_the_variable_that_key_env_names(world) -> None:
    world.user('[providers.p]\nurl = "http://x"\nkey_env = "TOKEN"\n')
    world.env["TOKEN"] = "hush"
    loaded = world.load()
    assert loaded.get_key("p") == Secret("hush")
    assert loaded.origin("providers.p.key") == Origin("environment", "TOKEN")


def test_a_missing_key_variable_is_an_error_only_when_the_key_is_used(world) -> None:
    world.user('[providers.p]\nurl = "http://x"\nkey_env = "TOKEN"\n[providers.q]\nurl = "http://y"\n')
    loaded = world.load()
    assert loaded.get_key("q") is None
    with pytest.raises(ConfigError) as caught:
        loaded.get_key("p")
    assert caught.value.message == (f"{world.user_file}:3: the variable TOKEN, which is to hold an API key, is not set")
    assert caught.value.hint == "export TOKEN=…, or change key_env"


def test_url_and_urls_form_the_endpoints(world) -> None:
    world.user('[providers.p]\nurl = "http://a"\nurls = ["http://b", "http://a"]\n')
    assert world.load().config.providers["p"].endpoints == ("http://a", "http://b")


def test_the_limits_section_mirrors_the_limits_of_a_turn() -> None:
    assert LimitsConfig().limits() == TurnLimits()
    assert LimitsConfig.__struct_fields__ == TurnLimits.__struct_fields__
    assert Config().limits.limits().max_steps == 8
