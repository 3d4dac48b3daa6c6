"""The console's files as they lie in the package: what house rules say of them, without a browser."""

from __future__ import annotations

import re

import pytest

from aish.frontends.http.console.files import FOLDER

MODULES = sorted(FOLDER.glob("*.js"))
# Ways from text to markup or code. The policy forbids some of them; none is needed.
FORBIDDEN = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc")


def imported(name: str, found: set[str]) -> set[str]:
    if name not in found:
        found.add(name)
        for other in re.findall(r'from "\./([a-z_]+\.js)"', (FOLDER / name).read_text()):
            imported(other, found)
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_module_says_its_role_stays_small_and_makes_no_markup_of_text(module):
    text = module.read_text()
    assert text.startswith("// ")
    assert len(text.splitlines()) <= 300
    assert not FORBIDDEN.search(text)
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_a_module_uses_all_that_it_imports(module):
    text = module.read_text()
    for names, _source in re.findall(r'^import \{([^}]*)\} from "([^"]*)";', text, re.MULTILINE):
        for name in (name.strip() for name in names.split(",")):
            assert len(re.findall(rf"\b{name}\b", text)) > 1, name


def test_the_page_asks_early_for_exactly_what_the_first_view_needs():
    page = (FOLDER / "index.html").read_text()
    early = set(re.findall(r'modulepreload" href="/console/([a-z_]+\.js)"', page))
    needed = imported("chat.js", imported("app.js", set()))
    assert early == needed - {"app.js"}


def test_the_page_holds_no_script_or_style_of_its_own():
    page = (FOLDER / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]* src=)", page)
    assert set(re.findall(r'(?:src|href)="([^"]*)"', page)) <= {
        *(f"/console/{path.name}" for path in FOLDER.iterdir()),
        "#main",
        "#/chat",
    }
