"""The privacy statement of a night of a stream: what all nights together promise."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hushrank.flows.statement.designs import design_sentences
from hushrank.flows.statement.grouped import group_sentences
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.flows.statement.sentences import (
    CHANGE,
    LAW_SOURCE,
    OTHER_RELEASES,
    PrivacyStatement,
    against_what,
    bounds,
    not_protected,
    number,
)
from hushrank.privacy.stream import Stream
from hushrank.privacy.stream_encoder import ONE
from hushrank.privacy.units import Adjacency, NoiseKind
from hushrank.transforms.common.schema import Ties

ALL_NIGHTS = "this night and all others of the stream together"
THEOREM = (
    "hushrank's privacy/stream.py, after Choquette-Choo et al., (Amplified) banded matrix"
    " factorization (2023), and Kalinin and Lampert, Banded square root matrix factorization (2024)"
)
NOT_OF_THE_STREAM = (
    "Other releases from answers of the same people, those of other streams among them: their"
    " losses add up. The budget ledger of the population keeps the account. The nights of this"
    " stream are covered together."
)
WHO_COUNTED = (
    "On which night each person counted last, and how often, from anybody who can read the"
    " confidential folder while the stream runs."
)
DATES_TOLD = (
    "On which days this ran. Where schedule.empty is skip, a night without files is released like"
    " any other."
)


def stream_statement(
    entry: str, computed: str, mechanism: CountMechanism, stream: Stream
) -> PrivacyStatement:
    """The guarantee of all nights in words.

    Args:
        entry: one of the counts, after "every".
        computed: what is computed from them, and that nothing else was looked at.
        mechanism: what draws them.
        stream: its nights.
    """
    params, guarantee = mechanism.params, mechanism.guarantee
    uncovered = (
        NOT_OF_THE_STREAM if each == OTHER_RELEASES else each
        for each in not_protected(params, guarantee)
    )
    change = CHANGE[params.unit, params.adjacency]
    return PrivacyStatement(
        sentences=(
            _who(params.adjacency, stream),
            *against_what(change, guarantee, ALL_NIGHTS),
            *_nights(stream),
            *_noise(entry, computed, mechanism, stream),
            *(f"On such a night {each[:1].lower()}{each[1:]}" for each in bounds(params)),
        ),
        not_protected=(*uncovered, WHO_COUNTED, DATES_TOLD),
        theorem=f"{THEOREM}; {LAW_SOURCE[mechanism.law.kind]}.",
        erratum=None,
    )


def _who(adjacency: Adjacency, stream: Stream) -> str:
    whole = (
        f"Each person is protected, with all their answers on all {stream.terms.nights} nights of"
        " the stream"
    )
    if adjacency is Adjacency.ADD_REMOVE:
        return f"{whole}, and so is whether they took part on any of them."
    return f"{whole}."


def _nights(stream: Stream) -> Iterator[str]:
    terms = stream.terms
    times = "one night" if terms.participations == 1 else f"at most {terms.participations} nights"
    apart = ""
    if terms.participations > 1 and terms.gap > 1:
        apart = f", any two of them at least {terms.gap} nights apart"
    yield (
        f"The answers of a person count on {times} of the {terms.nights} of the stream{apart}: the"
        " first night with answers of theirs, and then each that is far enough from the last one"
        " that counted. On other nights they are left out."
    )
    yield (
        f"One budget pays for all {terms.nights} nights: adding nights costs nothing, so each night"
        " more that is released costs nobody anything more."
    )


def _noise(entry: str, computed: str, mechanism: CountMechanism, stream: Stream) -> Iterator[str]:
    law, terms = mechanism.law, stream.terms
    spread = ""
    if stream.encoder.bands > 1:
        spread = f", spread over {stream.encoder.bands} nights with public weights,"
    deviation, shown = math.sqrt(law.variance) / ONE, stream.shown_law(terms.nights - 1)
    whole = ""
    if mechanism.groups is not None:
        of_all = number(math.sqrt(mechanism.shown_variance))
        whole = f" in a group, and {of_all} in all groups together"
    yield (
        f"Each night every {entry}, zeros included{spread} got its own discrete"
        f" {law.kind.capitalize()} noise of standard deviation {number(deviation)}, drawn once."
        f" What is shown, {_shown(stream)}, is made of these noisy numbers alone, and its noise has"
        f" standard deviation {number(math.sqrt(shown.variance))} on the last night{whole};"
        f" {computed}."
    )
    if law.kind is NoiseKind.LAPLACE:
        yield (
            "Such a change moves the counts of all nights together by at most"
            f" {number(mechanism.sensitivity.l1 / ONE)} (l1 norm), and the scale of the noise is"
            " that, divided by epsilon."
        )
    elif mechanism.guarantee.rho is not None:
        moved = math.sqrt(mechanism.sensitivity.l2_squared) / ONE
        yield (
            "Such a change moves what the noise of all nights is added to by at most"
            f" {number(moved)} as a vector (l2 norm, the sensitivity). Epsilon and delta are those"
            " of discrete Gaussian noise of this scale. It also gives zCDP with rho = squared"
            f" sensitivity / (2 squared scale) = {number(mechanism.guarantee.rho)}."
        )
    yield from group_sentences(mechanism)
    yield from design_sentences(mechanism.design)
    if mechanism.ties is Ties.SPLIT:
        yield "A tie is half a win for each item; these numbers are in half wins."


def _shown(stream: Stream) -> str:
    window = stream.workload.window
    if window is None:
        return "all nights so far"
    return "the night alone" if window == 1 else f"the last {window} nights"
