"""Correct calls for the corruption suite: what a model meant to say, and the schema it was given.

The values are the ones that hurt: code with quotes and newlines, other scripts, emoji, paths, patterns, SQL, empty
strings, numbers at the edges, deep objects. Every call is valid under its own schema; a test says so.
"""

from __future__ import annotations

from typing import Any

import msgspec

from aish.types.tools import Arguments, JsonSchema

STR: JsonSchema = {"type": "string"}
INT: JsonSchema = {"type": "integer"}
NUM: JsonSchema = {"type": "number"}
YES: JsonSchema = {"type": "boolean"}


class Call(msgspec.Struct, frozen=True):
    name: str
    arguments: Arguments
    schema: JsonSchema


def listed(items: JsonSchema) -> JsonSchema:
    return {"type": "array", "items": items}


def one_of(*values: str) -> JsonSchema:
    return {"type": "string", "enum": list(values)}


def shape(required: str = "", /, *, closed: bool = True, **properties: JsonSchema) -> JsonSchema:
    """An object with these properties; `required` names some, or `*` for all."""
    names = list(properties) if required == "*" else required.split()
    schema: JsonSchema = {"type": "object", "properties": properties, "required": names}
    return schema | {"additionalProperties": False} if closed else schema


def _call(name: str, schema: JsonSchema, /, **arguments: Any) -> Call:
    return Call(name=name, arguments=arguments, schema=schema)


_POINT = shape("*", lat=NUM, lon=NUM)
_ITEM = shape("sku count", sku=STR, count=INT, note=STR)
_FILTER = shape("field op value", field=STR, op=one_of("eq", "lt", "gt", "like"), value={})

_WEATHER = shape("city", city=STR, unit=one_of("celsius", "fahrenheit"), days=INT)
_WRITE = shape("path content", path=STR, content=STR, append=YES)
_SEARCH = shape("query", query=STR, limit=INT, case_sensitive=YES, paths=listed(STR))
_EVENT = shape("title start", title=STR, start=STR, minutes=INT, guests=listed(STR), online=YES)
_MAIL = shape("to subject body", to=listed(STR), subject=STR, body=STR, urgent=YES)
_SQL = shape("statement", statement=STR, parameters=listed({}), read_only=YES)
_TRANSFER = shape("source target cents", source=STR, target=STR, cents=INT, memo=STR)

CALLS: tuple[Call, ...] = (
    _call("get_weather", _WEATHER, city="Paris", unit="celsius", days=3),
    _call("get_weather", _WEATHER, city="São Paulo"),
    _call("get_weather", _WEATHER, city="北京", unit="celsius"),
    _call("get_weather", _WEATHER, city="L'Aquila", days=1),
    _call("files__write", _WRITE, path="notes/todo.txt", content="buy milk\nbuy bread\n"),
    _call("files__write", _WRITE, path="src/hello.py", content='print("hello, world")\n', append=False),
    _call("files__write", _WRITE, path="/tmp/it's here.txt", content="", append=True),
    _call("files__write", _WRITE, path="C:\\data\\report.csv", content="a;b;c\r\n1;2;3\r\n"),
    _call("files__write", _WRITE, path="a.html", content="<p class=\"x\">it's & that</p>\n<!-- end -->"),
    _call("files__write", _WRITE, path="q.md", content="# Title\n\n```python\nx = {'a': 1}\n```\n\tend"),
    _call("files__read", shape("path", path=STR, first=INT, last=INT), path="README.md", first=1, last=40),
    _call("files__move", shape("*", source=STR, target=STR), source="a b.txt", target="../old/a b.txt"),
    _call("search_code", _SEARCH, query=r"\bdef\s+(\w+)\(", limit=20, case_sensitive=True),
    _call("search_code", _SEARCH, query="TODO", paths=["src", "tests"], case_sensitive=False),
    _call("search_code", _SEARCH, query=r"^\d{4}-\d{2}$", paths=["logs"]),
    _call("search_code", _SEARCH, query='a "quoted" word', limit=5),
    _call("create_event", _EVENT, title="Stand-up", start="2026-11-16T09:30", minutes=15, online=True),
    _call("create_event", _EVENT, title="Geburtstag von Jürgen", start="2026-12-01T18:00", guests=["Änne", "Özil"]),
    _call("create_event", _EVENT, title="团队会议", start="2026-11-20T14:00", guests=["李雷", "韩梅梅"], online=False),
    _call("send_mail", _MAIL, to=["ann@example.org"], subject="Hi", body="Dear Ann,\n\nsee you.\n\nBob"),
    _call("send_mail", _MAIL, to=["a@example.org", "b@example.org"], subject="Re: plan", body="ok 👍", urgent=True),
    _call("send_mail", _MAIL, to=["x@example.org"], subject="", body='She said: "no", twice.', urgent=False),
    _call("run_sql", _SQL, statement="SELECT * FROM users WHERE name = 'O''Brien' AND age > 30", read_only=True),
    _call("run_sql", _SQL, statement='SELECT "id", "name" FROM "order" LIMIT 10;'),
    _call("run_sql", _SQL, statement="UPDATE t SET a = ? WHERE b = ?", parameters=[1, "x", None, 2.5]),
    _call("run_sql", _SQL, statement="SELECT 1 -- one\nFROM dual /* all */", read_only=True),
    _call("transfer_money", _TRANSFER, source="DE89370400440532013000", target="FR1420041010050500013M", cents=129900),
    _call("transfer_money", _TRANSFER, source="cash", target="bank", cents=1, memo="¥, € and £"),
    _call("set_thermostat", shape("room degrees", room=STR, degrees=NUM, hold=YES), room="kitchen", degrees=21.5),
    _call("set_thermostat", shape("room degrees", room=STR, degrees=NUM, hold=YES), room="hall", degrees=-4, hold=True),
    _call("add_numbers", shape("*", a=NUM, b=NUM), a=0.1, b=2e-7),
    _call("add_numbers", shape("*", a=NUM, b=NUM), a=-12.75, b=1000000),
    _call("factor", shape("number", number=INT), number=9007199254740993),
    _call("factor", shape("number", number=INT), number=123456789012345678901234567890),
    _call("list_files", shape("", pattern=STR, hidden=YES)),
    _call("list_files", shape("", pattern=STR, hidden=YES), pattern="**/*.{py,pyi}", hidden=True),
    _call("current_time", shape("", zone=STR), zone="Europe/Berlin"),
    _call("translate", shape("text target", text=STR, target=STR, source=STR), text="Guten Morgen!", target="en"),
    _call("translate", shape("text target", text=STR, target=STR, source=STR), text="我想喝茶。", target="de",
          source="zh"),
    _call("play_music", shape("title", title=STR, artist=STR, shuffle=YES), title="99 Luftballons", artist="Nena"),
    _call("place_order", shape("*", customer=STR, items=listed(_ITEM)), customer="C-77", items=[
        {"sku": "A1", "count": 2}, {"sku": "B2", "count": 1, "note": "gift, \"blue\""},
    ]),
    _call("route", shape("*", start=_POINT, end=_POINT, by=one_of("car", "bike", "foot")),
          start={"lat": 52.52, "lon": 13.405}, end={"lat": 48.1372, "lon": 11.5755}, by="bike"),
    _call("query_table", shape("table", table=STR, filters=listed(_FILTER), columns=listed(STR)), table="orders",
          filters=[{"field": "total", "op": "gt", "value": 100}, {"field": "city", "op": "like", "value": "B%"}],
          columns=["id", "total"]),
    _call("draw_polygon", shape("points", points=listed(listed(NUM)), fill=STR),
          points=[[0, 0], [1.5, 0], [0, 2.25]], fill="#ff8800"),
    _call("set_labels", shape("*", issue=INT, labels=listed(STR)), issue=42, labels=["bug"]),
    _call("set_labels", shape("*", issue=INT, labels=listed(STR)), issue=7, labels=[]),
    _call("plot", shape("series", series=listed(NUM), title=STR, log=YES), series=[1, 2.5, 4, 8], log=False),
    _call("lottery", shape("numbers", numbers=listed(INT)), numbers=[3, 14, 15, 38, 41, 49]),
    _call("http_request", shape("url", url=STR, method=one_of("GET", "POST"), headers={"type": "object"}, body=STR),
          url="https://example.org/a?b=c&d=%20e#f", method="POST", headers={"Accept": "*/*", "X-Id": "7"},
          body='{"k": [1, 2], "s": "it\'s"}'),
    _call("http_request", shape("url", url=STR, method=one_of("GET", "POST"), headers={"type": "object"}, body=STR),
          url="http://localhost:8080/v1/models", method="GET"),
    _call("run_python", shape("code", code=STR, timeout=INT), timeout=5,
          code='def f(x):\n    """Twice."""\n    return {"x": x * 2, \'y\': None}\n\nprint(f(21))'),
    _call("run_python", shape("code", code=STR, timeout=INT), code="print('a\\tb')"),
    _call("run_shell", shape("command", command=STR, cwd=STR), command="grep -rn 'TODO' src | head -n 5",
          cwd="/srv/app"),
    _call("run_shell", shape("command", command=STR, cwd=STR), command='for f in *.txt; do echo "$f"; done'),
    _call("regex_test", shape("*", pattern=STR, text=STR), pattern=r"(?i)https?://[^\s\"']+", text="see http://a.b/c"),
    _call("set_alarm", shape("time", time=STR, repeat=listed(one_of("mon", "tue", "wed", "thu", "fri"))),
          time="06:45", repeat=["mon", "wed"]),
    _call("make_user", shape("name", name=STR, age=INT, admin=YES, address=shape("city", city=STR, zip=STR)),
          name="Zoë", age=0, admin=False, address={"city": "Köln", "zip": "05067"}),
    _call("make_user", shape("name", name=STR, age=INT, admin=YES, address=shape("city", city=STR, zip=STR)),
          name="null", age=31, admin=True),
    _call("memory__store", shape("key value", closed=False, key=STR, value=STR), key="phone", value="0049 30 123456"),
    _call("memory__store", shape("key value", closed=False, key=STR, value=STR), key="true", value="42"),
    _call("set_flags", shape("flags", flags={"type": "object"}), flags={"dark": True, "beta": None, "size": 3}),
    _call("deep", shape("tree", tree={"type": "object"}),
          tree={"l": {"l": {"v": 1}, "r": None}, "r": {"v": [[], {}, [{"x": "}"}]]}}),
    _call("emoji_react", shape("*", message=STR, emoji=STR), message="msg_01", emoji="🧑‍🚀"),
    _call("set_prices", shape("prices", prices={"type": "object"}), prices={"tea": 2.5, "green tea": 3, "水": 0}),
    _call("schedule_job", shape("cron command", cron=STR, command=STR, enabled=YES), cron="*/5 * * * *",
          command="/usr/bin/backup --to=/mnt/x", enabled=True),
    _call("book_table", shape("*", place=STR, people=INT, date=STR, outside=YES), place="Chez André", people=4,
          date="2026-11-21", outside=False),
    _call("convert", shape("*", amount=NUM, from_unit=STR, to_unit=STR), amount=12.5, from_unit="mi", to_unit="km"),
    _call("search_code", _SEARCH, query=r"\d+\.\d+", limit=3),
    _call("search_code", _SEARCH, query=r"^\s*#\s*(\w+)$", case_sensitive=True),
    _call("regex_test", shape("*", pattern=STR, text=STR), pattern=r"\w+@\w+\.org", text="ann@example.org"),
    _call("files__write", _WRITE, path="D:\\Users\\Kim\\Music.txt", content="one line"),
    _call("files__write", _WRITE, path="C:\\new\\Data.txt", content="one line"),
    _call("files__write", _WRITE, path="main.go", content='package main\n\nfunc main() {\n\tprintln("hi, you")\n}\n'),
    _call("files__write", _WRITE, path="a.json", content='{\n  "a": [1, 2],\n  "b": {"c": null}\n}\n'),
    _call("files__write", _WRITE, path="run.sh", content="#!/bin/sh\nset -e\necho 'done' // \"$1\" # end\n"),
    _call("run_python", shape("code", code=STR, timeout=INT), code="for i in range(3):\n    print(i, end=', ')\n"),
    _call("run_sql", _SQL, statement="INSERT INTO notes (text)\nVALUES ('it is \"here\"'),\n       ('没有');"),
    _call("send_mail", _MAIL, to=["kim@example.org"], subject='The "big" day', body="Hallo Kim,\nbis \"dann\"!\nGrüße"),
    _call("tag_photo", shape("file", file=STR, people=listed(STR), rating=INT), file="IMG_0001.JPG",
          people=["Mum", "Dad"], rating=5),
)  # fmt: skip

# Tools nobody calls, offered beside the right one. Some differ by a letter, so that a slip can mean either.
NEAR_PAIRS: tuple[tuple[Call, str, str], ...] = tuple(
    (_call(meant, shape("*", room=STR), room="attic"), other, slip)
    for meant, other, slip in (
        ("light_on_1", "light_on_2", "light_on_3"),
        ("save_draft_a", "save_draft_b", "save_draft"),
        ("get_iten", "get_itex", "get_item"),
        ("move_left", "move_lift", "move_lft"),
        ("read_log", "read_lag", "read_lig"),
    )
)
