"""How many people were right on exactly one of two items, as far as noisy counts tell.

T_ij = Y_ij + Y_ji of a pair is as noisy as its counts, and of many items mostly noise. What it is
expected to be follows from sums over many pairs:

    T_ij = h_i h_j exp(-c s_i s_j),

h_i how often item i was answered, by whoever may answer it, and s the difficulties. The last factor
is there because two hard items, or two easy ones, are seldom answered differently, and a hard and
an easy one often. What T shows beyond that pattern is kept as far as it stands clear of the noise
(a relative spread common to all pairs, [M83]), so without noise T stays as it is.

Where the test has booklets the pattern is multiplied by how often the two items were asked of one
person, in proportion: how many people had a booklet with both. Those numbers are fitted to sums of
T over each booklet's pairs, so nobody has to know who had which booklet.

References:
    [M83] Morris. Parametric empirical Bayes inference. 1983.
"""

from __future__ import annotations

import numpy as np
import scipy

from hushrank.estimation.common.links import Floats

LEAST_SHARE = 0.02  # of the mean item's sum that any item is taken to have
STEPS = 5  # of the fit of c; each is Gauss-Newton's
SCALINGS = 30  # of the fit of h
LARGEST_C = 1.0
LEAST_REST = 1e-9  # of the sums, of items that are answered by not all
LARGEST_EXPONENT = 3.0
CLEAR = 5.0  # standard deviations by which a sum of squares must exceed that of noise
SMALLEST = float(np.finfo(float).tiny)  # of a sum that something is divided by


def expected_totals(
    totals: Floats,
    mask: Floats,
    variance: float,
    scores: Floats,
    asked: Floats | None = None,
) -> Floats:
    """T of the module's text for all pairs, at least 0; off the graph the pattern alone.

    Args:
        totals: shape (m, m), symmetric, Y + its transpose, noisy and of any sign.
        mask: shape (m, m), 1 on the edges of the graph, else 0.
        variance: of the noise in one entry of Y.
        scores: shape (m,), difficulties as far as they are known; zeros where nothing is.
        asked: shape (m, m), how often two items were asked of one person, in proportion; None: all
            pairs alike.

    Returns:
        Symmetric, shape (m, m), zero diagonal.
    """
    everywhere = _fitted_pattern(totals, mask, variance, scores, asked)
    beyond = mask * (totals - everywhere)
    kept = _kept(beyond, mask * everywhere, mask, variance)
    return np.asarray(np.maximum(everywhere + kept * beyond, 0))


def uneven_share(totals: Floats, mask: Floats, variance: float, scores: Floats) -> float:
    """Relative spread of T around its pattern, if it stands clear of the noise; else 0.

    It is near 0 where all items are asked of everybody, or gaps come by chance, and near 1 or above
    where people have booklets: most pairs are then never answered by one person.

    Args:
        totals, mask, variance, scores: as for `expected_totals`.
    """
    pattern = mask * _fitted_pattern(totals, mask, variance, scores, None)
    n_pairs, noise = float(mask.sum()) / 2, 2 * variance
    excess = float(np.square(mask * totals - pattern).sum()) / 2 - noise * n_pairs
    if excess <= CLEAR * noise * np.sqrt(2 * n_pairs):
        return 0.0
    return float(np.sqrt(2 * excess / max(float(np.square(pattern).sum()), SMALLEST)))


def _fitted_pattern(
    totals: Floats, mask: Floats, variance: float, scores: Floats, asked: Floats | None
) -> Floats:
    asked = np.ones_like(mask) if asked is None else asked
    sums, product = _item_sums(totals, mask, variance, asked), np.outer(scores, scores)
    c, everywhere = 0.0, _pattern(sums, mask, product, 0.0, asked)
    for _ in range(STEPS if scores.any() else 0):
        pattern = mask * everywhere
        slope = _without_item_effects(pattern * product, pattern)
        size = float((slope * slope).sum())
        if size == 0:
            break
        c = float(np.clip(c - (slope * (totals - pattern)).sum() / size, 0, LARGEST_C))
        everywhere = _pattern(sums, mask, product, c, asked)
    return everywhere


def third_answer_shares(totals: Floats, max_answers: int) -> Floats:
    """Share of the people who answered two items that also answered a third one, by the third one.

    Shape (m,); 1 where everybody answers everything. Else items are taken to be answered in
    proportion to their sums of `totals`, and everybody to answer `max_answers` of them.
    """
    n_items = len(totals)
    if max_answers >= n_items:
        return np.ones(n_items)
    sums = totals.sum(axis=1)
    if not sums.any():
        sums = np.ones(n_items)
    often = sums / sums.sum() * n_items
    wanted = (max_answers - 2) * n_items / (n_items - 2)
    # min(1, factor * often) sums to `wanted`: items from some place on are answered by all.
    ordered = -np.sort(-often)
    rest = ordered.sum() - np.concatenate([[0.0], np.cumsum(ordered)[:-1]])
    factors = (wanted - np.arange(n_items)) / np.maximum(rest, LEAST_REST)
    factor = factors[np.argmax(factors * ordered <= 1)]
    return np.asarray(np.clip(factor * often, 0, 1))


def booklet_shares(totals: Floats, variance: float, members: Floats) -> Floats:
    """How many people had each booklet, in proportion; shape (booklets,), at least 0, mean 1.

    Args:
        totals: shape (m, m), symmetric, Y + its transpose, noisy and of any sign.
        variance: of the noise in one entry of Y.
        members: shape (booklets, m), 1 where an item is in a booklet, else 0.
    """
    size = members.sum(axis=1)
    overlap = members @ members.T
    together = overlap * (overlap - 1)  # entries of one booklet that another has, too
    sums = np.einsum("bi,ij,bj->b", members, totals, members, optimize=True)
    even = np.ones(len(size)) * sums.sum() / max(float(together.sum()), SMALLEST)
    if (even <= 0).any():
        return np.ones(len(size))
    found, _ = scipy.optimize.nnls(together, sums)
    # Drawn to equal numbers as far as noise explains how they differ.
    inverse = np.linalg.pinv(together)
    of_noise = 4 * variance * float(np.trace(inverse))  # the sums' covariance is 4 v `together`
    kept = _clear_share(float(np.square(found - even).sum()), of_noise)
    shares = even + kept * (found - even)
    return np.asarray(shares / shares.mean())


def _item_sums(totals: Floats, mask: Floats, variance: float, asked: Floats) -> Floats:
    """Sums over each item's pairs, drawn to what is asked as far as noise explains the rest."""
    n_pairs, times = mask.sum(axis=1), (mask * asked).sum(axis=1)
    even = totals.sum() / times.sum() * times
    apart = totals.sum(axis=1) - even
    kept = _clear_share(float(np.square(apart).sum()), 2 * variance * float(n_pairs.sum()))
    return np.asarray(np.maximum(even + kept * apart, LEAST_SHARE * np.maximum(even, 0)))


def _kept(beyond: Floats, pattern: Floats, mask: Floats, variance: float) -> Floats | float:
    """Share of what lies beyond the pattern that is kept, pair by pair.

    True totals lie off the pattern by a relative spread that all pairs have in common. So a pair of
    items that are seldom answered, whose noise may be far above the pattern, is not given it.
    """
    if variance == 0:
        return 1.0
    squares, noise = np.square(pattern), 2 * variance
    excess = float(np.square(beyond).sum()) - noise * float(mask.sum())
    spread = max(0.0, excess) / (float(squares.sum()) or 1.0)
    return np.asarray(spread * squares / (spread * squares + noise))


def _clear_share(squares: float, of_noise: float) -> float:
    return max(0.0, 1 - of_noise / squares) if squares > 0 else 0.0


def _pattern(sums: Floats, mask: Floats, product: Floats, c: float, asked: Floats) -> Floats:
    """The pattern of all pairs, with these sums over each item's pairs on the graph.

    An item's sum is lowered to that of its neighbours, where only noise can have made it larger: no
    pattern has such sums, and h would grow without end.
    """
    sums = np.minimum(sums, mask @ sums)
    everywhere = asked * np.exp(-np.clip(c * product, -LARGEST_EXPONENT, LARGEST_EXPONENT))
    np.fill_diagonal(everywhere, 0)
    factor = mask * everywhere
    h = np.sqrt(np.maximum(sums, SMALLEST))
    for _ in range(SCALINGS):
        h = np.sqrt(h * sums / np.maximum(factor @ h, SMALLEST))
    return np.asarray(everywhere * np.outer(h, h))


def _without_item_effects(values: Floats, weights: Floats) -> Floats:
    """Less what h could take up: the weighted means of rows and columns."""
    sums = np.maximum(weights.sum(axis=1), SMALLEST)
    row = values.sum(axis=1) / sums
    return np.asarray(values - weights * (row[:, np.newaxis] + row - values.sum() / sums.sum()))
