"""Counts beside a ranking: how many people and answers counted, who contradicts themselves.

Each query is about what remains of the rows after the bounds:

    people          how many people have an answer that counts
    answers         how many answers count
    contradictions  two numbers: of the people with decided answers to one pair twice or more, how
                    many gave contrary ones about some pair, and how many never did

A person is in one of the last two numbers or in none of them, by their own rows alone. Ties decide
nothing and are left out there; a tie that a coin decides is a tie.

The queries share a stated part of epsilon equally. Each is drawn with discrete Laplace noise, so it
is pure epsilon-DP whatever noise the rest has, and the losses of all queries and of the rest add up
([DR14] Theorem 3.16 and Appendix B).

None of them follows from the ranking, and none is free here. Under `replace-one` the number of
people whose rows are read is the same in both inputs, but a person's rows may all break a rule, so
the number of people who count is not. Noise on pair counts has, under `replace-one`, room for the
number of answers in the Gaussian case (the squared distance of two people with a and b answers is
at most (a + b)^2, and (a + b)^2 + (a - b)^2 <= 4 L^2). That room differs by method, adjacency and
law, so one price that holds for every method is asked instead.

References:
    [DR14] Dwork, Roth. The Algorithmic Foundations of Differential Privacy. 2014.
"""

from __future__ import annotations

from dataclasses import replace

from hushrank.privacy.accounting import decimal_value, float_at_most
from hushrank.privacy.pilot_query import MOST_SHARE, cost_of_counts
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Adjacency, CountTerms, PrivacyParams, Query


def people_sensitivity(params: PrivacyParams) -> Sensitivity:
    """Sensitivity of the number of people who count: l1 = l2^2 = 1 under both adjacencies.

    A person is counted once or not at all. Of two people, one of whom takes the other's place, one
    may count and the other not, since rows that break a rule count nothing; and no change of one
    person moves the number by more.
    """
    return Sensitivity(1, 1)


def answers_sensitivity(params: PrivacyParams) -> Sensitivity:
    """Sensitivity of the number of answers that count: l1 = L, l2^2 = L^2, under both adjacencies.

    A person has from 0 to L answers that count, so adding, removing or replacing a person moves the
    sum by at most L. It does where a person with L answers takes the place of one with none. Under
    unit `comparison` L is 1: a row counts or breaks a rule.
    """
    most = params.max_contributions
    return Sensitivity(most, most**2)


def contradictions_sensitivity(params: PrivacyParams) -> Sensitivity:
    """Sensitivity of who contradicts themselves and who does not: l1 = l2^2 = 1, or 2 if replaced.

    A person is in one of two numbers or in none. Adding one raises one number by one. Replacing one
    moves, in the worst case, a unit from one number to the other.
    """
    moved = 1 if params.adjacency is Adjacency.ADD_REMOVE else 2
    return Sensitivity(moved, moved)


def with_counts(
    params: PrivacyParams, share: float, queries: tuple[Query, ...], whole: float
) -> PrivacyParams:
    """Set a part of a budget aside for counts beside the ranking.

    Args:
        params: the budget that is left, with or without a pilot query.
        share: share of `whole` that all queries take together, in (0, 1/2].
        queries: at least one, each once.
        whole: epsilon of the release.

    Returns:
        The same without that part, which is `counts`. Without privacy: `params` as they are.

    Raises:
        ValueError: `share` is outside, nothing or something twice is asked, no epsilon is left, or
            `params` have such counts already, or rho and no epsilon.
    """
    if not 0 < share <= MOST_SHARE:
        raise ValueError(f"counts must be above 0 and at most {MOST_SHARE:g}, got {share!r}")
    if not queries or len({*queries}) < len(queries):
        raise ValueError(f"counts must name a query, and each once, got {queries!r}")
    if params.counts is not None:
        raise ValueError("counts: a part is set aside already")
    if params.rho is not None:
        raise ValueError("counts takes a share of epsilon, and rho is given instead; remove one")
    if not params.private:
        return params
    each = float_at_most(decimal_value(share) * decimal_value(whole) / len(queries))
    terms = CountTerms(epsilon=each, queries=queries)
    rest = float_at_most(decimal_value(params.epsilon) - cost_of_counts(terms))
    if not rest > 0:
        raise ValueError("counts leaves no epsilon for the ranking; lower its share, or look's")
    return replace(params, counts=terms, epsilon=rest)
