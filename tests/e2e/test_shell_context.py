"""What the model sees and what it costs, as a person meets it."""

import json
import subprocess
import sys
from pathlib import Path

from e2e.test_shell import config, did, home, shell

__all__ = ["home"]

USAGE = {"usage": {"prompt_tokens": 1000, "completion_tokens": 100}}
EXTRA = """
[presets.wise]
model = "sage:sage"

[routing]
reasoning = "wise"

[prices]
"play:*" = { prompt = 10.0, completion = 20.0 }
"""


def models(home: Path, steps: object, *, sage: object = ([{"text": "nothing"}],), extra: str = EXTRA) -> str:
    (home / "play.json").write_text(json.dumps(steps))
    (home / "sage.json").write_text(json.dumps(list(sage)))
    config(
        home,
        f'[providers.play]\nkind = "scripted"\nfile = "{home / "play.json"}"\n'
        f'[providers.sage]\nkind = "scripted"\nfile = "{home / "sage.json"}"\n{extra}',
    )
    return "play:play"


async def test_a_prompt_of_a_server_is_filled_in_and_goes_along_with_the_next_question(home):
    stub = Path(__file__).parent.parent / "support" / "mcp_stub.py"
    async with shell(home) as term:
        await did(term, f":mcp connect s {sys.executable} {stub}", "✓ s:")
        await did(term, ":mcp prompt s", "greet(who?)")
        await did(term, ":mcp prompt s greet heron", "'heron' gives no argument a value")
        await did(term, ":mcp prompt s greet who='the heron'", "it goes along with your next question")
        await did(term, "? repeat all", "The result of runtime__echo is repeat all")
        assert "greet {'who': 'the heron'}" in term.text.rpartition("The result of")[2]


async def test_a_server_that_was_disconnected_is_connected_again_by_its_name(home):
    stub = Path(__file__).parent.parent / "support" / "mcp_stub.py"
    config(home, f'[mcp.servers.s]\ncommand = "{sys.executable}"\nargs = ["{stub}"]\nenabled = false\n')
    async with shell(home) as term:
        await did(term, ":mcp", ":mcp connect s")
        await did(term, ":mcp connect s", "✓ s: 3 tools")
        await did(term, ":mcp connect s", "✓ s: 3 tools")
        await did(term, ":mcp disconnect s", "s is disconnected")
        await did(term, ":mcp tools s", "s has no tools")
        await did(term, ":mcp connect s", "✓ s: 3 tools")
        await did(term, ":mcp connect t", "no MCP server named t")


async def test_a_server_that_failed_makes_room_for_one_that_is_typed_better(home):
    stub = Path(__file__).parent.parent / "support" / "mcp_stub.py"
    async with shell(home) as term:
        await did(term, ":mcp connect s false", "✗ MCP server s: initialize: exit(1)")
        await did(term, f":mcp connect s {sys.executable} {stub}", "✓ s: 3 tools")
        await did(term, f":mcp connect s {sys.executable} {stub} again", "already a source of tools named s")


async def test_a_server_that_has_nothing_to_show_says_so(home):
    hostile = Path(__file__).parent.parent / "support" / "hostile_mcp.py"
    async with shell(home) as term:
        await did(term, f":mcp connect s {sys.executable} {hostile} list_changed", "✓ s:")
        await did(term, ":mcp resources s", "s has no resources")
        await did(term, ":mcp prompt s", "s has no prompts")
        await did(term, ":mcp log s", "s has logged nothing")


async def test_a_mentioned_file_goes_along_and_one_that_is_not_there_sends_nothing(home):
    (home / "work" / "notes.txt").write_text("first line\nthe heron is grey\nthird line\n")
    async with shell(home) as term:
        await did(term, "? repeat @nothere.txt", "@nothere.txt names no file")
        assert "The result of" not in term.text
        await did(term, "? repeat @notes.txt:2-2", "The result of")
        await did(term, ":history", "> repeat @notes.txt:2-2")
    stored = b"".join(file.read_bytes() for file in (home / "home" / ".local" / "share" / "aish").glob("*.db*"))
    assert b"the heron is grey" in stored and b"third line" not in stored


async def test_the_context_is_shown_with_its_parts_before_anything_is_sent(home):
    async with shell(home) as term:
        await did(term, ":context what is this", "earlier turns go along")
        for part in ("system", "question", "tokens"):
            assert part in term.text


async def test_what_is_asked_for_goes_along_where_what_is_run_does_not(home):
    (home / "work" / "heron.txt").touch()
    config(home, "[shell]\nattach_output = false\n")
    async with shell(home) as term:
        await did(term, "echo some-output", "\nsome-output")
        await did(term, ":exec echo more-output", "\nmore-output")
        await did(term, "? repeat this", "The result of runtime__echo is repeat this.")
        await did(term, ":tree", "1 entry goes along")
        await did(term, "? repeat all", "The result of runtime__echo is repeat all\n")
        told = term.text.rpartition("The result of")[2]
        assert "heron.txt" in told and "output" not in told


async def test_what_a_session_cost_is_told_by_model_and_category(home):
    name = models(home, [[{"text": "one"}, USAGE], [{"text": "two"}, USAGE]])
    async with shell(home, "--model", name) as term:
        await did(term, "? go", "one")
        await did(term, ":cost", "1000 tokens in, 100 out; cost $")
        assert "$0.0120" in term.text
        await did(term, ":cost detail", "play:play  main")
        await did(term, ":cost reset", "counting from here")
        await did(term, "? on", "two")
        await did(term, ":cost", "this session: 1 call,")


async def test_a_cap_refuses_the_question_with_the_numbers_and_what_was_run_is_not_lost(home):
    name = models(home, [[{"text": "never"}]], extra=EXTRA + "[cost]\ncap_per_day = 0.01\n")
    async with shell(home, "--model", name) as term:
        await did(term, "echo precious", "precious")
        await did(term, "? go", "of today's $0.0100 is spent")
        assert "never" not in term.text
        await did(term, ":context", "goes along with your next question")


async def test_what_is_remembered_goes_along_and_is_kept_between_shells(home):
    async with shell(home) as term:
        await did(term, ":remember the deploy server is heron #ops", "remembered")
        await did(term, ":memory add preference short answers", "short answers")
        await did(term, ":memory", "#ops")
        await did(term, ":context where is the deploy server", "background")
        await did(term, ":memory inject off", "with questions: no")
        await did(term, ":memory export kept.jsonl", "2 written")
    lines = (home / "work" / "kept.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["fact", "preference"]
    async with shell(home) as term:
        await did(term, ":memory heron", "the deploy server is heron")
        await term.enter(":memory clear")
        await term.sees("type yes:")
        await did(term, "yes", "2 forgotten")
        await did(term, ":memory import kept.jsonl", "2 imported")
        await did(term, ":memory import kept.jsonl", "2 imported")
        await did(term, ":memory list", "short answers")
        assert term.text.count("[") >= 2


async def test_what_is_remembered_and_the_projects_files_go_along_by_themselves(home):
    name = models(home, [[{"text": "yes"}]], extra="[memory]\ninject = false\n[context]\nproject_tree = true\n")
    (home / "work" / "some-file").touch()
    async with shell(home, "--model", name) as term:
        await did(term, ":remember the deploy server is heron", "remembered")
        await did(term, ":context deploy", "project  ")
        assert "background" not in term.text
        await did(term, ":memory inject on", "with questions: yes")
        await did(term, ":context deploy", "background  ")
        await did(term, ":clear", "›")
        await did(term, ":memory inject off", "with questions: no")
        await did(term, ":context deploy", "project  ")
        assert "background" not in "\n".join(term.screen.display)


async def test_a_summary_for_memory_proposes_and_the_person_picks(home):
    said = "- Rides a green bike\n- Hates mondays\n- The key is ghp_" + "a1B2" * 9
    name = models(home, [[{"text": said}]])
    async with shell(home, "--model", name) as term:
        await did(term, "? I ride a green bike and hate mondays", "Hates")
        await term.enter(":memory summarize")
        await term.sees("remember which?")
        await did(term, "1, 1 3", "2 remembered")
        await did(term, ":memory key", "] The key is [redacted]")
        await did(term, ":memory list", "] Rides a green bike")
        assert "] Hates mondays" not in term.text


async def test_the_kind_of_a_question_is_explained_and_decides_where_it_goes(home):
    name = models(home, [[{"text": "plain"}]], sage=[[{"text": "because"}]])
    async with shell(home, "--model", name) as term:
        await did(term, ":route check why is the sky blue", "it would go to wise → sage:sage")
        await did(term, ":route on", "kind of question: on")
        await did(term, "? why is the sky blue", "because")
        assert "wise: reasoning" in term.text


async def test_routing_is_switched_off_to_the_model_that_was_chosen(home):
    name = models(home, [[{"text": "- Likes tea\n"}]], sage=[[{"text": "because"}]])
    async with shell(home, "--model", "sage:sage") as term:
        await did(term, "? I like tea", "because")
        await did(term, ":route on", "kind of question: on")
        await did(term, ":model", f"model: {name}")
        await term.enter(":memory summarize")
        await term.sees("1. Likes tea")
        await term.sees("remember which?")  # keys from before it are no answer
        await did(term, "", "0 remembered")
        await did(term, ":route off", "kind of question: off")
        await did(term, ":model", "model: sage:sage")


async def test_automatic_routing_is_switched_off_where_no_model_was_named(home):
    models(
        home,
        [[{"text": "plain"}]],
        sage=[[{"text": "because"}]],
        extra=EXTRA.replace("[routing]", "[routing]\nauto = true"),
    )
    async with shell(home, "--tools", "*") as term:
        await did(term, ":route off", "kind of question: off")
        await did(term, ":route", "kind of question: off\n")
        await did(term, "? why is the sky blue", "plain")
        await did(term, ":route on", "kind of question: on")
        await did(term, "? why is the sky blue", "because")


async def test_another_model_is_asked_and_its_answer_goes_along(home):
    name = models(home, [[{"text": "thanks"}]], sage=[[{"text": "forty-two"}]])
    async with shell(home, "--model", name) as term:
        await did(term, ":delegate wise what is the answer", "forty-two")
        await did(term, ":context", "goes along with your next question")
        await did(term, ":delegate nobody hello", "no model named nobody")
        await did(term, "? so", "thanks")


async def test_a_delegate_line_of_a_reply_asks_first_and_brings_the_answer_back(home):
    steps = [[{"text": "Let me ask.\n\nDELEGATE: wise what is six times seven\n"}], [{"text": "so it is known now"}]]
    name = models(home, steps, sage=[[{"text": "forty-two"}]])
    async with shell(home, "--model", name) as term:
        await term.enter("? go")
        await term.sees("ask wise: what is six times seven? [y/N]")
        await did(term, "y", "so it is known now")
        assert "forty-two" in term.text


def aish(home: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:

    env = {"HOME": str(home / "home"), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    return subprocess.run(
        [sys.executable, "-m", "aish", *words],
        env=env, cwd=home / "work", input=given, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_cost_of_everything_is_told_as_a_table_a_chart_and_json(home):
    name = models(home, [[{"text": "one"}, USAGE]])
    assert aish(home, "--model", name, "hello").returncode == 0
    told = aish(home, "cost").stdout
    assert "play:play" in told and "main" in told and "█" in told and "$0.0120" in told
    rows = [json.loads(line) for line in aish(home, "cost", "--json", "--by", "model").stdout.splitlines()]
    assert [(row["model"], row["calls"], row["cost"]) for row in rows] == [("play:play", 1, 0.012)]
    assert aish(home, "cost", "--since", "tomorrow").returncode == 2
    assert "is no time" in aish(home, "cost", "--since", "0001-01-01").stderr
    assert "play:play" in aish(home, "cost", "--since", "today").stdout
    assert "no calls" in aish(home, "cost", "--since", "2999-01-01").stderr


def test_a_question_that_begins_with_such_a_word_is_a_question(home):
    assert "cost of living" in aish(home, "--model", "scripted:fake-tool", "cost", "of", "living").stdout
    assert "memory leak" in aish(home, "memory", "leak", "--model", "scripted:fake-tool").stdout


def test_memory_is_imported_all_or_nothing(home):
    bad = aish(home, "memory", "import", "-", given='{"text": "good"}\n{"txt": "bad"}\n')
    assert bad.returncode == 2 and "line 2 is no fact" in bad.stderr
    assert "nothing is remembered" in aish(home, "memory").stderr
    assert "2 imported" in aish(home, "memory", "import", "-", given='{"text": "good"}\n"plain words"\n').stdout
    assert "plain words" in aish(home, "memory", "list", "plain").stdout


def test_secrets_are_not_remembered(home):
    secret = "ghp_" + "a1B2" * 9
    assert "[redacted]" in aish(home, "memory", "add", f"the key is {secret}").stdout
    aish(home, "memory", "import", "-", given=json.dumps({"text": f"the other is {secret}"}))
    kept = aish(home, "memory", "export").stdout
    assert len(kept.splitlines()) == 2 and secret not in kept


def test_a_range_of_commits_is_mentioned_in_a_single_question(home):
    work = home / "work"
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=n@e", *words], cwd=work, check=True)
    (work / "file.txt").write_text("a heron\n")
    subprocess.run(["git", "add", "file.txt"], cwd=work, check=True)
    commit = ["git", "-c", "user.name=n", "-c", "user.email=n@e", "commit", "-q", "-m", "two"]
    subprocess.run(commit, cwd=work, check=True)
    asked = aish(home, "--json", "--model", "scripted:fake-tool", "repeat @HEAD~1..HEAD")
    assert "+a heron" in asked.stdout, asked.stderr
    missing = aish(home, "--model", "scripted:fake-tool", "repeat @HEAD~9..HEAD")
    assert missing.returncode == 2 and "nothing was sent" in missing.stderr


async def test_where_nothing_can_be_stored_the_cap_of_the_day_still_holds(home):
    extra = '[store]\npath = "/proc/nothing/aish.db"\n[cost]\ncap_per_day = 0.15\n' + EXTRA
    name = models(home, [[{"text": "one"}, USAGE], [{"text": "two"}, USAGE]] * 9, extra=extra)
    async with shell(home, "--model", name) as term:
        await did(term, "?first", "of the cap for a day, $0.1500, $0.0000 is spent")
        await term.sees("nothing is kept")
        for _ in range(8):
            if "not asked" in term.text:
                break
            await term.enter("?more")
            await term.prompts()
        await term.sees("not asked: play:play could cost up to")
