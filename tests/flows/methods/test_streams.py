"""What a method draws and states for a stream: numbers against the formulas, and intervals."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.flows.methods.counts.common import shown_cells, simulated_night
from hushrank.flows.methods.registry import calibrate, load_config
from hushrank.flows.release.stream import StreamRecord
from hushrank.flows.run.drawn import law_of, text_of_law
from hushrank.flows.statement.mechanism import WIN_COUNTS
from hushrank.flows.statement.record import count_record
from hushrank.privacy.randomness import seeded_bits, system_bits
from hushrank.privacy.stream_encoder import ONE
from hushrank.privacy.units import NoiseKind
from tests.flows.config.test_stream import GAUSSIAN, job

FALSE_POSITIVE_RATE = 1e-6  # of one assertion about a simulated share


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def mechanism_of(changes: dict | None = None, **stream):
    return calibrate(load_config(job(changes, **stream))).mechanism


def test_the_noise_is_that_of_the_formula():
    """STREAM: s^2 = k D2 |c|^2 / (2 rho); 365 nights, of which 12 count, 28 apart."""
    mechanism = mechanism_of(bands=1)
    # One person moves 15 wins of one item on each of 12 nights, and 15 others in the replacement.
    assert mechanism.sensitivity.l2_squared == 2 * 12 * 15**2 * ONE**2
    assert mechanism.law.variance / ONE**2 == pytest.approx(2 * 12 * 15**2 / (2 * 0.1))
    assert mechanism.shown_variance == pytest.approx(28 * mechanism.law.variance / ONE**2)
    removed = mechanism_of({"privacy": GAUSSIAN | {"adjacency": "add-remove"}}, bands=1)
    assert 2 * removed.sensitivity.l2_squared == mechanism.sensitivity.l2_squared
    spread = mechanism_of()
    assert spread.shown_variance < mechanism.shown_variance / 4  # 18.0 -> 8.5, squared


def test_what_is_stated_is_what_is_drawn():
    mechanism = mechanism_of()
    record = count_record(WIN_COUNTS, mechanism)
    assert (record.rho, record.mechanism) == (0.1, "discrete-gaussian")
    assert record.noise_scale == pytest.approx(mechanism.law.scale / ONE)
    assert record.sensitivity**2 / (2 * record.noise_variance) == pytest.approx(0.1)
    assert record.sensitivity_l2_squared == mechanism.spend.l2_squared
    said = " ".join(record.statement)
    assert "on all 365 nights of the stream" in said
    assert "at most 12 nights" in said
    assert "any two of them at least 28 nights apart" in said
    assert not any("other nights of this job" in each for each in record.not_protected)


def test_the_law_is_read_as_it_was_stored():
    found = calibrate(load_config(job()))
    again = law_of(text_of_law(found))
    assert again.mechanism == found.mechanism
    assert again.method.facts.name == "noisy-counts"


def test_a_night_s_record_says_what_is_shown():
    mechanism = mechanism_of()
    stream = mechanism.stream
    noisy, first = np.arange(6) - 3, load_config(job()).schedule.stream.first
    record = StreamRecord.of("id", first, 40, stream, noisy, np.ones(28))
    assert (record.number, record.bands, record.noisy) == (41, 28, tuple(range(-3, 3)))
    assert record.shown_variance == pytest.approx(stream.shown_law(40).variance)
    assert record.noise_variance == stream.law.variance


def test_an_simulated_night_has_the_noise_of_the_last_one_and_no_release_is_drawn_so():
    mechanism = mechanism_of()
    counts = np.full(20_000, 50)
    night = simulated_night(counts, mechanism, seeded_bits(3))
    cells = shown_cells(night, mechanism, "counts")
    share = (cells.counts - 50).var() / cells.law.variance
    assert abs(share - 1) < 5 * math.sqrt(2 / len(counts))  # chance below 1e-6
    with pytest.raises(ValueError, match="drawn by draw_night"):
        simulated_night(counts, mechanism, system_bits())


@pytest.mark.parametrize("window", [1, 2, 7, 30, 60])
def test_intervals_of_summed_laplace_noise_hold_it(window):
    """95 % intervals hold between 94 % and 98 % of the sums, whatever their number is."""
    laplace = {"privacy": {"unit": "user", "epsilon": 1.0, "max_contributions": 3}}
    law = mechanism_of(laplace, show={"window": window}).stream.shown_law(300)
    scale = 2 * 12 * 3  # 2 k L / epsilon
    assert law.variance == pytest.approx(window * 2 * scale**2, rel=1e-3)
    assert law.kind is (NoiseKind.LAPLACE if window <= 30 else NoiseKind.GAUSSIAN)
    draws = np.random.default_rng(window).laplace(scale=scale, size=(40_000, window)).sum(axis=1)
    half = float(quantile(np.array(1.0), LEVEL / 2, law.kind, n_draws=1)) * math.sqrt(law.variance)
    held = (np.abs(draws) <= half).mean()
    assert 0.94 < held < 0.98
