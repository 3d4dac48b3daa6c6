from __future__ import annotations

import base64
import json
import re

import pytest
from playwright.sync_api import expect

from browser.acting import ask, begin, choose, finished, session_of, turns_of, until

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


def test_an_answer_streams_and_is_drawn_as_markdown(page, server, picture):
    begin(page, server, "markdown")
    turn = finished(ask(page, "Show me everything"))
    prose = turn.locator(".answer > .prose")
    expect(prose.locator("h3")).to_have_text("Heads and tails")
    expect(prose.locator("strong").first).to_have_text("strong words")
    expect(prose.locator("em")).to_have_text("emphasis")
    expect(prose.locator("p code")).to_have_text("inline code")
    expect(prose.locator("ul ul li")).to_have_text("nested")
    expect(prose.locator("ol > li")).to_have_count(2)
    expect(prose.locator("tbody tr")).to_have_count(2)
    expect(prose.locator("td.end").first).to_have_text("12")
    expect(prose.locator("blockquote")).to_contain_text("Quoted")
    expect(prose.locator("pre code")).to_have_text("def add(a, b):\n    return a + b  # <b>not markup</b>")
    link = prose.get_by_role("link", name="a link")
    assert link.get_attribute("href") == "https://example.org/a?b=c"
    assert "noopener" in link.get_attribute("rel")
    expect(turn.locator(".turn-foot")).to_contain_text("120 → 90 tokens")
    picture(page, "chat-light")


def test_the_same_answer_is_there_after_a_reload(page, server):
    begin(page, server, "short")
    finished(ask(page, "one"))
    finished(ask(page, "two"))
    page.reload()
    expect(page.locator("article.turn")).to_have_count(2)
    expect(page.locator("article.turn").nth(0)).to_contain_text("First answer.")
    expect(page.locator("article.turn").nth(1)).to_contain_text("Second answer.")


def test_stop_ends_the_answer_and_keeps_what_was_said(page, server):
    begin(page, server, "slow")
    turn = ask(page, "take your time")
    expect(turn).to_contain_text("Begun.")
    page.get_by_role("button", name="Stop").click()
    expect(finished(turn)).to_contain_text("Stopped.")
    expect(turn).to_contain_text("Begun.")
    until(lambda: [turn["end"] for turn in turns_of(page, server)] == ["cancelled"])


def test_escape_stops_as_well(page, server):
    begin(page, server, "slow")
    turn = ask(page, "take your time")
    expect(turn).to_contain_text("Begun.")
    page.keyboard.press("Escape")
    expect(finished(turn)).to_contain_text("Stopped.")


def test_an_edited_question_begins_a_session_that_holds_what_came_before(page, server):
    begin(page, server, "short")
    finished(ask(page, "first question"))
    second = finished(ask(page, "second qestion"))
    old = session_of(page)
    second.get_by_role("button", name="Edit").click()
    message = page.get_by_label("Message")
    expect(message).to_have_value("second qestion")
    message.fill("second question")
    page.keyboard.press("Enter")
    expect(page.locator("article.turn").last).to_contain_text("second question")
    finished(page.locator("article.turn").last)
    assert session_of(page) != old
    # The script answers by how much was said before: the first exchange was carried over.
    expect(page.locator("article.turn").last.locator(".answer").last).to_contain_text("Second answer.")
    page.reload()
    expect(page.locator("#main")).to_contain_text("first question")
    expect(page.locator("#main")).to_contain_text("First answer.")
    assert len(server.ask("GET", f"/v1/sessions/{old}")["turns"]) == 2


def test_retry_asks_the_same_again(page, server):
    begin(page, server, "short")
    turn = finished(ask(page, "only question"))
    old = session_of(page)
    turn.get_by_role("button", name="Retry").click()
    page.wait_for_function("old => !location.hash.endsWith(old)", arg=old)
    again = finished(page.locator("article.turn").last)
    expect(again).to_contain_text("only question")
    expect(again).to_contain_text("First answer.")


def test_text_files_and_images_are_sent_along(page, server):
    begin(page, server, "short")
    files = [
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"remember ```the``` milk"},
        {"name": "dot.png", "mimeType": "image/png", "buffer": DOT},
    ]
    page.locator("input[type=file]").set_input_files(files)
    expect(page.locator(".attached li")).to_have_count(2)
    turn = finished(ask(page, "what is this?"))
    expect(turn.locator("img.picture")).to_be_visible()
    expect(page.locator(".attached li")).to_have_count(0)
    [recorded] = turns_of(page, server)
    parts = recorded["input"][0]["parts"]
    assert [part["type"] for part in parts] == ["text", "image", "text"]
    assert "````\nremember ```the``` milk\n````" in parts[0]["text"]
    assert base64.b64decode(parts[1]["data"]) == DOT


def test_a_file_that_is_neither_text_nor_an_image_is_refused_with_a_reason(page, server):
    begin(page, server, "short")
    page.locator("input[type=file]").set_input_files(
        [{"name": "a.bin", "mimeType": "application/octet-stream", "buffer": b"\xff\xfe\x00\xff"}]
    )
    expect(page.locator("#notices")).to_contain_text("a.bin: this is neither text nor an image")
    expect(page.locator(".attached li")).to_have_count(0)


def test_picked_tools_and_the_planner_go_into_the_request(page, server):
    begin(page, server, "short")
    page.get_by_role("button", name="Tools").click()
    page.get_by_label("Find a tool").fill("runtime__add")
    page.locator("label.tool", has_text="runtime__add").get_by_role("checkbox").check()
    page.keyboard.press("Escape")
    page.get_by_label("Plan first").check()
    with page.expect_request("**/v1/chat/completions") as sent:
        ask(page, "use it")
    body = json.loads(sent.value.post_data)
    assert body["planner"] is True
    assert [tool["function"]["name"] for tool in body["tools"]] == ["runtime__add"]
    assert body["tool_choice"]["type"] == "allowed_tools"
    page.reload()
    expect(page.get_by_role("button", name="1 tool")).to_be_visible()
    expect(page.get_by_label("Plan first")).to_be_checked()


def test_a_failure_in_the_middle_is_told_and_what_was_said_stays(page, server):
    begin(page, server, "broken")
    turn = finished(ask(page, "will it work?"))
    expect(turn).to_contain_text("Half an")
    expect(turn.locator(".line.bad")).to_contain_text("the backend fell over")


def test_a_tool_call_shows_its_arguments_and_its_result(page, server):
    page.goto(server.url)
    choose_fake(page)
    turn = finished(ask(page, "add 2 and 3"))
    turn.locator("summary", has_text="runtime__add").click()
    expect(turn.locator(".call-body")).to_contain_text(re.compile(r'"a": 2'))
    expect(turn.locator(".call .badge")).to_have_text("ok")
    expect(turn).to_contain_text("The result of runtime__add is 5.")


def choose_fake(page):
    page.locator("select.model option[value='scripted:fake-tool']").wait_for(state="attached")
    page.get_by_label("Model").select_option("scripted:fake-tool")


def test_the_keys_lead_everywhere(page, server):
    begin(page, server, "short")
    page.locator("#main h1").wait_for(state="attached")
    page.get_by_label("Message").blur()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    for key, title in (("s", "Sessions"), ("a", "Approvals"), ("m", "MCP servers"), ("x", "Metrics"), ("r", "Runs")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.locator("#main h1")).to_have_text(title)
    page.keyboard.press("n")
    expect(page.get_by_label("Message")).to_be_focused()


def test_a_second_model_answers_in_the_same_session(page, server):
    begin(page, server, "short")
    finished(ask(page, "one"))
    choose(page, "markdown")
    turn = finished(ask(page, "two"))
    expect(turn.locator("h3")).to_have_text("Heads and tails")
    recorded = turns_of(page, server)
    assert [turn["model"] for turn in recorded] == ["short:short", "markdown:markdown"]


def test_a_session_is_gone_on_with_in_the_model_it_had(page, server):
    server.chat("markdown", "hello", "in-markdown")
    page.goto(f"{server.url}#/chat/in-markdown")
    expect(page.get_by_label("Model")).to_have_value("markdown:markdown")


def test_a_question_that_was_refused_can_be_asked_again_in_its_place(page, server):
    begin(page, server, "short")
    finished(ask(page, "one"))
    session = session_of(page)
    refusal = {"error": {"message": "too many requests at once"}}
    page.route("**/v1/chat/completions", lambda route: route.fulfill(status=503, json=refusal), times=1)
    refused = finished(ask(page, "two"))
    expect(refused.locator(".line.bad")).to_have_text("too many requests at once")
    refused.get_by_role("button", name="Retry").click()
    expect(finished(page.locator("article.turn").nth(2))).to_contain_text("Second answer.")
    assert session_of(page) == session


LEFT = "node => node.scrollHeight - node.scrollTop - node.clientHeight"


@pytest.mark.parametrize("model", ["markdown", "stream"])
def test_a_reader_at_the_end_stays_there(open_page, server, model):
    page = open_page(width=360, height=720)
    begin(page, server, model)
    finished(ask(page, "Write a lot"))
    until(lambda: page.locator(".scroll").evaluate(LEFT) < 5)


def test_a_reader_who_scrolls_up_is_left_alone(page, server):
    begin(page, server, "stream")
    ask(page, "Write a lot")
    scroll = page.locator(".scroll")
    until(lambda: scroll.evaluate("node => node.scrollTop") > 1500)
    scroll.hover()
    page.mouse.wheel(0, -1000)
    until(lambda: scroll.evaluate(LEFT) > 800)
    before = scroll.evaluate("node => [node.scrollTop, node.scrollHeight]")
    until(lambda: scroll.evaluate("node => node.scrollHeight") > before[1] + 1000)
    assert scroll.evaluate("node => node.scrollTop") <= before[0]
    page.get_by_role("button", name="Stop").click()
