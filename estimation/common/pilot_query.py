"""Pilot query: how many rows or people it saw, the share that fits, when to stop.

See `privacy.look` for who votes. All here follows from two noisy numbers and the law of
their
noise: it is post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hushrank.estimation.common.central_noise import Calibration, calibrate
from hushrank.estimation.common.links import Floats
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.pilot_query import votes_sensitivity
from hushrank.privacy.units import Bounding, NoiseKind, PrivacyParams

LEVEL = 0.95  # confidence of the interval of the share
FALSE_STOP = 0.001  # most chance of a stop where half of the votes fit, or half of the people vote
MISSED = 0.1  # chance of no stop where nothing fits, at the number that `noticed_from` tells
REACH = 20.0  # scales of noise: nothing is looked for beyond
SHARES = np.linspace(0.0, 1.0, 2001)


def calibrate_look(params: PrivacyParams) -> Calibration | None:
    """Laplace noise for the two numbers of votes, at the epsilon that `params` set aside.

    None: the parameters set no epsilon aside.
    """
    if not params.look:
        return None
    pure = replace(
        params,
        epsilon=params.look,
        delta=0.0,
        rho=None,
        noise=NoiseKind.LAPLACE,
        look=0.0,
        bounding=Bounding.LEAVE_OUT,  # votes have no weights
        max_weight=None,
    )
    return calibrate(pure, votes_sensitivity(params), "votes_sensitivity")


@dataclass(frozen=True, slots=True)
class Seen:
    """Noisy result of a pilot query.

    Attributes:
        fit, unfit: votes that rows fit, and that they do not, with noise; may be negative.
        law: law of the noise in each number.
        people: number of people who were asked, a public number; None: it is not stated.
    """

    fit: int
    unfit: int
    law: NoiseLaw
    people: int | None = None

    @property
    def share(self) -> float | None:
        """Share of the votes that say that rows fit, in [0, 1]; None if noise left no vote."""
        fit, unfit = max(self.fit, 0), max(self.unfit, 0)
        return fit / (fit + unfit) if fit + unfit else None

    def interval(self) -> tuple[float, float]:
        """Interval of the true share, with `LEVEL`: every share p that makes the votes likely.

        At the true p, (1 - p) fit - p unfit is noise alone, so those p are kept at which it is no
        further out than that noise is with probability `LEVEL` (Fieller's way). Which are kept may
        have gaps; the interval spans all of them, and (0, 1) where none is kept or all are.
        """
        off = (1 - SHARES) * self.fit - SHARES * self.unfit
        kept = SHARES[_beyond(np.abs(off), SHARES, self.law.scale) >= (1 - LEVEL) / 2]
        if not len(kept):  # no true numbers of votes, which are not negative, are likely
            return 0.0, 1.0
        step = SHARES[1]
        return max(float(kept[0]) - step, 0.0), min(float(kept[-1]) + step, 1.0)

    @property
    def error(self) -> int:
        """Half width of the 95 % interval of the number of votes, fit and unfit together."""
        return total_error(self.law)

    @property
    def stops(self) -> bool:
        """Whether the run stops: most rows do not fit, or most people are missing."""
        return self.misfits or self.silent

    @property
    def silent(self) -> bool:
        """Whether it is near certain that fewer than half of the people asked voted at all.

        Where half or more did, that happens with probability `FALSE_STOP` at most: half of the sum
        of both noises is distributed as half of their difference. Never if `people` is not stated.
        """
        if self.people is None:
            return False
        half = np.array([0.5])
        away = np.array([(self.people / 2 - self.fit - self.unfit) / 2])
        return bool(away[0] > 0 and _beyond(away, half, self.law.scale)[0] < FALSE_STOP)

    @property
    def misfits(self) -> bool:
        """Whether it is near certain that fewer than half of the votes say that rows fit.

        Where half or more do, that happens with probability `FALSE_STOP` at most.
        """
        half = np.array([0.5])
        away = np.array([(self.unfit - self.fit) / 2])
        return bool(away[0] > 0 and _beyond(away, half, self.law.scale)[0] < FALSE_STOP)


def noticed_from(law: NoiseLaw) -> int:
    """Return how many votes of rows that do not fit stop a run, but for a chance of `MISSED`.

    Where no row fits. In two significant digits, rounded up.
    """
    if law.scale == 0:
        return 1
    needed = sum(2.0 + 2 * _reach(law, chance) for chance in (FALSE_STOP, MISSED))
    step = 10 ** max(math.floor(math.log10(needed)) - 1, 0)
    return int(math.ceil(needed / step) * step)


def total_error(law: NoiseLaw) -> int:
    """Half width of the interval, at `LEVEL`, of the sum of both numbers of votes."""
    return 0 if law.scale == 0 else math.ceil(2 + 2 * _reach(law, (1 - LEVEL) / 2))


def _reach(law: NoiseLaw, chance: float) -> float:
    """Noise that half the sum or difference of two numbers exceeds with this chance, less 1."""
    reach = np.arange(0.0, REACH, REACH / 2000) * law.scale
    beyond = _beyond(reach + 1, np.full(reach.shape, 0.5), law.scale)
    return float(reach[np.argmax(beyond < chance)])


def _beyond(off: Floats, share: Floats, scale: float) -> Floats:
    """Most probability that (1 - p) X - p Y is `off` or more, for noise X and Y of this scale.

    Of two Laplace variables of scales a > b: (a^2 e^(-t/a) - b^2 e^(-t/b)) / (2 (a^2 - b^2)), and
    (2 + t/a) e^(-t/a) / 4 where they are equal. Discrete Laplace noise reaches no further than the
    continuous one of its scale plus 1, for P(|X| >= k) <= e^(-(k - 1) / scale). So off - 1 is what
    is looked up.
    """
    t = np.maximum(off - 1, 0.0)
    if scale == 0:
        return np.where(off > 0, 0.0, 0.5)
    a = scale * np.maximum(share, 1 - share)
    b = scale * np.minimum(share, 1 - share)
    near = np.abs(a - b) < 1e-3 * scale
    apart = np.where(near, scale, a - b) * (a + b)
    with np.errstate(divide="ignore"):
        second = np.where(b > 0, b**2 * np.exp(-t / np.where(b > 0, b, 1.0)), 0.0)
    unequal = (a**2 * np.exp(-t / a) - second) / (2 * apart)
    equal = (2 + t / a) * np.exp(-t / a) / 4
    return np.where(near, equal, unequal)
