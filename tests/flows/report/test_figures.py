"""Figures: marks are where the numbers are, say them in words, and are named without overlap."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from datetime import date
from xml.etree import ElementTree

import numpy as np
import pytest

from hushrank.flows.errors import ConfigError
from hushrank.flows.release.private_sums import ChosenEpsilons
from hushrank.flows.release.scale import Axis
from hushrank.flows.release.wording import exact_text
from hushrank.flows.report import figures, svg
from hushrank.flows.report.drawings import Cell, Curve, IntervalRow, curves, intervals, matrix
from hushrank.flows.report.figures import figures_of, noise_half_width
from hushrank.flows.report.page import render_report
from hushrank.flows.report.sections import LEADING, history_figure, ranks_over_time
from hushrank.flows.report.svg import check_picture, figure_style, label, width_of
from tests.releases import (
    PAIR_WINS,
    make_nights,
    make_pairs_release,
    make_release,
    make_scores_release,
)

NIGHTS = 6
ALIKE = "a very long name of an item that only differs at its end, number"


def tree(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)


def marks(root: ElementTree.Element) -> dict[str, ElementTree.Element]:
    """The marks by what they say, in their order."""
    return {each[0].text: each for each in root.iter("g") if each.get("role") == "img"}


def of_class(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [each for each in root.iter() if kind in each.get("class", "").split()]


def number(text: str) -> float:
    return float(text.removesuffix("%"))


def places(mark: ElementTree.Element, screen: str) -> tuple[float, dict[str, tuple[float, float]]]:
    """Where a row's dot is, and its intervals, on a wide screen or a phone."""
    (field,) = (each for each in of_class(mark, "field") if screen in each.get("class"))
    ends = {
        kind: (number(line.get("x1")), number(line.get("x2")))
        for kind in ("band", "thin")
        for line in of_class(field, kind)
    }
    return number(of_class(field, "dot")[0].get("cx")), ends


def height_of(mark: ElementTree.Element) -> float:
    return float(re.search(r"translate\(0 ([\d.]+)\)", mark.get("transform"))[1])


@pytest.mark.parametrize("screen", ["wide", "phone"])
def test_dots_and_bands_are_where_the_scores_are(screen):
    release = make_scores_release(PAIR_WINS)
    rows = marks(tree(figures_of(release)[0].svg))
    assert list(rows) == [exact_text(release, line) for line in release.ranking]
    found = [places(row, screen) for row in rows.values()]
    scores = np.array([line.score for line in release.ranking])
    slope, start = np.polyfit(scores, [dot for dot, _ in found], 1)
    assert slope > 0
    for line, (dot, ends) in zip(release.ranking, found, strict=True):
        drawn = [dot, *ends["band"]]
        expected = [start + slope * value for value in (line.score, line.low, line.high)]
        assert drawn == pytest.approx(expected, abs=0.02)
    heights = [height_of(row) for row in rows.values()]
    assert heights == sorted(heights)  # best on top


def test_counts_have_the_band_of_the_noise_and_the_line_of_chance():
    release = make_release()
    rows = marks(tree(figures_of(release)[0].svg)).values()
    found = [places(row, "wide") for row in rows]
    won = np.array([release.released.wins[line.item] for line in release.ranking], float)
    slope, start = np.polyfit(won, [dot for dot, _ in found], 1)
    asked, half = 2 * won.sum() / len(won), noise_half_width(release)
    for line, count, (dot, ends) in zip(release.ranking, won, found, strict=True):
        thin = [line.low / 100 * asked, line.high / 100 * asked]
        drawn = [dot, *ends["band"], *ends["thin"]]
        expected = [start + slope * at for at in (count, count - half, count + half, *thin)]
        assert drawn == pytest.approx(expected, abs=0.02)


def test_an_open_end_stops_at_the_edge_under_an_arrow():
    ends = ((-math.inf, 0.5), (0.2, 9.0), (0.2, 0.8))
    rows = [IntervalRow(name="a", title=f"{k}", at=0.5, band=band) for k, band in enumerate(ends)]
    root = tree(intervals(rows, Axis(0.0, 1.0, ((0.5, "half"),)), words="w", description="d"))
    found = marks(root)
    arrows = [[each.text for each in of_class(row, "arrow")] for row in found.values()]
    assert arrows == [["‹", "‹"], ["›", "›"], []]
    assert [places(row, "wide")[1]["band"] for row in found.values()] == [
        (0, 50),
        (20, 100),
        (20, 80),
    ]


def test_items_in_no_sure_order_share_a_stripe():
    release = make_scores_release(PAIR_WINS)
    groups = (0, 1, 1, 1, 4, 4)
    lines = tuple(
        replace(line, group=group) for line, group in zip(release.ranking, groups, strict=True)
    )
    rows = figures._sets(release.model_copy(update={"ranking": lines}))
    assert rows == [(1, 3), (4, 5)]
    drawn = [IntervalRow(name="a", title=f"{k}", at=0.0, band=None) for k in range(6)]
    axis = Axis(-1.0, 1.0, ())
    root = tree(intervals(drawn, axis, words="", description="", stripes=rows, zero=0.0))
    heights = [height_of(row) for row in marks(root).values()]
    for (first, last), stripe in zip(rows, of_class(root, "stripe"), strict=True):
        top = float(stripe.get("y"))
        bottom = top + float(stripe.get("height"))
        inside = [at for at in heights if top <= at + 15 <= bottom]
        assert inside == heights[first : last + 1]
    assert {number(line.get("x1")) for line in of_class(root, "zero")} == {50}


def test_a_row_of_the_matrix_is_over_its_column():
    release = make_pairs_release(PAIR_WINS)
    names = [line.item for line in release.ranking]
    place = {item: i for i, item in enumerate(release.released.items)}
    wins = np.array([[release.released.wins[place[a]][place[b]] for b in names] for a in names])
    assert not np.array_equal(wins, wins.T)
    found = marks(tree(figures_of(release)[1].svg))
    most = max(wins[a, b] for a, b in np.ndindex(wins.shape) if a != b)
    assert len(found) == wins.size - len(wins)
    for said, mark in found.items():
        row_name, column_name, won = re.fullmatch(r"(.*) over (.*): ([\d,-]+)", said).groups()
        row, column = names.index(row_name), names.index(column_name)
        assert int(won.replace(",", "")) == wins[row, column]
        (cell,), (text,) = of_class(mark, "cell"), of_class(mark, "mid")
        width, height = number(cell.get("width")), float(cell.get("height"))
        assert width * len(names) == pytest.approx(100, abs=0.1)
        corner = number(cell.get("x")), float(cell.get("y"))
        assert corner == pytest.approx((column * width, row * height), abs=0.05)
        middle = number(text.get("x")), float(text.get("y"))
        assert middle == pytest.approx((corner[0] + width / 2, corner[1] + height / 2), abs=0.05)
        assert text.text == won
        assert float(cell.get("fill-opacity")) == pytest.approx(
            max(wins[row, column], 0) / most, abs=1e-3
        )


def test_a_pair_that_nobody_compared_and_the_diagonal_have_no_mark():
    cell = Cell(strength=0.5, number="5", title="a over b: 5")
    root = tree(matrix(["a", "b"], [[None, cell], [None, None]], "d"))
    assert list(marks(root)) == ["a over b: 5"]
    assert len(of_class(root, "empty")) == 3


def nights():
    return make_nights([[600, 500, 400, 300, 200, 100 * (1 + k)] for k in range(NIGHTS)])


def test_ranks_over_time_are_points_at_their_ranks_with_their_intervals_in_words():
    releases = nights()
    figure = history_figure(releases[-1], releases[:-1])
    root = tree(figure.svg)
    said = marks(root)
    across, down = {}, {}
    for release in releases:
        for line in release.ranking:
            (found,) = (
                each
                for text, each in said.items()
                if text.startswith(f"{line.shown}, {release.day}: rank ")
            )
            point = of_class(found, "point")[0]
            across.setdefault(release.day, set()).add(number(point.get("cx")))
            down.setdefault(line.rank, set()).add(float(point.get("cy")))
    assert len(said) == NIGHTS * len(releases[0].ranking)
    assert all(len(places) == 1 for places in (*across.values(), *down.values()))
    days = [min(across[day]) for day in sorted(across)]
    assert np.diff(days) == pytest.approx(np.diff(days)[0], abs=0.02)  # a day after the other
    heights = [min(down[rank]) for rank in sorted(down)]
    assert heights == sorted(heights)  # rank 1 on top
    shown = min(len(releases[0].ranking), LEADING)
    assert len(of_class(root, "whisker")) == NIGHTS * shown


def test_a_line_stands_before_a_release_whose_job_changed():
    releases = nights()
    plain, broken = (
        tree(ranks_over_time(releases, ".svg", breaks).decode())
        for breaks in ((), (releases[3].release_id,))
    )

    def lines(root):
        return [each for each in root.iter() if each.get("class") == "gap"]

    assert lines(plain) == []
    (line,) = lines(broken)
    points = {number(e.get("cx")) for e in broken.iter() if e.get("class") == "point"}
    before, after = sorted(points)[2:4]
    assert number(line.get("x1")) == pytest.approx((before + after) / 2, abs=0.02)


def test_names_at_the_ends_of_curves_keep_apart():
    drawn = [
        Curve(name=f"i{k}", title="t", points=[(0, 5, ""), (1, 5 + k / 100, "")]) for k in range(5)
    ]
    axis = Axis(0.0, 10.0, ((0.0, "0"),))
    root = tree(curves(drawn, Axis(0, 1, ()), axis, height=80, width=600, words="w"))
    names = sorted(float(e.get("y")) for e in root.iter("text") if (e.text or "").startswith("i"))
    assert len(names) == 5
    assert min(np.diff(names)) > 15


def test_bars_are_as_high_as_the_shares_that_they_say():
    chosen = ChosenEpsilons.model_construct(
        low=1.0, high=3.0, answers=(30, 10), information=(0.25, 0.75), weight_of_lies=2.0
    )
    bins = figures._bins(chosen)
    found = marks(tree(figures._chosen(chosen, bins, "d")))
    assert [text.partition(":")[0] for text in found] == ["epsilon 1 to 2", "epsilon 2 to 3"]
    heights = [
        [float(of_class(bar, kind)[0].get("height")) for kind in ("soft", "cell")]
        for bar in found.values()
    ]
    assert np.array(heights) / heights[0][0] == pytest.approx(
        np.array([[75, 25], [25, 75]]) / 75, abs=1e-3
    )


def test_a_long_name_keeps_its_end_and_fits():
    one, two = (label(f"{ALIKE} {k}", 200) for k in ("one", "two"))
    assert one != two
    for name in (one, two, label("東京" * 40, 200), label("W" * 90, 200)):
        assert width_of(name) <= 200
        assert "…" in name
    assert label("short", 200) == "short"
    assert label("a\x1bb", 200) == "a\\x1bb"


def test_rows_without_names_have_the_places_of_the_ranking():
    names = [f"item {k}" for k in range(500)]
    release = make_release(items=names, wins=[100 * k for k in range(500)])
    root = tree(figures_of(release)[0].svg)
    assert len(marks(root)) == figures.MOST
    numbers = [e.text for e in root.iter("text") if e.get("x") == "0" and e.get("aria-hidden")]
    assert (numbers[0], numbers[-1]) == ("1", "500")
    assert len(of_class(root, "gap")) == 1


def test_names_are_text_in_every_drawing():
    names = ["<script>alert(1)</script>", "\"'&", "]]>", "<!--", "</svg>", "$x$"]
    released = [
        make_release(items=names),
        make_pairs_release(PAIR_WINS).model_copy(
            update={
                "ranking": tuple(
                    replace(line, label=name)
                    for line, name in zip(make_pairs_release(PAIR_WINS).ranking, names, strict=True)
                )
            }
        ),
    ]
    for release in released:
        for figure in figures_of(release):
            root = tree(figure.svg)
            assert {e.tag for e in root.iter()} <= {
                "svg",
                "g",
                "title",
                "rect",
                "line",
                "circle",
                "text",
            }
            assert names[0] in " ".join(e.text or "" for e in root.iter("title"))


def test_every_drawing_and_every_mark_has_words_and_every_class_a_rule():
    releases = nights()
    drawings = [
        *(
            each.svg
            for release in (make_release(), make_pairs_release(PAIR_WINS))
            for each in figures_of(release)
        ),
        history_figure(releases[-1], releases[:-1]).svg,
    ]
    style = re.search(r"<style>(.*?)</style>", render_report(make_release()), re.DOTALL)[1]
    rules = set(re.findall(r"\.([a-z][\w-]*)", style))
    for drawing in drawings:
        root = tree(drawing)
        assert root.get("aria-label")
        assert all(each[0].tag == "title" and each[0].text for each in marks(root).values())
        used = {kind for each in root.iter() for kind in each.get("class", "").split()}
        assert used - rules <= {"rows", "curves"}
        assert not [each for each in root.iter() if each.get("style")]  # the policy forbids it


def test_colours_are_those_of_the_page_in_light_and_dark():
    light, dark = figure_style().split("@media screen and (prefers-color-scheme: dark)")
    dark, rules = dark.split("\n.figure", 1)
    for colours in (light, dark):
        defined = set(re.findall(r"--(\w+):", colours))
        assert set(re.findall(r"var\(--(\w+)\)", rules)) <= defined
    assert figure_style() in render_report(make_release())


def test_a_picture_of_its_own_needs_no_style_sheet():
    releases = nights()
    whole = ranks_over_time(releases, ".svg").decode()
    root = ElementTree.fromstring(whole)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "var(" not in whole
    assert "#1c56b8" in whole
    assert ranks_over_time(releases, ".png").startswith(b"\x89PNG")


def test_a_png_without_a_font_is_refused(monkeypatch, tmp_path):
    check_picture(tmp_path / "a.png")
    monkeypatch.setattr(svg, "png_bytes", lambda picture: b"blank")
    check_picture(tmp_path / "a.svg")
    with pytest.raises(ConfigError, match="needs a font such as Arial"):
        check_picture(tmp_path / "a.png")
    with pytest.raises(ConfigError, match=r"must end in \.svg or \.png"):
        check_picture(tmp_path / "a.pdf")


def test_days_that_are_close_are_not_all_named():
    days = [date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3), date(2026, 3, 1)]
    releases = [make_release(night=day) for day in days]
    texts = [each.text for each in tree(ranks_over_time(releases, ".svg").decode()).iter()]
    assert [text for text in texts if text in ("1 Jan", "2 Jan", "3 Jan", "1 Mar")] == [
        "3 Jan",
        "1 Mar",
    ]
