from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from aish.safety.redact import MARK, MIN_SECRET_CHARS, Redactor


def test_a_known_value_is_replaced_wherever_it_stands():
    assert Redactor(["hunter22"]).text("a hunter22 b hunter22") == f"a {MARK} b {MARK}"


def test_a_value_inside_json_is_found_in_its_escaped_form():
    secret = 'quo"ted\\secret'
    line = json.dumps({"x": secret}, ensure_ascii=False).encode()
    assert b"secret" not in Redactor([secret]).line(line)


def test_short_values_are_left_alone():
    assert Redactor(["true"]).text("true") == "true"


def test_a_secret_within_a_longer_one_does_not_leave_half_of_it():
    assert Redactor(["abcdef", "abcdefghij"]).text("abcdefghij") == MARK


def test_the_values_never_show():
    assert "hunter22" not in repr(Redactor(["hunter22"]))


@given(st.text(min_size=MIN_SECRET_CHARS, max_size=20), st.text(max_size=30), st.text(max_size=30))
def test_no_secret_survives_anywhere(secret, before, after):
    if secret in MARK or MARK in secret:
        return
    assert secret not in Redactor([secret]).text(f"{before}|{secret}|{after}").replace(MARK, "|")
