"""Method `one-shot`: the best k items and nothing else, a baseline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from pydantic import Field

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.matrices import WinCounts
from hushrank.estimation.comparisons.noisy_counts import (
    OneShotNoise,
    calibrate_one_shot,
    one_shot_top_k,
)
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.method import MethodFacts
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Arrays, Attacked, Conclusion, Terms, attacked_counts
from hushrank.flows.methods.draws import CountNoise
from hushrank.flows.methods.formulas import ROWS, WON, Restated, bounds_of, count_noise
from hushrank.flows.methods.reductions import CountedMethod, problems_of_unbalanced
from hushrank.flows.release.released import Made, ReleasedRecord
from hushrank.flows.release.scale import Scale
from hushrank.flows.statement.mechanism import CountMechanism, MechanismOnCounts
from hushrank.flows.statement.record import PrivacyRecord, trusted_record
from hushrank.flows.statement.sentences import compose_statement, number
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import Unit

ONLY_A_LIST = (
    "This method tells which items are best and in which order, and nothing else: no scores, no"
    " intervals, and nothing about the items that are not on the list. Unless per_item_cap or"
    " distinct_pairs bounds how often one item counts, method noisy-counts needs no more noise, and"
    " tells scores too."
)
THEOREM = (
    "Qiao, Su and Zhang, Oneshot differentially private top-k selection (2021), as pure"
    " differential privacy with the scale derived in hushrank.estimation.comparisons.noisy_counts."
)


RESTATED = Restated(
    proof="estimation.comparisons.noisy_counts.one_shot_sensitivity",
    what="wins of each item, of which the best are named",
    lines=(
        ROWS,
        *WON,
        "most = min(L, c, n - 1 if distinct else L)",
        "l1 = row_weight * min(sides * k * most, sum(won[w] for w in winners))",
        "l2_squared = l1 ** 2",
    ),
)


class ReleasedList(ReleasedRecord):
    """The names of the best items; nothing else leaves the protected side.

    Attributes:
        items: best first.
    """

    made = Made.LISTED
    kind: Literal["top-list"] = "top-list"
    items: tuple[str, ...] = Field(min_length=1)

    @property
    def best(self) -> tuple[str, ...]:
        """All items that are released."""
        return self.items


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShotMechanism(MechanismOnCounts):
    """Noise on win counts of which the k largest are named.

    Attributes:
        k: number of items that are named.
    """

    k: int

    @property
    def noise(self) -> OneShotNoise:
        """Noise that draws."""
        return OneShotNoise(self.k, self.counts.calibration)


class OneShot(CountedMethod[OneShotMechanism]):
    """See `estimation.comparisons.noisy_counts`."""

    facts = MethodFacts(
        name="one-shot",
        summary="name the best k items, in order, and nothing else",
        kind="comparisons",
        units=(Unit.USER, Unit.COMPARISON),
        requires={
            "top_k": "missing; method: one-shot finds that many items. Add for example top_k: 3"
        },
        baseline=True,
        design=Design.BALANCED,
        rules=problems_of_unbalanced,
    )
    mechanism = OneShotMechanism
    statistic = Statistic.WIN_COUNTS
    plan_order = 4

    def calibrate(self, config: SurveyConfig) -> OneShotMechanism:
        """Noise on every win count."""
        params, ties, k = config.privacy.params(), config.comparisons.ties, _k(config)
        n_items = len(config.items.catalogue.names)
        try:
            noise = calibrate_one_shot(params, n_items, k, ties.row_weight)
        except ValueError as error:
            raise ConfigError(f"privacy: method: one-shot: {error}") from None
        counts = CountMechanism.of(params, noise.calibration, n_items, ties)
        return OneShotMechanism(counts=counts, k=noise.k)

    def terms(self, mechanism: OneShotMechanism) -> Terms:
        """Cost and noise."""
        return Terms.of(mechanism.counts.calibration, "on every count, none released")

    def draw(self, exact: Arrays, mechanism: OneShotMechanism, bits: RandomBits) -> Arrays:
        """Find the best items by noisy counts, and forget the counts."""
        counts = WinCounts(exact["counts"], mechanism.counts.row_weight)
        return {"items": one_shot_top_k(counts, mechanism.noise, bits)}

    def conclude(
        self, drawn: Arrays, mechanism: OneShotMechanism, config: SurveyConfig
    ) -> Conclusion:
        """The list as a ranking in which all other items share the last place."""
        names = config.items.catalogue.names
        best = [int(item) for item in drawn["items"]]
        return Conclusion(
            estimate=_list_as_estimate(best, len(names)),
            privacy=_record(mechanism),
            released=ReleasedList(items=tuple(names[item] for item in best)),
            scale=Scale.PLACE,
            warnings=(ONLY_A_LIST,),
        )

    def attacked(self, mechanism: OneShotMechanism) -> Attacked:
        """Noise on counts that nobody sees."""
        return replace(attacked_counts(mechanism.counts), law=None, still=None)

    def certified(self, mechanism: OneShotMechanism, drawn: Arrays) -> tuple[CountNoise]:
        """Noise on counts that are never released, of which the best items are named."""
        counts = mechanism.counts
        row_weight = 1 if counts.ties is None else counts.ties.row_weight
        own = {**bounds_of(counts.params, counts.n_items), "row_weight": row_weight}
        formula = RESTATED.formula({**own, "groups": 1, "k": mechanism.k})
        return (count_noise(RESTATED.what, counts.n_items, formula, counts.calibration),)


def _k(config: SurveyConfig) -> int:
    if config.top_k is None:
        raise ConfigError("top_k: missing; method: one-shot finds that many items")
    return config.top_k


def _list_as_estimate(best: list[int], n_items: int) -> Estimate:
    """No score tells more than the place: scores are mean rank less rank, and intervals open."""
    k = len(best)
    rank = np.full(n_items, (k + 1 + n_items) / 2)
    rank[best] = np.arange(1, k + 1)
    return Estimate(
        scores=(n_items + 1) / 2 - rank,
        low=np.full(n_items, -np.inf),
        high=np.full(n_items, np.inf),
        rank=rank,
        rank_low=np.ones(n_items, np.int64),
        rank_high=np.full(n_items, n_items),
        groups=np.minimum(np.ceil(rank), k + 1).astype(np.int64),
    )


def _record(mechanism: OneShotMechanism) -> PrivacyRecord:
    counts, k = mechanism.counts, mechanism.k
    params, law = counts.params, counts.law
    noise = (
        f"Every win count got its own discrete Laplace noise of scale {number(law.scale)}, the"
        f" {k} items with the largest noisy counts were listed, and counts and noise were"
        " deleted: the list is all that leaves."
    )
    statement = compose_statement(
        params,
        counts.guarantee,
        noise=(noise,),
        theorem=THEOREM,
    )
    return trusted_record(
        params,
        statement,
        epsilon=counts.guarantee.epsilon,
        delta=counts.guarantee.delta,
        mechanism="one-shot-laplace" if params.private else "none",
        noise_scale=law.scale,
        noise_variance=law.variance,
        ties=counts.ties,
        parameters={"k": k},
    )


METHODS = (OneShot(),)
