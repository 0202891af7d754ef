"""The report in a real browser: light and dark, on a desk and on a phone, with the network cut."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hushrank.flows.release.publish import ranking_csv
from hushrank.flows.report.page import render_report
from tests.flows.report.test_page import BALANCE
from tests.releases import PAIR_WINS, SEEDED, make_pairs_release, make_release

playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SCREENS = {"desktop": (1000, 800), "phone": (360, 740)}
YESTERDAY = datetime(2026, 11, 19, 2, 0, 4, tzinfo=UTC)
MANY = {"items": [f"video {i}" for i in range(101)], "wins": list(range(0, 10100, 100))}
RELEASES = {
    "pairs": (
        make_pairs_release(PAIR_WINS),
        make_pairs_release([*PAIR_WINS[:5], [900, 900, 900, 900, 900, 0]], created=YESTERDAY),
    ),
    "unsafe": (make_release(bits=SEEDED, n_top=2), None),
    "long": (make_release(**MANY), make_release(**MANY, seed=9, created=YESTERDAY)),
}

pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    """One browser for all tests of this module."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"needs a browser, one of {', '.join(BROWSERS)}: the report was not looked at")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for name, (release, before) in RELEASES.items():
        page = render_report(release, BALANCE, before)
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return folder


@pytest.fixture
def visit(browser, pages):
    """Open a report without network; returns the page, what it asked for and what it complained."""
    contexts = []

    def open_page(name: str, scheme: str = "light", screen: str = "desktop"):
        width, height = SCREENS[screen]
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            is_mobile=screen == "phone",
            accept_downloads=True,
        )
        contexts.append(context)
        context.set_offline(True)
        page, asked, complaints = context.new_page(), [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((pages / f"{name}.html").as_uri())
        return page, asked, complaints

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize(
    ("name", "scheme", "screen"),
    [
        *(("pairs", scheme, screen) for scheme in ("light", "dark") for screen in SCREENS),
        *(("unsafe", "light", "desktop"), ("long", "dark", "phone")),
    ],
)
def test_nothing_is_asked_for_nothing_complains_and_nobody_is_shut_out(visit, name, scheme, screen):
    from axe_playwright_python.sync_playwright import Axe

    page, asked, complaints = visit(name, scheme, screen)
    for summary in page.locator("summary").all():  # what is folded away is looked at too
        summary.click()
    found = Axe().run(page)
    faults = {
        each["id"]: [node["html"] for node in each["nodes"]]
        for each in found.response["violations"]
    }
    assert faults == {}
    assert {each["id"] for each in found.response["passes"]} >= {"color-contrast", "html-has-lang"}
    assert complaints == []
    assert [url for url in asked if not url.startswith("file://")] == []
    assert len(asked) == 1
    width = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1] == SCREENS[screen][0]


def test_the_check_sees_what_is_wrong(visit, pages):
    """A page with bad contrast, a picture without text and a request is not let through."""
    from axe_playwright_python.sync_playwright import Axe

    whole = (pages / "pairs.html").read_text(encoding="utf-8")
    bad = "<p style='color:#eee'>pale</p><img src='https://example.org/a.png'>"
    (pages / "bad.html").write_text(whole.replace("<main>", f"<main>{bad}"), encoding="utf-8")
    page, asked, complaints = visit("bad")
    violations = {each["id"] for each in Axe().run(page).response["violations"]}
    assert {"color-contrast", "image-alt"} <= violations
    assert complaints or len(asked) > 1  # the page's own policy blocks the request and says so


def test_the_files_inside_can_be_saved(visit, tmp_path):
    release = RELEASES["pairs"][0]
    page, _, _ = visit("pairs", screen="phone")
    for name, text in (("ranking.csv", ranking_csv(release)), ("release.json", release.to_json())):
        with page.expect_download() as saving:
            page.get_by_role("link", name=name).click()
        saving.value.save_as(tmp_path / name)
        assert saving.value.suggested_filename == f"campus-choice-{name}"
        assert (tmp_path / name).read_text(encoding="utf-8") == text
    assert json.loads((tmp_path / "release.json").read_text())["release_id"] == release.release_id


def test_the_keyboard_reaches_every_link_and_table(visit):
    page, _, _ = visit("pairs")
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "[document.activeElement.tagName, getComputedStyle(document.activeElement)"
                ".outlineStyle]"
            )
        )
    focused = [tag for tag, _ in reached if tag != "BODY"]
    assert focused[:5] == ["DIV", "A", "A", "DIV", "SUMMARY"]
    assert all(outline != "none" for tag, outline in reached if tag != "BODY")
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details[open]").count() == 1


def test_dark_is_dark_and_light_is_light(visit):
    shades = {}
    for scheme in ("light", "dark"):
        page, _, _ = visit("pairs", scheme)
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shades[scheme] = sum(int(part) for part in color[4:-1].split(",")) / 3
    assert shades["light"] > 200
    assert shades["dark"] < 60
