from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from aish.types.events import TurnEnd, TurnFinished, TurnStarted, encode_event
from support.command import Command, ended

WAIT = [{"text": "one "}, {"text": "two "}, {"wait_s": 60}]


@pytest.fixture
def aish(private_home: Path) -> Command:
    return Command(private_home, {"AISH_DISCOVERY__ENABLED": "false"})


def test_version_imports_next_to_nothing(aish):
    code = (
        "import contextlib, sys\n"
        "before = {'contextlib', *sys.modules}\n"
        "from aish.__main__ import main\n"
        "sys.argv = ['aish', '--version']\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "print(*{'typing', 're', 'enum', 'argparse', 'aish.cli'} & ({*sys.modules} - before))\n"
        "foreign = {name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names - {'__main__'}\n"
        "print(sorted(foreign - {name for name in foreign if name.startswith('__editable__')}))\n"
        "print('asyncio' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=30, check=True)
    version, loaded, foreign, has_asyncio = done.stdout.splitlines()
    assert version.startswith("aish ")
    assert loaded == ""
    assert set(json.loads(foreign.replace("'", '"'))) <= {"aish", "_distutils_hack", "sitecustomize"}
    assert has_asyncio == "False"


def test_a_tool_call_runs_and_its_result_is_answered(aish):
    done = aish.run("--model", "fake-tool", "add 2 and 3")
    assert (done.code, done.out) == (0, "The result of runtime__add is 5.\n")
    assert "→ runtime__add" in done.err


def test_a_run_loads_no_more_than_it_uses(aish):
    code = (
        "import atexit, sys\n"
        "from aish.__main__ import main\n"
        "heavy = {'jsonschema_rs', 'dataclasses', 'difflib', 'shlex', 'httptools', 'aish.net.http.client',\n"
        "         'aish.providers.openai.provider', 'aish.providers.embedded.provider',\n"
        "         'aish.planner.planner', 'aish.providers.tool_calling.weak_models'}\n"
        "sys.argv = ['aish', '--model', 'scripted:fake-tool', 'add 2 and 3']\n"
        "import aish.cli as cli\n"
        "inner = cli.run\n"
        "def told(words):\n"
        "    atexit.register(lambda: print('loaded:', *sorted(heavy & {*sys.modules})))\n"
        "    return inner(words)\n"
        "cli.run = told\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=aish.environment()
    )
    assert done.stdout == "The result of runtime__add is 5.\nloaded:\n"


def test_what_is_registered_for_the_exit_is_done_and_the_code_is_kept(aish):
    code = (
        "import atexit, sys, threading\n"
        "from aish.__main__ import main\n"
        "import aish.cli as cli\n"
        "go = threading.Event()\n"
        "def run(words):\n"
        "    atexit.register(lambda: print('registered'))\n"
        "    threading.Thread(target=lambda: (go.wait(30), print('thread'))).start()\n"
        "    threading.Timer(0.05, go.set).start()\n"
        "    return 7\n"
        "cli.run = run\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False, env=aish.environment()
    )
    assert (done.returncode, done.stdout) == (7, "thread\nregistered\n")


def test_a_recorded_turn_replays_byte_for_byte(aish):
    live = aish.run("--model", "fake-tool", "--json", "add 2 and 3")
    assert isinstance(live.events[0].body, TurnStarted)
    assert isinstance(live.events[-1].body, TurnFinished)
    assert aish.run("sessions", "replay", "latest").out == live.out
    assert aish.run("sessions", "replay", live.events[0].turn).out == live.out
    assert "".join(encode_event(event).decode() + "\n" for event in live.events) == live.out


def test_what_is_piped_in_goes_along_with_the_question(aish):
    done = aish.run("--model", "fake-tool", "--json", "echo this", stdin="the file\n")
    assert done.events[0].body.input[0].text == "echo this\n\nthe file"


def test_what_is_piped_in_alone_is_the_question(aish):
    done = aish.run("--model", "fake-tool", stdin="add 20 and 22")
    assert done.out == "The result of runtime__add is 42.\n"


def test_what_is_piped_in_mentions_nothing(aish):
    """A diff is full of @, and whoever wrote it does not choose which files go along."""
    (aish.home / "private.txt").write_text("the secret recipe")
    piped = "@@ -1 +1 @@\n+@property\nsee @private.txt and @nowhere"
    done = aish.run("--model", "fake-tool", "--json", "sum this up", stdin=piped)
    assert (done.code, done.events[0].body.input[0].text) == (0, f"sum this up\n\n{piped}")


def test_bytes_that_are_not_text_do_not_stop_it(aish):
    done = aish.run("--model", "fake-tool", stdin=b"echo \xff\xfe\x00 this")
    assert (done.code, done.out) == (0, "The result of runtime__echo is echo \ufffd\ufffd\ufffd this.\n")


def test_a_pipe_larger_than_any_window_is_refused_with_what_to_do(aish):
    done = aish.run("--model", "fake-tool", stdin=b"x" * (5 * 1024 * 1024))
    assert done.code == 2
    assert "larger than 4 MiB" in done.err and "head or grep" in done.err


def test_nothing_to_ask_is_a_usage_error(aish):
    done = aish.run()
    assert done.code == 2
    assert "nothing to ask" in done.err


def test_a_session_is_continued_by_continue_and_by_its_id(aish):
    first = aish.run("--model", "fake-tool", "--json", "add 1 and 1")
    session = first.events[0].session
    assert aish.run("-m", "fake-tool", "--json", "--continue", "add 2 and 2").events[0].session == session
    assert aish.run("-m", "fake-tool", "--json", "--session", session, "add 3 and 3").events[0].session == session
    shown = aish.run("sessions", "show", session).out
    assert [line for line in shown.splitlines() if line.startswith(">")] == [
        "> add 1 and 1",
        "> add 2 and 2",
        "> add 3 and 3",
    ]


def test_what_a_client_of_a_server_has_named_is_not_gone_on_with_unasked(aish):
    own = aish.run("--model", "fake-tool", "--json", "add 1 and 1").events[0].session
    with closing(sqlite3.connect(aish.home / ".local/share/aish/aish.db")) as db, db:
        db.execute("INSERT INTO sessions VALUES ('of-a-client', 1, 9999999999999, 'theirs', '', '', 0, '')")
    assert aish.run("-m", "fake-tool", "--json", "--continue", "add 2 and 2").events[0].session == own
    assert "add 2 and 2" in aish.run("sessions", "show", "latest").out
    assert "of-a-client" in aish.run("sessions", "list").out


@pytest.mark.parametrize(
    ("name", "said"), [("olama", "did you mean ollama?"), ("nonsense", "there are "), ("ollama", "is fine")]
)
def test_a_preferred_provider_that_there_is_not_is_found_by_the_check(aish, name, said):
    aish.env["AISH_PROVIDER"] = name
    done = aish.run("config", "check")
    assert (done.code == 0) == (said == "is fine") and said in done.out


def test_sessions_that_nobody_uses_are_kept_as_long_as_is_wanted(aish):
    for number in range(3):
        aish.run("-m", "fake-tool", f"echo old {number}")
    with sqlite3.connect(aish.home / ".local/share/aish/aish.db") as db:
        db.execute("UPDATE sessions SET updated_ms = updated_ms - 86400000 * 9 WHERE title LIKE '% old %'")
    db.close()
    for keep_days, left in (("99999999999999999999", 4), ("10", 5), ("8", 3)):
        aish.env["AISH_STORE__KEEP_DAYS"] = keep_days
        assert aish.run("-m", "fake-tool", "echo new").code == 0
        assert len(aish.run("sessions", "list").out.splitlines()) == left
    assert "old" not in aish.run("sessions", "list").out
    assert json.loads(aish.run("cost", "--by", "model", "--json").out)["calls"] == 12


def test_sessions_are_listed_searched_exported_and_deleted(aish):
    aish.run("-m", "fake-tool", "add 1 and 1")
    session = aish.run("-m", "fake-tool", "--json", "echo pomegranate").events[0].session
    assert len(aish.run("sessions", "list").out.splitlines()) == 2
    assert session in aish.run("sessions", "search", "pomegranate").out
    assert len(aish.run("sessions", "search", "pomegranate").out.splitlines()) == 1
    exported = aish.run("sessions", "export", session)
    assert exported.events[-1].body.reason is TurnEnd.ANSWERED
    assert aish.run("sessions", "delete", session).code == 0
    gone = aish.run("sessions", "show", session)
    assert gone.code == 2 and "no session" in gone.err


def test_tools_may_be_narrowed_or_left_out(aish):
    assert aish.run("-m", "fake-tool", "--tools", "none", "add 1 and 2").out == "There is no tool I could call.\n"
    assert "runtime__echo" in aish.run("-m", "fake-tool", "--tools", "runtime.echo", "add 1 and 2").out


def test_a_limit_reached_is_exit_code_5(aish):
    done = aish.run("-m", "fake-tool", "--max-steps", "1", "add 1 and 2")
    assert done.code == 5
    assert "stopped after 1 step," in done.err


def test_a_refused_call_is_exit_code_3_and_yes_lets_it_through(aish):
    model = aish.write_script(
        "s", [[{"call": {"name": "runtime__add", "arguments": '{"a":1,"b":2}'}}], [{"text": "so"}]]
    )
    aish.env["AISH_GATE__READ"] = "ask"
    unasked = aish.run("-m", model, "go")
    assert (unasked.code, unasked.out) == (3, "so\n")
    assert aish.run("-m", model, "--yes", "go").code == 0
    aish.env["AISH_GATE__READ"] = "deny"
    assert aish.run("-m", model, "--yes", "go").code == 3


def test_a_provider_that_is_down_is_exit_code_4_with_one_sentence(aish):
    done = aish.run("--endpoint", "up=http://127.0.0.1:9/v1", "-m", "up:m", "hello")
    assert done.code == 4
    assert "127.0.0.1:9" in done.err and "Traceback" not in done.err
    aish.write_config('model = "scripted:fake-tool"\n')
    unnamed = aish.run("--endpoint", "up=http://127.0.0.1:9/v1", "hello")
    assert unnamed.code == 4 and "127.0.0.1:9" in unnamed.err, "whoever gives an endpoint means it"


def test_an_unknown_model_suggests_the_near_one(aish):
    done = aish.run("-m", "fake-tol", "hello")
    assert done.code == 4
    assert "did you mean scripted:fake-tool?" in done.err


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("mdoel = 1", "did you mean"),
        ("model = 3", "config.toml:1"),
        ("[limits]\nmax_step = 3", "max_steps"),
        ("[limits]\nmax_steps = 0", "at least 1"),
        ("[limits]\nwall_s = -3", "above 0"),
        ("not toml at all", "config.toml"),
        ('[providers.x]\nkind = "opnai"', "opnai"),
    ],
)
def test_a_wrong_config_is_exit_code_2_with_file_and_advice(aish, config, said):
    aish.write_config(config)
    done = aish.run("-m", "fake-tool", "hello")
    assert done.code == 2
    assert said in done.err and "Traceback" not in done.err


def test_an_unusable_store_is_one_plain_sentence(aish):
    aish.env["AISH_STORE__PATH"] = str(aish.home)
    done = aish.run("-m", "fake-tool", "hello")
    assert done.code == 1
    assert done.err.startswith("aish: ") and "Traceback" not in done.err
    assert "AISH_STORE__ENABLED=false" in done.err
    aish.env["AISH_STORE__ENABLED"] = "false"
    assert aish.run("-m", "fake-tool", "hello").code == 0


def test_a_damaged_store_is_one_plain_sentence(aish):
    store = aish.home / "x.db"
    store.write_bytes(b"this is no database, " * 1000)
    aish.env["AISH_STORE__PATH"] = str(store)
    done = aish.run("-m", "fake-tool", "hello")
    assert done.code == 1
    assert str(store) in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    "words",
    [["--nonsense"], ["--max-steps", "0", "-m", "fake-tool", "x"], ["--endpoint", "nourl", "x"], ["models", "fly"]],
)
def test_bad_usage_is_exit_code_2(aish, words):
    done = aish.run(*words)
    assert done.code == 2
    assert "Traceback" not in done.err


def test_help_is_shown_as_people_type_it_and_begins_a_question_otherwise(aish):
    assert aish.run("help").out == aish.run("--help").out
    assert aish.run("help", "sessions").out == aish.run("sessions", "--help").out
    assert aish.run("-m", "fake-tool", "help me plan").out == "The result of runtime__echo is help me plan.\n"
    asked = aish.run("help", "explain", "this", "-m", "fake-tool")
    assert asked.out == "The result of runtime__echo is help explain this.\n"


@pytest.mark.parametrize(
    "kept", ['[{"verdict": "perhaps", "tools": ["x"]}]', '[{"verdict": "allow", "tool": ["x"]}]', "[5]", "{", ""]
)
def test_what_was_approved_is_not_guessed_from_a_damaged_file(aish, kept):
    file = aish.home / ".local/share/aish/approved.json"
    file.parent.mkdir(parents=True)
    file.write_text(kept)
    done = aish.run("-m", "fake-tool", "hello")
    assert done.code == 2 and "approved.json is damaged" in done.err and "delete it" in done.err


def test_a_suggestion_of_the_fallback_says_so(aish):
    name = aish.write_script("spare", [[{"text": "ls -S"}]])
    with (aish.home / ".config/aish/config.toml").open("a") as config:
        config.write(f'[providers.up]\nurl = "http://127.0.0.1:9"\nmodels = ["m"]\n[routing]\nfallback = "{name}"\n')
    done = aish.run("suggest", "-m", "up:m", "sort by size")
    assert (done.code, done.out) == (0, "ls -S\n") and f"asking {name} instead" in done.err


def test_keys_are_in_no_output(aish):
    aish.write_config('[providers.up]\nurl = "http://127.0.0.1:9"\nkey = "sk-very-secret-1"\n')
    shown = [aish.run("config", "show"), aish.run("doctor"), aish.run("-m", "up:m", "hello")]
    assert all("sk-very-secret-1" not in done.out + done.err for done in shown)
    assert "providers.up.key" in shown[0].out
    assert aish.run("-m", "fake-tool", "echo sk-very-secret-1").code == 0
    kept = b"".join(path.read_bytes() for path in (aish.home / ".local/share/aish").iterdir())
    assert b"turn_started" in kept
    assert b"sk-very-secret-1" not in kept


def test_an_untrusted_project_file_may_only_tighten_until_it_is_trusted(aish, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / ".aish.toml").write_text('system = "obey"\n[limits]\nmax_steps = 1\n')
    done = aish.run("-m", "fake-tool", "add 1 and 2", cwd=project)
    assert done.code == 5
    assert "aish config trust" in done.err
    assert aish.run("config", "trust", cwd=project).code == 0
    assert "config trust" not in aish.run("-m", "fake-tool", "add 1 and 2", cwd=project).err
    assert "no longer trusted" in aish.run("config", "distrust", cwd=project).err
    assert "aish config trust" in aish.run("-m", "fake-tool", "add 1 and 2", cwd=project).err
    assert "there is no answer" in aish.run("config", "distrust", cwd=project).err


def test_config_check_knows_the_presets_that_questions_are_sent_to(aish):
    presets = '[presets.coder]\nmodel = "scripted:fake-tool"\n[routing]\n'
    aish.write_config(presets + 'code = "coder"\nquick = "scripted:fake-tool"\nfallback = "embedded"\n')
    fine = aish.run("config", "check")
    assert (fine.code, fine.out, fine.err) == (0, "the configuration is fine\n", "")
    aish.write_config(presets + 'code = "codr"\n')
    misspelt = aish.run("config", "check")
    assert misspelt.code == 2
    assert misspelt.out == "routing.code: there is no preset codr: did you mean coder?\n"
    aish.write_config(presets + 'code = "qwen3:8b"\n')
    unknown = aish.run("config", "check")
    assert unknown.code == 0
    assert "routing.code: qwen3:8b is no preset" in unknown.err
    aish.write_config(presets + '[safety]\nsecond_opinion = "codr"\n[norris]\npreplanner = "coder"\n')
    assert aish.run("config", "check").out == "safety.second_opinion: there is no preset codr: did you mean coder?\n"
    aish.write_config('model = "codr"\n' + presets)
    assert aish.run("config", "check").out == "model: there is no preset codr: did you mean coder?\n"
    aish.write_config('model = "auto"\n' + presets)
    assert aish.run("config", "check").err == ""


def test_config_check_says_what_is_ignored(aish, tmp_path):
    (tmp_path / ".aish.toml").write_text('model = "theirs"\n')
    aish.env["AISH_MODLE_NAME"] = "x"
    done = aish.run("config", "check", cwd=tmp_path)
    assert (done.code, done.out) == (0, "the configuration is fine\n")
    assert "AISH_MODLE_NAME names no setting" in done.err and "ignored in it: model" in done.err


def test_config_check_knows_the_fields_of_a_prompt(aish):
    aish.write_config("[shell]\nprompt = '{modell} {cwd} ${HOME} {mark}{'\n")
    done = aish.run("config", "check")
    near, far = done.out.splitlines()
    assert done.code == 2
    assert near == "shell.prompt: there is no field {modell}; did you mean {model}?"
    assert far.startswith("shell.prompt: there is no field {HOME}; there are model, cwd, ")
    aish.write_config("[shell]\nprompt = '{cwd {mark}'\n")
    assert aish.run("config", "check").out == "shell.prompt: {cwd has no }\n"


def test_keys_say_when_the_first_closes_a_server_and_the_last_opens_it(aish):
    assert "running servers ask for a key within seconds" in aish.run("keys", "create", "ann").err
    assert "first" not in aish.run("keys", "create", "bob").err
    assert "open to this machine" not in aish.run("keys", "revoke", "ann").err
    assert "open to this machine" in aish.run("keys", "revoke", "bob").err


@pytest.mark.parametrize("name", ["a__b", "ends_"])
def test_config_check_knows_which_names_an_mcp_server_may_have(aish, name):
    aish.write_config(f'[mcp.servers."{name}"]\ncommand = "x"\n[mcp.servers.fine_one-2]\ncommand = "x"\n')
    done = aish.run("config", "check")
    assert (done.code, done.out.count("\n")) == (2, 1)
    assert done.out.startswith(f"mcp.servers.{name}:")


def test_config_is_made_shown_checked_and_found(aish):
    assert aish.run("config", "init").code == 0
    assert aish.run("config", "check").out == "the configuration is fine\n"
    assert str(aish.home) in aish.run("config", "path").out
    again = aish.run("config", "init")
    assert again.code == 2 and "Traceback" not in again.err


def test_a_starter_file_that_cannot_be_written_whole_is_not_left_there(aish):
    words = ["bash", "-c", f"ulimit -f 1; exec {sys.executable} -B -m aish config init"]  # no byte code cut at 1 KiB
    done = subprocess.run(words, env=aish.environment(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "cannot be written: File too large" in done.stderr) == (2, True)
    assert aish.run("config", "init").code == 0


def test_doctor_says_what_is_there_and_what_to_do(aish):
    done = aish.run("doctor")
    assert "store" in done.out and "aish models pull smollm2" in done.out


def test_a_provider_that_cannot_be_made_is_one_line_of_doctor(aish):
    gone = '[providers.gone]\nkind = "extension"\nextension = "nothing"\n'
    aish.write_config(gone + '[providers.play]\nkind = "scripted"\n')
    done, models = aish.run("doctor"), aish.run("models")
    assert (done.code, done.out.count("✗ gone")) == (1, 1) and "✓ play" in done.out
    assert (models.code, "play:fake-tool" in models.out, models.err) == (0, True, "")


def test_doctor_finds_a_model_that_was_altered_on_the_disk(aish):
    folder = aish.home / ".cache" / "aish" / "models"
    folder.mkdir(parents=True)
    (folder / "mine.gguf").write_bytes(b"GGUF")
    assert "aish models trust mine" in aish.run("doctor").out
    assert aish.run("models", "trust", "mine").code == 0
    assert "✓ embedded" in aish.run("doctor").out
    (folder / "mine.gguf").write_bytes(b"GGUF, altered")
    done = aish.run("doctor")
    assert (done.code, "✗ embedded" in done.out, "was altered" in done.out) == (1, True, True)


def test_models_lists_what_every_provider_offers(aish):
    assert "scripted:fake-tool" in aish.run("models").out
    assert json.loads(aish.run("models", "list", "--json").out.splitlines()[-1])["id"] == "fake-tool"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_mid_stream_ends_it_and_keeps_what_was_said(aish, number, code):
    process = aish.start("-m", aish.write_script("slow", [WAIT]), "--json", "go")
    _read_until(process, "two ")
    done = ended(process, number)
    assert done.code == code
    assert "Traceback" not in done.err
    shown = aish.run("sessions", "show", "latest").out
    assert "one two" in shown and "[cancelled]" in shown


def test_kill_9_in_mid_stream_loses_nothing_that_was_seen(aish):
    model = aish.write_script("slow", [WAIT, [{"text": "again"}]])
    process = aish.start("-m", model, "--json", "go")
    seen = _read_until(process, "two ")
    assert ended(process).code == -signal.SIGKILL
    replayed = aish.run("sessions", "replay", "latest").out.splitlines()
    assert replayed[: len(seen)] == seen
    after = aish.run("-m", model, "--continue", "more")
    assert (after.code, after.out) == (0, "again\n")
    assert "[interrupted]" in aish.run("sessions", "show", "latest").out


def test_a_reader_that_goes_away_ends_it_quietly(aish):
    process = aish.start("-m", "fake-tool", "--json", "add 1 and 2")
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert b"Traceback" not in err and b"internal error" not in err


def test_a_reply_with_escape_codes_cannot_steer_the_terminal(aish):
    model = aish.write_script("s", [[{"text": "\x1b]0;owned\x07\x1b[2Jhi\x9b31m"}]])
    out = aish.run("-m", model, "go").out
    assert "hi" in out and not any(char in out for char in "\x1b\x07\x9b")


def _read_until(process, text: str) -> list[str]:
    """Lines of JSON up to the one that holds the text. The pipe's end ends the wait."""
    lines = []
    for raw in process.stdout:
        lines.append(raw.decode().rstrip("\n"))
        if text in lines[-1]:
            return lines
    raise AssertionError(f"{text!r} never came: {lines}")


def test_a_command_proved_read_only_runs_unasked_and_others_are_refused_without_a_person(aish):
    script = [
        [{"call": {"index": 0, "name": "shell__run", "arguments": '{"command": "echo hi | wc -c"}'}},
         {"call": {"index": 1, "name": "shell__run", "arguments": '{"command": "touch made"}'}}],
        [{"text": "so"}],
    ]  # fmt: skip
    model = aish.write_script("s", script)
    done = aish.run("-m", model, "go")
    assert done.code == 3
    assert "← 3" in done.err and "refused" in done.err
    assert not (aish.home / "made").exists()
    assert aish.run("-m", model, "--yes", "go").code == 0
    assert (aish.home / "made").exists()


def test_yes_does_not_cover_a_catastrophe(aish):
    model = aish.write_script(
        "s", [[{"call": {"name": "shell__run", "arguments": '{"command": "rm -rf ~"}'}}], [{"text": "so"}]]
    )
    done = aish.run("-m", model, "--yes", "go")
    assert done.code == 3
    assert "--yes does not cover this" in done.err
    assert aish.home.is_dir()


@pytest.mark.parametrize(
    ("line", "code", "verdict"),
    [("git status", 0, "safe"), ("make install", 10, "unknown"), ("rm -rf /", 20, "destructive")],
)
def test_safety_check_says_what_it_thinks_of_a_line_and_why(aish, line, code, verdict):
    done = aish.run("safety", "check", line)
    assert (done.code, done.out.split()[0]) == (code, verdict)
    as_json = json.loads(aish.run("safety", "check", "--json", line).out)
    assert as_json["verdict"] == verdict
    assert bool(as_json["reasons"]) == (verdict != "safe")


def test_safety_check_reads_lines_and_answers_each(aish):
    done = aish.run("safety", "check", "--stdin", stdin="ls\nrm -rf /\n'unmatched\n")
    assert [json.loads(line)["verdict"] for line in done.out.splitlines()] == ["safe", "destructive", "unknown"]
    assert done.code == 20


def test_safety_explain_says_why_a_path_is_kept_from_commands(aish):
    aish.write_config('[[gate.rules]]\nverdict = "deny"\npaths = ["secrets/**"]\nwhy = "not for models"\n')
    done = aish.run("safety", "explain", "shell.run", '{"command": "cat secrets/key"}')
    assert done.out.splitlines() == ["deny  by deny secrets/**", "  not for models"]


def test_safety_explain_names_the_rule_that_decides(aish):
    aish.write_config('[[gate.rules]]\nverdict = "deny"\nname = "no pushing"\ncommands = ["git push"]\n')
    done = aish.run("safety", "explain", "shell.run", '{"command": "git push"}')
    assert done.out.startswith("deny  by no pushing")


def test_a_rule_that_does_not_do_what_its_examples_say_is_an_error(aish):
    aish.write_config('[[gate.rules]]\nverdict = "allow"\ncommands = ["git"]\nnot_match = ["git push"]\n')
    done = aish.run("-m", "fake-tool", "hello")
    assert done.code == 2
    assert "should not match 'git push'" in done.err
    checked = aish.run("config", "check")
    assert checked.code == 2 and "should not match 'git push'" in checked.out


def test_mcp_servers_are_imported_from_the_common_form_and_a_bad_entry_breaks_nothing(aish):
    file = aish.home / "mcp.json"
    servers = {"my server": {"command": "cat", "args": ["-u"]}, "my_server": {"command": "cat"}}
    file.write_text(json.dumps({"mcpServers": servers}))
    done = aish.run("mcp", "import", str(file))
    assert (done.code, done.out.splitlines()[0]) == (0, "my_server: imported")
    assert '["-u"]' in aish.run("config", "show").out
    file.write_text(json.dumps({"mcpServers": {"bad": {"command": "cat", "args": "-u"}}}))
    refused = aish.run("mcp", "import", str(file))
    assert refused.code == 2 and "nothing was imported" in refused.err and refused.out == ""
    assert aish.run("config", "check").code == 0


def test_mcp_servers_are_imported_with_what_there_is_a_key_for_and_the_rest_is_said(aish):
    servers = {
        "wiki": {"url": "https://wiki.example", "headers": {"authorization": "bearer t0ken-51c0ffee", "X-Team": "a"}},
        "desk": {"command": "cat", "args": [1, None, True], "env": {"A": False, "B": None}},
        "none": {},
        "both": {"command": "cat", "url": "https://x.example"},
    }
    file = aish.home / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    assert aish.run("mcp", "import", str(file)).out.splitlines() == [
        "wiki: imported, without its headers X-Team",
        "desk: imported",
        "none: it needs either a command or a url, left out",
        "both: it needs either a command or a url, left out",
    ]
    written = (aish.home / ".config" / "aish" / "config.toml").read_text()
    assert 'auth_token = "t0ken-51c0ffee"' in written
    assert 'args = ["1", "true"]\nenv = {"A" = "false"}' in written
    assert aish.run("config", "check").code == 0


def test_a_tool_of_a_server_that_failed_is_answered_with_why_it_did(aish):
    aish.write_config('[mcp.servers.bad]\ncommand = "false"\n')
    done = aish.run("mcp", "call", "bad__x")
    assert done.code == 1
    assert "bad exited with code 1" in done.err


def test_a_question_that_is_not_utf_8_is_asked_all_the_same(aish):
    done = aish.run("-m", "fake-tool", os.fsdecode(b"echo caf\xe9"))
    assert done.code == 0 and "caf?" in done.out


@pytest.mark.parametrize("redirect", [">&-", ">/dev/full", "2>&-", "2>/dev/full"])
def test_closed_and_full_streams_end_without_a_traceback(aish, redirect):
    command = f"{sys.executable} -m aish -m fake-tool 'add 1 and 2' {redirect}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, env=aish.environment(), check=False)
    assert done.returncode in (0, 1)
    assert b"Traceback" not in done.stdout + done.stderr and b"internal error" not in done.stdout + done.stderr


def test_what_was_said_before_a_kill_is_shown_at_once(aish):
    process = aish.start("-m", aish.write_script("slow", [WAIT]), "--json", "go")
    _read_until(process, "two ")
    ended(process)
    shown = aish.run("sessions", "show", "latest").out
    assert "one two" in shown and "[unfinished]" in shown


@pytest.mark.parametrize("depth", ["3", "9" * 5000])
def test_an_aish_among_its_own_mcp_servers_is_not_started_without_end(aish, depth):
    aish.write_config(f'[mcp.servers.itself]\ncommand = "{sys.executable}"\nargs = ["-m", "aish", "mcp", "serve"]\n')
    aish.env["MCP_DEPTH_OF_AISH"] = depth
    done = aish.run("mcp", "serve")
    assert done.code == 2
    assert "take aish out of its own [mcp.servers]" in done.err


def test_keys_have_a_name(aish):
    assert aish.run("keys", "create", " ").code == 2


def test_a_key_for_metrics_uses_no_model_and_no_tool(aish):
    assert aish.run("keys", "create", "prometheus", "--metrics").out.startswith("aish-")
    assert "prometheus  metrics  models none; tools none" in aish.run("keys", "list").out


def test_presets_are_listed_with_the_models(aish):
    aish.write_config('[presets.fast]\nmodel = "scripted:fake-tool"\n')
    assert aish.run("models").out.splitlines()[0] == "fast → scripted:fake-tool"
