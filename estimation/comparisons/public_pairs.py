"""Scores from noisy outcomes on a public graph: post-processing of counts that anybody may see.

Of each pair the total W is exact and the wins S of one item carry noise of variance v. So no pair
need be left out, as it must where totals are noisy too (`noisy_pairs`): the fit is that of
`debiased` to k S and k W, where

    k = W / (W + 4 v)

gives each pair about the weight that its variance, W / 4 + v near equal scores, deserves. k is a
function of public numbers, so E[k (S - W F)] = 0 at the true scores whatever it is, and with the
logistic link the objective is convex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from hushrank.estimation.common.links import Floats, Link
from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS, OutcomeCounts
from hushrank.estimation.fit.pair_fit import RIDGE, DebiasedFit, fit_sums, require_fittable
from hushrank.privacy.noise import NoiseLaw


@dataclass(frozen=True, slots=True)
class OutcomeVariance:
    """Variance of k S: k^2 (W F (1 - F) + v).

    Attributes:
        share: k, in the layout of the weights.
        noise: v, in comparisons squared.
    """

    share: Floats
    noise: float

    def of_sums(self, weights: Floats, win_chance: Floats) -> Floats:
        """Variance of each k S; `weights` are k W."""
        chance = weights * win_chance * (1 - win_chance)
        return np.asarray(self.share * (chance + self.share * self.noise))


def fit_public_pairs(
    counts: OutcomeCounts, law: NoiseLaw, link: Link, ridge: float = RIDGE
) -> DebiasedFit:
    """Fit scores to noisy outcomes; dense up to `MOST_DENSE_ITEMS`, sparse above.

    Args:
        counts: noisy, of at least 2 items.
        law: law of the noise in one entry, in the counts' own integer units.
        link: F.
        ridge: c, finite and > 0: it also carries items that nobody compared.

    Raises:
        ValueError: the counts are confidential, of fewer than 2 items, or the ridge is bad.
        ConvergenceError: no stationary point was reached.
    """
    if counts.confidential:
        raise ValueError("counts are confidential: only released counts may be fitted here")
    require_fittable(counts.n_items, ridge)
    noise = law.variance / counts.row_weight**2
    totals = counts.totals.data / counts.row_weight
    share = totals / (totals + 4 * noise)
    s, w, k = (
        scipy.sparse.csr_array(
            (values, counts.totals.indices, counts.totals.indptr), shape=counts.totals.shape
        )
        for values in (share * counts.wins.data / counts.row_weight, share * totals, share)
    )
    if counts.n_items <= MOST_DENSE_ITEMS:
        variance = OutcomeVariance(k.toarray(), noise)
        return fit_sums(s.toarray(), w.toarray(), link, variance, ridge)
    return fit_sums(s, w, link, OutcomeVariance(share, noise), ridge)
