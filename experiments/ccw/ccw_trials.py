"""One replicate of an experiment of [CCW]: data, mechanisms, errors.

Simulation only: every bit comes from a seed, so nothing here is private. The mechanisms are the
product's own. Differences from the paper: noise is drawn anew in each replicate, the true scores
are centred, items are in random order (or ties would favour the best, which come first in the
paper), and win counts of users get the noise that they need (erratum E1).

Answers of a file, for experiment 8 of [CCW] (§4.3: students' choice of a university).

References:
    [CCW] Cai, Chakraborty, Wang. Optimal differentially private ranking from pairwise comparisons.
        2025. §4.
    [QSZ21] Qiao, Su, Zhang. Oneshot differentially private top-k selection. 2021.
        2025.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray
from scipy.special import expit

from hushrank.estimation.common.central_noise import (
    calibrate,
    calibrate_win_counts,
    release_win_counts,
)
from hushrank.estimation.common.estimate import (
    mean_rank_difference,
    relative_l2_error,
    relative_linf_error,
    top_k_distance,
)
from hushrank.estimation.common.links import LOGISTIC, Floats
from hushrank.estimation.common.matrices import PairCounts
from hushrank.estimation.comparisons.noisy_counts import (
    OneShotNoise,
    calibrate_one_shot,
    one_shot_top_k,
    reported_sensitivity,
)
from hushrank.estimation.comparisons.perturbed_mle import MleSettings, calibrate_mle, perturbed_mle
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.objective_perturbation import Constants
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

COLUMNS = ("user", "item_i", "item_j", "outcome")


@dataclass(frozen=True, slots=True)
class Answers:
    """Pair counts of a file and how large it is.

    Attributes:
        counts: with ties split: half a win of each item.
        decided: without the ties.
        users: people in the file, with answers that are ties or not.
        most_rows: L, the most answers of a person, ties among them: how many were asked for is
            public, and how many of them ended in a tie is not.
    """

    counts: PairCounts
    decided: PairCounts
    users: int
    most_rows: int


def read_answers(path: Path) -> Answers:
    """Read a Parquet or CSV file with the columns user, item_i, item_j and outcome.

    The outcome is 1 where item_i was preferred, -1 where item_j was, 0 for a tie.

    Raises:
        ValueError: a column is missing, an outcome is another number, or somebody answered a pair
            twice.
    """
    table = pa_csv.read_csv(path) if path.suffix == ".csv" else pa_parquet.read_table(path)
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        have = ", ".join(table.column_names)
        raise ValueError(f"{path}: column {missing[0]} not found; it has {have}")
    user, first, second, outcome = (_integers(path, table, name) for name in COLUMNS)
    if not np.isin(outcome, (-1, 0, 1)).all():
        raise ValueError(f"{path}: column outcome must hold 1, 0 and -1 only")
    _, items = np.unique(np.stack([first, second]), return_inverse=True)
    first, second = items.reshape(2, -1)
    n = int(items.max()) + 1
    pair = np.minimum(first, second) * n + np.maximum(first, second)
    if (first == second).any() or len(np.unique(np.stack([user, pair]), axis=1).T) < len(pair):
        raise ValueError(f"{path}: each user may answer each pair of two items once")
    halves, decided = np.zeros((2, n, n), np.int64)
    for winner, loser, won in ((first, second, outcome), (second, first, -outcome)):
        np.add.at(halves, (winner, loser), won + 1)
        np.add.at(decided, (winner, loser), won == 1)
    rows = np.unique(user, return_counts=True)[1]
    return Answers(
        PairCounts(halves, row_weight=2), PairCounts(decided), len(rows), int(rows.max())
    )


def _integers(path: Path, table: pa.Table, name: str) -> NDArray[np.int64]:
    column = table.column(name)
    if column.null_count or not pa.types.is_integer(column.type):
        raise ValueError(f"{path}: column {name} must hold whole numbers, none missing")
    return np.asarray(column.to_numpy(), np.int64)


COUNTS, ONE_SHOT = "noisy-counts", "one-shot"
ONE_SHOT_DELTA_DP, ONE_SHOT_TUNED = "one-shot-with-delta", "one-shot-tuned"
ONE_SHOT_DELTA = 1e-6  # of the calibration of [QSZ21]
MLE = {Constants.TIGHT: "perturbed-mle-tight", Constants.PAPER: "perturbed-mle-paper"}
L2, LINF, TOP_K = "log_relative_l2", "log_relative_linf", "top_k_error"
RANKS, RANKS_DECIDED = "mean_rank_difference", "mean_rank_difference_ties_dropped"
NEARLY_NO_RIDGE = 1e-3  # users, epsilon infinite

Values = dict[tuple[float, str, str], float]  # (epsilon, method, metric) -> error


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of an experiment.

    Attributes:
        experiment: 1 to 8.
        n: items.
        epsilons: on the same data, each with noise of its own.
        p: chance that a pair is compared; None where users answer.
        m: users; None where comparisons are protected one by one.
        rows: L, answers of a user; 1 for single comparisons.
    """

    experiment: int
    n: int
    epsilons: tuple[float, ...]
    p: float | None = None
    m: int | None = None
    rows: int = 1

    @property
    def expected_comparisons(self) -> float:
        """Expected comparisons of one item: about n p, or 2 m L / n."""
        if self.m is None:
            return (self.n - 1) * (self.p or 0.0)
        return 2 * self.m * self.rows / self.n

    def params(self, epsilon: float) -> PrivacyParams:
        """What is protected at this epsilon."""
        return PrivacyParams(
            unit=Unit.COMPARISON if self.m is None else Unit.USER,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=epsilon,
            max_contributions=self.rows,
        )

    def ridge(self, epsilon: float) -> float:
        """The paper's: 2 sqrt(n p log n) (§4.1), or 8 L kappa2 / epsilon (Theorem 3.1)."""
        if self.m is None:
            return 2 * math.sqrt(self.n * (self.p or 0.0) * math.log(self.n))
        return max(NEARLY_NO_RIDGE, 8 * self.rows * LOGISTIC.kappa2 / epsilon)


def simulated(setting: Setting, replicate: int) -> Values:
    """Errors of all methods at all epsilons, on data of this replicate."""
    rng = generator(setting, replicate)
    k = setting.n // 4
    truth = np.log(np.where(np.arange(setting.n) < k, 1.0, rng.uniform(0.2, 0.7, setting.n)))
    truth = rng.permutation(truth - truth.mean())
    counts = _compared_pairs(truth, setting, rng)
    values: Values = {}
    for epsilon in setting.epsilons:
        bits = seeded_bits(int(rng.integers(2**62)))
        for method, scores in _scores(counts, setting, epsilon, bits):
            errors = {TOP_K: top_k_distance(scores, truth, k)}
            if method in MLE.values() and setting.experiment != 4:
                errors[L2] = math.log(relative_l2_error(scores, truth))
                errors[LINF] = math.log(relative_linf_error(scores, truth))
            values |= {(epsilon, method, metric): error for metric, error in errors.items()}
    return values


def with_real_answers(setting: Setting, answers: Answers, replicate: int) -> Values:
    """Rank differences to the same method without privacy, for all methods and epsilons.

    Once with ties split and once without them, each with noise of its own. Each student answered
    each pair once at most: the tight constants and the counts use that.
    """
    rng = generator(setting, replicate)
    values: Values = {}
    for metric, counts in ((RANKS, answers.counts), (RANKS_DECIDED, answers.decided)):
        exact = dict(_scores(counts, setting, math.inf, seeded_bits(0), distinct_pairs=True))
        for epsilon in setting.epsilons:
            bits = seeded_bits(int(rng.integers(2**62)))
            for method, scores in _scores(counts, setting, epsilon, bits, distinct_pairs=True):
                values[epsilon, method, metric] = mean_rank_difference(scores, exact[method])
    return values


def generator(setting: Setting, replicate: int) -> np.random.Generator:
    """Random numbers of one replicate, whatever else is run."""
    return np.random.default_rng([zlib.crc32(repr(setting).encode()), replicate])


def _compared_pairs(truth: Floats, setting: Setting, rng: np.random.Generator) -> PairCounts:
    n, upper = setting.n, np.triu_indices(setting.n, 1)
    if setting.m is None:
        asked = (rng.random(len(upper[0])) < (setting.p or 0.0)).astype(np.int64)
    else:
        asked = rng.multinomial(setting.m * setting.rows, np.full(len(upper[0]), 1 / len(upper[0])))
    won = rng.binomial(asked, expit(truth[upper[0]] - truth[upper[1]]))
    wins = np.zeros((n, n), np.int64)
    wins[upper], wins.T[upper] = won, asked - won
    return PairCounts(wins)


def _scores(
    counts: PairCounts,
    setting: Setting,
    epsilon: float,
    bits: RandomBits,
    distinct_pairs: bool = False,
) -> Iterator[tuple[str, Floats]]:
    """What each method of the experiment makes of the counts; larger is better."""
    params = replace(setting.params(epsilon), distinct_pairs=distinct_pairs)
    calibration = calibrate_win_counts(params, counts.n_items, counts.row_weight)
    noisy = release_win_counts(counts.win_counts(), calibration, bits)
    yield COUNTS, noisy.wins.astype(np.float64)
    settings = MleSettings(
        expected_comparisons=setting.expected_comparisons, ridge=setting.ridge(epsilon)
    )
    for constants, method in MLE.items():
        mechanism = calibrate_mle(params, replace(settings, constants=constants), counts.n_items)
        yield method, perturbed_mle(counts, mechanism, bits)
    if setting.experiment == 4:
        for method, one_shot in _one_shots(params, setting, counts.row_weight):
            top = one_shot_top_k(counts.win_counts(), one_shot, bits)
            yield method, np.isin(np.arange(setting.n), top).astype(np.float64)


def _one_shots(
    params: PrivacyParams, setting: Setting, row_weight: int
) -> Iterator[tuple[str, OneShotNoise]]:
    """The one-shot baseline, calibrated in three ways.

    Charged for each of the k items on the list: scale 2 k / epsilon. As [QSZ21] have it, for a
    delta: 8 sqrt(k log(n / delta)) / epsilon; their theorem stops at epsilon = 0.2, and above that
    the curve only shows what such noise would do. And as the product calibrates it, by the smaller
    of two charges, which for one comparison is that of all counts: 2 / epsilon.
    """
    n, k = setting.n, setting.n // 4
    charged = reported_sensitivity(params, n, k, row_weight)
    by_item = calibrate(params, charged, "reported_sensitivity")
    yield ONE_SHOT, OneShotNoise(k, by_item)
    scale = 8 * math.sqrt(k * math.log(n / ONE_SHOT_DELTA)) / params.epsilon
    law = NoiseLaw(NoiseKind.LAPLACE, scale)
    yield ONE_SHOT_DELTA_DP, OneShotNoise(k, replace(by_item, law=law))
    yield ONE_SHOT_TUNED, calibrate_one_shot(params, n, k, row_weight)


EDGE_EPSILONS = (0.5, 1.0, 2.5, math.inf)
SWEEP = (0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.5, 4.0, math.inf)
ONE_SHOT_EPSILONS = (0.5, 1.0, 2.5, 5.0)
CEMS_EPSILONS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
ROWS = 5


def simulated_settings() -> Mapping[int, tuple[Setting, ...]]:
    """Experiments 1 to 7 of the paper (§4.1, §4.2)."""
    return {
        1: tuple(Setting(1, n, EDGE_EPSILONS, p=1.0) for n in range(100, 701, 100)),
        2: tuple(Setting(2, 300, EDGE_EPSILONS, p=tenths / 10) for tenths in range(1, 11)),
        3: tuple(Setting(3, 300, SWEEP, p=p) for p in (0.25, 0.5, 0.75, 1.0)),
        4: tuple(Setting(4, n, ONE_SHOT_EPSILONS, p=1.0) for n in (100, 300, 500, 700)),
        5: tuple(Setting(5, n, EDGE_EPSILONS, m=1000, rows=ROWS) for n in range(12, 33, 4)),
        6: tuple(Setting(6, 16, EDGE_EPSILONS, m=m, rows=ROWS) for m in range(250, 2001, 250)),
        7: tuple(Setting(7, 16, SWEEP, m=m, rows=ROWS) for m in (250, 500, 1000, 2000)),
    }
