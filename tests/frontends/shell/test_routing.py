"""Where lines go. The words a shell knows are given; everything else is in the line."""

import msgspec
import pytest

from aish.frontends.shell.prompt.routing import Destination, KnownNames, RoutedLine, route_line
from aish.types.live_shell import WordKind

KNOWN = """
    ls cd git find make grep cat python3 who what time test kill ./run.sh docker cargo npm man which show sort head
    echo rm tar ssh vim export sudo pip watch split file sleep yes touch join read type gcc python cp wait for if help
    command nohup cut df
"""
PROGRAM = "my prog"


def resolve(word):
    if "=" in word:
        return WordKind.ASSIGNMENT
    return WordKind.FILE if word in (*KNOWN.split(), PROGRAM) else None


KNOWN_NAMES = KnownNames(resolve, lambda word: False, lambda: frozenset(KNOWN.split()))


def goal(line):
    return route_line(line, KNOWN_NAMES).destination


@pytest.mark.parametrize(
    "line",
    [
        "ls", "ls -la", "cd ..", "git status", "git log --oneline -5", "find . -name '*.py'", "make", "make test",
        "make install", "cat notes.txt", "grep -r TODO src", "X=1 python3 run.py", "FOO=bar", "./run.sh now", "who",
        "kill 1234", "docker ps", "npm run dev", "echo hello world", "git commit -m 'fix the parser and the tests'",
        "man git", "which python3", "time make", "sort names.txt | head", "sudo rm /tmp/x", "ssh host uptime",
        "cargo test", "pip install requests", "git checkout main", "tar xf a.tar", "test -f x && echo yes",
        "split -b 1M big.bin", "watch df", "export PATH=$PATH:/opt/bin", "sleep 5", "head -3 a b",
        "ls; make", "ls|sort", "make&", "make&&make install", "f() { ls; }", "my-f () (ls)",
        "echo this is what it was", "echo are you there?", "x=$(date +%s)", 'x="a b c"', "x=(1 2 3)",
        "x=5; f() { ls; }; f", "x='is this a test'; echo $x", "\\ls", '"ls" a', "'ls'", "$EDITOR notes", "${SHELL}",
        "$HOME/bin/tool now", "./not-there", "../not-there all", "~/bin/not-there", "# the list\nls",
        "#!/bin/sh\n\n# all\nls -l\nwhat", ": > empty.txt", ":>empty.txt", ": ${X:=5}; echo $X", ":(){ :; }", ":; ls",
    ],
)  # fmt: skip
def test_commands_go_to_the_shell(line):
    assert goal(line) is Destination.SHELL


@pytest.mark.parametrize(
    "line",
    [
        "touch a b c", "touch a b", "touch A B C", "sort a b", "head a b", "join a b", "read a b", "cat a i",
        "cp a the", "cp a names", "time make all", "time make test", "time make a", "watch make test", "time python a",
        "nohup make all", "command make all", "time sudo make install", "which make find", "which make gcc",
        "which make find gcc", "type make find", "man make find", "who am i", "time echo this is it", "time yes",
    ],
)  # fmt: skip
def test_files_of_one_letter_and_names_of_commands_make_no_sentence(line):
    assert goal(line) is Destination.SHELL


@pytest.mark.parametrize("line", ["%1", "%1 &", "%%", "%-", "%make", "'my prog' x", '"my prog"', "my\\ prog a b"])
def test_a_job_and_a_program_with_a_blank_in_its_name_are_run(line):
    assert goal(line) is Destination.SHELL


@pytest.mark.parametrize(
    "line",
    [
        "find the largest file in this folder", "make a list of the users", "make a list", "who wrote this file",
        "time is short, what should I do", "time for a break", "time to find the bug", "time sort of flies",
        "watch what I do", "watch make and tell me", "which of these is the newest", "which make do I have",
        "sort these by size please", "show me the log", "what is in this file?", "who am I", "who am i talking to",
        "wait a minute", "python is a snake", "'my prog' is what I called it", "'not there' x", "%1 is what I see",
        "nohup is what I need", "help find bugs", "sudo make me a sandwich",
    ],
)  # fmt: skip
def test_sentences_with_letters_and_names_of_commands_in_them_go_to_the_model(line):
    assert goal(line) is Destination.MODEL


@pytest.mark.parametrize("line", ["", "  ", "# a comment", "#!/bin/sh", "# one\n\n  # two\n"])
def test_what_only_comments_goes_nowhere(line):
    assert goal(line) is Destination.NOTHING


@pytest.mark.parametrize(
    "line",
    [
        "what is the capital of France?", "find the largest file in this folder", "who is logged in?",
        "make me a list of the tests", "show me what changed", "why does this fail", "how do I undo a commit?",
        "kill the process that uses port 80", "sort these names for me please", "explain this error",
        "which of these is faster?", "time is a strange thing", "test whether this is prime for me",
        "Find all the TODOs and tell me about them", "warum geht das nicht?", "what does git rebase do",
        "file a bug about this", "watch out for the off by one", "yes", "Yes", "$PATH looks wrong, why is that",
        "$5 is what I have", "./not-there is missing, why?", "`ls` shows nothing", '"what is this"',
        "# a title\nwhy does this fail", "\\o/",
    ],
)  # fmt: skip
def test_sentences_go_to_the_model_even_if_they_begin_like_a_command(line):
    assert goal(line) is Destination.MODEL


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gti status --short", Destination.SHELL),
        ("nosuch | cat", Destination.SHELL),
        ("mkae && ./run.sh", Destination.SHELL),
        ("gti commit -m a", Destination.SHELL),
        ("gti status", Destination.SHELL),
        ("tell me what --force does", Destination.MODEL),
        ("zeige mir die --help Seite", Destination.MODEL),
        ("greet everybody", Destination.MODEL),
    ],
)
def test_a_mistyped_command_line_is_for_bash_to_name(line, expected):
    assert goal(line) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (":model x", RoutedLine(Destination.META, "model x", is_explicit=True)),
        ("!what is this", RoutedLine(Destination.SHELL, "what is this", is_explicit=True)),
        ("!!make secret", RoutedLine(Destination.QUIET_SHELL, "make secret", is_explicit=True)),
        ("? ls", RoutedLine(Destination.MODEL, "ls", is_explicit=True)),
        ("?", RoutedLine(Destination.MODEL, "", is_explicit=True)),
        ("   ", RoutedLine(Destination.NOTHING, "")),
    ],
)
def test_the_first_character_decides(line, expected):
    assert route_line(line, KNOWN_NAMES) == expected


def test_the_name_of_a_skill_is_for_the_model_unless_the_shell_knows_a_program_of_it():
    known = msgspec.structs.replace(KNOWN_NAMES, skills=lambda: frozenset({"release"}))
    assert route_line("/release --now", known).destination is Destination.MODEL
    assert route_line("/releases --now", known).destination is Destination.SHELL
    with_program = msgspec.structs.replace(known, resolve=lambda word: WordKind.FILE if word == "/release" else None)
    assert route_line("/release --now", with_program).destination is Destination.SHELL
