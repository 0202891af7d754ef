"""A board in a real browser without network: nothing is asked for, and nobody is shut out."""

from __future__ import annotations

import pytest

import hushrank as hr
from hushrank.flows.board.site import item_file
from tests.flows.board.boards import ITEMS, archive_of, nights
from tests.flows.browsers import SCREENS, complaints_of, faults, on_screen

pytestmark = [pytest.mark.engine, pytest.mark.slow]
PAGES = ("index.html", item_file(ITEMS[2]), "widget.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("board")
    names = [*ITEMS, "A model with a long name that has no end 7B-instruct-2026-11-preview"]
    hr.board(archive_of(folder / "out", nights(30, names)), out=folder / "site")
    return folder / "site"


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("scheme", "screen"), [("light", "desktop"), ("dark", "phone")])
def test_a_page_is_complete_and_shuts_nobody_out(browser, site, name, scheme, screen):
    context = on_screen(browser, scheme, screen)
    try:
        context.set_offline(True)
        page, asked = context.new_page(), []
        complaints = complaints_of(page)
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS[screen][0]
        assert page.evaluate("document.scripts.length") == 0
        assert complaints == []
        assert [each.rpartition("/")[2] for each in asked] == [name]
        filled = "all => all.map(each => getComputedStyle(each).fill)"
        lines = page.locator(".edge, .rank").evaluate_all(filled)
        assert set(lines) <= {"none"}
        assert faults(page) == {}
    finally:
        context.close()


def test_every_link_is_reached_by_keyboard(browser, site):
    context = on_screen(browser, "light", "desktop")
    try:
        page = context.new_page()
        page.goto((site / "index.html").as_uri())
        reached = set()
        for _ in range(3 * page.locator("a").count()):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.getAttribute('href')"))
        wanted = page.locator("a").evaluate_all("all => all.map(a => a.getAttribute('href'))")
        assert set(wanted) <= reached
    finally:
        context.close()
