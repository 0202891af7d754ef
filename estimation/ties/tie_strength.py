"""How often equals tie, with an interval.

The fit is in t = log(r / (1 - r)), r being the chance that equals tie, with a wide penalty
t ~ N(TIE_CENTRE, TIE_SPREAD^2) so that t is finite whatever the noise. The interval is around one
Newton step from there without the penalty, and in r: noise, which is most of the error where there
is doubt, is normal in counts of ties and so in r; in t it is not, where noise hides most ties.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtri

from hushrank.estimation.common.uncertainty import LEVEL

TIE_CENTRE, TIE_SPREAD = -1.0, 3.0  # of t: r of 27 %, and from 0.1 to 99 %


@dataclass(frozen=True, slots=True)
class TieStrength:
    """The chance that two items of equal scores tie.

    Attributes:
        chance: r.
        low, high: its 95 % interval, from 0 to 1 where nothing is known.
    """

    chance: float
    low: float
    high: float


def strength_of(tie: float, pull: float, variance: float) -> TieStrength:
    """By a fit.

    Args:
        tie: t.
        pull: slope of the log-likelihood there, without the penalty.
        variance: of t without the penalty; infinite where the counts say nothing of it.
    """
    chance = float(expit(tie))
    slope = chance * (1 - chance)
    if not np.isfinite(variance) or slope == 0:
        return TieStrength(chance, 0.0, 1.0)
    middle = chance + slope * pull * variance
    reach = -float(ndtri(LEVEL / 2)) * slope * np.sqrt(variance)
    low, high = np.clip([middle - reach, middle + reach], 0, 1)
    return TieStrength(chance, float(min(low, chance)), float(max(high, chance)))
