"""Verdicts and short numbers: they say what the rows say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushrank.estimation.common.estimate import estimate_of
from hushrank.estimation.common.pair_separation import ScoreErrors
from hushrank.flows.release.boards import RankedItem, better_lines
from hushrank.flows.release.history import SCHEMA, ranking_table
from hushrank.flows.release.publish import ranking_csv
from hushrank.flows.release.release import Release, build_release
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.wording import certainty, chance_text, rank_interval, verdict
from hushrank.flows.report.sections import sure_table_of
from tests.estimation.common.test_all_at_once import errors_of, normal_separation
from tests.releases import make_release, provenance


def ranked(*intervals: tuple[int, int, int], informative: bool = True) -> Release:
    """A release whose items A, B, C ... have these rank intervals and groups."""
    lines = tuple(
        RankedItem(
            item=chr(ord("A") + position),
            rank=position + 1,
            score=0.0,
            low=-0.05,
            high=0.05,
            rank_low=low,
            rank_high=high,
            group=group,
        )
        for position, (low, high, group) in enumerate(intervals)
    )
    return make_release().model_copy(update={"ranking": lines, "informative": informative})


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        (
            [(1, 1, 1), (2, 3, 2), (2, 3, 2), (4, 4, 3)],
            "A leads. B and C are behind it, in no sure order. D comes last.",
        ),
        (
            [(1, 2, 1), (1, 2, 1), (3, 3, 2)],
            "A and B lead and cannot be told apart. C is behind both.",
        ),
        (
            [(1, 3, 1), (1, 3, 1), (1, 3, 1), (4, 4, 2)],
            "A, B and C lead and cannot be told apart. D is behind them.",
        ),
        ([(1, 1, 1), (2, 2, 2), (3, 3, 3)], "A leads. B is behind it. C comes last."),
        ([(1, 3, 1)] * 3, "No item can be told apart from any other."),
        # Only A is reliably better than C, so C is not called behind both.
        ([(1, 2, 1), (1, 3, 1), (2, 3, 2)], "A and B lead and cannot be told apart."),
        # C may be better than B, with which it shares no place, and as good as A.
        (
            [(1, 2, 1), (2, 3, 2), (1, 3, 2)],
            "A leads. C may also belong in the leading group.",
        ),
        (
            [(1, 5, 1)] * 5 + [(6, 6, 2)],
            "A, B, C and 2 more lead and cannot be told apart. F is behind them.",
        ),
    ],
)
def test_verdict(intervals, expected):
    assert verdict(ranked(*intervals)) == expected


def test_verdict_of_noise_says_that_nothing_can_be_learned():
    release = ranked((1, 2, 1), (1, 2, 1), informative=False)
    assert verdict(release) == "Nothing useful can be learned from this release."


def test_a_rank_interval_of_one_rank_is_that_rank():
    first, second = ranked((1, 1, 1), (2, 5, 2)).ranking
    assert rank_interval(first) == "1"
    assert rank_interval(second) == "2–5"


@pytest.mark.parametrize(
    ("chance", "text"), [(0.0, "<1 %"), (0.342, "34 %"), (1.0, ">99 %"), (None, "–")]
)
def test_a_chance_is_never_called_certain(chance, text):
    assert chance_text(chance) == text


def random_release(seed: int, n: int, apart: float) -> Release:
    """A release of random scores with random errors, in whose rows all can happen."""
    generator = np.random.default_rng(seed)
    covariance = errors_of(generator, n)
    scores = generator.normal(scale=apart, size=n).round(1)
    scores -= scores.mean()
    half = 1.96 * np.sqrt(np.diagonal(covariance))
    estimate = estimate_of(
        scores,
        scores - half,
        scores + half,
        normal_separation(scores, covariance),
        errors=ScoreErrors(scores, covariance),
    )
    plain = make_release()
    return build_release(
        provenance(),
        [f"i{position}" for position in range(n)],
        estimate,
        plain.privacy,
        plain.released.model_copy(update={"wins": {f"i{i}": 1 for i in range(n)}}),
        Scale.LOG_ODDS,
    )


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 9), apart=st.floats(0, 30))
def test_headline_places_and_intervals_never_contradict(seed, n, apart):
    release = random_release(seed, n, apart)
    lines, places, said = release.ranking, release.places(), verdict(release)
    better = better_lines([line.surely_above for line in lines])
    for one in range(n):
        for other in range(n):
            if lines[one].low_all > lines[other].high_all:
                assert places[one] != places[other]
                assert better[one, other]
            if one != other and places[one] == places[other]:
                assert places[one].endswith("=")
                assert not better[one, other]
    for place, line in enumerate(lines):
        assert line.sure_ranks == (1 + better[:, place].sum(), n - better[place].sum())
    if " can be told apart from any other" in said:
        assert not better.any()
    if said.startswith(f"{lines[0].shown} leads."):
        assert places[0] == "1"
        behind = better[0, 1:].all()
        assert behind == ("may also belong" not in said)
    for place, line in enumerate(lines):
        if f"{line.shown} comes last." in said:
            assert better[np.arange(n) != place, place].all()
    assert f"{better.sum()} of {n * (n - 1) // 2} pairs" in certainty(release)
    table = sure_table_of(release)
    if table is None:
        assert not better.any()
    else:
        for row, signs in enumerate(table.rows):
            pairs = zip(better[row], better[:, row], strict=True)
            expected = ["+" if up else "−" if down else "·" for up, down in pairs]
            assert list(signs) == [*expected[:row], "", *expected[row + 1 :]]
    assert sum(line.p_best for line in lines) == pytest.approx(1, abs=1e-3)
    assert all(line.p_best <= line.p_top for line in lines)


def test_every_file_has_what_is_sure_and_how_probable_it_is():
    release = make_release()
    header, first, *_ = ranking_csv(release).splitlines()
    later = ["low_all", "high_all", "rank_low_all", "rank_high_all", "surely_above", "p_best"]
    errors = ["se", "se_noise", "se_chance"]
    assert header.split(",")[-10:] == [*later, f"p_top_{release.top}", *errors]
    line = release.ranking[0]
    assert first.split(",")[-10:] == [
        *(f"{line.low_all:.6f}", f"{line.high_all:.6f}"),
        *(f"{line.rank_low_all}", f"{line.rank_high_all}", line.surely_above),
        *(f"{line.p_best:.6f}", f"{line.p_top:.6f}"),
        *(f"{line.se:.6f}", f"{line.se_noise:.6f}", f"{line.se_chance:.6f}"),
    ]
    row = ranking_table([release]).to_pylist()[0]
    assert SCHEMA.names[-12:] == [*later, "p_top", "top", "job", *errors]
    assert [row[name] for name in later] == [getattr(line, name) for name in later]
    again = Release.model_validate_json(release.to_json())
    assert again == release


def test_a_release_of_before_says_none_of_it():
    release = ranked((1, 2, 1), (1, 2, 1), (3, 3, 2))
    assert certainty(release) == ""
    assert sure_table_of(release) is None
    assert "p_best" not in release.to_json()
    assert ranking_table([release]).to_pylist()[0]["p_best"] is None
