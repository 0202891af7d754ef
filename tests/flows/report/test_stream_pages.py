"""Nights of a stream: what changed, ranks over time, and which night the page shows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushrank.flows.release.release import Release, load_release
from hushrank.flows.report.changes import changes_between
from hushrank.flows.report.page import render_report, runs_left
from hushrank.privacy.stream_encoder import Encoder, Workload, decoding
from hushrank.privacy.units import NoiseKind
from tests.flows.report.test_page import BALANCE, Page
from tests.releases import ITEMS, WINS, make_nights, make_release, stream_mechanism, stream_params

EVERY = [WINS] * 6


def widths(before: Release, now: Release) -> np.ndarray:
    """Of the intervals of the changes, by item, in points."""
    rows = changes_between(before, now).rows
    ends = {row.item: [float(end) for end in row.interval.split(" to ")] for row in rows}
    return np.array([ends[item][1] - ends[item][0] for item in ITEMS])


def as_if_independent(night: Release) -> Release:
    return night.model_copy(update={"stream": None})


@pytest.fixture(scope="module")
def nights() -> list[Release]:
    return make_nights(EVERY)


def test_nights_that_share_answers_and_noise_are_compared_more_sharply(nights):
    before, now = nights[4], nights[5]
    shared, alone = widths(before, now), widths(*map(as_if_independent, (before, now)))
    assert (shared < 0.8 * alone).all()
    found = changes_between(before, now)
    assert found.sentence == "No change is larger than noise and chance explain."
    assert (
        "Compared are the answers of 3 November 2026 to 5 November 2026 and those of"
        " 4 November 2026 to 6 November 2026." in found.how
    )
    assert "2 nights are in both, with the same answers" in found.how
    assert changes_between(*map(as_if_independent, (before, now))).how == ""


def test_nights_without_a_night_in_common_share_noise_alone(nights):
    found = changes_between(nights[0], nights[4])
    assert "No night is in both; the noise they have in common is allowed for." in found.how
    assert "the answers of 1 November 2026 and those of 3 November 2026 to" in found.how


def test_nights_of_two_streams_are_independent(nights):
    now = nights[5]
    other = now.stream.model_copy(update={"stream": "another"})
    before, other = nights[4], now.model_copy(update={"stream": other})
    independent = widths(*map(as_if_independent, (before, now)))
    assert (widths(before, other) == independent).all()
    with pytest.raises(ValueError, match="different streams"):
        before.stream.noise_correlation(other.stream)


def test_scores_of_different_estimators_are_independent(nights):
    before, now = nights[4], nights[5]
    by_chance = now.privacy.model_copy(update={"parameters": {"design_of_chance_fits": True}})
    other = now.model_copy(update={"privacy": by_chance})
    assert (widths(before, other) == widths(*map(as_if_independent, (before, now)))).all()


def test_a_change_of_one_night_is_found_where_independent_nights_hide_it():
    """An item wins a quarter more in the last of three nights that are shown together."""
    moved = np.array(WINS)
    moved[1] -= 90
    moved[5] += 90
    nights = make_nights([*EVERY, moved.tolist()])
    found = changes_between(nights[5], nights[6])
    assert found.sentence == "Stockholm is clearly up. Every other change can be noise."
    assert "clearly" not in changes_between(*map(as_if_independent, nights[5:])).sentence


def test_the_record_of_a_night_has_the_covariance_of_the_stream(nights):
    stream = stream_mechanism(3, stream_params()).stream
    for one in range(6):
        for other in range(6):
            own = stream.variances[one] * stream.variances[other]
            stated = nights[one].stream.noise_correlation(nights[other].stream)
            assert stated == pytest.approx(stream.covariance(one, other) / math.sqrt(own))
    told = nights[5].stream
    kernel = decoding(Workload(told.window), Encoder(told.coefficients), 6)
    noisy = np.array([night.stream.noisy for night in nights])
    shown = np.array(list(nights[5].released.wins.values()))
    assert shown == pytest.approx(kernel[::-1] @ noisy)
    assert sum(told.answers) == pytest.approx(shown.sum())


def test_a_night_is_read_as_it_was_written(nights, tmp_path):
    path = tmp_path / "release.json"
    path.write_text(nights[5].to_json())
    again = load_release(path)
    assert again == nights[5]
    assert all(0 <= line.noise_share <= 1 for line in again.ranking)
    assert "noise_share" not in make_release().to_json()


def test_the_page_says_which_night_it_is_and_what_it_shows(nights):
    html = render_report(nights[5], BALANCE, nights[4], nights[:5])
    words = Page(html).words()
    assert (
        "Night 6 of 8 of a stream, 6 November 2026. Shown are 4 November 2026 to 6 November 2026."
        " One budget pays for all nights until 8 November 2026; this one cost nothing more."
    ) in words
    assert "adding nights costs nothing" in words
    assert "at most 3 nights of the 8 of the stream, any two of them at least 3 nights" in words
    assert "Since the release of 5 November 2026" in words
    assert "Ranks over time" in words
    assert "The ranks of all items on the last 6 nights" in words
    assert html.count("<figure>") == 1 + render_report(nights[5], BALANCE).count("<figure>")
    assert render_report(nights[5], BALANCE, nights[4], nights[:5]) == html


def test_the_terms_are_in_the_table_of_the_guarantee(nights):
    page = Page(render_report(nights[5]))
    facts = dict(row for table in page.tables for row in table if len(row) == 2)
    stream = stream_mechanism(3, stream_params()).stream
    assert facts["Stream"] == "5ea3"
    assert facts["Nights of the stream"] == "8, from 2026-11-01 to 2026-11-08"
    assert facts["Nights that count per person, at most"] == "3"
    assert facts["Nights from one of them to the next, at least"] == "3"
    assert facts["Nights shown together"] == "3"
    assert facts["Nights over which a night is spread"] == "3"
    shown = float(facts["Noise standard deviation of a shown count"])
    assert shown == pytest.approx(math.sqrt(stream.variances[5]), rel=1e-5)


def test_the_first_night_says_what_the_stream_cost(nights):
    words = Page(render_report(nights[0], BALANCE)).words()
    assert "Night 1 of 8 of a stream, 1 November 2026. That night alone is shown." in words
    assert "One budget pays for all nights until 8 November 2026; it was charged with" in words
    assert "Ranks over time" not in words


def test_a_night_alone_and_all_so_far_are_named():
    for window, text in (
        (1, "That night alone is shown."),
        (None, "1 November 2026 to 3 November"),
    ):
        nights = make_nights(EVERY[:3], window)
        assert text in Page(render_report(nights[2], BALANCE)).words()
        assert changes_between(nights[1], nights[2]).rows


def test_a_night_costs_nothing_so_no_page_counts_how_many_more_fit():
    pure = stream_params(noise=NoiseKind.LAPLACE, delta=0.0)
    nights = make_nights(EVERY[:2], params=pure)
    assert nights[1].privacy.delta == 0
    assert runs_left(nights[1], BALANCE) is None
    assert runs_left(nights[1].model_copy(update={"stream": None}), BALANCE) is not None


def test_nights_that_say_nothing_are_not_drawn():
    nights = make_nights([[1] * 6, [1] * 6, [1] * 6])
    assert not nights[2].informative
    assert "Ranks over time" not in Page(render_report(nights[2], None, None, nights[:2])).words()
