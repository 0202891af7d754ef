"""Budget of a whole stream of nights, of which each night shows a window or all so far.

A stream has T nights. Night t counts cells x_t, integers >= 0 (wins by item, wins by ordered pair).
What is shown that night is row t of A x, where A is lower triangular and Toeplitz: ones for the
last W nights (`Workload`). Released is

    y_t = sum_{i < bands} c_i x_{t-i} + z_t,

with integers c_i >= 0 (`Encoder`, the first column of C) and fresh integer noise z_t; everything
shown is computed from y_1 ... y_t alone: row t of A C^-1 y has the mean (A x)_t, exactly
([DMRST22]).

Guarantee. Two streams are adjacent if they differ in one person: all of the person's rows, on all
nights, are absent from one stream (`add-remove`) or replaced (`replace-one`). Participation is
enforced: a person's rows count on at most k nights, any two of them at least b nights apart, chosen
from the person's own rows and the public terms alone (`Terms`,
`transforms.streams.people_files`). On such a night they move the cells by a vector u >= 0
with |u|_1 <= D1 and |u|_2^2 <= D2, the `add-remove` sensitivities of one night.

Let X be one person's own cells, one row a night, zero outside the kept nights S. With bands <= b
the columns of C that belong to two nights of S have no row in common ([CGMRT23]), so

    |C X|_2^2 = sum_{t in S} |c truncated at night T|^2 |x_t|_2^2 <= N D2,
    N = sum_{j < k, j b < T} (c_0^2 + ... + c_{min(bands, T - j b) - 1}^2),

because the j-th kept night is night j b at the earliest, and later columns are cut shorter. That is
`add-remove`. Under `replace-one` X becomes X', whose nights may be others, and all entries of C X
and C X' are >= 0, so

    |C (X - X')|_2^2 = |C X|_2^2 + |C X'|_2^2 - 2 <C X, C X'> <= 2 N D2.

Both are exact where D2 is attained in one cell and another cell is free. The `replace-one`
sensitivity of a single night is not enough: it may be below 2 D2, and X and X' may have their rows
on different nights. For the l1 norm the triangle inequality gives N1 D1 and 2 N1 D1 with the sums
of c in place of the sums of squares, whatever the bands.

Groups. Where rows are in groups that have counts of their own, the cells of a night are those of
all groups, and D1, D2 are those of `privacy.sensitivity` for grouped counts. A row touches cells of
its own group alone, and a person's bounds, L and the kept nights, are of their rows in all groups
together. So on a kept night |u|_1 = sum_g |u_g|_1 and |u|_2^2 = sum_g |u_g|_2^2 are at most what
they are without groups, with equality where the person's rows of the night are in one group. The
rest of the derivation only uses that cells are >= 0. Hence groups cost a stream nothing, under
either adjacency: its bound under `replace-one` lets nothing cancel between X and X' as it is. It
would be G times as large in squares if the bounds were enforced in each of G groups.

Groups that overlap. Where a row counts in up to g groups and once in the whole, which has cells of
its own, a kept night moves all cells together by u >= 0 with |u|_1 <= (g + 1) D1 and |u|_2^2 <=
(g + 1) D2 (`Sensitivity.in_groups`). The derivation needs no more of a night than that. So both
bounds are g + 1 times as large, under either adjacency, and no less: a person whose rows are in the
same g groups on all kept nights moves each of them, and the whole, as without groups.

Rows in place of nights (`RowTerms`, for counts of ordered pairs of items). At most B of a person's
rows count in the whole stream, and rows on the same two items at most once in any b nights, which
the person's own rows and the public terms decide alone (`transforms.streams.row_meter`). A row
moves the cells of its own two items only, by a vector u >= 0 with |u|_1 <= D1 and |u|_2^2 <= D2:
those of `privacy.sensitivity` for one row. Let x_c(t) be what the person adds to cell c on night t.
Then

    |C X|_2^2 = sum_c sum_{s, t} R(s - t) x_c(s) x_c(t),   R(h) = sum_i c_i c_{i+h},

and R(h) = 0 where |h| >= bands. Two rows that move the same cell are on the same two items, so they
are b >= bands nights apart and each product with s /= t is 0. What remains is at most
|c|_2^2 times the sum of D2 over rows: |C X|_2^2 <= B |c|_2^2 D2 (`add-remove`), and twice that
under `replace-one`, by the same argument as above. For l1 it is B |c|_1 D1, and twice that. The
number L of rows on one night is not in the bound. Both bounds are exact where each row moves one
cell, the stream is long enough and nothing but the pairs limits what a person gives.

The proof needs that one row touches no cell of another pair. Counts of wins by item do not have
that: of 3 nights and 2 bands, A beats B on the first and A beats C on the second moves the cell of
A twice, and |C X|_2^2 = 3.5 although B |c|_2^2 = 2.5. So rows are metered for pairs of items alone.
With groups the same two items are one pair in all groups together, which is stricter than needed.
Where groups overlap, a row moves the cells of its two items in up to g groups and in the whole, by
(g + 1) D1 and (g + 1) D2 in all. Rows that move the same cell, of whichever group, are on the same
two items still, so products with s /= t stay 0 and both bounds grow by the factor g + 1.

Squares in place of nights (`SquareTerms`, for wins and losses of each item). A person's nights that
count are at least b apart, as above, but may have different numbers of rows l_t: on distinct pairs,
and with sum over nights of l_t^2 + l_t at most Q, which the person's own rows and the public terms
decide alone (`transforms.streams.square_meter`). On a night of l rows on distinct pairs the wins w
and losses u of the items have |w|_2^2 + |u|_2^2 <= l^2 + l. For the left side counts, over all l^2
ordered pairs of these rows, the cells that both rows move: 2 where it is one row twice, and else at
most 1, since two rows with the same winner and the same loser are on one pair. That is at most
2 l + l (l - 1), and one item that beats l others attains it. Bands of two nights that count do not
overlap, so

    |C X|_2^2 <= |c|_2^2 sum_t |x_t|_2^2 <= Q |c|_2^2   (`add-remove`), twice that (`replace-one`),

for all entries are >= 0; were differences of wins and losses counted in place of both, entries
would have both signs and `replace-one` would cost four times as much (X' = -X). For l1 a night has
|x_t|_1 = 2 l <= l^2 + l, so Q |c|_1, and twice that. A row adds its weight to either cell, so both
norms scale as those of one night do. What a night uses is a matter of l alone, never of who won:
charging the sum of squares itself would be as private, but would silence people who agree with each
other in their answers sooner than others, and lean the ranking.
Groups cost nothing here, and where they overlap both bounds grow by the factor g + 1: with its
pairs distinct in all groups together, a night of l rows moves each set of cells by l^2 + l at most,
so `Sensitivity.in_groups` holds of it.

The nights together cost what one release of C X costs, although the rows of later nights may depend
on what was shown before. Given the past, y_t is a discrete Gaussian shifted by some integer vector
s_t under one stream and not under the other, with E[(P/Q)^a] <= exp(a (a - 1) |s_t|^2 / (2 s^2))
([CKS20] Proposition 5). On every path sum |s_t|^2 <= D^2, the bound above. So the products of
(P/Q)^a exp(-a (a - 1) |s_t|^2 / (2 s^2)) over nights are a supermartingale from 1, and the Renyi
divergence of order a of all nights is at most a D^2 / (2 s^2): rho-zCDP with s^2 = D^2 / (2 rho).
The theorem of `gaussian_profile` holds as well: the factors w multiply along every path, of which
at most D^2 entries move, and Gaussian noise composes as one mechanism of D^2 where shifts are
chosen in view of what was shown, too ([ST22]).
The l1 bound gives epsilon-DP with discrete Laplace noise in the same way.

References:
    [CKS20] Canonne, Kamath, Steinke. The discrete Gaussian for differential privacy. 2020.
    [DMRST22] Denisov, McMahan, Rush, Smith, Thakurta. Improved differential privacy for SGD via
        optimal private linear operators on adaptive streams. 2022.
    [CGMRT23] Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta, Xu. (Amplified) banded
        matrix factorization: a unified approach to private training. 2023.
    [ST22] Smith, Thakurta. Fully adaptive composition for Gaussian differential privacy. 2022.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.privacy.accounting import rho_of
from hushrank.privacy.noise import NoiseLaw, add_noise, gaussian_law, laplace_law
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream_encoder import (
    Encoder,
    Floats,
    StreamTerms,
    Workload,
    decoding,
)
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

MAX_ENCODED = 1 << 62  # beyond it an integer could overflow
FEW_DRAWS = 30  # draws of Laplace noise up to which their sum has heavier tails than Gaussian

Counts = NDArray[np.int64]


def stream_sensitivity(
    one: Sensitivity, adjacency: Adjacency, terms: StreamTerms, encoder: Encoder
) -> Sensitivity:
    """Sensitivity of C X, all nights of a stream together; the module derives it.

    Args:
        one: sensitivity of one night's cells under `add-remove`, whatever the stream's adjacency
            is; under `RowTerms` that of one row, under `SquareTerms` that of one square: the weight
            of a row, and its square.
        adjacency: the stream's.
        terms: enforced on every person.
        encoder: an encoder with at most `terms.gap` bands.

    Returns:
        l1 and squared l2 sensitivity, in units of 2^-20 and 2^-40 of a count.

    Raises:
        ValueError: the encoder has more bands than the gap has nights.
    """
    if encoder.bands > terms.gap:
        raise ValueError(
            f"the encoder has {encoder.bands} bands and the gap is {terms.gap} nights: bands of one"
            " person's nights would overlap; take at most as many bands as the gap has nights"
        )
    norms, sides = encoder.norms(terms), 1 if adjacency is Adjacency.ADD_REMOVE else 2
    return Sensitivity(sides * norms.l1 * one.l1, sides * norms.l2_squared * one.l2_squared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Rules by which the nights of one stream are released and shown.

    Attributes:
        terms: T, b, and k nights, B rows or Q squares of a person.
        workload: nights whose sum is shown each night.
        encoder: C.
        sensitivity: sensitivity of C X.
        law: law of each entry of z_t; with `sensitivity` it makes the guarantee of all nights
            together.
    """

    terms: StreamTerms
    workload: Workload
    encoder: Encoder
    sensitivity: Sensitivity
    law: NoiseLaw

    @property
    def kernel(self) -> Floats:
        """First column of A C^-1, shape (T,): what is shown on night t is the sum of
        kernel[i] y_{t-i}."""
        return decoding(self.workload, self.encoder, self.terms.nights)

    @property
    def variances(self) -> Floats:
        """Variance of one shown cell, night by night, shape (T,); two cells are independent."""
        variances: Floats = self.law.variance * np.cumsum(self.kernel**2)
        return variances

    def shown_law(self, night: int) -> NoiseLaw:
        """A law with the variance of the noise in a cell as it is shown on `night`, in counts.

        A sum of Gaussian noise is Gaussian. One draw of Laplace noise is Laplace, and so, for
        intervals that are never too short, is a sum of up to `FEW_DRAWS`; more are near Gaussian.

        Raises:
            ValueError: the night is not one of the stream.
        """
        self.terms.check_night(night)
        variance = float(self.variances[night])
        draws = int(np.count_nonzero(self.kernel[: night + 1]))
        few = self.law.kind is NoiseKind.LAPLACE and draws <= FEW_DRAWS
        if few and variance > 1:
            # the law on integers
            return NoiseLaw(NoiseKind.LAPLACE, math.sqrt(variance / 2 + 1 / 12))
        return NoiseLaw(NoiseKind.GAUSSIAN, math.sqrt(variance))

    def covariance(self, first: int, second: int) -> float:
        """Covariance of one cell as it is shown on two nights; on one night, its variance.

        Raises:
            ValueError: a night is not one of the stream.
        """
        for night in (first, second):
            self.terms.check_night(night)
        return self.law.variance * shown_covariance(self.kernel, first, second)


def shown_covariance(kernel: Floats, first: int, second: int) -> float:
    """Entry (first, second) of A C^-1 (A C^-1)^T: of a cell on two nights, for noise of variance 1.

    Args:
        kernel: first column of A C^-1, for all nights up to the later one at least.
        first, second: nights, from 0.
    """
    shared, lag = min(first, second) + 1, abs(first - second)
    return float(kernel[:shared] @ kernel[lag : lag + shared])


def stream_of(
    params: PrivacyParams,
    one: Sensitivity,
    terms: StreamTerms,
    workload: Workload,
    bands: int | None = None,
) -> Stream:
    """The stream that gives the guarantee of `params` for all of its nights together.

    Guarantee: with `gaussian` noise rho-zCDP, or (epsilon, delta)-DP by `gaussian_profile`;
    epsilon-DP with `laplace` noise, which takes no factorisation: one band.

    Args:
        params: unit `user`; their budget is that of the whole stream, their bounds those of one
            night.
        one: sensitivity of one night's cells under `add-remove`, which `params` must enforce; under
            `RowTerms` that of one row, under `SquareTerms` that of one square.
        terms: enforced on every person.
        workload: nights whose sum is shown each night.
        bands: bands of the encoder (`best_encoder`); None: as many as the terms and the workload
            allow, 1 for `laplace`.

    Raises:
        ValueError: another unit than `user`, more bands than the gap, the window or the noise
            allow, or a budget so small that the noise could overflow a count.
    """
    if params.unit is not Unit.USER:
        raise ValueError(f"a stream protects a person on all nights: unit user, got {params.unit}")
    laplace = params.noise is NoiseKind.LAPLACE
    if bands is None:
        bands = 1 if laplace else workload.most_bands(terms)
    if laplace and bands > 1:
        raise ValueError(f"noise laplace takes no factorisation: 1 band, got {bands!r}")
    from hushrank.privacy.best_encoder import best_encoder  # for streams alone

    encoder = best_encoder(workload, terms, bands)
    of_name = stream_sensitivity(one, params.adjacency, terms, encoder)
    sensitivity = of_name.of_names(params.names_per_person)
    if laplace:
        law = laplace_law(sensitivity, params.epsilon)
    else:
        law = gaussian_law(sensitivity, rho_of(params, sensitivity.l2_squared))
    return Stream(terms=terms, workload=workload, encoder=encoder, sensitivity=sensitivity, law=law)


def encoded_night(encoder: Encoder, recent: Sequence[Counts]) -> Counts:
    """Row t of C x: sum over i of c_i x_{t-i}. Confidential: no noise yet.

    Args:
        encoder: C.
        recent: x_t, x_{t-1}, ..., the night itself first: as many nights as there are bands, or
            all nights of a stream that is younger. All of one shape, entries >= 0.

    Returns:
        The shape of a night, in units of 2^-20.

    Raises:
        ValueError: no night, more nights than bands, shapes that differ, a negative count, or
            counts so large that a sum could overflow.
    """
    if not 1 <= len(recent) <= encoder.bands:
        raise ValueError(f"need 1 to {encoder.bands} nights, got {len(recent)}")
    if len({counts.shape for counts in recent}) > 1:
        raise ValueError("all nights of a stream must have the same cells")
    largest = max((int(counts.max(initial=0)) for counts in recent), default=0)
    if any(counts.min(initial=0) < 0 for counts in recent):
        raise ValueError("counts must be >= 0: the sensitivity of a stream rests on it")
    if largest * sum(encoder.coefficients) >= MAX_ENCODED:
        raise ValueError("counts are too large to be encoded in 64 bits")
    encoded = np.zeros(recent[0].shape, np.int64)
    for coefficient, counts in zip(encoder.coefficients, recent, strict=False):
        encoded += coefficient * counts
    return encoded


def released_night(stream: Stream, recent: Sequence[Counts], bits: RandomBits) -> Counts:
    """y_t: the encoded night with fresh noise. To draw it twice is to release it twice.

    Guarantee: together with all other nights the one of `stream_of`, if every person's
    participation was bounded by `stream.terms` and `bits.safe`.

    Args:
        stream: the terms and the law.
        recent: as for `encoded_night`.
        bits: `system_bits()` in a release.

    Raises:
        ValueError: as `encoded_night`.
    """
    return add_noise(encoded_night(stream.encoder, recent), stream.law, bits)


def shown_night(stream: Stream, released: Counts) -> Floats:
    """Return the counts shown on the last released night: row t of A C^-1 y, post-processing.

    Args:
        stream: the terms.
        released: y_0 ... y_t, shape (t + 1, ...).

    Returns:
        Unbiased for row t of A x, in counts, in the shape of a night.

    Raises:
        ValueError: no night, or more than the stream has.
    """
    night = len(released) - 1
    stream.terms.check_night(night)
    weights = stream.kernel[night::-1]
    shown: Floats = np.tensordot(weights, released, axes=1)
    return shown


def relative_error(workload: Workload, terms: StreamTerms, bands: int) -> float:
    """Root mean square over nights of the noise in a shown cell, at equal privacy.

    In units of the noise that a single release of one night has under the same rho, which has
    variance D^2 / (2 rho) with D the `l2` sensitivity of one night: composition is k = T, b = 1.
    Under `RowTerms` D is that of one row, under `SquareTerms` that of one square.

    Raises:
        ValueError: `bands` does not suit the workload or the gap.
    """
    from hushrank.privacy.best_encoder import best_encoder  # for streams alone

    encoder = best_encoder(workload, terms, bands)
    norm = stream_sensitivity(Sensitivity(1, 1), Adjacency.ADD_REMOVE, terms, encoder).l2_squared
    squares = np.cumsum(decoding(workload, encoder, terms.nights) ** 2)
    return math.sqrt(norm * float(squares.mean()))
