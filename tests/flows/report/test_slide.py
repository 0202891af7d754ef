"""Charts for slides: marks are where the numbers are, and texts can be read and say the limits."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from hushrank.flows.config.language import Language
from hushrank.flows.config.method import AboutConfig
from hushrank.flows.release.scale import axis_of
from hushrank.flows.report.page import translator_for
from hushrank.flows.report.slide import (
    LEAST_TEXT,
    SIZES,
    Chart,
    Dot,
    Stroke,
    Words,
    chart_of,
    chart_svg,
    pages_of,
)
from hushrank.flows.report.slide_pdf import charts_pdf
from hushrank.flows.report.svg import Shape, labels, palette, png_bytes, width_of
from tests.releases import PAIR_WINS, SEEDED, make_pairs_release, make_release

BEGINNING = "Which of these proposals for the new canteen should be paid for first:"
ALIKE = [f"{BEGINNING} {end}" for end in ("a salad bar", "a second cash desk", "more tables")]
MANY = [f"Santiago de Compostela, district {i}" for i in range(300)]


def of_kind(chart: Chart, kind: type) -> list:
    return [mark for mark in chart.marks if isinstance(mark, kind)]


def texts(chart: Chart) -> list[str]:
    return [words.text for words in of_kind(chart, Words)]


def many_items():
    wins = [500 * 300 + 240 * i - 200 * (i % 2) for i in range(300)]
    return make_release(items=MANY, wins=wins)


@pytest.mark.parametrize("shape", Shape)
def test_dots_and_bars_are_where_the_scores_are(shape):
    release = make_pairs_release(PAIR_WINS)
    chart = chart_of(release, shape)
    dots, soft = of_kind(chart, Dot), palette()["soft"]
    bars = [mark for mark in of_kind(chart, Stroke) if mark.colour == soft]
    scores = np.array([line.score for line in release.ranking])
    slope, start = np.polyfit(scores, [dot.x for dot in dots], 1)
    assert slope > 0
    for line, dot, bar in zip(release.ranking, dots, bars, strict=True):
        drawn = [dot.x, bar.x1, bar.x2]
        expected = [start + slope * value for value in (line.score, line.low, line.high)]
        assert drawn == pytest.approx(expected, abs=0.02)
        assert dot.y == bar.y1 == bar.y2
    names = [text for text in texts(chart) if text in release.shown().values()]
    assert names == [line.shown for line in release.ranking]


@pytest.mark.parametrize("shape", Shape)
@pytest.mark.parametrize(
    "release",
    [many_items(), make_release(items=ALIKE, wins=(30, 20, 10)), make_pairs_release(PAIR_WINS)],
    ids=["many", "alike", "few"],
)
def test_every_text_can_be_read_and_lies_inside(release, shape):
    title = (
        "What should be paid for first, say all the students and the staff of this university? " * 2
    )
    chart = chart_of(release.model_copy(update={"about": AboutConfig(title=title)}), shape)
    width, height = SIZES[shape]
    for words in of_kind(chart, Words):
        wide = width_of(words.text) * words.size / 12.5
        left = words.x - {"start": 0, "middle": wide / 2, "end": wide}[words.anchor]
        assert left >= 20
        assert left + wide <= width - 20
        assert 20 <= words.y <= height - 20
        assert words.size >= LEAST_TEXT - 1
    rows = sorted(dot.y for dot in of_kind(chart, Dot))
    assert all(below - above >= LEAST_TEXT for above, below in itertools.pairwise(rows))


def test_items_that_do_not_fit_are_named_as_left_out_and_a_pdf_has_pages_for_them():
    release = many_items()
    chart = chart_of(release, Shape.WIDE)
    shown = len(of_kind(chart, Dot))
    assert 10 <= shown < 300
    assert f"The best {shown} of 300 items. The file ranking.csv has all." in texts(chart)
    assert chart.description.startswith(f"Chart of {shown} of 300 items, best on top, by share won")
    pages = pages_of(release, Shape.WIDE)
    assert sum(len(of_kind(page, Dot)) for page in pages) == 300
    assert f"Items {shown + 1} to {2 * shown} of 300. The file ranking.csv has all." in texts(
        pages[1]
    )
    ticks = [[m.text for m in of_kind(p, Words) if m.anchor == "middle"] for p in pages]
    axis = axis_of(release.scale, release.ranking)
    assert all(page == [text for _, text in axis.ticks] for page in ticks)


def test_what_protects_nobody_or_says_nothing_says_so():
    unsafe = chart_of(make_release(bits=SEEDED), Shape.WIDE)
    (warning,) = (words for words in of_kind(unsafe, Words) if "UNSAFE" in words.text)
    assert "a test, which protects nobody" in warning.text
    assert warning.colour == palette()["danger"]
    assert "Protects" not in "".join(texts(unsafe))
    nothing = chart_of(make_release(wins=(1, 2, 0, 1, 2, 1)), Shape.WIDE)
    assert not of_kind(nothing, Dot)
    assert "Nothing useful can be learned from this release." in texts(nothing)
    assert any(text.startswith("Protects each person with epsilon 2 ·") for text in texts(nothing))


def test_dark_and_light_have_their_own_colours():
    light, dark = (chart_of(make_release(), Shape.WIDE, dark=dark) for dark in (False, True))
    assert (light.paper, dark.paper) == ("#ffffff"[:4], palette(dark=True)["page"])
    assert light.paper != dark.paper
    used = [{mark.colour for mark in chart.marks} for chart in (light, dark)]
    assert not used[0] & used[1]


def test_the_file_has_an_alternative_text_and_asks_for_nothing():
    chart = chart_of(make_release(), Shape.WIDE)
    root = ElementTree.fromstring(chart_svg(chart))
    assert root.get("role") == "img"
    assert [each.tag.rpartition("}")[2] for each in root][:2] == ["title", "desc"]
    first = make_release().ranking[0]
    assert f"{first.shown} {first.score:.0f} %" in root[1].text
    assert not re.search(r"href|url\(|<script|<style", chart_svg(chart))
    assert png_bytes(chart_svg(chart)).startswith(b"\x89PNG")


@pytest.mark.parametrize("text", ["a < b & c", "$x_1$ costs 5 $"])
def test_names_are_text(text):
    names = [text, "b", "c"]
    chart = chart_of(make_release(items=names, wins=(30, 20, 10)), Shape.SQUARE)
    assert text in [each.text for each in ElementTree.fromstring(chart_svg(chart))]
    assert charts_pdf([chart])[0].startswith(b"%PDF")


def test_a_pdf_has_a_page_for_each_chart_and_knows_what_no_font_has():
    pages = pages_of(many_items(), Shape.WIDE)
    content, complete = charts_pdf(pages)
    assert len(re.findall(rb"/Type /Page\b", content)) == len(pages)
    assert complete
    unknown = chart_of(make_release(items=("\ue123", "b", "c"), wins=(30, 20, 10)), Shape.WIDE)
    assert not charts_pdf([unknown])[1]


def test_labels_that_begin_alike_are_cut_where_they_differ():
    found = labels([*ALIKE, "short", f"A {BEGINNING} x"], 230)
    assert found[:4] == ["…a salad bar", "…a second cash desk", "…more tables", "short"]
    assert found[4].startswith("A Which")
    assert all(width_of(name) <= 230 for name in found)
    twice = labels([ALIKE[0], ALIKE[0]], 230)
    assert twice[0] == twice[1]
    assert twice[0].startswith("Which")
    assert labels(["x" * 90 + "1", "x" * 90 + "2"], 230) == ["…1", "…2"]


@pytest.mark.parametrize("shape", Shape)
def test_names_with_markup_or_control_characters_leave_a_chart_whole(shape):
    """Names of older releases may hold any character, and XML has no word for most of these."""
    names = ["</svg><script>alert(1)</script>", "a\x00b\x1b[2J", "\u202eevil", "a & b"]
    drawn = chart_svg(chart_of(make_release(items=names, wins=(300, 400, 500, 600)), shape))
    root = ElementTree.fromstring(drawn)
    assert not [each for each in root.iter() if each.tag.endswith("script")]
    assert "<U+" in root.findtext("{*}desc") or "\\x00" in root.findtext("{*}desc")


RELEASES = {
    "scores": make_pairs_release(PAIR_WINS),
    "many items": many_items(),
    "unsafe": make_pairs_release(PAIR_WINS, bits=SEEDED),
}


@pytest.mark.parametrize("language", [each for each in Language if each is not Language.ENGLISH])
@pytest.mark.parametrize("name", RELEASES)
def test_every_text_of_a_chart_is_translated(name: str, language: Language) -> None:
    """Names, marks and digits are those of the English chart; only texts and signs differ."""
    release = RELEASES[name]
    translator = translator_for(release, language)
    english = pages_of(release, Shape.WIDE)
    said = pages_of(release, Shape.WIDE, say=translator.say)
    assert not translator.missing
    for one, other in zip(english, said, strict=True):
        assert len(of_kind(one, Dot)) == len(of_kind(other, Dot))
        assert other.title == one.title
        names = {line.shown for line in release.ranking} & {*texts(one)}
        assert names <= {*texts(other)}
        assert {*texts(one)} - {*texts(other)}  # some text is in the other language
        digits = [sorted(re.findall(r"\d+", " ".join(texts(each)))) for each in (one, other)]
        assert digits[0] == digits[1]
        assert "items" not in other.description
