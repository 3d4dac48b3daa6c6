"""For any line at all: never an exception, never safe when something was written or not known."""

from __future__ import annotations

import string

from hypothesis import given, settings
from hypothesis import strategies as st

from aish.safety.commands import Level, ShellContext, classify, program_tables

CONTEXT = ShellContext(cwd="/home/ann/project", home="/home/ann", roots=("/home/ann/project",), aliases={"ll": "ls -l"})
PIECES = st.sampled_from(
    """ls|cat|rm|git|log|status|push|-rf|--force|find|-delete|-exec|{}|+|\\;|sort|-o|sed|-n|awk|xargs|env|sudo|time|bash|-c|eval|echo|
    $(|)|`|<(|>(|"|'|$'|\\|{|}|(|[[|]]|[|]|;|&&|(pipe)|&|!|(nl)|>|>>|<|<<E|E|<<<|2>&1|/dev/null|$x|${x:-rm}|$((|))|x=1|x=|tee|cp|export|./f|PATH=.|IFS=,|
    for|in|do|done|while|if|then|fi|case|esac|f()|ll|~|/|*|?|{a,b}|#|--|-|%s|é|(nul)|(rtl)|1|f|../x|/etc/passwd""".replace(
        "\n    ", ""
    ).split("|")
)
WORDS = {"(pipe)": "|", "(nl)": "\n", "(nul)": "\0", "(rtl)": "\u202e"}
LINES = st.lists(st.tuples(PIECES, st.sampled_from([" ", " ", "", ""])), max_size=14).map(
    lambda pairs: "".join(WORDS.get(piece, piece) + gap for piece, gap in pairs)
)


def is_known(program: str) -> bool:
    table = program_tables.read_only()
    wrapped = any(wrapper.permitted is not None for wrapper in program_tables.wrappers().find(program))
    return program in table.permits or program in ("xargs", "test", "[") or wrapped


@given(LINES)
@settings(max_examples=600, deadline=None)
def test_safe_is_never_the_verdict_when_something_was_written_or_not_known(line: str) -> None:
    found = classify(line, CONTEXT)
    if found.level is Level.SAFE:
        assert found.writes == () and found.reasons == ()
        assert all(is_known(program) or program == "ll" for program in found.programs)
    if found.level is Level.DESTRUCTIVE:
        assert any(reason.level is Level.DESTRUCTIVE for reason in found.reasons)


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_no_text_makes_it_raise(line: str) -> None:
    found = classify(line, CONTEXT)
    assert all(0 <= reason.span[0] <= reason.span[1] <= len(line) for reason in found.reasons)


def test_a_file_without_a_name_is_no_file() -> None:
    for line in ("x=; echo hi > $x", "x=; bash < $x", "x=; echo hi | tee $x; cp $x f"):
        assert classify(line, CONTEXT).level is Level.UNKNOWN


@given(st.text(alphabet=string.printable + "\0\ud800\u202e", max_size=120))
@settings(max_examples=300, deadline=None)
def test_no_noise_makes_it_raise(line: str) -> None:
    classify(line, CONTEXT)


@given(LINES, st.sampled_from(["rm -rf build", "git reset --hard", "mkfs.ext4 /dev/sda"]))
@settings(max_examples=200, deadline=None)
def test_a_destructive_command_on_its_own_line_is_never_overlooked_before_others(rest: str, danger: str) -> None:
    found = classify(f"{danger}\n{rest}", CONTEXT)
    assert found.level is not Level.SAFE


@given(st.lists(st.sampled_from(["'{}'", '"{}"', "\\{}", "{}", "{}''", '{}""']), min_size=2, max_size=2))
def test_quotes_never_hide_a_program(quotes: list[str]) -> None:
    name = quotes[0].format("r") + quotes[1].format("m")
    assert classify(f"{name} -rf build", CONTEXT).level is Level.DESTRUCTIVE
