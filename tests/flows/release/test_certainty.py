"""One notion of certainty: what is said of the first item, in every place that says it."""

from __future__ import annotations

import csv
import functools
import html
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hushrank.estimation.common import pair_separation
from hushrank.estimation.common.estimate import estimate_of
from hushrank.estimation.common.pair_separation import ScoreErrors
from hushrank.flows.display import show_outcome
from hushrank.flows.interfaces.cli.history_commands import _cells
from hushrank.flows.interfaces.documents.runs import summary_of
from hushrank.flows.interfaces.python.release import Release as PythonRelease
from hushrank.flows.nights.flow import ranking_rows, summary
from hushrank.flows.nights.nights import NightResult, night_text
from hushrank.flows.release.boards import GroupRanking, RankedItem, better_lines
from hushrank.flows.release.publish import ranking_csv
from hushrank.flows.release.release import Release, build_release
from hushrank.flows.release.scale import Scale, interval_text, score_decimals
from hushrank.flows.release.wording import (
    MEANING_OF_VERY_LIKELY,
    RELIABLY,
    certainty,
    chance_text,
    interval_headings,
    verdict,
)
from hushrank.flows.report import page
from hushrank.flows.run.stages import Outcome
from hushrank.flows.terminal import Console
from tests.estimation.common.test_all_at_once import normal_separation
from tests.flows.nights.test_artifacts import BALANCE
from tests.releases import make_release, provenance

GAPS = (0.0, 1.0, 1.8, 2.3, 2.7, 3.2, 4.0, 6.0)  # of the first two, in standard errors
SAID = {
    "sure": re.compile(r"^i\d+ (leads|is the hardest)\. (?!.*may also belong)"),
    "very likely": re.compile(
        r"^i\d+ (very likely leads|is very likely harder than) [^.;]*"
        r"(; not certain when all items are judged at once|, but not reliably)\. "
    ),
    "open": re.compile(
        r"^(i\d+.* and cannot be told apart|No item can be told apart from any other"
        r"|i\d+ (leads|is the hardest)\. .* may also belong in the leading group)\."
    ),
}


def release_of(n: int, gap: float, *, rest: float, unequal: bool, scale: Scale) -> Release:
    """A release whose first two items are `gap` standard errors apart, the others `rest` below."""
    sd = np.where(np.arange(n) % 2 == 1, 1.7, 0.6) if unequal else np.ones(n)
    scores = np.full(n, -rest)
    scores[0], scores[1] = gap * np.hypot(sd[0], sd[1]), 0.0
    scores -= scores.mean()
    covariance = np.diag(sd**2)
    estimate = estimate_of(
        scores,
        scores - 1.96 * sd,
        scores + 1.96 * sd,
        normal_separation(scores, covariance),
        errors=ScoreErrors(scores, np.square(sd)),
    )
    plain = make_release()
    items = [f"i{position}" for position in range(n)]
    released = plain.released.model_copy(update={"wins": dict.fromkeys(items, 1)})
    return build_release(provenance(), items, estimate, plain.privacy, released, scale)


def every_release() -> list[Release]:
    """A grid of gaps, numbers of items, errors, and distances of all others."""
    return [
        release_of(n, gap, rest=rest, unequal=unequal, scale=scale)
        for n in (2, 3, 12, 100)
        for gap in GAPS
        for unequal in (False, True)
        for rest, scale in ((0.0, Scale.LOG_ODDS), (9.0, Scale.DIFFICULTY))
        if rest == 0 or 2 < n < 100
    ]


@pytest.fixture(scope="module")
def grid() -> Iterator[list[Release]]:
    """All releases, of 2 000 draws: a chance then has a standard error of 0.011 at most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            pair_separation, "normal_draws", functools.cache(pair_separation.normal_draws)
        )
        patch.setattr(pair_separation, "DRAWS", 2_000)
        yield every_release()


def outcome_of(release: Release) -> Outcome:
    return Outcome(release=release, folder=Path("/srv/out"), spent=None, balance=BALANCE)


def page_text(release: Release) -> str:
    """What a reader of the page reads."""
    source = re.sub(r"<(style|script)>.*?</\1>", "", page.render_report(release), flags=re.S)
    return plain(source)


def plain(source: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", source)).split())


def terminal_text(release: Release) -> str:
    out = io.StringIO()
    show_outcome(Console(file=out, width=4000), outcome_of(release))
    return out.getvalue()


def texts_of(release: Release) -> dict[str, str]:
    """The text of each place that says what a ranking shows."""
    python = PythonRelease.of(outcome_of(release))
    night = NightResult(night=release.day, status="published", outcome=outcome_of(release))
    return {
        "page": page_text(release),
        "terminal": terminal_text(release),
        "nights": night_text(night),
        "history": _cells(release)[-1],
        "json": summary_of(release).says,
        "python": repr(python),
        "notebook": plain(python._repr_html_()),
        "prefect": summary(outcome_of(release)).replace("\\", ""),
    }


def case_of(release: Release) -> str:
    """Which case of the table in `wording` it is, from the numbers of the lines alone."""
    lines = release.ranking
    better = better_lines([line.surely_above for line in lines])
    if better[0, 1:].all():
        return "sure"
    if any(chance_text(line.p_best) in (">99 %", *likely_texts()) for line in lines):
        return "very likely"
    return "open"


def likely_texts() -> list[str]:
    return [f"{percent} %" for percent in range(95, 101)]


def test_the_grid_holds_all_cases_for_each_number_of_items(grid):
    found = {(len(release.ranking), case_of(release)) for release in grid}
    assert found == {(n, case) for n in (2, 3, 12, 100) for case in SAID}


def test_the_first_sentence_is_that_of_its_case(grid):
    for release in grid:
        said = verdict(release) + " "
        cases = [case for case, form in SAID.items() if form.search(said)]
        assert cases == [case_of(release)], said


def test_an_interval_has_the_same_heading_and_ends_in_every_place():
    """95 % means the item alone where the heading says so, and all at once where it says that."""
    release = make_release()
    assert interval_headings(release) == ("95 % alone", "95 % all at once")
    texts = texts_of(release)
    decimals = score_decimals(release.scale, release.ranking)
    for place in ("page", "terminal", "notebook"):
        words = " ".join(texts[place].split())
        line = release.ranking[0]
        alone, together = (
            interval_text(release.scale, each, decimals) for each in (line, line.at_once)
        )
        assert alone != together
        headings = [words.index(heading) for heading in interval_headings(release)]
        assert headings == sorted(headings), place
        row = words[words.index(f"1 {line.shown} ", headings[1]) :]
        assert row.index(alone) < row.index(together), place
    assert {"95 % alone", "rank"} <= ranking_rows(release)[0].keys()
    published = next(csv.DictReader(io.StringIO(ranking_csv(release))))
    assert [float(published[name]) for name in ("low", "high")] == pytest.approx(
        [release.ranking[0].low, release.ranking[0].high], abs=1e-6
    )


def test_all_places_say_the_same_and_none_contradicts_a_probability(grid):
    for release in grid:
        said = verdict(release)
        for place, text in texts_of(release).items():
            assert said in text, (place, said)
            assert MEANING_OF_VERY_LIKELY in text or place != "page"
            if case_of(release) != "open":
                assert "told apart" not in text, (place, said)
            if place in ("page", "terminal", "notebook"):
                assert certainty(release) in text
            if "reliably" in text.replace("not reliably", "").lower():
                assert RELIABLY in text or certainty(release) in text, (place, said)


def test_reliably_is_said_only_of_what_holds_for_all_items_at_once(grid):
    for release in grid:
        lines, said = release.ranking, verdict(release)
        better = better_lines([line.surely_above for line in lines])
        n = len(lines)
        pairs = f"{better.sum():,} of {n * (n - 1) // 2:,} pairs are reliably ordered"
        assert certainty(release).startswith(pairs)
        unsure = re.findall(r"(?:^|\. )((?:i\d+|, | and |\d+ more)+) may also belong", said)
        for name in re.findall(r"i\d+", " ".join(unsure)):
            line = next(place for place, line in enumerate(lines) if line.shown == name)
            assert not better[:, line].any()


def test_a_release_that_says_nothing_of_all_items_at_once_never_says_reliably(grid):
    names = ("low_all", "high_all", "rank_low_all", "rank_high_all", "surely_above")
    unsaid = dict.fromkeys((*names, "p_best", "p_top"))
    for release in grid[::7]:
        lines = tuple(replace(line, **unsaid) for line in release.ranking)
        of_before = release.model_copy(update={"ranking": lines, "top": None})
        for place, text in texts_of(of_before).items():
            assert "very likely" not in text.lower()
            assert not re.search(r".{30}(?<!not )reliably.{30}", text), place


def test_each_group_has_the_sentence_of_its_own_ranking(grid):
    """Of one release all groups; each has as many items as the ranking of all together."""
    together, *others = [release for release in grid if len(release.ranking) == 12]
    groups = tuple(
        GroupRanking(
            name=f"group {number}",
            own=1.0,
            informative=True,
            ranking=release.ranking,
            released=release.released,
        )
        for number, release in enumerate(others)
        if release.scale is together.scale
    )
    text = page_text(together.model_copy(update={"groups": groups}))
    boards = dict(re.findall(r"(group \d+) (.*?) Decided by its own answers", text))
    for group in groups:
        release = together.model_copy(update={"ranking": group.ranking})
        assert boards[group.name] == verdict(release)


def line_of(item: str, ranks: tuple[int, int], group: int, p_best: float | None) -> RankedItem:
    ends = {"low": -1.0, "high": 1.0, "low_all": -2.0, "high_all": 2.0}
    low, high = ranks
    return RankedItem(
        item=item,
        rank=1,
        score=0.0,
        group=group,
        rank_low=low,
        rank_high=high,
        rank_low_all=low,
        rank_high_all=high,
        p_best=p_best,
        **ends,
    )


NOT_CERTAIN = "not certain when all items are judged at once."


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            [("A", (1, 2), 1, 0.9951), ("B", (1, 2), 1, 0.0049), ("C", (3, 3), 2, 0.0)],
            f"A very likely leads B; {NOT_CERTAIN} C is behind both."
            " Most likely the best: A (>99 %).",
        ),
        (  # just below what is printed as 95 %
            [("A", (1, 2), 1, 0.9449), ("B", (1, 2), 1, 0.0551), ("C", (3, 3), 2, 0.0)],
            "A and B lead and cannot be told apart. C is behind both."
            " Most likely the best: A (94 %) and B (6 %).",
        ),
        (  # printed as 95 %
            [("A", (1, 3), 1, 0.9451), ("B", (1, 3), 1, 0.0049), ("C", (1, 3), 1, 0.05)],
            f"A very likely leads B and C; {NOT_CERTAIN}"
            " Most likely the best: A (95 %) and C (5 %).",
        ),
        (  # C shares the place of B, and may be the best
            [("A", (1, 2), 1, 0.97), ("B", (2, 3), 2, 0.0), ("C", (1, 3), 2, 0.03)],
            f"A very likely leads C; {NOT_CERTAIN} Most likely the best: A (97 %).",
        ),
        (  # D is reliably worse than A and B, which are not those that may be the best
            [
                *(("A", (1, 2), 1, 0.97), ("B", (2, 3), 2, 0.0), ("C", (1, 4), 2, 0.03)),
                ("D", (3, 4), 3, 0.0),
            ],
            f"A very likely leads C; {NOT_CERTAIN} Most likely the best: A (97 %).",
        ),
        (
            [("A", (1, 2), 1, 0.7), ("B", (2, 3), 2, 0.0), ("C", (1, 3), 2, 0.3)],
            "A leads. C may also belong in the leading group."
            " Most likely the best: A (70 %) and C (30 %).",
        ),
        (
            [("A", (1, 2), 1, 0.03), ("B", (1, 2), 1, 0.97), ("C", (3, 3), 2, 0.0)],
            f"B very likely leads A; {NOT_CERTAIN} A has a higher score, which is known less well."
            " C is behind both. Most likely the best: B (97 %).",
        ),
        (  # only one of two probabilities is known, or none
            [("A", (1, 2), 1, 0.97), ("B", (1, 2), 1, None)],
            "A very likely leads B, but not reliably. Most likely the best: A (97 %).",
        ),
        (
            [("A", (1, 2), 1, None), ("B", (1, 2), 1, None), ("C", (3, 3), 2, None)],
            "A and B lead and cannot be told apart. C is behind both.",
        ),
        (  # a probability that contradicts the order that holds at once is not repeated
            [("A", (1, 1), 1, 0.02), ("B", (2, 3), 2, 0.97), ("C", (2, 3), 2, 0.01)],
            "A leads. B and C are behind it, in no sure order.",
        ),
    ],
)
def test_verdict_of_a_case(lines, expected):
    release = make_release().model_copy(update={"ranking": tuple(line_of(*line) for line in lines)})
    assert verdict(release) == expected


def test_items_that_the_terminal_leaves_out_do_not_widen_its_table(monkeypatch):
    assert "items are in ranking.csv" not in terminal_text(make_release())
    monkeypatch.setattr("hushrank.flows.display.MOST_ROWS", 1)
    release = make_release()
    printed = terminal_text(release)
    n = len(release.ranking)
    assert f"{n - 1} more\n" in re.sub(r" +\n", "\n", printed)
    assert f"All {n} items are in ranking.csv." in printed
