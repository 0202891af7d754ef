"""Scores of items for each person by two towers, from released private answers to random pairs.

A person with the features x scores an item with the features y by f(x, y) = U(x) . V(y), two
perceptrons (`perceptrons`). Unlike the linear f of `personalized` it learns that the young and the
old like what the middle-aged do not. The loss is the same: log(e^(d / 2) + e^(-d / 2)) - z d / 2
for an answer z, undone, about two items d apart. It is linear in z, so the mechanism is undone
here, too.

The loss is not convex, and nothing is known of how far off its scores are: there are no intervals.
Weights are drawn towards zero by `decay`, the value of `DECAYS` that predicts best the private
answers of people whose profiles were left out of the fit, a fifth of the profiles at a time. Which
fifth follows from fixed shuffles: profiles come in the order of their features, so every fifth one
could leave out all people of one age. These answers are undone as well, so the mean loss of
given scores is unbiased for that of true rankings. The linear f is judged by the same profiles;
`gain` is by how much the towers' loss of an answer is smaller. It has no standard error, and it
flatters the towers, whose `decay` is the best of three on these very answers.

All is computed from released counts, from weights at the start that follow from a fixed seed. So it
is post-processing, and everybody gets the same.

References:
    [RDP] Xu, Sun, Cheng. Ranking differential privacy. Section 6.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.links import LOGISTIC, Floats, score_differences
from hushrank.estimation.rankings.pair_answer_evidence import AnswerSums, PairAnswerCounts
from hushrank.estimation.rankings.perceptrons import TowerShapes
from hushrank.estimation.rankings.personalized import design_for, fit_personalized
from hushrank.privacy.random_pairs import RandomPairs
from hushrank.privacy.randomness import seeded_bits

FOLDS = 5
SHUFFLES = 20  # half of those of 5 x 2 profiles leave out a value whole
DECAYS = (3.0, 30.0, 300.0)  # in answers of epsilon without end
MOST_ITERATIONS = 300
SEED = 0  # of the weights at the start: no secret, and the same for everybody


@dataclass(frozen=True, slots=True, eq=False)
class TwoTowers:
    """Fitted towers.

    Attributes:
        shapes: of U and V.
        weights: of all layers of both, in one array.
        item_features: y, shape (n, q).
        gain: mean loss of an answer of left out people by the linear f less that by the towers,
            with the decay that is best there.
    """

    shapes: TowerShapes
    weights: Floats
    item_features: Floats
    gain: float

    def scores(self, features: Floats) -> Floats:
        """Scores of all items for people with `features`, shape (people, n); rows sum to zero."""
        scores = self.shapes.scores(self.weights, features, self.item_features)
        return np.asarray(scores - scores.mean(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """Private answers of profiles, undone; arrays of shape (profiles, n, n).

    Attributes:
        people: shape (profiles, p), their features.
        asked: weights of the answers about two items.
        margins: what they say.
        answers: number of answers of which one has the weight 1 on average.
    """

    people: Floats
    asked: Floats
    margins: Floats
    answers: float

    def part(self, chosen: NDArray[np.bool_]) -> _Answers:
        """The answers of some profiles."""
        asked = self.asked[chosen]
        share = float(asked.sum()) / max(float(self.asked.sum()), 1.0)
        return _Answers(self.people[chosen], asked, self.margins[chosen], share * self.answers)

    def loss(self, scores: Floats) -> tuple[float, Floats]:
        """Sum over answers, and its slope in the scores, shape (profiles, n)."""
        scale = self.answers / (float(self.asked.sum()) / 2)
        apart = np.stack([score_differences(row) for row in scores])
        half = self.margins.sum(axis=2) / 2
        value = (self.asked * np.logaddexp(apart / 2, -apart / 2)).sum() / 2 - (half * scores).sum()
        slope = (self.asked * (LOGISTIC.cdf(apart) - 0.5)).sum(axis=2) - half
        return scale * float(value), scale * slope


def fit_two_towers(
    profiles: Sequence[PairAnswerCounts], law: RandomPairs, people: Floats, item_features: Floats
) -> TwoTowers:
    """Fit two towers to the private answers of all profiles.

    Args:
        profiles: sums of the answers of people with the same features, each with an answer.
        law: by which they answered.
        people: the features of each profile, shape (profiles, p).
        item_features: as from `personalized.centred_features`.

    Raises:
        ValueError: fewer than `FOLDS` profiles, so that none can be left out.
        ConvergenceError: the linear f has no minimum.
    """
    if len(profiles) < FOLDS or len(profiles) != len(people):
        raise ValueError(f"two towers need at least {FOLDS} profiles, got {len(profiles)}")
    sums = [AnswerSums.of([(counts, law)]) for counts in profiles]
    asked, squares = (np.stack([getattr(s, name) for s in sums]) for name in ("asked", "squares"))
    margins = np.stack([each.margins for each in sums])
    answers = _Answers(people, asked, margins, float(asked.sum()) ** 2 / float(squares.sum()) / 2)
    folds = folds_of(people)
    decays = [decay / law.attenuation**2 for decay in DECAYS]
    left_out, linear = np.zeros(len(decays)), 0.0
    for fold in range(FOLDS):
        kept, out = folds != fold, answers.part(folds == fold)
        rest = answers.part(kept)
        for place, decay in enumerate(decays):
            towers = _fitted(rest, item_features, decay)
            left_out[place] += out.loss(towers.scores(out.people))[0]
        counts = [each for each, stays in zip(profiles, kept, strict=True) if stays]
        fit = fit_personalized(counts, law, people[kept], item_features)
        designs = [design_for(person, item_features) for person in out.people]
        linear += out.loss(np.stack([design @ fit.coefficients for design in designs]))[0]
    left_out[~np.isfinite(left_out)] = np.inf  # noise may leave a loss without a least value
    best = int(left_out.argmin())
    gain = (linear - float(left_out[best])) / answers.answers
    return replace(_fitted(answers, item_features, decays[best]), gain=gain)


def folds_of(people: Floats) -> NDArray[np.int64]:
    """Number of the fold that leaves each profile out; sizes differ by at most one.

    Of some fixed shuffles it is the one by which the fewest values of a feature are left out whole.
    """
    bits, found = seeded_bits(SEED), []
    for _ in range(SHUFFLES):
        folds = np.empty(len(people), np.int64)
        folds[np.argsort(bits.words(len(people)), kind="stable")] = np.arange(len(people)) % FOLDS
        kept = sum(
            len(np.unique(column[folds != fold])) for column in people.T for fold in range(FOLDS)
        )
        found.append((kept, folds))
    return max(found, key=lambda each: each[0])[1]


def _fitted(answers: _Answers, item_features: Floats, decay: float) -> TwoTowers:
    shapes = TowerShapes(answers.people.shape[1], item_features.shape[1])
    features = answers.people, item_features

    def objective(weights: Floats) -> tuple[float, Floats]:
        value, slope = answers.loss(shapes.scores(weights, *features))
        pull = decay * float(weights @ weights) / 2
        return value + pull, shapes.gradient(weights, *features, slope) + decay * weights

    found = scipy.optimize.minimize(
        objective,
        shapes.start(seeded_bits(SEED), seeded_bits(SEED + 1)),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MOST_ITERATIONS},
    )
    return TwoTowers(shapes, found.x, item_features, 0.0)
