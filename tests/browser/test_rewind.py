from __future__ import annotations

from playwright.sync_api import expect

from browser.acting import ask, begin, finished


def test_files_and_conversation_are_brought_back_from_the_trace_and_that_is_taken_back(page, server, picture):
    file = server.workspace / "greeting.py"
    before = "greeting = 'hello'\nprint(greeting)\n"
    file.write_text(before)
    begin(page, server, "edit")
    turn = ask(page, "change the greeting")
    turn.locator("section.approval").get_by_role("button", name="Yes", exact=True).click()
    finished(turn)
    after = file.read_text()
    assert after != before
    chat = page.url
    turn.get_by_role("link", name="Trace").click()
    page.get_by_role("button", name="Rewind…").click()
    detail = page.locator(".detail")
    expect(detail).to_contain_text("1 file changed since.")
    expect(detail).to_contain_text("~ greeting.py")
    picture(page, "rewind")
    both = detail.get_by_role("button", name="Both")
    both.click()
    assert file.read_text() == after  # it is asked a second time
    detail.get_by_role("button", name="Really?").click()
    expect(detail).to_contain_text("1 file brought back.")
    expect(detail).to_contain_text("1 turn left the conversation.")
    assert file.read_text() == before
    page.goto(chat)
    expect(page.locator(".turns")).to_contain_text("1 turn of this session was rewound.")
    expect(page.locator("article.turn")).to_have_count(0)
    page.get_by_role("link", name="Show the first of them").click()
    page.get_by_role("button", name="Rewind…").click()
    past = detail.get_by_role("group", name="Rewind to r1")
    past.get_by_role("button", name="Both").click()
    past.get_by_role("button", name="Really?").click()
    expect(detail).to_contain_text("1 turn came back into the conversation.")
    assert file.read_text() == after
