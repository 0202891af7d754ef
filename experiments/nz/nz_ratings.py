"""Right and wrong answers from a table of ratings, as [NZ] made them for its Figure 3.

The paper takes ML-100K: 943 people, 1 682 films, 100 000 ratings. Missing ratings are filled in by
a low-rank fit; what a person prefers less than their own average becomes a 1, the rest a 0; and a
random subset of the items is the test. So everybody answers everything, and a "difficult" item is a
popular one. The paper states neither the rank nor the fit, nor how many items it took.

`stand_in` makes up a table of that size and sparsity, so that the figure can be drawn without the
file: a mean of each film and of each person, five factors, ratings of 1 to 5, and popular films
rated more often. A file of ratings (columns user, item, rating) takes its place.

References:
    [NZ] Nguyen, Zhang. Optimal and private learning from human response data. 2023. Section 5.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from hushrank.experiments.nz.nz_trial import Sheets

PEOPLE, FILMS, RATINGS = 943, 1682, 100_000  # of ML-100K
RANK = 5
SHRINKAGE = 5.0  # ratings of an average one by which the means of few ratings are drawn to the mean
SEED = 0

Ratings = NDArray[np.float64]  # shape (people, items), NaN where there is none


def sheets_of_ratings(ratings: Ratings) -> Sheets:
    """Everybody's answers to everything: 1 where their estimated preference is below their mean."""
    below = preferences(ratings)
    right = below < below.mean(axis=1, keepdims=True)
    return Sheets(right, np.ones_like(right))


def preferences(ratings: Ratings) -> Ratings:
    """Estimated ratings of every pair: means of items and people, and the largest factors left."""
    given = np.isfinite(ratings)
    mean = float(ratings[given].mean())
    rest = np.where(given, ratings - mean, 0.0)
    of_items = rest.sum(axis=0) / (given.sum(axis=0) + SHRINKAGE)
    rest -= given * of_items
    of_people = rest.sum(axis=1, keepdims=True) / (given.sum(axis=1, keepdims=True) + SHRINKAGE)
    rest -= given * of_people
    start = np.ones(min(rest.shape))  # fixed, so the result is reproducible
    left, size, right = svds(rest, k=min(RANK, min(rest.shape) - 1), v0=start)
    return np.asarray(mean + of_items + of_people + (left * size) @ right)


def stand_in() -> Ratings:
    """Made-up ratings of the size of ML-100K; always the same."""
    random = np.random.default_rng(SEED)
    quality, mood = random.normal(3.2, 0.7, FILMS), random.normal(0, 0.4, (PEOPLE, 1))
    tastes, themes = random.normal(size=(PEOPLE, RANK)), random.normal(size=(FILMS, RANK))
    wanted = quality + mood + 0.3 * tastes @ themes.T + random.normal(0, 0.7, (PEOPLE, FILMS))
    seen = random.permutation(np.arange(1.0, FILMS + 1) ** -0.7)
    seen = np.minimum(1, RATINGS / PEOPLE * seen / seen.sum())
    rated = random.random((PEOPLE, FILMS)) < seen
    return np.where(rated, np.clip(np.rint(wanted), 1, 5), np.nan)
