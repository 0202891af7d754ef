"""The pilot query: a small part of the budget tells, before a release, whether rows fit at all.

A row *fits* if it breaks no rule of the configuration: its columns can be read, its items are in
the catalogue, its result is a word that means something. The look releases two noisy numbers, how
many votes say that rows fit and how many say that they do not. Who votes:

    unit `comparison`   every row, by itself
    unit `user`         every person, once: "fits" if at least half of their rows do, and one does;
                        where a row is one item of a ranking: if all of their rows do, and there is
                        one, because a ranking without an item that it had is another ranking

Where `privacy.look` asks for it, a third number is released: of how many voters a row names an item
that is not in the catalogue. A new item may be in a third of the rows while nearly everybody's
answers fit, so it shows in no share that fits. A person counts in it once, beside their vote.

A vote follows from the unit's own rows and public settings alone. A row that breaks a rule and
names no person is nobody's: under unit `user` it has no vote, so the look rests on no guess whose
it is. A row whose time cannot be read may be of any night, so its person has it in the look of
each: every night is a release of its own, and pays. A tie that the configuration leaves out has no
vote either, and an empty cell of a test or a ranking counts on neither side. Where rankings come
without a column of people, each row is another person.

Laplace noise makes the look purely epsilon-DP, whatever noise the rest of the release has. What
follows may depend on what the look saw (it stops or goes on), which is adaptive composition: the
losses add up.

References:
    [DR14] Dwork, Roth. The Algorithmic Foundations of Differential Privacy. 2014. Theorem 3.16 and
        Appendix B.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from hushrank.privacy.accounting import Spend, decimal_value, float_at_least, float_at_most
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Adjacency, CountTerms, PrivacyParams

MOST_SHARE = 0.5  # share of the budget: more would make the pilot query, or counts, the release


def votes_sensitivity(params: PrivacyParams) -> Sensitivity:
    """Sensitivity of votes that rows fit, votes that they do not, and perhaps unlisted items.

    Each unit has at most one vote, and no other unit's rows decide it. Adding a unit raises one of
    the two numbers by one: l1 = l2^2 = 1. Replacing it takes one vote away and gives one: in the
    worst case one number falls and the other rises, l1 = l2^2 = 2. All exact. How many rows a
    person has makes no difference, so no bound of contributions enters.

    The third number, of units with an item that is not listed, moves by at most one more, up or
    down: l1 = l2^2 = 2 if a unit is added, and 3 if it is replaced. Exact for people, whose answers
    may fit or not and name such an item or not. A row with such an item never fits, so for unit
    `comparison` two of the four cases do not occur, and l1 = 3 is attained where a row that fits is
    replaced by one with such an item.

    Args:
        params: the adjacency; the unit decides who votes and not how far votes move.
    """
    moved = 1 if params.adjacency is Adjacency.ADD_REMOVE else 2
    moved += params.look_unlisted
    return Sensitivity(moved, moved)


def with_look(params: PrivacyParams, share: float, *, unlisted: bool = False) -> PrivacyParams:
    """Set a part of a budget aside for the look.

    The look takes `share` of epsilon and is pure; the rest keeps what is left of epsilon and all of
    delta. Both together are (epsilon, delta)-DP ([DR14]), however the rest is calibrated. Numbers
    are read as decimals and rounded so that the parts never exceed the whole.

    Args:
        params: the whole budget, without a look.
        share: share of epsilon, in (0, 1/2].
        unlisted: whether the look also counts who names an item that is not listed.

    Returns:
        The same without that part, which is `look`. Without privacy: `params` as they are.

    Raises:
        ValueError: `share` is outside, or `params` have a look already, or rho and no epsilon.
    """
    if not 0 < share <= MOST_SHARE:
        raise ValueError(f"look must be above 0 and at most {MOST_SHARE:g}, got {share!r}")
    if params.look:
        raise ValueError("look: a part is set aside already")
    if params.rho is not None:
        raise ValueError("look takes a share of epsilon, and rho is given instead; remove one")
    if not params.private:
        return params
    look = float_at_most(decimal_value(share) * decimal_value(params.epsilon))
    rest = decimal_value(params.epsilon) - decimal_value(look)
    return replace(params, look=look, epsilon=float_at_most(rest), look_unlisted=unlisted)


def cost_of_counts(terms: CountTerms | None) -> Fraction:
    """Epsilon of all counts beside the ranking (`privacy.private_counts`), exactly."""
    return Fraction(0) if terms is None else decimal_value(terms.epsilon) * len(terms.queries)


def epsilon_of_counts(params: PrivacyParams) -> float:
    """Epsilon of all counts beside the ranking together; 0: there are none."""
    return float_at_least(cost_of_counts(params.counts))


def epsilon_with(epsilon: float, params: PrivacyParams) -> float:
    """Joint epsilon of a ranking of `epsilon` and of all that `params` set aside beside it."""
    if math.isinf(epsilon):
        return epsilon
    return float_at_least(
        decimal_value(epsilon) + decimal_value(params.look) + cost_of_counts(params.counts)
    )


def spend_with_look(spend: Spend, params: PrivacyParams) -> Spend:
    """Joint cost of a release that costs `spend`, of its pilot query and of counts beside it.

    These are no Gaussian noise, so the sum of them and of Gaussian noise is told as epsilon and
    delta, which holds for all, and not as rho.

    Args:
        spend: cost of the ranking alone.
        params: parameters of the release.
    """
    if not params.has_parts:
        return spend
    if spend.rho is not None:
        spend = Spend(epsilon=params.epsilon, delta=params.delta)
    return replace(spend, epsilon=epsilon_with(spend.epsilon, params))
