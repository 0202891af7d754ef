"""How accurate every method for comparisons is at equal epsilon, beside naive ways and no privacy.

For each setting, epsilon and method, the mean over several simulated logs of: Kendall tau with the
true scores, the root mean square error of the scores, the share of 95 % intervals of scores that
hold the truth, and the share of rank intervals that do. Two naive baselines release what a
hand-made script would: noisy wins, ranked by their number; and the noisy matrix of wins, clipped at
zero and fitted by Bradley-Terry. `no privacy` fits the exact matrix.

With `--data FOLDER`, the files `pair_*.parquet` there (user, item_i, item_j, outcome +1, -1 or 0)
make settings too: who met whom how often is theirs, the truth is a Bradley-Terry fit to them, and
who won is drawn anew from it, since otherwise nobody would know the truth.

    python -m benchmarks.frontier [--logs 10] [--data FOLDER] [--write docs]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.special import chdtrc

from benchmarks.designs import METHODS, held
from benchmarks.frontier_page import HEADER, Found, keep, kept_in, losers, table_line, write
from hushrank.estimation.common.central_noise import (
    calibrate_pair_counts,
    calibrate_win_counts,
    release_pair_counts,
    release_win_counts,
)
from hushrank.estimation.common.estimate import Estimate, nothing_learned
from hushrank.estimation.common.links import LOGISTIC, Floats
from hushrank.estimation.common.matrices import PairCounts, WinCounts
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.estimation.fit.likelihood import Objective
from hushrank.estimation.fit.pair_fit import AnswerVariance, estimate_from, fit_sums
from hushrank.estimation.fit.solve import minimise
from hushrank.flows.config.check import check_config
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.registry import METHODS as CONFIGURED
from hushrank.flows.planning.plan.choice import clipped_fit
from hushrank.pipelines.simulate.planned_survey import Arena
from hushrank.privacy.randomness import RandomBits, seeded_bits
from hushrank.privacy.units import Adjacency, PrivacyParams, Unit

EPSILONS = (0.5, 1.0, 2.0, 4.0)
TRUTH_RIDGE = 2.0  # of the fit to real answers
MANY = 300  # items from where fewer logs do
MOST_ITEMS = 1_000
UNLIKELY = 1e-6  # chance of a real design below which it is none of chance
SPECTRAL = ", spectral"  # after the method whose estimator it is
NO_SCORES = ("noisy-counts", "naive: noisy wins")  # shares of wins, not log-odds

Ranker = Callable[[PairCounts, PrivacyParams, RandomBits], Estimate]


def no_privacy(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """The exact matrix, fitted."""
    return nothing_learned(clipped_fit(counts))


def clipped(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """The noisy matrix, clipped at zero and fitted."""
    calibration = calibrate_pair_counts(params, counts.n_items)
    return nothing_learned(clipped_fit(release_pair_counts(counts, calibration, bits)))


def by_noisy_wins(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """The order of noisy wins."""
    calibration = calibrate_win_counts(params, counts.n_items)
    wins = release_win_counts(WinCounts(counts.won()), calibration, bits).wins
    return nothing_learned(wins - wins.mean())


def debiased(counts: PairCounts, params: PrivacyParams, bits: RandomBits) -> Estimate:
    """Method `debiased-rr`: each answer randomised before it is sent, with epsilon / L."""
    epsilon = params.epsilon / params.max_contributions
    generator = np.random.default_rng(int.from_bytes(bits.take(8), "little"))
    t, flip = math.tanh(epsilon / 2), 1 / (1 + math.exp(epsilon))
    wins = np.triu(counts.dense(), 1)
    asked = wins + np.triu(counts.dense().T, 1)
    said = generator.binomial(wins, 1 - flip) + generator.binomial(asked - wins, flip)
    variance = AnswerVariance(least_weight=t**2)
    return estimate_from(
        fit_sums(t * (said - flip * asked), t**2 * asked.astype(float), LOGISTIC, variance, 1.0)
    )


OURS = [name for name in METHODS if name != "hand-tuned"]
RANKERS: dict[str, Ranker] = {
    **{name: METHODS[name] for name in OURS},
    "debiased-rr": debiased,
    "naive: clipped + Bradley-Terry": clipped,
    "naive: noisy wins": by_noisy_wins,
    "no privacy": no_privacy,
}


@dataclass(frozen=True)
class Setting:
    """Logs to draw.

    Attributes:
        name: of the setting.
        n_items: how many.
        log: draws a truth and the answers.
        design: what an operator would state of it (`input.design`).
        rows: L, answers of a person, all of which are protected; 1: each answer alone.
    """

    name: str
    n_items: int
    log: Callable[[np.random.Generator], tuple[Floats, PairCounts]]
    design: str
    rows: int = 1

    def params(self, epsilon: float) -> PrivacyParams:
        """What is promised."""
        unit = Unit.COMPARISON if self.rows == 1 else Unit.USER
        return PrivacyParams(
            unit=unit,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=epsilon,
            max_contributions=self.rows,
        )

    def taken_by_auto(self, epsilon: float) -> str:
        """The method that `auto` takes."""
        config = self._config("auto", epsilon)
        return CONFIGURED["auto"].resolve(config).method.facts.name

    def offers(self, name: str) -> bool:
        """Whether a configuration that states the design may name this method of ours."""
        try:
            self._config(name, 1.0)
        except ConfigError:
            return False
        return True

    def _config(self, method: str, epsilon: float) -> SurveyConfig:
        privacy = {"unit": "comparison", "adjacency": "replace-one", "epsilon": epsilon}
        columns = {"left": "i", "right": "j", "outcome": "won"}
        if self.rows > 1:
            privacy |= {"unit": "user", "max_contributions": self.rows}
            columns["user"] = "who"
        content = {
            "name": "frontier",
            "input": {
                "kind": "comparisons",
                "paths": ["answers.parquet"],
                "design": self.design,
                "columns": columns,
            },
            "items": {"count": self.n_items},
            "method": method.removesuffix(SPECTRAL),
            "model": {"estimator": "spectral"} if method.endswith(SPECTRAL) else {},
            "privacy": privacy,
            "output": "out",
            "confidential": "work",
            "ledger": {"path": "ledger.jsonl", "epsilon": 100},
        }
        facts = {name: method.facts for name, method in CONFIGURED.items()}
        return check_config(Path("frontier.yaml").absolute(), content, facts)


def simulated(arena: Arena) -> Callable[[np.random.Generator], tuple[Floats, PairCounts]]:
    """Logs of an arena."""

    def draw(generator: np.random.Generator) -> tuple[Floats, PairCounts]:
        truth = arena.truth(generator)
        return truth, arena.answers(truth, arena.design(truth, generator), generator)

    return draw


A = Arena(20, 20_000, zipf=0.0)
B = Arena(30, 20_000, zipf=1.0, late=5)
C = Arena(1000, 200_000, zipf=0.5)
SETTINGS = tuple(
    Setting(f"{name}, {who}", arena.n_items, simulated(arena), design, rows)
    for name, arena, design in (
        ("A: 20 items, balanced, 20 000 answers", A, "balanced"),
        ("B: 30 items, Zipf exposure, 5 of them new, 20 000 answers", B, "random"),
        ("C: 1 000 items, sparse, 200 000 answers", C, "random"),
    )
    for who, rows in (("an answer protected", 1), ("a person of 5 answers protected", 5))
)


def real_settings(folder: Path) -> Iterator[Setting]:
    """A setting for each file of comparisons."""
    for path in sorted(folder.glob("pair_*.parquet")):
        table = pq.read_table(path)
        i, j, outcome = (table[name].to_numpy() for name in ("item_i", "item_j", "outcome"))
        items, places = np.unique(np.concatenate([i, j]), return_inverse=True)
        n, (i, j) = len(items), np.split(places, 2)
        if n > MOST_ITEMS:
            continue
        wins = np.zeros((n, n))
        np.add.at(wins, (i, j), (outcome > 0) + 0.5 * (outcome == 0))
        np.add.at(wins, (j, i), (outcome < 0) + 0.5 * (outcome == 0))
        truth = minimise(Objective(wins, LOGISTIC, TRUTH_RIDGE, np.zeros(n))).theta
        asked = np.triu(np.rint(wins + wins.T).astype(np.int64), 1)
        name = path.stem.removeprefix("pair_")
        yield Setting(
            f"{name}: {n} items, {asked.sum()} answers, an answer protected",
            n,
            redrawn(truth, asked),
            "random" if met_by_chance(asked) else "any",
        )


def met_by_chance(asked: np.ndarray) -> bool:
    """Whether items met in proportion to how often each is shown, by a chi-square test.

    Who looks at the exact answers may say so; an operator knows how the pairs were drawn.
    """
    met = asked + asked.T
    design = Exposures(met.sum(axis=1).astype(float), 0.0).design()
    upper = np.triu_indices(len(met), 1)
    squares = np.square(met[upper] - design[upper]) / design[upper]
    return bool(chdtrc(len(squares) - len(met), squares.sum()) > UNLIKELY)


def redrawn(
    truth: Floats, asked: np.ndarray
) -> Callable[[np.random.Generator], tuple[Floats, PairCounts]]:
    """Logs of a real design."""
    chance = LOGISTIC.cdf(np.subtract.outer(truth, truth))

    def draw(generator: np.random.Generator) -> tuple[Floats, PairCounts]:
        won = generator.binomial(asked, chance)
        return truth, PairCounts((won + (asked - won).T).astype(np.int64))

    return draw


def measure(setting: Setting, epsilon: float, logs: int, methods: Collection[str]) -> list[Found]:
    """Methods on the same logs, whichever of them are asked for."""
    generator = np.random.default_rng(5)
    values: dict[str, list[tuple[float, ...]]] = {}
    for _ in range(logs if setting.n_items < MANY else max(2, logs // 10)):
        truth, counts = setting.log(generator)
        for name, rank in RANKERS.items():
            seed = int(generator.integers(2**60))
            if name not in methods:
                continue
            ranked = rank(counts, setting.params(epsilon), seeded_bits(seed))
            tau, scores, ranks, _ = held(ranked, truth)
            error = math.sqrt(float(np.square(ranked.scores - truth).mean()))
            if name in NO_SCORES:
                error = scores = math.nan
            if ":" in name or name == "no privacy":
                scores = ranks = math.nan
            values.setdefault(name, []).append((tau, error, scores, ranks))
    return [
        Found(setting.name, epsilon, name, *(float(x) for x in np.mean(rows, axis=0)))
        for name, rows in values.items()
    ]


def main() -> None:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--logs", type=int, default=10)
    parser.add_argument("--data", type=Path, help="folder of real comparisons")
    parser.add_argument("--settings", default="", help="only those whose names start with these")
    parser.add_argument("--keep", type=Path, help="file of what was measured: only the rest is")
    parser.add_argument("--write", type=Path, help="folder of frontier.md")
    options = parser.parse_args()
    settings = [*SETTINGS, *(real_settings(options.data) if options.data else ())]
    chosen = tuple(options.settings.split(","))
    kept = kept_in(options.keep)
    found: list[Found] = []
    autos: dict[tuple[str, float], str] = {}
    offered: dict[str, frozenset[str]] = {}
    for setting in settings:
        if not setting.name.startswith(chosen):
            continue
        print(f"\n### {setting.name}\n\n{HEADER}", flush=True)
        offered[setting.name] = frozenset(name for name in OURS if setting.offers(name))
        for epsilon in EPSILONS:
            autos[setting.name, epsilon] = setting.taken_by_auto(epsilon)
            mine = [
                each for each in kept if (each.setting, each.epsilon) == (setting.name, epsilon)
            ]
            missing = RANKERS.keys() - {each.method for each in mine}
            if missing:
                measured = measure(setting, epsilon, options.logs, missing)
                keep(measured, options.keep)
                mine = [*mine, *measured]
            mine.sort(key=lambda each: list(RANKERS).index(each.method))
            found += mine
            print("\n".join(map(table_line, mine)), flush=True)
    print("\n".join(losers(found, offered)))
    if options.write is not None:
        write(found, offered, autos, options.write)


if __name__ == "__main__":
    main()
