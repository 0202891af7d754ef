"""Which local mechanism loses less of what a method publishes, at the same loss of a whole ranking.

From public facts alone: how many items a list has at most, epsilon and the method. Both errors are
those of one ranking where all orders are equally likely, which is where items are hardest to tell
apart; over n rankings they shrink alike, so their ratio holds for any number of people.

*Scores* (`borda`, `bradley-terry`) follow from half nets. Undone place by place, a synthetic
ranking counts w[k] for the item at place k, and every place is equally likely: variance mean(w^2),
and the bias that is left (`net_evidence.place_weights`, for `PEOPLE` rankings). Of d random pairs
among P, an item's half net has the variance

    P (m - 1) / (4 d t^2)  +  (1 - 1/d) P / (P - 1) ((m^2 - 1) / 12 - (m - 1) / 4)

the first from each answer, the second because one ranking's answers agree among themselves.

*Orders* (`kemeny`) follow from pairs, and those of neighbours are the hardest. A synthetic ranking
keeps the order of neighbours with probability c, so a pair counts as it is with the signal 2c - 1
on the noise 1; or it is undone by pairs, with the noise that `pair_debiasing` has. The better of
the two is compared with the noise P / (d t^2) of random pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushrank.estimation.rankings.net_evidence import place_weights
from hushrank.estimation.rankings.pair_debiasing import pair_estimator
from hushrank.estimation.rankings.place_laws import mallows_places
from hushrank.estimation.rankings.ranking_counts import MOST_BY_PLACE, n_place_pairs
from hushrank.privacy.mallows import concordance_probability
from hushrank.privacy.random_pairs import RandomPairs, n_pairs

PEOPLE = 1_000  # of whom the bias of undone places must be hidden by chance
UNDONE_BY_PAIRS = 25  # items; of longer lists the counts by place are too many anyway


@dataclass(frozen=True, slots=True)
class Predicted:
    """Standard errors of one ranking, of the two mechanisms at the same loss of a whole ranking."""

    mallows: float
    random_pairs: float

    @property
    def takes_pairs(self) -> bool:
        """Whether random pairs lose less."""
        return self.random_pairs < self.mallows

    @property
    def fewer_people(self) -> float:
        """How many times as many rankings the worse mechanism needs for the same error."""
        return (max(self.mallows, self.random_pairs) / min(self.mallows, self.random_pairs)) ** 2


def mallows_epsilon(whole: float, n_items: int) -> float:
    """Epsilon of `mallows` with which a whole ranking of m items loses `whole`, rounded down."""
    return float(np.nextafter(2 * whole / n_items, 0.0))


def predicted(law: RandomPairs, n_items: int, *, by_pairs: bool) -> Predicted:
    """The errors where lists have `n_items` items.

    Args:
        law: of random pairs that hide the order.
        n_items: m, at least 2.
        by_pairs: of an order; False: of scores.
    """
    epsilon = mallows_epsilon(law.epsilon, n_items)
    if by_pairs:
        noise = n_pairs(n_items) / law.pairs / law.attenuation**2
        return Predicted(_order_error(epsilon, n_items), math.sqrt(noise))
    return Predicted(_score_error(epsilon, n_items), _score_error_of_pairs(law, n_items))


def _score_error(epsilon: float, n_items: int) -> float:
    weights, bias = place_weights(lambda m: mallows_places(m, epsilon), n_items, PEOPLE)
    return math.sqrt(float(np.mean(weights**2)) + PEOPLE * bias**2)


def _score_error_of_pairs(law: RandomPairs, n_items: int) -> float:
    pairs, d, m = n_pairs(n_items), law.pairs, n_items
    alone = pairs * (m - 1) / (4 * d * law.attenuation**2)
    shared = 0.0
    if d > 1:
        shared = (1 - 1 / d) * pairs / (pairs - 1) * ((m**2 - 1) / 12 - (m - 1) / 4)
    return math.sqrt(alone + shared)


def _order_error(epsilon: float, n_items: int) -> float:
    kept = float(concordance_probability(np.array([1]), epsilon, n_items)[0])
    plain = 1 / (2 * kept - 1)
    if n_items > UNDONE_BY_PAIRS or n_place_pairs(n_items) * n_items**2 > MOST_BY_PLACE:
        return plain
    table = pair_estimator(n_items, epsilon)
    margins = (table - table.T)[~np.eye(n_items, dtype=bool)]
    return min(plain, math.sqrt(float(np.mean(margins**2))))
