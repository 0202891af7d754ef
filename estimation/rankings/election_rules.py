"""Winners by the rules of elections, from noisy counts, and who could have won without the noise.

Margins D[a, b] are the rankings with a above b less those with b above a, with noise. All rules run
on D as it is; equal numbers, which noise makes rare, give several winners, and ranked pairs takes
items in the order of the catalogue there.

Law: with probability 95 % or more all of this holds at once. Every margin is within `sure_from` of
the one without noise, and every difference of Borda scores within its own reach. Both are bounds of
Bonferroni: the margins have nine tenths of the 5 %, the Borda scores one tenth. Noise is on whole
numbers, so half a step is added to what continuous noise would need. Of counts by place, all scores
of all rules share the 5 % evenly.

Let L = D - sure_from and U = D + sure_from hold the true margins T. Then, whatever T is,

    condorcet     a beats all others only if all U[a, b] > 0, and surely if all L[a, b] > 0
    smith         the Smith set lies in the smallest set whose members surely beat all others; so do
                  the winners of copeland, schulze and ranked-pairs, which are in the Smith set
    copeland      a score (wins less losses) lies between those of the worst and of the best signs
    schulze       the widest path is monotone in the margins: no winner is a with path U[a, b] below
                  path L[b, a] for some b
    ranked-pairs  its winner is in the Split Cycle winners ([HP23]): L[b, a] > path U[a, b] excludes
    minimax       the largest defeat lies between the largest L[b, a] and the largest U[b, a]

Chances: given independent noise of known law, and every whole T as likely as any other beforehand,
a is the Condorcet winner with probability prod_b P(T[a, b] >= 1). A tie, T = 0, is no win, so each
factor is F(D - 1/2), F the distribution function of continuous noise, and F(D - 1) below D = 1/2.
Of Laplace noise F has the scale s of the discrete law. Then no factor is too large: with
p = exp(-1/s), a whole D >= 1 has P(T <= 0) = p^D / (1 + p) <= exp(-(D - 1/2) / s) / 2, because
2 exp(-1/(2s)) <= 1 + p, and one D <= 0 has P(T >= 1) = p^(1 - D) / (1 + p) >= exp((D - 1) / s) / 2.

References:
    [S11] Schulze. A new monotonic, clone-independent ... single-winner election method. 2011.
    [T87] Tideman. Independence of clones as a criterion for voting rules. 1987. (ranked pairs)
    [HP23] Holliday, Pacuit. Split Cycle: a new Condorcet-consistent voting method. 2023.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.uncertainty import LEVEL, quantile
from hushrank.estimation.rankings.noisy_rankings import NoisyRankings
from hushrank.privacy.ranking_sensitivity import Part
from hushrank.privacy.units import NoiseKind

Mask = NDArray[np.bool_]

OF_MARGINS = ("condorcet", "smith", "copeland", "schulze", "ranked-pairs", "minimax", "borda")
PLURALITY, APPROVAL = "plurality", "approval-"
FOR_BORDA = 0.1  # share of the 5 % that Borda scores have


@dataclass(frozen=True, slots=True, kw_only=True)
class Margins:
    """Noisy margins and how far they may be off.

    Attributes:
        margins: shape (n, n), antisymmetric.
        deviation: standard deviation of the noise in a margin.
        kind: its law; `draws`, of how many equal draws it is the sum.
        step: by which the noise goes.
    """

    margins: Floats
    deviation: float
    kind: NoiseKind
    draws: int
    step: float

    @classmethod
    def of(cls, counts: NoisyRankings) -> Margins:
        """From a release with `above`, or with `margins`."""
        if Part.MARGINS in counts.weights:
            return cls(
                margins=counts.of(Part.MARGINS),
                deviation=math.sqrt(counts.variance(Part.MARGINS)),
                kind=counts.law.kind,
                draws=1,
                step=1 / counts.weights[Part.MARGINS],
            )
        wins = counts.parts[Part.ABOVE]
        return cls(
            margins=np.asarray((wins - wins.T) / counts.weights[Part.ABOVE], np.float64),
            deviation=math.sqrt(2 * counts.variance(Part.ABOVE)),
            kind=counts.law.kind,
            draws=2,
            step=1 / counts.weights[Part.ABOVE],
        )

    @property
    def sure_from(self) -> float:
        """What the noise of no margin exceeds, with nine tenths of the 5 %."""
        return self._reach(1 - FOR_BORDA, self.deviation)

    @property
    def called_from(self) -> float:
        """A margin that without the noise is so large is called sure with a chance of 95 %."""
        usual = noise_reach(LEVEL, self.deviation, self.kind, self.draws, self.step)
        return self.sure_from + usual

    def _reach(self, share: float, deviation: float) -> float:
        n = len(self.margins)
        tail = LEVEL * share / (n * (n - 1))
        return noise_reach(tail, deviation, self.kind, self.draws, self.step)

    def chances(self) -> Floats:
        """Chance of each item to beat all others without the noise, shape (n,)."""
        won = self.margins - np.where(self.margins < 0.5, 1.0, 0.5)
        if self.deviation == 0:
            below = np.where(self.margins > 0, 1.0, 0.0)
        elif self.kind is NoiseKind.GAUSSIAN:
            below = scipy.special.ndtr(won / self.deviation)
        else:
            steps = self.deviation / (math.sqrt(self.draws) * self.step)  # squared: 2 p / (1 - p)^2
            scale = self.step / (2 * math.asinh(1 / (math.sqrt(2) * steps)))
            below = _laplace_cdf(won / scale, self.draws)
        np.fill_diagonal(below, 1.0)
        return np.asarray(below.prod(axis=1))

    def result(self, rule: str) -> Result:
        """Winners by one of `OF_MARGINS`, and who could have won."""
        margins, reach = self.margins, self.sure_from
        low, high = margins - reach, margins + reach
        others = ~np.eye(len(margins), dtype=np.bool_)
        smith = smith_set((low > 0) & others)
        if rule == "condorcet":
            winners = np.asarray((margins > 0).sum(axis=1) == len(margins) - 1)
            possible = np.asarray(((high > 0) | ~others).all(axis=1))
            sure = ((low > 0) | ~others).all(axis=1).any() or not possible.any()
            return Result(rule, winners, possible, bool(sure))
        if rule == "smith":
            return Result.of(rule, smith_set((margins > 0) & others), smith)
        if rule == "copeland":
            worst = ((low > 0) & others).sum(axis=1) - ((low < 0) & others).sum(axis=1)
            best = ((high > 0) & others).sum(axis=1) - ((high < 0) & others).sum(axis=1)
            scores = np.sign(margins).sum(axis=1)
            return Result.of(rule, scores == scores.max(), smith & (best >= worst.max()))
        if rule == "minimax":
            defeats, least, most = (
                np.where(others, each, -np.inf).max(axis=1) for each in (-margins, -high, -low)
            )
            return Result.of(rule, defeats == defeats.min(), least <= most.min())
        if rule == "borda":
            scores, n = _in_steps(margins.sum(axis=1), self.step), len(margins)
            apart = self._reach(FOR_BORDA, math.sqrt(2 * n) * self.deviation)
            return Result.of(rule, scores == scores.max(), scores + apart >= scores.max())
        strongest = widest_paths(np.where(others, high, 0.0))
        if rule == "schulze":
            paths, weakest = widest_paths(margins), widest_paths(np.where(others, low, 0.0))
            winners = np.asarray((paths >= paths.T).all(axis=1))
            return Result.of(rule, winners, smith & (strongest >= weakest.T).all(axis=1))
        if rule == "ranked-pairs":
            kept = ((strongest >= low.T) | ~others).all(axis=1)
            return Result.of(rule, ranked_pairs_winners(margins), smith & kept)
        raise ValueError(f"rule must be one of {', '.join(OF_MARGINS)}, got {rule!r}")


@dataclass(frozen=True, slots=True)
class Result:
    """Winners by one rule.

    Attributes:
        rule: its name.
        winners: shape (n,), by the noisy counts; of `smith` the set.
        possible: shape (n,): nobody else wins without the noise, with 95 % for all rules at once.
        sure: the noisy counts and those without noise have the same winner, or `condorcet` surely
            has none.
    """

    rule: str
    winners: Mask
    possible: Mask
    sure: bool

    @classmethod
    def of(cls, rule: str, winners: Mask, possible: Mask) -> Result:
        """Of a rule that always has a winner: it is sure if only one is possible."""
        return cls(rule, winners, possible, int(possible.sum()) == 1)


def positional_results(counts: NoisyRankings, rules: Sequence[str]) -> list[Result]:
    """Winners by the number of rankings with an item among the first k places.

    Args:
        counts: a release with `places`.
        rules: `plurality`, k = 1, or `approval-k`; k is at most the longest ranking.
    """
    places, n = counts.of(Part.PLACES), counts.n_items
    step, found = 1 / counts.weights[Part.PLACES], []
    for rule in rules:
        k = places_of(rule)
        scores = _in_steps(places[:, :k].sum(axis=1), step)
        deviation = math.sqrt(2 * k * counts.variance(Part.PLACES))
        tail = LEVEL / (len(rules) * n * (n - 1))
        reach = noise_reach(tail, deviation, counts.law.kind, 2 * k, step)
        possible = scores + reach >= scores.max()
        found.append(Result.of(rule, scores == scores.max(), np.asarray(possible)))
    return found


def places_of(rule: str) -> int:
    """How many places count alike by `plurality` or `approval-k`."""
    return 1 if rule == PLURALITY else int(rule.removeprefix(APPROVAL))


def smith_set(beats: Mask) -> Mask:
    """The smallest set of items of which each beats each item outside, shape (n,).

    If a is in it and does not beat b, b is in it too; such closed sets are nested, because of two
    disjoint ones each would beat the other.

    Args:
        beats: shape (n, n), whether a beats b; never both ways.
    """
    needs = ~beats
    for via in range(len(beats)):
        needs |= needs[:, via : via + 1] & needs[via]
    np.fill_diagonal(needs, True)
    return np.asarray(needs[int(needs.sum(axis=1).argmin())])


def widest_paths(margins: Floats) -> Floats:
    """Strength of the strongest path of wins from a to b, 0 if there is none; infinite on the
    diagonal, shape (n, n)."""
    paths = np.maximum(margins, 0.0)
    for via in range(len(paths)):
        np.maximum(paths, np.minimum(paths[:, via : via + 1], paths[via]), out=paths)
    np.fill_diagonal(paths, np.inf)
    return paths


def ranked_pairs_winners(margins: Floats) -> Mask:
    """Those whom no locked pair beats; pairs of equal margins are locked in catalogue order."""
    above = np.eye(len(margins), dtype=np.bool_)  # of locked pairs and their chains
    first, second = np.nonzero(margins > 0)
    for pair in np.argsort(-margins[first, second], kind="stable").tolist():
        a, b = int(first[pair]), int(second[pair])
        if not above[b, a]:
            above |= np.outer(above[:, a], above[b])
    return np.asarray(above.sum(axis=0) == 1)


def _in_steps(scores: Floats, step: float) -> Floats:
    """The same, so that scores that are equal are equal in their last digit too."""
    return np.asarray(np.rint(scores / step) * step)


def noise_reach(tail: float, deviation: float, kind: NoiseKind, draws: int, step: float) -> float:
    """What a sum of noise exceeds with chance `tail`.

    Args:
        tail: of one side.
        deviation: standard deviation of the sum.
        kind: law of each draw.
        draws: how many equal ones it is the sum of.
        step: by which it goes; half of it is added to what continuous noise would need.
    """
    if deviation == 0:
        return 0.0
    return float(quantile(np.array(1.0), tail, kind, draws)) * deviation + step / 2


def _laplace_cdf(standard: Floats, draws: int) -> Floats:
    """Of a sum of one or two Laplace variables of scale 1."""
    size = np.abs(standard)
    upper = np.exp(-size) * (0.5 if draws == 1 else (2 + size) / 4)
    return np.asarray(np.where(standard > 0, 1 - upper, upper))
