"""Designs: which method needs which, and what noisy exposures say of the one that was stated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.comparisons.exposures import Exposures
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.method import Problems, Sections
from hushrank.flows.release.release import NO_COMPARISONS, NOT_INFORMATIVE


def problems_of_unbalanced(config: Sections) -> Problems:
    """Of a method that ranks by wins alone, which count how often an item was shown."""
    if config.comparisons.design is not Design.BALANCED:
        yield (
            "input.design",
            f"method: {config.method} ranks by wins, and so by how often an item was shown too:"
            " write balanced if every pair of items was asked about equally often, else set"
            " method: auto",
        )


def problems_of_unknown_partners(config: Sections) -> Problems:
    """Of a method that knows how often an item was compared, and not with whom."""
    if config.comparisons.design is Design.ANY:
        yield (
            "input.design",
            f"method: {config.method} takes chance to have decided which items met: write random"
            " (or balanced) if that is so, else set method: perturbed-mle",
        )


def warnings_of(
    estimate: Estimate, exposures: Exposures, design: Design | None, *, private: bool
) -> Iterator[str]:
    """What a reader of scores must know of how often items were compared.

    Args:
        estimate: of the release.
        exposures: released ones.
        design: as the operator stated it.
        private: whether noise was added.
    """
    if design is Design.BALANCED and exposures.clearly_unbalanced():
        least, most = np.quantile(exposures.values, (0.1, 0.9))
        yield (
            "The operator states that every pair of items was asked about equally often, and that"
            f" was not so: the released counts say that a tenth of the items took part in fewer"
            f" than {max(least, 0):,.0f} comparisons and a tenth in more than {most:,.0f}. These"
            " scores allow for it; method noisy-counts would not."
        )
    if not estimate.informative:
        yield NOT_INFORMATIVE if private else NO_COMPARISONS
        return
    open_ended = int((np.isinf(estimate.low) | np.isinf(estimate.high)).sum())
    if open_ended:
        items = "1 item was" if open_ended == 1 else f"{open_ended:,} items were"
        yield (
            f"{items} compared too rarely, against this noise, to bound their scores on both sides:"
            " an end of their intervals is open."
        )
