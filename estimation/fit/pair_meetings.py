"""Number of meetings of each pair, from noisy totals: its expectation, and how sure that is.

A pair meets s z times on average: s follows from what totals have in common, z has its own law.

s: the design of chance, plus the directions in which totals stray from it together. These are
eigenvectors of the residuals, each residual over its standard deviation. They have eigenvalues
outside the semicircle of independent residuals ([W58]), and each eigenvalue is shortened by what
noise adds to it ([GD17]).

z: the law on a grid that is likeliest for all totals ([KW56], by EM). A total is normal around s z
with the variance s z plus that of the noise. The sum of two Laplace draws of scale b is normal with
variance 2 b^2 g where g has the law Gamma(2): a few values of g stand for all.

Likelihood, score and information of an expected number, given its noisy count.

A count x is N + noise, where N has mean and variance m (Poisson) and the noise has a public law. Of
small counts under little noise the law of x is summed up exactly. Else N is taken as normal:

    Gaussian noise:  x has variance m + v,
    Laplace noise of scale b, with s^2 = m and z = x - m ([KKP01] 2.3: density of a normal Laplace
    variable):   density proportional to  e^(-z/b) Phi(z/s - s/b) + e^(z/b) Phi(-z/s - s/b).

The score of the latter stays within 1/b: what lies far out is taken for noise. Where noise exceeds
the chance in the counts by far, a location then has half the variance that a mean would have.

References:
    [GD17] Gavish, Donoho. Optimal shrinkage of singular values. 2017.
    [KW56] Kiefer, Wolfowitz. Consistency of the maximum likelihood estimator in the presence of
        infinitely many incidental parameters. 1956.
    [W58] Wigner. On the distribution of the roots of certain symmetric matrices. 1958.
    [KKP01] Kotz, Kozubowski, Podgorski. The Laplace distribution and generalizations. 2001.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, lambertw, log_ndtr, ndtri, pdtr, pdtrc

from hushrank.estimation.common.links import Floats, Link, laplacian, score_differences
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind

FACTORS = np.concatenate([[0.003], np.geomspace(0.03, 30.0, 24)])  # z
PARTS = 8  # parts of the law of g, equally likely
MOST_FITTED = 20_000  # pairs that the law of z is estimated from
BLOCK = 20_000  # pairs worked on at a time
STEPS = 60  # steps of EM
PRIOR = 0.5  # pairs that each z is taken to have beforehand
PASSES = 3  # in which the semicircle and what is outside are found again
OUTSIDE = 1.05  # times the radius of the semicircle
LEAST = 0.02  # of what chance has it, that a pair met
NOT_BY_CHANCE = 5.0  # standard errors by which totals must differ from a design of chance
MISSED = 4.5  # and by which an item's sum of totals must
CLEAR = 4.0  # standard deviations of its noise, above which a total is that of a pair that met
FALSE_PAIR = 0.01  # chance that noise makes any pair that never met look as if it did
REST = 2.5  # standard deviations of its noise that the sum of all other totals may have
MASS = 0.75  # share of all comparisons that clear pairs must have, to be the whole schedule
SPARSE = 0.75  # share of the pairs above which a schedule is not called sparse
POWER = 8.0  # standard errors by which totals would differ if only half of the pairs had met
EXCESS = 4.0  # of which totals of pairs that met by chance have fewer than this
OPPONENTS = 12.0  # opponents of an item with which unequal pairs average out
APART = 0.5  # least 2 F - 1 that two groups are taken to have
TOGETHER = 1.5  # times the largest eigenvalue of independent residuals: they go together


@dataclass(frozen=True, slots=True)
class PairMeetings:
    """Given the noisy totals; matrices are symmetric, of shape (n, n), zero on the diagonal.

    Attributes:
        mean: comparisons that each pair made, to expect.
        variance: variance of the meetings.
        spread: standard deviation of a total in the design of chance.
        along: shape (n, k), unit vectors in which s was fitted: errors go together in them. The
            first is that of the design, the others are those of groups.
    """

    mean: Floats
    variance: Floats
    spread: Floats
    along: Floats

    @classmethod
    def without_noise(cls, totals: Floats) -> PairMeetings:
        """Meetings of pairs whose totals, of shape (n, n), have no noise."""
        nothing = np.zeros_like(totals)
        return cls(totals, nothing, nothing, np.zeros((len(totals), 0)))

    def used(self, weights: Floats, noise_variance: float) -> Floats:
        """k U less the covariance of k with the error of U, by its derivative; shape (n, n).

        Args:
            weights: k = U / (U + noise_variance), with U the mean.
            noise_variance: variance of the noise in a total.
        """
        squares = np.square(self.along)
        own = squares.sum(axis=1)
        error = np.square(self.spread) * (np.add.outer(own, own) - squares @ squares.T)
        both = np.square(self.mean + noise_variance)
        slope = np.divide(noise_variance, both, out=np.zeros_like(both), where=both > 0)
        used = np.maximum(weights * self.mean - slope * error, 0.0)
        return np.asarray(used * (weights > 0))

    def gradient_noise(
        self, weights: Floats, variance: float, scores: Floats, link: Link
    ) -> Floats:
        """Covariance of the sums over pairs of k (U F(-d) - lost), at `scores`; shape (n, n).

        The sum of a pair is k (A - B) (slope(d) + slope(-d)) / 2 and k U times half their gap,
        with A and B the noisy wins of its two items.

        Args:
            weights: k, shape (n, n).
            variance: variance of the noise in one count.
            scores: shape (n,).
            link: F.
        """
        d = score_differences(scores)
        both, gap = link.slope(d) + link.slope(-d), link.slope(-d) - link.slope(d)
        chance = link.cdf(d)
        of_wins = (self.mean * chance * (1 - chance) + variance / 2) * both**2
        of_meetings = self.variance * (gap / 2) ** 2
        noise = laplacian(weights**2 * (of_wins + of_meetings))
        for place, along in enumerate(self.along.T):
            moved = weights * gap / 2
            noise = noise + _moved_together(along, moved * self.spread)
            if place:  # groups: what if they were further apart than they seem?
                apart = np.sign(np.subtract.outer(along, along))
                moved = weights * np.maximum(np.abs(gap), APART * both) / 2 * apart
                noise = noise + _moved_together(along, moved * self.spread)
        return noise


def _moved_together(along: Floats, moved: Floats) -> Floats:
    """Covariance of the gradient where U has the error spread (u e' + e u'), less its part twice.

    With e = E u for E symmetric of independent normal entries, e has covariance I + u u'.
    """
    sums = moved @ along
    linear = along[:, np.newaxis] * moved + np.diag(sums) - np.outer(along * sums, along)
    onto = linear @ along
    return np.asarray(linear @ linear.T + np.outer(onto, onto))


def pair_meetings(
    totals: Floats, design: Floats, noise_variance: float, kind: NoiseKind
) -> PairMeetings:
    """Estimate how often each pair met, from noisy totals.

    Args:
        totals: shape (n, n), symmetric; each has the noise of two entries.
        design: expected meetings by chance, in the same form, > 0 off the diagonal.
        noise_variance: variance of the noise in a total, > 0.
        kind: law of the noise.
    """
    upper = np.triu_indices(len(totals), 1)
    spread = np.sqrt(design + noise_variance)
    together, along = _together(totals, design, spread)
    smooth = together[upper]
    noise = noise_variance * _parts(kind)
    seen = totals[upper]
    step = -(-len(seen) // MOST_FITTED)
    weights = _likeliest(_likelihood(seen[::step], smooth[::step], noise))
    mean, square = np.empty(len(seen)), np.empty(len(seen))
    for start in range(0, len(seen), BLOCK):
        part = slice(start, start + BLOCK)
        chance = _likelihood(seen[part], smooth[part], noise) * weights
        chance /= chance.sum(axis=1, keepdims=True)
        rates = np.multiply.outer(smooth[part], FACTORS)
        share = rates / (rates + noise_variance)
        met = np.maximum(rates + share * (seen[part, np.newaxis] - rates), 0.0)
        mean[part] = (chance * met).sum(axis=1)
        square[part] = (chance * (met**2 + share * noise_variance)).sum(axis=1)
    found = []
    for values in (mean, np.maximum(square - mean**2, 0.0)):
        matrix = np.zeros_like(totals)
        matrix[upper] = values
        found.append(matrix + matrix.T)
    return PairMeetings(found[0], found[1], spread, along)


def _together(totals: Floats, design: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """s, shape (n, n), and the directions in which it was fitted, shape (n, k)."""
    n, residuals = len(totals), (totals - design) / spread
    np.fill_diagonal(residuals, 0.0)
    values, vectors = np.linalg.eigh(residuals)
    kept = np.zeros(n)
    for _ in range(PASSES):
        rest = np.square(values).sum() - np.square(kept).sum()
        radius = 2 * np.sqrt(max(rest, 0.0) / n)  # n eigenvalues, of mean square r^2 n
        own = (np.abs(values) + np.sqrt(np.maximum(values**2 - radius**2, 0))) / 2
        kept = np.where(np.abs(values) > OUTSIDE * radius, own, 0.0) * np.sign(values)
    together = design + spread * ((vectors * kept) @ vectors.T)
    chance = np.linalg.eigh(design / spread)[1][:, -1:]
    return np.maximum(together, LEAST * design), np.hstack([chance, vectors[:, kept != 0]])


def _parts(kind: NoiseKind) -> Floats:
    """Values of g / 2, whose mean is 1."""
    if kind is NoiseKind.GAUSSIAN:
        return np.ones(1)
    values = gammaincinv(2.0, (np.arange(PARTS) + 0.5) / PARTS)
    return np.asarray(values / values.mean())


def _likelihood(seen: Floats, smooth: Floats, noise: Floats) -> Floats:
    """Likelihood of each z, but for a factor of each total; shape (pairs, z)."""
    mean = np.multiply.outer(smooth, FACTORS)
    off = np.square(seen[:, np.newaxis] - mean)
    logs = np.stack([-off / (mean + v) / 2 - np.log(mean + v) / 2 for v in noise])
    logs -= logs.max(axis=(0, 2), keepdims=True)
    return np.asarray(np.exp(logs).sum(axis=0))


def _likeliest(likelihood: Floats) -> Floats:
    """Weight of each z."""
    weights = np.full(len(FACTORS), 1 / len(FACTORS))
    for _ in range(STEPS):
        chance = likelihood * weights
        chance /= chance.sum(axis=1, keepdims=True)
        weights = chance.sum(axis=0) + PRIOR
        weights /= weights.sum()
    return np.asarray(weights)


def shows_schedule(totals: Floats, noise_variance: float) -> bool:
    """Whether few pairs met, and the noisy totals show which.

    A ladder, a ring or a grid has few pairs of many comparisons each: nearly all comparisons are
    in pairs whose totals stand clear of their noise, and the other totals sum to noise.

    Args:
        totals: shape (n, n), symmetric; each has the noise of two entries.
        noise_variance: variance of the noise in a total, > 0.
    """
    n_pairs = len(totals) * (len(totals) - 1) // 2
    clear = totals[np.triu_indices(len(totals), 1)]
    shown = clear > CLEAR * math.sqrt(noise_variance)
    met, rest = clear[shown], clear[~shown]
    nothing_else = rest.sum() < REST * math.sqrt(max(len(rest), 1) * noise_variance)
    whole = clear.sum() + math.sqrt(n_pairs * noise_variance)
    return bool(nothing_else and len(met) <= SPARSE * n_pairs and met.sum() > MASS * whole)


def clear_of_noise(n_items: int, kind: NoiseKind) -> float:
    """Standard deviations of its noise that no total of a pair that never met exceeds, with 99 %.

    Law: a sum of two Laplace draws of scale b, of standard deviation 2 b, exceeds u b with chance
    (1 + u / 2) exp(-u) / 2; solved for u by Lambert's W.

    Args:
        n_items: items of all pairs, n >= 2.
        kind: law of the noise in one of the two entries of a pair.
    """
    tail = FALSE_PAIR / (n_items * (n_items - 1) / 2)
    if kind is NoiseKind.GAUSSIAN:
        return float(-ndtri(tail))
    return float(-lambertw(-4 * tail * math.exp(-2), -1).real / 2 - 1)


def met_otherwise(totals: Floats, meetings: Floats, noise: float, kurtosis: float) -> bool:
    """Whether pairs met in another way than chance and noise explain, and scores suffer from it.

    Each of these says so:

    -   The sum of an item's totals is far from its share of the design: a fit that takes large
        counts for outliers misses it by far.
    -   Pairs met more unequally than by chance, and in groups of items that meet each other, as in
        a league. If totals differ pair by pair only, the differences average out over an item's
        opponents, and the scores hold.

    Args:
        totals, meetings, noise, kurtosis: as of `_unequal`.
    """
    met = meetings.sum(axis=1)
    off = np.abs(totals.sum(axis=1) - met)
    if (off > MISSED * np.sqrt(met + (len(totals) - 1) * noise)).any():
        return True
    if not _unequal(totals, meetings, noise, kurtosis):
        return False
    return _in_groups((totals - meetings) / np.sqrt(meetings + noise))


def _unequal(totals: Floats, meetings: Floats, noise: float, kurtosis: float) -> bool:
    """Whether pairs met more unequally than chance and noise make them.

    Squares of what totals have beyond the design, less their expectation, each weighed by the share
    of the design in its variance; where partners are drawn by chance, the sum has mean zero.

    Args:
        totals: noisy, in comparisons, shape (n, n).
        meetings: the design, shape (n, n).
        noise: its variance in a total.
        kurtosis: kurtosis of that noise.
    """
    upper = np.triu_indices(len(totals), 1)
    design = meetings[upper]
    excess = np.square(totals[upper] - design) - design - noise
    variance = (kurtosis - 1) * noise**2 + 4 * noise * design + 2 * design**2 + design
    weight = np.square(design) / variance
    return bool((weight * excess).sum() > NOT_BY_CHANCE * np.sqrt((weight**2 * variance).sum()))


def confirms_chance(totals: Floats, design: Floats, noise: float, kurtosis: float) -> bool:
    """Whether noisy totals show that chance decided which items met.

    Law: if a share f of the pairs made all comparisons, squares of what totals have beyond the
    design would sum to P w^2 (1 / f - 1) more than noise and sampling explain, for P pairs of w
    comparisons on average. The totals must be able to show f = 1/2, as in two leagues that never
    meet. Then they confirm chance if no such sum is there; or if each item still has `OPPONENTS`
    opponents by the share f that the sum suggests, and these form no groups.

    Args:
        totals: noisy, in comparisons, shape (n, n).
        design: comparisons to expect of each pair if partners meet by chance, shape (n, n).
        noise: variance of the noise in a total, > 0.
        kurtosis: kurtosis of that noise.
    """
    upper = np.triu_indices(len(totals), 1)
    seen, expected = totals[upper], design[upper]
    if len(seen) < 2:
        return True
    own = len(seen) * (kurtosis - 1) * noise**2
    if len(seen) * max(float(seen.mean()), 0.0) ** 2 < POWER * math.sqrt(own):
        return False
    sampling = float((4 * noise * expected + 2 * expected**2 + expected).sum())
    excess = float((np.square(seen - expected) - expected - noise).sum())
    error = math.sqrt(own + sampling)
    if excess < EXCESS * error:
        return True
    squares = float(np.square(expected).sum())
    opponents = (len(totals) - 1) * squares / (squares + excess + 2 * error)
    return opponents >= OPPONENTS and not _in_groups((totals - design) / np.sqrt(design + noise))


def _in_groups(residuals: Floats) -> bool:
    """Whether residuals of pairs go together: by their largest eigenvalue.

    That of independent residuals of mean square r^2 is near 2 r sqrt(n) (semicircle law, [W58]);
    two groups that meet within themselves alone have (n - 1) r: half of it is the bar of few items.

    Args:
        residuals: symmetric, shape (n, n), each over its standard deviation.
    """
    n = len(residuals)
    residuals = residuals * (1 - np.eye(n))
    size = math.sqrt(np.square(residuals).sum() / (n * (n - 1)))
    bar = min(TOGETHER * 2 * math.sqrt(n), (n - 1) / 2)
    return bool(np.linalg.eigvalsh(residuals)[-1] > bar * size)


EXACT_MEAN = 15.0  # a larger count is taken as normal
EXACT_SCALE = 2.0  # and so is any, under noise of a larger scale
CLOSED_SCALE = 0.3  # scale from which on the closed form for Laplace noise stays in range
LEAST_VARIANCE = 1e-3
RATIOS = np.geomspace(1e-3, 1e3, 121)  # ratios of s to b, in the table of informations
REACH, POINTS = 14.0, 6001  # standard deviations and abscissas of the sum for one table entry
MEANS = np.geomspace(1e-3, EXACT_MEAN, 40)  # in the table of informations of exact laws
FAR = 30.0  # scales from where noise is left out there
SMALLEST = 1e-290


@dataclass(frozen=True, slots=True)
class CellLaw:
    """Law of noisy counts, in comparisons.

    Attributes:
        noise: law of the noise in the counts' integer units.
        row_weight: integer units of one comparison.
        whole: whether counts and noise are integers; those that a night of a stream shows are not.
    """

    noise: NoiseLaw
    row_weight: int = 1
    whole: bool = True

    @property
    def variance(self) -> float:
        """Variance of the noise."""
        return self.noise.variance / self.row_weight**2

    def _exact(self, means: Floats) -> NDArray[np.bool_]:
        possible = self.whole and self.row_weight == 1 and self.noise.scale <= EXACT_SCALE
        return np.asarray(possible & (means <= EXACT_MEAN))

    def loss_and_score(
        self, counts: Floats, means: Floats, spread: Floats
    ) -> tuple[Floats, Floats]:
        """Minus the log-likelihood, but for a constant, and its negative slope in the mean.

        Args:
            counts: noisy, any shape.
            means: m, > 0, of the same shape.
            spread: variance of N, where it is taken as normal: near m, held while m is sought.
        """
        spread = np.maximum(spread, LEAST_VARIANCE)
        away = counts - means
        if self.noise.kind is NoiseKind.GAUSSIAN:
            total = spread + self.variance
            loss, score = away**2 / (2 * total), away / total
        else:
            loss, score = _normal_laplace(away, np.sqrt(spread), np.sqrt(self.variance / 2))
        exact = self._exact(spread)  # not the mean: which law is used must not change in a search
        if exact.any():
            loss[exact], score[exact] = _poisson(counts[exact], means[exact], self.noise)
        return loss, score

    def information(self, means: Floats) -> Floats:
        """Expected square of the score at the mean, in the shape of `means`."""
        spread = np.maximum(means, LEAST_VARIANCE)
        if self.noise.kind is NoiseKind.GAUSSIAN:
            found = 1 / (spread + self.variance)
        else:
            scale = np.sqrt(self.variance / 2)
            at = np.log(np.clip(np.sqrt(spread) / scale, RATIOS[0], RATIOS[-1]))
            found = np.exp(np.interp(at, np.log(RATIOS), _normal_laplace_table())) / scale**2
            # Beyond the table the noise is nothing beside the chance in N.
            found = np.where(np.sqrt(spread) > RATIOS[-1] * scale, 1 / spread, found)
        exact = self._exact(spread)
        if exact.any():
            table = _poisson_table(self.noise)
            found[exact] = np.exp(np.interp(np.log(spread[exact]), np.log(MEANS), table))
        return np.asarray(found)


def _normal_laplace(away: Floats, s: Floats | float, b: float) -> tuple[Floats, Floats]:
    above = log_ndtr(away / s - s / b) - away / b
    below = log_ndtr(-away / s - s / b) + away / b
    return -np.logaddexp(above, below), np.tanh((above - below) / 2) / b


@lru_cache(maxsize=1)
def _normal_laplace_table() -> Floats:
    """Log of the information at scale 1, for each of `RATIOS`."""
    found = []
    for ratio in RATIOS:
        reach = REACH * np.sqrt(ratio**2 + 2)
        loss, score = _normal_laplace(np.linspace(-reach, reach, POINTS), ratio, 1.0)
        weight = np.exp(loss.min() - loss)
        found.append(np.log((weight * score**2).sum() / weight.sum()))
    return np.array(found)


@lru_cache(maxsize=4)
def _noise_probabilities(noise: NoiseLaw) -> Floats:
    """Chance of each noise from -r to r, shape (2 r + 1,)."""
    squares = noise.kind is NoiseKind.GAUSSIAN
    r = int(np.ceil(FAR * max(noise.scale, 0.5)) * (1 if squares else 15))
    at = np.abs(np.arange(-r, r + 1.0)) / noise.scale
    weight = np.exp(-(at**2) / 2 if squares else -at)
    return np.asarray(weight / weight.sum())


def _poisson(counts: Floats, means: Floats, noise: NoiseLaw) -> tuple[Floats, Floats]:
    """Law of N + noise, N Poisson: the slope of p(x) in the mean is p(x - 1) - p(x)."""
    if noise.kind is NoiseKind.LAPLACE and noise.scale >= CLOSED_SCALE:
        return _poisson_laplace(np.rint(counts), means, noise.scale)
    return _poisson_summed(counts, means, noise)


def _poisson_laplace(x: Floats, m: Floats, scale: float) -> tuple[Floats, Floats]:
    """The same in closed form, with q = e^(-1 / scale): p(x) is in proportion to L + U, where

        L = sum over k < x of P(k) q^(x - k) = q^x e^(m / q - m) P[N' < x],     N' of mean m / q,
        U = sum over k >= x of P(k) q^(k - x) = q^-x e^(m q - m) P[N'' >= x],   N'' of mean m q,

    and p(x - 1) to L / q + U q.
    """
    q = np.exp(-1 / scale)
    loss, score = -x / scale + m * (1 - q), np.full(m.shape, q - 1)  # L is 0 where x <= 0
    above = x > 0
    x, m = x[above], m[above]
    low = np.exp(m / q - m - x / scale) * pdtr(x - 1, m / q)
    high = np.exp(m * q - m + x / scale) * pdtrc(x - 1, m * q)
    here = np.maximum(low + high, SMALLEST)
    loss[above], score[above] = -np.log(here), np.maximum(low / q + high * q, SMALLEST) / here - 1
    return loss - np.log(np.tanh(1 / (2 * scale))), score


def _poisson_summed(counts: Floats, means: Floats, noise: NoiseLaw) -> tuple[Floats, Floats]:
    probabilities = _noise_probabilities(noise)
    middle = len(probabilities) // 2
    at = np.rint(counts).astype(np.int64) + middle
    here, before = np.zeros(means.shape), np.zeros(means.shape)
    chance, noise_chance = np.exp(-means), probabilities.take(at, mode="clip")
    for k in range(_most(float(means.max()))):
        here += chance * noise_chance
        noise_chance = probabilities.take(at - (k + 1), mode="clip")
        before += chance * noise_chance
        chance *= means / (k + 1)
    here = np.maximum(here, SMALLEST)
    return -np.log(here), np.maximum(before, SMALLEST) / here - 1


def _most(mean: float) -> int:
    """No Poisson variable of this mean exceeds it, but for a chance of 1e-15."""
    k = int(mean) + 10
    while pdtrc(k, mean) > 1e-15:
        k += 5
    return k


@lru_cache(maxsize=4)
def _poisson_table(noise: NoiseLaw) -> Floats:
    """Log of the information for each of `MEANS`."""
    found = []
    for mean in MEANS:
        reach = int(np.ceil(FAR * max(noise.scale, 0.5)))
        x = np.arange(-reach, _most(mean) + reach + 1.0)
        loss, score = _poisson(x, np.full(x.shape, mean), noise)
        found.append(np.log((np.exp(-loss) * score**2).sum()))
    return np.array(found)
