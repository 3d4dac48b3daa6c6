from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aish.errors import ToolError, UsageError
from aish.process.clock import SystemClock
from aish.tools.builtin.runtime import RuntimeTools
from aish.tools.registry import Registry
from aish.types.messages import text_of
from aish.types.tools import Effect, ResultStatus, ToolSpec
from support.engines import Tools


class Context:
    session, turn, call, owner, is_proved, is_unasked = "s", "t", "c", "", False, False
    rights = None

    def status(self, text: str) -> None:
        raise AssertionError(text)


def registry(**sources: Tools) -> Registry:
    made = Registry()
    for alias, source in sources.items():
        made.add(alias, source)
    return made


def names(made: Registry) -> list[str]:
    return [spec.name for spec in made.specs()]


async def test_a_tool_is_named_by_its_source_and_called_by_its_own_name():
    tools = Tools().add("add")
    made = registry(runtime=tools)
    assert names(made) == ["runtime__add"]
    await made.call("runtime__add", {"a": 1}, Context())
    await made.call("runtime.add", {"a": 2}, Context())
    assert tools.calls == [("add", {"a": 1}), ("add", {"a": 2})]


async def test_illegal_characters_are_replaced_and_the_way_back_is_kept():
    tools = Tools().add("files/read now")
    made = registry(fs=tools)
    assert names(made) == ["fs__files_read_now"]
    await made.call("fs__files_read_now", {}, Context())
    assert tools.calls == [("files/read now", {})]


def test_names_that_would_collide_get_a_suffix_that_is_the_same_in_every_run():
    made = registry(fs=Tools().add("a.b").add("a_b").add("a/b"))
    first = names(made)
    assert first[0] == "fs__a_b" and len(set(first)) == 3
    assert names(registry(fs=Tools().add("a.b").add("a_b").add("a/b"))) == first


def test_the_list_is_the_very_same_until_a_source_offers_another():
    tools = Tools().add("a")
    made = registry(fs=tools)
    before = made.specs()
    assert made.specs() is before
    tools.add("b")
    assert names(made) == ["fs__a", "fs__b"]
    made.hide(lambda alias, name: name == "a")
    assert names(made) == ["fs__b"]
    made.remove("fs")
    assert names(made) == []


@pytest.mark.parametrize("alias", ["", "a__b", "a b", "a.b", "x_", "ü", "tools"])
def test_an_alias_that_could_not_be_told_apart_is_refused(alias):
    with pytest.raises(UsageError):
        Registry().add(alias, Tools())


def test_an_alias_is_used_once():
    made = registry(fs=Tools())
    with pytest.raises(UsageError):
        made.add("fs", Tools())


def test_sources_nobody_named_are_numbered():
    made = registry(mcp1=Tools())
    assert made.next_alias() == "mcp2"
    made.remove("mcp1")
    assert made.next_alias() == "mcp1"


async def test_a_tool_whose_source_was_removed_is_gone():
    made = registry(fs=Tools().add("x"))
    made.remove("fs")
    with pytest.raises(ToolError) as caught:
        await made.call("fs__x", {}, Context())
    assert caught.value.status is ResultStatus.SERVER_GONE


async def test_closing_closes_every_source():
    tools = Tools()
    await registry(fs=tools).aclose()
    assert tools.closed


@given(st.lists(st.text(max_size=90), max_size=30, unique=True))
def test_any_names_become_legal_unique_and_lead_back(own_names):
    tools = Tools()
    tools._specs = [ToolSpec(name, "", {}, Effect.READ, "x") for name in own_names]
    made = registry(src=tools)
    wire = names(made)
    assert len(set(wire)) == len(own_names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in wire)
    assert sorted(made.find(name).own_name for name in wire) == sorted(own_names)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("add", {"a": 2, "b": 3}, "5"),
        ("add", {"a": 0.5, "b": 0.5}, "1"),
        ("add", {"a": 0.1, "b": 0.2}, "0.30000000000000004"),
        ("echo", {"text": "hé"}, "hé"),
    ],
)
async def test_the_built_in_tools_do_what_they_say(name, arguments, expected):
    output = await RuntimeTools(SystemClock()).call(name, arguments, Context())
    assert text_of(output.parts) == expected


class Noon:
    def now_ms(self) -> int:
        return 1_767_268_800_000

    def now_ns(self) -> int:
        return self.now_ms() * 1_000_000

    def monotonic_s(self) -> float:
        return 0.0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({}, "2026-01-01T12:00:00+00:00"), ({"zone": "Europe/Berlin"}, "2026-01-01T13:00:00+01:00")],
)
async def test_the_time_is_told_in_utc_or_in_a_named_zone(arguments, expected):
    assert text_of((await RuntimeTools(Noon()).call("time", arguments, Context())).parts) == expected


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", "", "\0"])
async def test_an_unknown_zone_is_an_error_that_says_what_to_use(zone):
    with pytest.raises(ToolError, match="IANA"):
        await RuntimeTools(Noon()).call("time", {"zone": zone}, Context())


async def test_what_a_call_would_change_is_asked_of_its_source_where_that_can_tell():
    class Previews(Tools):
        async def preview(self, name, arguments, call):
            return f"{name} {arguments} {call}"

    made = registry(fs=Previews().add("write"), other=Tools().add("write"))
    assert await made.preview("fs__write", {"a": 1}, "c") == "write {'a': 1} c"
    assert await made.preview("other__write", {}, "c") == ""
    assert await made.preview("gone__write", {}, "c") == ""


def test_the_order_in_which_servers_connect_and_list_their_tools_does_not_matter():
    first = registry(fs=Tools().add("b").add("a"), git=Tools().add("c"))
    second = registry(git=Tools().add("c"), fs=Tools().add("a").add("b"))
    assert names(first) == names(second) == ["fs__a", "fs__b", "git__c"]


async def test_a_view_has_what_its_registry_has_now_and_its_own_toolsets():
    made = registry(fs=Tools().add("read"))
    own = Tools().add("double")
    name, view = made.add_view({"app": own})
    assert names(view) == ["app__double", "fs__read"] and names(made) == ["fs__read"]
    made.add("my", Tools().add("wd"))
    made.remove("fs")
    assert names(view) == ["app__double", "my__wd"] and view.specs() is view.specs()
    made.add("app", Tools().add("other"), is_fixed=True)
    await view.call("app__double", {}, Context())
    assert own.calls == [("double", {})] and names(view) == ["app__double", "my__wd"]
    assert made.with_dynamic(name) is view
    with pytest.raises(UsageError, match="already"):
        made.add_view({"my": own})
