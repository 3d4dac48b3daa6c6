from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.safety.redaction.redactor import MARK, MIN_SECRET_CHARS, Redactor
from aish.safety.redaction.secret_formats import GROUPS, looks_secret
from aish.safety.redaction.vault import Restorer, Vault

# Assembled here so that no scanner takes this file for a leak.
KEYS = {
    "openai": "sk-" + "proj-" + "Ab1" * 12,
    "anthropic": "sk-" + "ant-api03-" + "x_Y9" * 10,
    "aws": "AKIA" + "ABCDEFGH12345678",
    "github": "ghp_" + "a1B2" * 9,
    "github fine": "github_pat_" + "11AA" * 10,
    "gitlab": "glpat-" + "abcDEF123456-_789xyz",
    "slack": "xoxb-" + "123456789012-abcdef",
    "google": "AIza" + "Sy0123456789abcdefghijklmnopqrstuvw",
    "stripe": "sk_" + "live_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "hugging face": "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9." + "eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N",
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc\n-----END RSA " + "PRIVATE KEY-----",
    "url password": "postgres://app:" + "s3cr3tpw" + "@db.local/x",
    "bearer": "Authorization: Bearer " + "abcdefghijklmnopqrstuvwxyz012345",
}
ORDINARY = [
    "the task-management sketch says sk-learn is fine",
    "git log --oneline | head; ls -la /usr/lib",
    "https://example.org/path?x=1#frag and user@example.org",
    "eyJust some words. eyJ not a token",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "BEGIN PUBLIC KEY is public",
]


def test_a_known_value_is_replaced_wherever_it_stands():
    assert Redactor(["hunter22"]).text("a hunter22 b hunter22") == f"a {MARK} b {MARK}"


@pytest.mark.parametrize("name", KEYS)
def test_common_key_formats_are_known_by_their_looks(name):
    key = KEYS[name]
    secret = {"url password": "s3cr3tpw", "bearer": key.split()[-1]}.get(name, key)
    redacted = Redactor().text(f"before {key} after")
    assert secret not in redacted and MARK in redacted
    assert redacted.startswith("before ") and redacted.endswith(" after")


ASSIGNED = [
    "password=hunter2",
    "DB_PASSWORD=hunter2",
    'password = "hunter2"',
    "password: hunter2",
    '{"password": "hunter2"}',
    '{"a": "{\\"api_key\\":\\"hunter2\\"}"}',
    "--password=hunter2 --host=x",
    "client_secret='hunter2'",
    "passwd=hunter2;",
]
CODE = [
    "password = getpass()",
    "password=getpass2()",
    "password = os.environ2['X1']",
    "password: str = ''",
    "password=None",
    "self.password = password",
    "password=${DB_PASS1}",
    "password=<password1>",
    "the password is hunter2 or not",
    "if password == other2value:",
    "max_tokens=100000",
    '{"nextPageToken": "CAUQAA12"}',
    "secret: 12345678",
    "password=",
    "secret sauce: 1000island",
    "password_hash2=x",
    "passwords=hunter2x",
]


@pytest.mark.parametrize("text", ASSIGNED)
def test_what_is_assigned_to_a_secrets_name_is_redacted_and_nothing_else(text):
    assert Redactor().text(text) == text.replace("hunter2", MARK)
    start = text.index("hunter2")
    for cut in range(start, start + len("hunter2") + 1):  # a stream holds back a value that may go on
        assert cut - Redactor().open_chars(text[:cut]) < start


@pytest.mark.parametrize("text", CODE)
def test_prose_and_code_about_passwords_are_left_alone(text):
    assert Redactor().text(text) is text


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text):
    assert Redactor().text(text) is text


def test_a_value_inside_json_is_found_in_its_escaped_form():
    secret = 'quo"ted\\secret'
    line = json.dumps({"x": secret}, ensure_ascii=False).encode()
    assert b"secret" not in Redactor([secret]).line(line)


def test_a_private_key_inside_json_is_found_with_its_line_ends_escaped():
    line = json.dumps({"x": KEYS["private key"]}).encode()
    assert b"MIIEp" not in Redactor().line(line)


def test_short_values_are_left_alone():
    assert Redactor(["true"]).text("true") == "true"


def test_a_secret_within_a_longer_one_does_not_leave_half_of_it():
    assert Redactor(["abcdef", "abcdefghij"]).text("abcdefghij") == MARK


def test_the_values_never_show():
    assert "hunter22" not in repr(Redactor(["hunter22"]))


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("OPENAI_API_KEY", True),
        ("GITHUB_TOKEN", True),
        ("DB_PASSWORD", True),
        ("PGPASSWORD", True),
        ("MYSQL_PWD", True),
        ("OLDPWD", False),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("AISH_STORE__URL", True),
        ("STORE_URL", False),
        ("PATH", False),
        ("CREDS", True),
        ("DB_CREDS", True),
        ("SIGNING_SALT", True),
        ("PASSWORD_PEPPER", True),
        ("DJANGO_SECRETKEY", True),
        ("JWT", True),
        ("GITHUB_PAT", True),
        ("API_KEYS", True),
        ("SESSION_COOKIE", True),
        ("PATTERN", False),
        ("BASALT", False),
        ("SACRED_TEXT", False),
        ("COOKIE_FILE", False),
        ("KEYBOARD", False),
        ("SSH_AUTH_SOCK", False),
        ("TOKENIZERS_PARALLELISM", False),
        ("GOOGLE_APPLICATION_CREDENTIALS_FILE", False),
    ],
)
def test_variables_are_taken_for_secrets_by_their_names(name, secret):
    assert looks_secret(name) is secret


@given(st.text(min_size=MIN_SECRET_CHARS, max_size=20), st.text(max_size=30), st.text(max_size=30))
def test_no_secret_survives_anywhere(secret, before, after):
    if secret in MARK or MARK in secret:
        return
    assert secret not in Redactor([secret]).text(f"{before}|{secret}|{after}").replace(MARK, "|")


def test_placeholders_are_stable_within_a_session_and_differ_between_sessions():
    redactor = Redactor(["hunter22"])
    first, again, other = (Vault(redactor, session).scrub("hunter22") for session in ("s1", "s1", "s2"))
    assert first == again != other
    assert "hunter22" not in first


def test_what_was_scrubbed_is_put_back():
    vault = Vault(Redactor(["hunter22"]), "s")
    scrubbed = vault.scrub(f"login hunter22 with {KEYS['github']}")
    assert "hunter22" not in scrubbed and KEYS["github"] not in scrubbed
    assert vault.restore(f"I used: {scrubbed}") == f"I used: login hunter22 with {KEYS['github']}"


def test_a_placeholder_that_was_never_given_out_stays_as_it_is():
    assert Vault(Redactor(), "s").restore("<secret-0123456789ab>") == "<secret-0123456789ab>"


@given(st.data())
def test_a_placeholder_cut_anywhere_between_chunks_is_put_back(data):
    vault = Vault(Redactor(["hunter22"]), "s")
    reply = f"use {vault.scrub('hunter22')} now <b> a<secret- <{vault.scrub('hunter22')}>"
    restorer = Restorer(vault.restore)
    out, rest = "", reply
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        out += restorer.feed(rest[:size])
        rest = rest[size:]
    assert out + restorer.finish() == vault.restore(reply)
    assert out.count("hunter22") == 2


@given(st.text(alphabet="<secrt-0123abcdef> xyz", max_size=80))
def test_a_stream_without_placeholders_comes_through_whole(text):
    restorer = Restorer(Vault(Redactor(), "s").restore)
    assert "".join(restorer.feed(char) for char in text) + restorer.finish() == text


def test_plain_text_is_never_held_back():
    restorer = Restorer(Vault(Redactor(), "s").restore)
    assert restorer.feed("hello world") == "hello world"
    assert restorer.feed("1 < 2") == "1 < 2"


@pytest.mark.parametrize(
    "format", [format for _, formats in GROUPS for format in formats], ids=lambda format: format.marker
)
def test_no_format_runs_away_on_hostile_text(format):
    """Bounded repetition only: a long run of almost-matches is linear work."""
    hostile = (format.marker + "A" * 50) * 2000 + format.marker * 5000
    assert isinstance(Redactor().text(hostile), str)


@given(
    st.lists(st.sampled_from(["a", " ", "hunt", "er22", "hunter22", "sk-", "proj-", "Ab1" * 9, '"', "\n"]), max_size=12)
)
def test_a_text_in_pieces_is_redacted_as_if_it_were_whole(pieces):
    redactor = Redactor(["hunter22"])
    redacted = redactor.pieces(pieces)
    assert len(redacted) == len(pieces)
    assert "".join(redacted) == redactor.text("".join(pieces))


def test_of_a_secret_in_pieces_the_first_has_the_mark_and_the_others_nothing():
    assert Redactor(["hunter22"]).pieces(["a hun", "ter", "22 b", " c"]) == [f"a {MARK}", "", " b", " c"]


@pytest.mark.parametrize("before", ["\n", "\t", "\r", '"', " ", "=", "\x1b", "\x00", "\x1f"])
def test_a_key_is_found_at_the_start_of_a_line_within_json(before):
    line = json.dumps({"x": f"first{before}{KEYS['openai']}"}).encode()
    assert KEYS["openai"].encode() not in Redactor().line(line)


def test_a_secret_with_quotes_is_found_within_the_json_text_of_arguments():
    secret = 'a"b\\c-secret'
    line = json.dumps({"arguments": json.dumps({"key": secret})}).encode()
    assert b"c-secret" not in Redactor([secret]).line(line)


@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_a_secret_is_found_within_arguments_that_spell_it_out_in_ascii(ensure_ascii):
    secret = "pässword-Ω-1"
    line = json.dumps({"arguments": json.dumps({"key": secret})}, ensure_ascii=ensure_ascii).encode()
    assert b"-1" not in Redactor([secret]).line(line)


ESCAPED = ['quo"ted-secret', "back\\slash-secret", "two\nlines-secret", "pässwörd-Ω-secret", 'all "of\\ it\t-ä-secret']


@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("secret", ESCAPED)
def test_a_value_is_found_where_a_text_holds_it_as_json_does(secret, ensure_ascii):
    text = f"the tool says {json.dumps({'key': secret}, ensure_ascii=ensure_ascii)}, and plainly {secret}."
    assert Redactor([secret]).text(text) == f'the tool says {{"key": "{MARK}"}}, and plainly {MARK}.'
    pieces = Redactor([secret]).pieces([text[:20], text[20:]])
    assert "".join(pieces) == Redactor([secret]).text(text)


@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("secret", ESCAPED)
def test_a_placeholder_is_put_back_as_what_stood_there(secret, ensure_ascii):
    vault = Vault(Redactor([secret]), "s")
    text = f"{json.dumps({'key': secret}, ensure_ascii=ensure_ascii)} {secret}"
    scrubbed = vault.scrub(text)
    assert 'secret"' not in scrubbed and not scrubbed.endswith("secret")
    assert vault.restore(scrubbed) == text
    assert json.loads(vault.restore(scrubbed.split(" <")[0])) == {"key": secret}


def test_a_value_that_json_does_not_escape_is_looked_for_once():
    """Every request is looked through for every form."""
    assert Redactor(["hunter22", "abc-def_1=="])._text_forms == ["abc-def_1==", "hunter22"]


@pytest.mark.parametrize("secret", [*ESCAPED, KEYS["private key"], KEYS["openai"], "hunter22"])
@pytest.mark.parametrize("told", ["plainly", "as JSON"])
def test_in_arguments_a_placeholder_is_put_back_as_json_has_it_however_the_model_was_told(secret, told):
    vault = Vault(Redactor([secret]), "s")
    placeholder = vault.scrub(secret if told == "plainly" else json.dumps(secret)[1:-1])
    assert json.loads(vault.restore_json(f'{{"key": "{placeholder}"}}')) == {"key": secret}
    assert vault.restore_json("<secret-0123456789ab>") == "<secret-0123456789ab>"


@pytest.mark.parametrize("weak", ["assistant", "status", "content", "output", "completed", "response", "message"])
def test_a_password_that_is_a_word_of_our_own_leaves_our_json_readable(weak):
    told = {"type": "message", "role": "assistant", "status": "completed", "output": [f"it is {weak}."], "Pass": weak}
    kept = json.loads(Redactor([weak]).line(json.dumps(told).encode() + b"\n"))
    assert kept == {**told, "output": [f"it is {MARK}."], "Pass": MARK}


def test_what_is_told_of_tokens_goes_with_the_secret_that_they_spell():
    secret = "hunter22-very"
    tokens = [{"token": piece, "logprob": -1} for piece in ("hunter", "22-very")]
    told = {"text": f"it is {secret}", "logprobs": tokens, "other": {"logprobs": {"content": tokens}}, "n": 1}
    kept = Redactor([secret]).line(json.dumps(told).encode())
    assert json.loads(kept) == {"text": f"it is {MARK}", "logprobs": [], "other": {"logprobs": {}}, "n": 1}
    assert not kept.endswith(b"\n")


def test_a_secret_within_another_is_put_back_with_it():
    vault = Vault(Redactor(["hunter2secret"]), "s")
    url = "postgres://bob:hunter2secret@db"
    scrubbed = vault.scrub(url)
    assert "hunter2" not in scrubbed
    assert vault.restore(scrubbed) == url


def test_arguments_are_in_the_words_of_others_and_redacted_whatever_they_are_called():
    told = {"arguments": {"reason": "swordfish", "swordfish": 1, "logprobs": [1]}, "logprobs": 5, "say": "swordfish"}
    kept = json.loads(Redactor(["swordfish"]).line(json.dumps(told).encode()))
    assert kept == {"arguments": {"reason": MARK, MARK: 1, "logprobs": [1]}, "logprobs": 5, "say": MARK}
