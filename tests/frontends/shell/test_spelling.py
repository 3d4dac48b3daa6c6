"""Which commands a mistyped word is near to."""

import pytest

from aish.frontends.shell.prompt.spelling import correct_line, find_near_names

KNOWN = "git ls cd cat make mkdir python3 docker grep test tests tree kubectl printf"
NAMES = frozenset(KNOWN.split())


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("gti", "git"), ("sl", "ls"), ("pyhton3", "python3"), ("mkae", "make"), ("mkdri", "mkdir"),
        ("dokcer", "docker"),
        ("grpe", "grep"), ("kubeclt", "kubectl"), ("pythn3", "python3"), ("maake", "make"), ("mak", "make"),
        ("cta", "cat"), ("cd..", "cd .."), ("ls-la", "ls -la"), ("trea", "tree"),
    ],
)  # fmt: skip
def test_one_slip_is_found(word, near):
    assert find_near_names(word, NAMES)[0] == near


@pytest.mark.parametrize(
    "word", ["hello", "dig", "cut", "gitt-things", "rest", "x", "", "nest", "greps", "git", "a" * 99]
)
def test_other_words_are_near_to_nothing(word):
    assert find_near_names(word, NAMES) == ()


def test_the_line_is_corrected_where_the_word_stands():
    assert correct_line("X=1 gti log gti", "gti", NAMES) == ("git", "X=1 git log gti")
    assert correct_line("hello", "hello", NAMES) is None
