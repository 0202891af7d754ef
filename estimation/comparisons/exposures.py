"""Number of comparisons of each pair, from noisy counts of comparisons of each item.

The exposure of an item is the number of comparisons in which it took part. Given exposures alone,
the likeliest design (of largest entropy) is

    W[i, j] = a_i a_j,   with row sums equal to the exposures,

that is: partners meet by chance, in proportion to how often they are shown. The factors a are those
of iterative proportional fitting ([DS40]).

References:
    [DS40] Deming, Stephan. On a least squares adjustment of a sampled frequency table when the
        expected marginal totals are known. 1940.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from hushrank.estimation.common.links import Floats

FITTING_STEPS = 500
FITTED = 1e-9  # relative error of a row sum at which the fit is over
LEAST_CLEAR = 0.5  # standard deviations of its noise that every exposure is taken to have at least
LEAST_EXPOSURE = 0.5  # comparisons, likewise: where there is no noise, an item may have none
UNBALANCED_TAIL = 1e-4
UNBALANCED_SPREAD = 0.1


@dataclass(frozen=True, slots=True)
class Exposures:
    """Noisy exposures of n items, in comparisons.

    Attributes:
        values: shape (n,), as released: of any sign.
        noise_variance: variance of the noise in each.
    """

    values: Floats
    noise_variance: float

    @property
    def plausible(self) -> Floats:
        """The released ones, none below half a standard deviation of the noise; shape (n,)."""
        least = max(LEAST_CLEAR * math.sqrt(self.noise_variance), LEAST_EXPOSURE)
        return np.asarray(np.maximum(self.values, least))

    def clearly_unbalanced(self) -> bool:
        """Whether exposures differ by more than chance and noise make them, and by much.

        If partners are drawn at random, exposures of a balanced design are binomial: their variance
        is at most their mean. A chi-square test at `UNBALANCED_TAIL`, and a relative spread beyond
        that of at least `UNBALANCED_SPREAD`.
        """
        n, mean = len(self.values), max(float(self.values.mean()), 0.0)
        spread = float(((self.values - mean) ** 2).sum())
        chance = self.noise_variance + mean
        excess = spread / (n - 1) - chance
        if mean == 0 or excess < (UNBALANCED_SPREAD * mean) ** 2:
            return False
        return spread / chance > float(chdtri(n - 1, UNBALANCED_TAIL))

    def factors(self) -> Floats:
        """The factors a of the design, shape (n,).

        No item is taken to have met more opponents than there are: an exposure above the sum of
        all others, which only noise can make, is lowered to it.
        """
        rows = self.plausible
        rows = np.minimum(rows, rows.sum() - rows)
        factors = rows / math.sqrt(rows.sum())
        for _ in range(FITTING_STEPS):
            sums = factors * (factors.sum() - factors)
            if np.abs(sums - rows).max() <= FITTED * rows.max():
                break
            factors = factors * np.sqrt(rows / sums)
        return np.asarray(factors)

    def design(self) -> Floats:
        """Comparisons of each pair to expect, shape (n, n): symmetric, zero on the diagonal."""
        factors = self.factors()
        design = np.outer(factors, factors)
        np.fill_diagonal(design, 0.0)
        return design
