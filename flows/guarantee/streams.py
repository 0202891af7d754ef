"""A stream of nights in words: what one budget covers, which nights count, and the noise."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hushrank.flows.guarantee.sentences import Covered, Guarantee, number
from hushrank.privacy.stream import Stream
from hushrank.privacy.stream_encoder import ONE, Terms
from hushrank.privacy.units import NoiseKind

SOURCES = (
    "Denisov, McMahan, Rush, Smith and Thakurta, Improved differential privacy for SGD via optimal"
    " private linear operators on adaptive streams (2022); Choquette-Choo et al., (Amplified)"
    " banded matrix factorization (2023), with the proof for streams of counts in hushrank's"
    " privacy/stream.py"
)
WHO_COUNTS = (
    "A person's first night with answers counts, and from then on each that is far enough from the"
    " last one that counted. That depends on the person's own answers alone; answers on other"
    " nights are not used."
)


def covered_by(stream: Stream) -> Covered:
    """All nights of the stream."""
    nights = f"{stream.terms.nights:,} nights of this stream"
    return Covered(
        answers=f"on all {nights}",
        results=f"no result of the {nights}, all of them together",
        others=(
            "Other releases from answers of the same people, a stream after this one among them:"
            " their losses add up, and the budget ledger of the population keeps the account. The"
            " nights of one stream do not add up: the ledger counts them once."
        ),
        kept=(
            "The answers themselves, and on which night each person counted last, from anybody who"
            " can read the input or the confidential folder."
        ),
        when="On a night that counts, at most",
    )


def participation(terms: Terms) -> str:
    """Which nights count and what a night costs, in one sentence."""
    most = len(terms.earliest)
    of = f"of its {terms.nights:,} nights at most {most:,} count of each person"
    if terms.gap > 1 and most > 1:
        of += f", any two of them at least {terms.gap} days apart"
    return f"One budget pays for the whole stream: {of}. Adding nights costs nothing."


def shown_together(stream: Stream) -> str:
    """What a night shows."""
    window = stream.workload.window
    if window is None:
        return "all nights so far"
    return "that night alone" if window == 1 else f"the last {window} nights"


def stream_noise(entry: str, computed: str, guarantee: Guarantee, stream: Stream) -> Iterator[str]:
    """Which nights count, and the noise of all nights, on an `entry`; see `counts.CountWords`."""
    yield participation(stream.terms)
    yield WHO_COUNTS
    law, bands = stream.law, stream.encoder.bands
    moved = f"Each night every {entry}, zeros included, got"
    if bands > 1:
        before = "the night before" if bands == 2 else f"the {bands - 1} nights before"
        moved = (
            f"Each night every {entry}, zeros included, was added to those of {before}, which weigh"
            " less the older they are, and the sum got"
        )
    yield (
        f"{moved} discrete {law.kind.capitalize()} noise of its own, of scale {number(law.scale)}"
        f" in units of 2^-20 (standard deviation {number(math.sqrt(law.variance) / ONE)} in"
        f" counts). A night shows {shown_together(stream)}: counts that are computed from the"
        f" noisy numbers of this night and of all nights before; {computed}."
    )
    if law.kind is NoiseKind.LAPLACE:
        yield (
            "The scale is sensitivity / epsilon: such a change moves the numbers of all nights by"
            f" at most {number(stream.sensitivity.l1 / ONE)} altogether (l1 norm)."
        )
    elif guarantee.rho is not None:
        yield (
            "Such a change moves the numbers of all nights by at most"
            f" {number(math.sqrt(stream.sensitivity.l2_squared) / ONE)} as one vector (l2 norm, the"
            " sensitivity). Epsilon and delta are those of discrete Gaussian noise of this scale."
            f" It also gives zCDP with rho = squared sensitivity / (2 squared scale) ="
            f" {number(guarantee.rho)}."
        )
