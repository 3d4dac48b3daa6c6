"""sed, awk and SQL, read far enough."""

from __future__ import annotations

import pytest

from aish.safety.commands.danger.code import find_loss, find_mongo_loss
from aish.safety.commands.proof.sed_awk import awk_is_pure, sed_commands, sed_is_pure


@pytest.mark.parametrize(
    "script",
    [
        "p",
        "1,20p",
        "$!d",
        "s/a/b/g",
        "s|a|b|2p",
        "/x/,/y/{p;d}",
        "y/ab/cd/;p",
        "s/\\//x/",
        "s/[0-9]*/x/",
        "10q",
        "5!p",
        "b end;:end",
        "/[[:alpha:]]/p",
        "s/a/b/;s/c/d/I",
        "",
    ],
)
def test_a_sed_script_that_only_edits_the_stream_is_pure(script: str) -> None:
    assert sed_is_pure(script)


@pytest.mark.parametrize(
    "script",
    [
        "w x",
        "s/a/b/w x",
        "s/a/b/e",
        "1e ls",
        "e",
        "r x",
        "a\\\nx",
        "s/a",
        "s",
        "/[/p;y/]/w x/",
        "s/[/]/g;y/w f/w f/",
        "W x",
        "{w x\n}",
        "p;w x",
        "sxaxbxw f",
    ],
)
def test_a_sed_script_that_may_do_more_is_not(script: str) -> None:
    assert not sed_is_pure(script)


def test_commands_in_sed_are_found() -> None:
    assert sed_commands(["s/.*/rm -rf x/e"]) == ["rm -rf x"]
    assert sed_commands(["1e rm -rf x"]) == ["rm -rf x"]


@pytest.mark.parametrize(
    ("program", "pure"),
    [
        ("{print $1}", True),
        ("$3 > 1 {print}", True),
        ("a || b", True),
        ('{print > "f"}', False),
        ('{print | "sh"}', False),
        ('BEGIN{system("x")}', False),
        ('"d" | getline', False),
        ('@load "x"', False),
        ('{printf "x" >> "f"}', False),
    ],
)
def test_awk_programs_are_pure_only_when_nothing_can_leave_them(program: str, pure: bool) -> None:  # noqa: FBT001
    assert awk_is_pure(program) is pure


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE x",
        "drop database if exists y",
        "truncate t",
        "delete from t",
        "DELETE FROM t; SELECT 1",
        "update t set a=1",
        "delete from t where 1=1",
        "delete from t where true",
        "select 1; -- x\ndrop table y",
        "alter table t drop column c",
        "/* x */ DROP/**/ TABLE y",
    ],
)
def test_unbounded_loss_is_seen(text: str) -> None:
    assert find_loss(text)


@pytest.mark.parametrize(
    "text",
    [
        "select * from t",
        "delete from t where id = 3",
        "update t set a = 1 where b = 2",
        "insert into t values ('drop table x')",
        "-- drop table x",
        "create table t (dropped int)",
    ],
)
def test_bounded_statements_are_not_loss(text: str) -> None:
    assert find_loss(text) is None


def test_mongo_loss_is_seen() -> None:
    assert find_mongo_loss("db.users.drop()")
    assert find_mongo_loss("db.users.deleteMany({})")
    assert find_mongo_loss("db.users.deleteMany({a: 1})") is None
