"""The report: self-contained, well formed, escaped, and holding only what the release holds."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import math
import re
import sys
from dataclasses import replace
from datetime import UTC, date, datetime
from html import unescape as html_text
from html.parser import HTMLParser

import jinja2
import numpy as np
import pytest

from hushrank.flows.ledger.entries import Balance
from hushrank.flows.release.publish import ranking_csv
from hushrank.flows.release.release import Release
from hushrank.flows.release.scale import WORDS, Scale, axis_of, interval_text, score_text
from hushrank.flows.release.wording import certainty, chance_text, rank_interval, verdict
from hushrank.flows.report import page
from hushrank.flows.report.figures import noise_half_width
from hushrank.flows.report.model_facts import win_rates_of
from hushrank.flows.report.page import made_rows, render_report, runs_left
from hushrank.flows.report.sections import sure_table_of
from hushrank.privacy.units import NoiseKind
from hushrank.transforms.common.schema import Ties
from tests.releases import (
    PAIR_WINS,
    SEEDED,
    make_pairs_release,
    make_release,
    make_scores_release,
    user_params,
)

VOID = {"meta", "link", "br", "hr", "img", "input"}
EARLIER = datetime(2026, 11, 19, 2, 0, 4, tzinfo=UTC)
BALANCE = Balance(
    population="campus-choice",
    total=10.0,
    delta=1e-6,
    spent_epsilon=3.126,
    remaining_epsilon=6.874,
    releases=4,
    undrawn=(),
    unsafe=0,
    renews_on=date(2026, 12, 1),
)


class Page(HTMLParser):
    """Elements, attributes, tables and text of a page; raises where tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        html = html.replace("\N{NO-BREAK SPACE}%", " %")  # as people read it
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.feed(html)
        self.close()
        if self.open:
            raise AssertionError(f"not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing")

    def handle_data(self, data):
        if {"style", "script"} & set(self.open):
            return
        self.text.append(data)
        if self.open and self.open[-1] in ("td", "th", "b") and "table" in self.open:
            self.tables[-1][-1][-1] += data.strip()

    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


RELEASES = {
    "plain": make_release(n_top=2),
    "gaussian, split": make_release(
        params=user_params(noise=NoiseKind.GAUSSIAN, delta=1e-6), ties=Ties.SPLIT
    ),
    "no noise": make_release(params=user_params(epsilon=math.inf)),
    "seeded": make_release(bits=SEEDED),
    "nothing to learn": make_release(wins=[1] * 6),
    "pairs": make_pairs_release(PAIR_WINS),
    "scores": make_scores_release(PAIR_WINS),
    "long": make_release(items=[f"video {i}" for i in range(150)], wins=list(range(0, 15000, 100))),
}


@pytest.fixture(scope="module", params=RELEASES)
def case(request) -> tuple[Release, str]:
    release = RELEASES[request.param]
    return release, render_report(release, BALANCE)


def test_every_tag_is_closed_and_the_page_has_its_parts(case):
    page = Page(case[1])
    assert {"main", "header", "footer", "h1", "h2", "caption", "figure", "svg"} <= page.tags
    assert ("lang", "en") in page.attributes
    alternatives = re.findall(r'<svg class="figure [^>]*aria-label="([^"]*)"', case[1])
    shown = {
        "win-counts": ["Plot of the win counts"],
        "pair-counts": ["Plot of the scores", "Heatmap of the matrix of wins"],
        "scores": ["Plot of the scores"],
    }[case[0].released.kind]
    assert [text[: len(start)] for text, start in zip(alternatives, shown, strict=True)] == shown


def test_nothing_is_fetched_from_outside(case):
    html, page = case[1], Page(case[1])
    assert "://" not in html
    assert "@import" not in html
    assert not {"link", "img", "iframe", "object", "base"} & page.tags
    references = {value for name, value in page.attributes if name.endswith("href")}
    outside = sorted(value.partition(",")[0] for value in references if not value.startswith("#"))
    assert outside == [
        "data:application/json;charset=utf-8;base64",
        "data:image/svg+xml;base64",
        "data:image/svg+xml;base64",
        "data:text/csv;charset=utf-8;base64",
    ]
    assert all(address.startswith("#") for address in re.findall(r"url\(([^)]*)\)", html))
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]


def test_style_and_script_run_by_their_hashes_alone(case):
    html, page = case[1], Page(case[1])
    policy = html_text(re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1])
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    names = ["default-src", "style-src", "script-src", "img-src", "base-uri", "form-action"]
    assert list(rules) == names
    assert rules["img-src"] == "data:"
    assert {rules[name] for name in ("default-src", "base-uri", "form-action")} == {"'none'"}
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    assert "style" not in {name for name, _ in page.attributes}  # such attributes do nothing now


def test_the_script_holds_nothing_of_the_release():
    scripts = {
        re.search(r"<script>(.*?)</script>", render_report(release), re.DOTALL)[1]
        for release in (RELEASES["plain"], RELEASES["pairs"])
    }
    assert len(scripts) == 1


def test_the_page_holds_the_published_files(case):
    release, html = case
    texts = {
        kind: base64.b64decode(content).decode()
        for kind, content in re.findall(r'href="data:([a-z/]*);charset=utf-8;base64,([^"]*)"', html)
    }
    assert texts == {"text/csv": ranking_csv(release), "application/json": release.to_json()}
    names = re.findall(r'download="([^"]*)"', html)
    charts = [f"campus-choice-ranking-{shape}.svg" for shape in ("wide", "square")]
    assert names == ["campus-choice-ranking.csv", "campus-choice-release.json", *charts]


def test_identifiers_are_unique_and_references_resolve(case):
    page = Page(case[1])
    identifiers = [value for name, value in page.attributes if name == "id"]
    assert len(identifiers) == len(set(identifiers))
    inner = [v[1:] for name, v in page.attributes if name.endswith("href") and v[0] == "#"]
    inner += [value for name, value in page.attributes if name == "aria-labelledby"]
    assert inner
    assert set(inner) <= set(identifiers)


def test_the_table_is_the_ranking():
    release = RELEASES["plain"]
    header, *rows = Page(render_report(release)).tables[0]
    assert header == [
        *("Place", "Item", "Share won", "95 % alone", "95 % all at once", "", "Rank"),
        *("Chance best", "Noisy wins"),
    ]
    expected = [
        [
            place,
            line.item,
            f"{score_text(Scale.WIN_SHARE, line.score, 0)} %",
            interval_text(Scale.WIN_SHARE, line, 0),
            interval_text(Scale.WIN_SHARE, line.at_once, 0),
            "",
            rank_interval(line),
            chance_text(line.p_best),
            f"{release.released.wins[line.item]:,}",
        ]
        for place, line in zip(release.places(), release.ranking, strict=True)
    ]
    assert rows == expected


def numbers_in(text: str) -> set[str]:
    return set(re.findall(r"\d[\d,.]*\d|\d", text))


def numbers_allowed(release: Release) -> set[str]:
    """Every number that `release` and `BALANCE` hold, in the forms in which a page may show it."""
    wins = (release.released.wins_by_item() or {}).values()
    privacy = release.privacy.model_dump()
    numbers = (*privacy.values(), *privacy["parameters"].values())
    values = [value for value in numbers if isinstance(value, int | float)]
    table = win_rates_of(release)
    cells = [] if table is None else [cell for row in table.rows for cell in row]
    rates = [f"{cell.rate} {cell.interval} {cell.title}" for cell in cells]
    lines = [
        f"{score_text(release.scale, line.score, decimals)}"
        f" {interval_text(release.scale, line, decimals)} {rank_interval(line)}"
        f" {interval_text(release.scale, line.at_once, decimals)} {chance_text(line.p_best)}"
        for line in release.ranking
        for decimals in (0, 1, 2)
    ]
    shown = (
        *(release.to_json(), *lines, *release.places()),
        *(f"{won:,} {won:,.1f}" for won in wins),
        *(f"{value:.6g} {math.sqrt(max(value, 0)):.6g}" for value in values),
        f"{len(release.ranking)} {release.top} {certainty(release)} {sure_table_of(release)}",
        "95",  # the level
        WORDS[release.scale].explanation,
        *(
            text
            for _, text in axis_of(release.scale, [line.at_once for line in release.ranking]).ticks
        ),
        ranking_csv(release).replace(",", " "),  # which the exact values are of
        *rates,
        "20 November 2026, 02:00",
        "3.13 of 10.00 at 1e-06, 4 releases, 6.87 until 1 December 2026",
        f"{runs_left(release, BALANCE)}",
        f"{dict(made_rows(release))}",
    )
    return numbers_in(" ".join(shown))


def unexplained(release: Release, html: str) -> set[str]:
    ticks = re.findall(r">([^<]*)</text>", html)  # of the axes of plots
    return numbers_in(Page(html).words()) - numbers_allowed(release) - numbers_in(" ".join(ticks))


def test_every_number_comes_from_the_release_or_the_balance(case):
    """No count of people, rows or rejects can slip in."""
    release, html = case
    assert unexplained(release, html) == set()
    planted = html.replace("</footer>", "<p>4,454 answers of 98,765 people</p></footer>")
    assert unexplained(release, planted) == {"4,454", "98,765"}


@pytest.mark.parametrize(
    ("reached", "told"),
    [
        (None, []),
        (0.8, ["80% of the budget is used."]),
        (1.0, ["one more release at this cost does not fit."]),
    ],
)
def test_a_budget_that_runs_out_is_told(reached, told):
    page = render_report(RELEASES["plain"], replace(BALANCE, alert=reached))
    assert re.findall(r"<strong>Budget alert</strong>: (.*)</p>", page) == told


@pytest.mark.parametrize(
    ("name", "quantile"), [("plain", math.log(20)), ("gaussian, split", 1.959964)]
)
def test_noise_band_is_where_the_exact_count_lies(name, quantile):
    release = RELEASES[name]
    expected = quantile * release.privacy.noise_scale / release.released.row_weight
    assert noise_half_width(release) == pytest.approx(expected, rel=2e-3)


def test_a_long_name_is_cut_in_the_headline_and_whole_in_the_table():
    names = [
        f"Which of these proposals for the new canteen should be paid for first: {end}"
        for end in "abcdef"
    ]
    release = make_release(items=names)
    page = render_report(release)
    (headline,) = re.findall(r'<p class="verdict[^"]*">(.*?)</p>', page)
    assert "Which" not in headline
    assert len(headline) < len(verdict(release)) / 2
    assert sorted(row[1] for row in Page(page).tables[0][1:]) == names
    (plain,) = re.findall(r'<p class="verdict">(.*?)</p>', render_report(RELEASES["plain"]))
    assert plain.replace("\N{NO-BREAK SPACE}", " ") == verdict(RELEASES["plain"])


def test_the_contents_list_names_every_section(case):
    html = case[1]
    headings = re.findall(r'<h2 id="([^"]*)">(.*?)</h2>', html)
    (nav,) = re.findall(r'<nav aria-label="Contents">(.*?)</nav>', html, re.DOTALL)
    assert re.findall(r'<a href="#([^"]*)">(.*?)</a>', nav) == headings
    assert headings[0] == ("ranking", "Ranking")


def test_no_number_is_parted_from_its_percent_sign(case):
    assert "\N{NO-BREAK SPACE}%" in case[1]
    said = re.sub(r"<(style|script)>.*?</\1>", "", case[1], flags=re.DOTALL)
    assert not re.search(r"[0-9] %", said)


def test_item_names_are_text_and_never_markup():
    names = [
        *("<script>alert(1)</script>", "a & b", '"><img src=x>', "$x_1$", "Zürich 東京"),
        '<g style="fill: red">',
    ]
    html = render_report(make_release(items=names))
    page = Page(html)
    assert "img" not in page.tags
    assert html.count("<script") == 1
    assert "fill: red" not in re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1]
    shown = {row[1] for row in page.tables[0][1:]}
    assert shown == set(names)
    assert "&lt;script&gt;alert(1)" in re.search(r'<svg class="figure.*</svg>', html, re.DOTALL)[0]
    assert page.words().count("$x_1$") == 8  # verdict, three tables, plot twice, two exact values


def test_the_verdict_leads_and_warnings_follow():
    page = Page(render_report(RELEASES["seeded"])).words()
    assert verdict(RELEASES["seeded"]) in page
    assert "Unsafe. A seed was injected" in page
    assert "Protected nobody" in page
    quiet = Page(render_report(RELEASES["plain"])).words()
    assert "Unsafe" not in quiet
    assert "Protected each person" in quiet


def test_nothing_is_claimed_where_nothing_can_be_learned():
    page = Page(render_report(RELEASES["nothing to learn"]))
    assert "Nothing useful can be learned from this release." in page.words()
    for row in page.tables[0][1:]:
        assert row[2:4] == ["unknown", "0–100"]
        assert row[4] == "0–100"
        assert row[6] == "1–6"


def test_exact_counts_are_not_called_noisy():
    words = Page(render_report(RELEASES["no noise"])).words()
    assert "Noisy" not in words
    assert "noise included" not in words
    assert "no noise was added" in words


def test_the_guarantee_is_a_table_and_sentences():
    release = RELEASES["plain"]
    page = Page(render_report(release))
    facts = dict(next(table for table in page.tables if table[0][0] == "Protected unit"))
    assert facts["Protected unit"] == "user: one person, all their answers"
    assert facts["Adjacency"] == "replace-one: replaced by any other"
    assert (facts["Epsilon"], facts["Noise scale"]) == ("2", "12")
    assert facts["Sensitivity"] == "24 (l1 norm)"
    assert facts["Answers used per person, at most"] == "15"
    assert facts["Answers per person on one pair, at most"] == "1"
    words = page.words()
    for sentence in (*release.privacy.statement, *release.privacy.not_protected):
        assert sentence in words
    assert f"Erratum {release.privacy.erratum}" in words


def test_the_budget_is_rounded_so_that_it_promises_nothing():
    words = Page(render_report(RELEASES["plain"], BALANCE)).words()
    assert "epsilon 3.13 of 10.00 is spent (at delta 1e-06) by 4 releases" in words
    assert (
        "may cost up to 6.87 before the budget is renewed on 1 December 2026: that is enough for 3"
        " more runs like this one." in words
    )
    dear = make_release(params=user_params(epsilon=7.0))
    assert "not enough for one more run like" in Page(render_report(dear, BALANCE)).words()
    assert runs_left(RELEASES["gaussian, split"], BALANCE) is None  # rho does not add up like that
    assert "Privacy budget" not in Page(render_report(RELEASES["plain"])).words()


def test_the_same_release_gives_the_same_page():
    assert render_report(RELEASES["plain"], BALANCE) == render_report(RELEASES["plain"], BALANCE)


def test_narrow_screens_hide_counts_and_drawings_but_no_rank():
    for name in ("plain", "scores"):
        page = render_report(RELEASES[name])
        hidden = re.search(r"\.ranking \.scale, \.ranking \.(\w+) \{ display: none; \}", page)[1]
        cells = re.findall(rf'<td class="[^"]*\b{hidden}\b[^"]*">([^<]*)</td>', page)
        wins = RELEASES[name].released.wins_by_item() or {}
        assert sorted(cells) == sorted(f"{won:,}" for won in wins.values())


def test_a_long_ranking_shows_both_ends_and_the_rest_on_request():
    names = [f"video {i}" for i in range(1150)]
    release = make_release(items=names, wins=list(range(0, 115000, 100)))
    page = Page(render_report(release))
    short, full = page.tables[0], page.tables[1]
    assert [row[1] for row in short[1:51]] == [line.item for line in release.ranking[:50]]
    assert short[51] == ["1,090 more between these"]
    assert [row[1] for row in short[52:]] == [line.item for line in release.ranking[-10:]]
    assert [row[1] for row in full[1:]] == [line.item for line in release.ranking]
    assert "All 1,150 items" in page.words()
    assert ("data-tools", "") in page.attributes


def test_hundreds_of_items_stand_in_one_table_and_in_one_plot():
    release = make_release(items=[f"item {i}" for i in range(300)], wins=list(range(0, 30000, 100)))
    html = render_report(release, BALANCE)
    assert len(html.encode()) < 750_000
    rows = Page(html).tables[0][1:]
    assert [row[1] for row in rows] == [line.item for line in release.ranking]
    assert html.count('cy="50%" r="4"/>') == 300
    svg = re.search(r'<svg class="figure.*?</figure>', html, re.DOTALL)[0]
    assert svg.count("<title>") == 300
    assert float(re.search(r' height="(\d+)"', svg)[1]) < 900  # pixels: one screen


def test_every_line_and_every_dot_says_its_numbers_as_the_table_of_the_release_has_them():
    for name in ("plain", "scores"):
        html = render_report(RELEASES[name])
        exact = re.findall(r'<span class="exact">([^<]*)</span>', html)
        titles = re.findall(r'role="img"[^>]*><title>([^<]*)</title>', html)
        lines = list(csv.DictReader(io.StringIO(ranking_csv(RELEASES[name]))))
        assert len(lines) == len(exact) == 6
        assert exact == titles[:6]
        for text, line in zip(exact, lines, strict=True):
            assert text.startswith(f"{line['item']}: {line['score']}")
            assert f"{line['low']} to {line['high']}" in text


def test_dots_and_bars_of_the_table_are_where_the_numbers_are():
    release = RELEASES["scores"]
    html = render_report(release)
    axis = axis_of(release.scale, [line.at_once for line in release.ranking])
    drawn = re.findall(
        r'<line class="range" x1="([\d.]+)%" x2="([\d.]+)%"[^>]*/><circle cx="([\d.]+)%"', html
    )
    assert len(drawn) == len(release.ranking)
    for line, ends in zip(release.ranking, drawn, strict=True):
        expected = [axis.percent(value) for value in (line.low, line.high, line.score)]
        assert [float(end) for end in ends] == pytest.approx(expected, abs=0.051)
    wide = re.findall(r'<line class="all" x1="([\d.]+)%" x2="([\d.]+)%"', html)
    for line, ends in zip(release.ranking, wide, strict=True):
        expected = [axis.percent(value) for value in (line.low_all, line.high_all)]
        assert [float(end) for end in ends] == pytest.approx(expected, abs=0.051)
    span = [float(end) for each in wide for end in each]
    assert max(span) - min(span) > 90  # the axis fits them


def test_an_open_interval_leaves_the_axis_under_an_arrow():
    release = RELEASES["scores"]
    first = replace(release.ranking[0], high_all=math.inf)
    html = render_report(release.model_copy(update={"ranking": (first, *release.ranking[1:])}))
    assert html.count("›</text>") == 1
    assert html.count("‹</text>") == 0


def test_thousands_of_items_stay_below_one_megabyte():
    names = [f"a video with a name of some length, number {i}" for i in range(20_000)]
    wins = np.linspace(0, 40_000, len(names)).astype(int).tolist()
    html = render_report(make_release(items=names, wins=wins), BALANCE)
    assert 500_000 < len(html.encode()) < 1_000_000
    assert "; the rest is in ranking.csv." in html
    assert re.findall(r'<a href="((?!data:image)[^"#]*)"', html) == ["ranking.csv", "release.json"]


def test_hundreds_of_items_have_their_table_and_one_file_in_the_page():
    names = [f"a video with a name of some length, number {i}" for i in range(1100)]
    wins = np.linspace(0, 40_000, len(names)).astype(int).tolist()
    html = render_report(make_release(items=names, wins=wins), BALANCE)
    assert len(html.encode()) < 1_000_000
    assert html.count('<td translate="no">a video with a name of some length, number 777</td>') == 1
    links = re.findall(r'<a href="(data:[a-z/]*|[^"#]+)', html)
    assert links == ["data:text/csv", "release.json", "data:image/svg", "data:image/svg"]


def test_the_matrix_is_a_table_too():
    release = RELEASES["pairs"]
    tables = Page(render_report(release)).tables
    header, *rows = next(table for table in tables if table[0][0] == "Wins of … over")
    assert header == ["Wins of … over", *(line.item for line in release.ranking)]
    position = {item: i for i, item in enumerate(release.released.items)}
    for name, *cells in rows:
        for other, cell in zip(header[1:], cells, strict=True):
            won = release.released.wins[position[name]][position[other]]
            assert cell == ("" if name == other else f"{won:,}")


def test_what_changed_is_told_with_numbers_of_both_releases_only():
    before = make_release(release_id="before", seed=6, created=EARLIER)
    release = RELEASES["plain"]
    html = render_report(release, BALANCE, before)
    page = Page(html)
    assert "Since the release of 19 November 2026" in page.words()
    assert "No change is larger than noise and chance explain." in page.words()
    header, *rows = page.tables[1]
    assert header[0] == "Item"
    was = {line.item: line for line in before.ranking}
    now = {line.item: line for line in release.ranking}
    assert {row[0] for row in rows} == set(now)
    for item, score_before, score_now, change, _, ranks, beyond in rows:
        assert score_before == f"{score_text(Scale.WIN_SHARE, was[item].score, 0)} %"
        assert score_now == f"{score_text(Scale.WIN_SHARE, now[item].score, 0)} %"
        moved = now[item].score - was[item].score
        assert float(change) == pytest.approx(moved, abs=0.501)
        assert rank_interval(now[item]) == ranks.split(" → ")[-1]
        assert beyond == "no"
    assert "Since the release" not in Page(render_report(release, BALANCE)).words()


def test_the_template_is_compiled_once(monkeypatch, tmp_path):
    """It is kept where Python keeps compiled modules, and made anew where nothing can be kept."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)

    def made(folder):
        page._template.cache_clear()
        return page._template(folder)

    made(tmp_path)
    (kept,) = tmp_path.iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(jinja2.Environment, "compile", None)
        made(tmp_path)
        with pytest.raises(TypeError):
            made(tmp_path / "missing")
    made(tmp_path / "missing")
    kept.write_bytes(kept.read_bytes()[:-9])
    made(tmp_path)
    kept.unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made(tmp_path)
    assert list(tmp_path.iterdir()) == []
    page._template.cache_clear()
