"""Words of a stream's privacy statement that follow from its terms alone.

What is protected, which answers of a person count, and what is not protected.
"""

from __future__ import annotations

from collections.abc import Iterator

from hushrank.flows.statement.sentences import OTHER_RELEASES, Guarantee, bounds, not_protected
from hushrank.privacy.stream_encoder import MeteredTerms, RowTerms, SquareTerms, StreamTerms, Terms
from hushrank.privacy.units import Adjacency, PrivacyParams

NOT_OF_THE_STREAM = (
    "Other releases from answers of the same people, those of other streams among them: their"
    " losses add up. The budget ledger of the population keeps the account. The nights of this"
    " stream are covered together."
)
WHO_COUNTED = (
    "On which night each person counted last, and how often, from anybody who can read the"
    " confidential folder while the stream runs."
)
ROWS_COUNTED = (
    "On which night each person counted last, how many of their answers counted, and on which pairs"
    " of items lately, from anybody who can read the confidential folder while the stream runs."
)
SQUARES_COUNTED = (
    "On which night each person counted last, and how much of their allowance is used up, from"
    " anybody who can read the confidential folder while the stream runs."
)
DATES_TOLD = (
    "On which days this ran. Where schedule.empty is skip, a night without files is released like"
    " any other."
)


def who_on_nights(adjacency: Adjacency, terms: StreamTerms) -> str:
    """Say in one sentence who is protected by a stream."""
    whole = (
        f"Each person is protected, with all their answers on all {terms.nights} nights of"
        " the stream"
    )
    if adjacency is Adjacency.ADD_REMOVE:
        return f"{whole}, and so is whether they took part on any of them."
    return f"{whole}."


def night_bounds(params: PrivacyParams, terms: StreamTerms) -> Iterator[str]:
    """Yield how many of a person's answers were used on one night."""
    which = "a" if isinstance(terms, MeteredTerms) else "such a"
    for each in bounds(params):
        yield f"On {which} night {each[:1].lower()}{each[1:]}"


def not_protected_on_nights(
    params: PrivacyParams, guarantee: Guarantee, terms: StreamTerms
) -> Iterator[str]:
    """Yield the limits of a stream."""
    for each in not_protected(params, guarantee):
        yield NOT_OF_THE_STREAM if each == OTHER_RELEASES else each
    if isinstance(terms, MeteredTerms):
        yield ROWS_COUNTED if isinstance(terms, RowTerms) else SQUARES_COUNTED
    else:
        yield WHO_COUNTED
    yield DATES_TOLD


def night_sentences(terms: StreamTerms) -> Iterator[str]:
    """Yield which answers count in a stream, and what its nights cost together."""
    match terms:
        case RowTerms():
            yield _rows_counted(terms)
        case SquareTerms():
            yield _squares_counted(terms)
        case Terms():
            yield _nights_counted(terms)
    yield (
        f"One budget pays for all {terms.nights} nights: adding nights costs nothing, so each night"
        " more that is released costs nobody anything more."
    )


def _rows_counted(terms: RowTerms) -> str:
    """Say which rows count where rows are metered."""
    burst, further = "", f"further ones as the allowance grows evenly to {terms.rows} on the last"
    if terms.refill is not None:
        further = f"{terms.refill:g} further ones a"
    if terms.burst < terms.rows or terms.refill is not None:
        burst = f", at most {terms.burst} of them on the first night, and {further} night"
    gap = f"once in any {terms.gap} nights" if terms.gap > 1 else "once a night"
    return (
        f"At most {terms.rows:,} of a person's answers count on all {terms.nights} nights of the"
        f" stream together{burst}. Answers of a person on the same two items count at most {gap}."
        " Other answers are left out."
    )


def _squares_counted(terms: SquareTerms) -> str:
    """Say which rows count where squares of their numbers are metered."""
    burst, further = "", f"more as it grows evenly to {terms.squares} on the last"
    if terms.refill is not None:
        further = f"{terms.refill:g} more a"
    if terms.burst < terms.squares or terms.refill is not None:
        burst = f", at most {terms.burst} of it on the first night, and {further} night"
    apart = ""
    if terms.gap > 1:
        apart = f" Nights on which answers of a person count are at least {terms.gap} nights apart."
    return (
        "A night on which n answers of a person count takes n squared plus n from the person's"
        f" allowance, which is {terms.squares:,} for all {terms.nights} nights of the stream"
        f" together{burst}.{apart} Other answers are left out."
    )


def _nights_counted(terms: Terms) -> str:
    """Say on which nights a person's answers count."""
    times = "one night" if terms.participations == 1 else f"at most {terms.participations} nights"
    apart = ""
    if terms.participations > 1 and terms.gap > 1:
        apart = f", any two of them at least {terms.gap} nights apart"
    return (
        f"The answers of a person count on {times} of the {terms.nights} of the stream{apart}: the"
        " first night with answers of theirs, and then each that is far enough from the last one"
        " that counted. On other nights they are left out."
    )
