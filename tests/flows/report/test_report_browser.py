"""The report in a real browser without network: light and dark, on desk, phone and paper.

With 4, 60 and 300 items; with its script, and with scripts switched off.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from PIL import Image

from hushrank.flows.release.publish import ranking_csv
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import interval_text, score_decimals
from hushrank.flows.report.page import render_report
from hushrank.flows.report.slide import chart_of, chart_svg
from hushrank.flows.report.svg import Shape
from tests.flows.browsers import SCREENS, complaints_of, eventually, faults, on_screen
from tests.flows.report.test_page import BALANCE
from tests.releases import PAIR_WINS, SEEDED, make_pairs_release, make_release

YESTERDAY = datetime(2026, 11, 19, 2, 0, 4, tzinfo=UTC)
MANY = {"items": [f"video {i}" for i in range(1101)], "wins": list(range(0, 110100, 100))}
CITIES = ("Zürich", "Bern", "東京", "Santiago de Compostela")
NAMES = [f"{CITIES[i % 4]} {i}" for i in range(300)]


def with_items(n: int, **changes) -> Release:
    """Of n items, close to each other in pairs, and two thirds of the way from 0 to 100 %."""
    wins = [500 * n + 240 * i - 200 * (i % 2) for i in range(n)]
    return make_release(items=NAMES[:n], wins=wins, **changes)


@cache
def releases_of(name: str) -> tuple[Release, Release | None]:
    """The release of a page, and the one before it."""
    match name:
        case "4" | "300":
            return with_items(int(name)), None
        case "60":
            return with_items(60), with_items(60, seed=9, created=YESTERDAY)
        case "pairs":
            before = [*PAIR_WINS[:5], [900, 900, 900, 900, 900, 0]]
            return make_pairs_release(PAIR_WINS), make_pairs_release(before, created=YESTERDAY)
        case "unsafe":
            return make_release(bits=SEEDED, n_top=2), None
        case _:
            return make_release(**MANY), make_release(**MANY, seed=9, created=YESTERDAY)


pytestmark = [pytest.mark.engine, pytest.mark.slow]


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> Path:
    """Folder of the pages, each written when it is visited first."""
    return tmp_path_factory.mktemp("pages")


def page_of(name: str, pages: Path) -> Path:
    """The file of a page of `releases_of`, or of one that a test has written."""
    path = pages / f"{name}.html"
    if not path.exists():
        release, before = releases_of(name)
        path.write_text(render_report(release, BALANCE, before), encoding="utf-8")
    return path


@pytest.fixture
def visit(browser, pages):
    """Open a report without network; returns the page, what it asked for and what it complained."""
    contexts = []

    def open_page(name: str, scheme: str = "light", screen: str = "desktop", *, script=True):
        settings = {"accept_downloads": True, "java_script_enabled": script}
        context = on_screen(browser, scheme, screen, **settings)
        contexts.append(context)
        context.set_offline(True)
        page, asked = context.new_page(), []
        complaints = complaints_of(page)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(page_of(name, pages).as_uri())
        return page, asked, complaints

    yield open_page
    for context in contexts:
        context.close()


def unfold(page) -> None:
    """What is folded away is looked at too."""
    for summary in page.locator("summary").all():
        summary.click()


@pytest.mark.parametrize(
    ("name", "scheme", "screen"),
    [
        *(("pairs", scheme, screen) for scheme in ("light", "dark") for screen in SCREENS),
        *(("unsafe", "light", "desktop"), ("long", "dark", "phone")),
        *(("4", "light", "phone"), ("60", "dark", "desktop"), ("300", "light", "desktop")),
        *(("300", "dark", "phone"),),
    ],
)
def test_nothing_is_asked_for_and_nothing_complains(visit, name, scheme, screen):
    page, asked, complaints = visit(name, scheme, screen)
    unfold(page)
    width = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1] == SCREENS[screen][0]
    if name == "pairs":  # of short names the whole ranking is in sight
        inside = "(([table]) => [table.scrollWidth, table.clientWidth])"
        within = page.locator(".scroll.wide").evaluate_all(inside)
        assert within[0] <= within[1]
    assert complaints == []
    assert [url for url in asked if not url.startswith("file://")] == []
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("name", "scheme", "screen"),
    [
        *(("pairs", "light", "desktop"), ("pairs", "dark", "phone")),
        *(("unsafe", "light", "desktop"), ("4", "light", "phone"), ("60", "dark", "desktop")),
        # Long tables: axe looks at each of their cells, for half a minute.
        pytest.param("300", "light", "desktop", marks=pytest.mark.soak),
        pytest.param("300", "dark", "phone", marks=pytest.mark.soak),
        pytest.param("long", "dark", "phone", marks=pytest.mark.soak),
    ],
)
def test_nobody_is_shut_out(visit, name, scheme, screen):
    page, _, complaints = visit(name, scheme, screen)
    unfold(page)
    assert faults(page) == {}
    assert complaints == []


def test_the_check_sees_what_is_wrong(visit, pages):
    """A page with bad contrast, a picture without text and a request is not let through."""
    whole = page_of("pairs", pages).read_text(encoding="utf-8")
    bad = "<p><font color='#eeeeee'>pale</font></p><img src='https://example.org/a.png'>"
    planted = whole.replace("<header>", f"<header>{bad}", 1)
    (pages / "bad.html").write_text(planted, encoding="utf-8")
    page, asked, complaints = visit("bad")
    assert {"color-contrast", "image-alt"} <= faults(page).keys()
    assert complaints or len(asked) > 1  # the page's own policy blocks the request and says so


def test_the_files_inside_can_be_saved(visit, tmp_path):
    release = releases_of("pairs")[0]
    page, _, _ = visit("pairs", screen="phone")
    for name, text in (("ranking.csv", ranking_csv(release)), ("release.json", release.to_json())):
        with page.expect_download() as saving:
            page.get_by_role("link", name=name).click()
        saving.value.save_as(tmp_path / name)
        assert saving.value.suggested_filename == f"campus-choice-{name}"
        assert (tmp_path / name).read_text(encoding="utf-8") == text
    assert json.loads((tmp_path / "release.json").read_text())["release_id"] == release.release_id


@pytest.mark.parametrize(("shape", "sides"), [("wide", (2560, 1440)), ("square", (2160, 2160))])
def test_a_chart_is_saved_as_svg_and_as_png(visit, tmp_path, shape, sides):
    page, asked, complaints = visit("300")
    name = f"campus-choice-ranking-{shape}"
    with page.expect_download() as saving:
        page.get_by_role("link", name=f"ranking-{shape}.svg").click()
    saving.value.save_as(tmp_path / "a.svg")
    assert saving.value.suggested_filename == f"{name}.svg"
    drawn = chart_svg(chart_of(releases_of("300")[0], Shape(shape)))
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == drawn
    with page.expect_download() as saving:
        page.get_by_role("button", name=f"Save {name}.png").click()
    saving.value.save_as(tmp_path / "a.png")
    assert saving.value.suggested_filename == f"{name}.png"
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.size == sides
        colours = {colour for _, colour in picture.convert("RGB").getcolors(1 << 24)}
    assert {(255, 255, 255), (0x1C, 0x56, 0xB8), (0xA9, 0xC4, 0xEF)} <= colours
    assert (complaints, len(asked)) == ([], 1)


def test_the_keyboard_reaches_every_link_and_table(visit):
    page, _, _ = visit("pairs")
    reached, links = [], page.locator("nav a").count()
    assert links > 4
    for _ in range(links + 14):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                "[document.activeElement.tagName, getComputedStyle(document.activeElement)"
                ".outlineStyle]"
            )
        )
    focused = [tag for tag, _ in reached if tag != "BODY"]
    assert focused[:links] == ["A"] * links  # the contents
    focused = focused[links:]
    assert focused[:3] == ["INPUT", "INPUT", "BUTTON"]  # search, filter, show all
    assert focused[3:12] == ["DIV", *["SPAN"] * 8]  # the table and its headings
    assert focused[12:14] == ["TR", "A"]  # one line of all: arrow keys go to the others
    assert all(outline != "none" for tag, outline in reached if tag != "BODY")
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    eventually(page.locator("details[open]")).to_have_count(1)


def test_dark_is_dark_and_light_is_light(visit):
    shades = {}
    for scheme in ("light", "dark"):
        page, _, _ = visit("pairs", scheme)
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        shades[scheme] = sum(int(part) for part in color[4:-1].split(",")) / 3
    assert shades["light"] > 200
    assert shades["dark"] < 60


def items_shown(page) -> list[str]:
    return page.locator("table.ranking tbody tr:visible > th").all_inner_texts()


def sort_by(page, heading: str) -> None:
    page.locator("table.ranking thead").get_by_role("button", name=heading).click()


def test_search_finds_names_without_accents_and_items_behind_labels(browser, pages, visit):
    page, _, complaints = visit("300")
    page.get_by_label("Search").fill("zurich 1")
    expected = {name for name in NAMES if name.startswith("Zürich 1")}
    assert set(items_shown(page)) == expected
    shown = page.locator("form.tools output")
    eventually(shown).to_have_text(f"{len(expected)} of 300 items")
    page.get_by_role("button", name="Show all").click()
    eventually(shown).to_have_text("300 of 300 items")
    first = releases_of("4")[0]
    lines = [replace(line, label=f"<i>{line.rank}</i>") for line in first.ranking]
    labelled = first.model_copy(update={"ranking": tuple(lines)})
    (pages / "labelled.html").write_text(render_report(labelled), encoding="utf-8")
    page, _, complaints = visit("labelled")
    page.get_by_label("Search").fill("東京")
    assert items_shown(page) == [line.shown for line in labelled.ranking if line.item == NAMES[2]]
    assert page.locator("i").count() == 0
    assert complaints == []


def test_the_filter_keeps_what_can_be_among_the_best(visit):
    page, _, _ = visit("300")
    page.get_by_label("Can be among the best").fill("10")
    ranking = releases_of("300")[0].ranking
    expected = [line.item for line in ranking if line.sure_ranks[0] <= 10]
    assert 10 <= len(expected) < 300
    assert items_shown(page) == expected


def test_headings_sort_both_ways_by_what_is_in_their_column(visit):
    page, _, complaints = visit("60")
    release = releases_of("60")[0]
    ranking, wins = release.ranking, release.released.wins
    sort_by(page, "Item")
    assert items_shown(page)[0].startswith("Bern")
    assert sorted(items_shown(page)) == sorted(line.item for line in ranking)
    sort_by(page, "Item")
    eventually(page.locator("th[aria-sort=descending]")).to_have_text("Item")
    assert not items_shown(page)[0].startswith("Bern")
    sort_by(page, "95 % alone")
    decimals = score_decimals(release.scale, ranking)
    ends = {line.item: interval_text(release.scale, line, decimals) for line in ranking}
    widths = {
        item: round(float(text.split("–")[1]) - float(text.split("–")[0]), 6)
        for item, text in ends.items()
    }
    assert [widths[item] for item in items_shown(page)] == sorted(widths.values())
    sort_by(page, "Noisy wins")
    counts = [wins[item] for item in items_shown(page)]
    assert counts == sorted(counts, reverse=True)
    sort_by(page, "Place")
    assert items_shown(page) == [line.item for line in ranking]
    assert complaints == []


def test_exact_values_show_where_one_points_or_stands(visit):
    page, _, _ = visit("300")
    lines = page.locator("table.ranking tbody tr")
    exact = lines.locator(".exact")
    eventually(exact.nth(2)).to_be_hidden()
    lines.nth(2).hover()
    eventually(exact.nth(2)).to_be_visible()
    ranked = releases_of("300")[0].ranking
    told = exact.nth(2).inner_text().replace("\N{NO-BREAK SPACE}", " ")
    assert told.startswith(f"{ranked[2].item}: {ranked[2].score:.6f} %")
    page.mouse.move(0, 0)
    lines.first.focus()
    for key, place in (("ArrowDown", 1), ("End", 299), ("ArrowDown", 299), ("ArrowUp", 298)):
        page.keyboard.press(key)
        eventually(exact.nth(place)).to_be_visible()
        eventually(page.locator(".exact:visible")).to_have_count(1)
    eventually(page.locator("table.ranking tr[tabindex='0']")).to_have_count(1)


def test_three_hundred_items_are_sorted_and_searched_at_once(visit):
    page, _, _ = visit("300")
    took = page.evaluate(
        """() => {
            const start = performance.now();
            for (const button of document.querySelectorAll(".ranking .sort")) button.click();
            const search = document.querySelector("input[type=search]");
            search.value = "bern";
            search.dispatchEvent(new Event("input", { bubbles: true }));
            document.body.getBoundingClientRect();
            return performance.now() - start;
        }"""
    )
    assert took < 20_000  # milliseconds; some 100 where nothing else runs
    assert len(items_shown(page)) == 75


@pytest.mark.parametrize("name", ["4", "300", "pairs"])
def test_without_script_the_page_is_whole(visit, name):
    page, _, _ = visit(name, script=False)
    ranked = [line.item for line in releases_of(name)[0].ranking]
    assert items_shown(page) == ranked
    eventually(page.locator("form.tools")).to_be_hidden()
    eventually(page.locator("table.ranking circle").first).to_be_visible()
    page.locator("table.ranking tbody tr").nth(1).hover()
    eventually(page.locator(".exact").nth(1)).to_be_visible()


def test_the_policy_stops_scripts_styles_and_requests_that_were_smuggled_in(visit, pages):
    whole = page_of("4", pages).read_text(encoding="utf-8")
    smuggled = (
        "<script>document.title = 'run'</script><style>h1 { display: none }</style>"
        "<p style='display:none' onclick=\"document.title = 'run'\" id='p'>here</p>"
    )
    evil = re.sub(r"<main[^>]*>", lambda start: start[0] + smuggled, whole)
    (pages / "evil.html").write_text(evil, "utf-8")
    page, _, complaints = visit("evil")
    page.locator("#p").click()  # it is to be seen: its style did nothing
    assert page.title() == "campus-choice: private ranking"
    eventually(page.locator("h1")).to_be_visible()
    assert len([text for text in complaints if "Content Security Policy" in text]) >= 4
    eventually(page.locator("form.tools")).to_be_visible()  # the page's own script ran all the same


def test_on_paper_dots_and_bars_stay_and_pages_break_between_lines(visit, tmp_path):
    page, _, _ = visit("300", "dark")
    page.emulate_media(media="print")
    eventually(page.locator("form.tools")).to_be_hidden()
    drawn = page.evaluate(
        """() => [".bar circle", ".bar .range"].map((name) => {
            const style = getComputedStyle(document.querySelector(name));
            return [style.fill, style.stroke, style.display];
        })"""
    )
    assert drawn[0][0] == "rgb(28, 86, 184)"  # the light page's colours, whatever the screen has
    assert drawn[1][1] == "rgb(169, 196, 239)"
    assert page.evaluate(
        """() => [...document.querySelectorAll("tbody tr, figure, li")].every(
            (each) => getComputedStyle(each).breakInside === "avoid")"""
    )
    content = page.pdf(path=tmp_path / "300.pdf", format="A4")
    assert 6 <= content.count(b"/Type /Page\n") <= 14
    headings = page.evaluate("getComputedStyle(document.querySelector('thead')).display")
    assert headings == "table-header-group"  # and so on top of every page
    eventually(page.locator("thead button")).to_have_count(0)  # which Chromium would not repeat


@pytest.mark.parametrize("name", ["4", "60", "300", "pairs", "unsafe"])
def test_a_summary_is_printed_on_one_page(visit, name):
    page, _, _ = visit(name)
    page.evaluate("window.print = () => {}")
    page.get_by_role("button", name="Print a summary on one page").click()
    printed = page.pdf(format="A4")
    assert len(re.findall(rb"/Type /Page\b", printed)) == 1
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert len(re.findall(rb"/Type /Page\b", page.pdf(format="A4"))) > 1


def test_win_rates_are_a_table_that_says_its_intervals(visit):
    page, _, _ = visit("pairs")
    cell = page.locator("table.rates tbody tr").first.locator("td").nth(1)
    text = cell.inner_text().split()
    assert text[1] == "%"
    low, high = (int(end) for end in text[2].split("–"))
    assert low <= int(text[0]) <= high
    assert "beats" in cell.get_attribute("title")
