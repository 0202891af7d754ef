"""Which method ranks a test with less noise.

Of a test whose sheets count as a whole, `totals` and `spectral` learn about as much from an answer,
so the one with less noise in the difficulties of a typical test is taken
(`estimation.responses.totals_estimate`). What `totals` alone can do decides for it. Where a blank
is taken as not asked, there are no whole sheets, and `spectral` is taken.
"""

from __future__ import annotations

from dataclasses import replace

from hushrank.estimation.responses.totals_estimate import (
    noise_from_pairs,
    noise_from_totals,
    predicted_noise,
)
from hushrank.flows.config.method import Problems, Sections
from hushrank.flows.config.responses import ResponsesConfig
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import Choice
from hushrank.flows.methods.responses.spectral import Spectral
from hushrank.flows.methods.responses.totals import Totals
from hushrank.transforms.responses.answer_sheets import Missing

SPECTRAL, TOTALS = Spectral(), Totals()
UNSEEN = "a blank is taken as an item that was not asked (input.missing: unseen)"


def problems_of_tests(config: Sections) -> Problems:
    """Keys that only comparisons have, and the rules of the method that ranks any test."""
    for key in sorted(config.model.model_fields_set - {"anchors", "bands"}):
        yield f"model.{key}", "is not used where test items are ranked; remove it"
    if config.privacy.public_graph:
        yield "privacy.public_graph", "changes nothing for test answers; remove it"
    yield from (TOTALS if _of_totals(config) else SPECTRAL).facts.rules(config)


def _of_totals(config: Sections) -> str:
    """What only `totals` can do of what the job asks for; empty: nothing."""
    points = isinstance(config.input, ResponsesConfig) and config.input.points is not None
    asked = {
        "items give points (input.points)": points,
        "sheets are counted by group (groups)": config.groups is not None,
        "answers are counted by bands of raw scores (model.bands)": config.model.bands is not None,
        "items have fixed difficulties (model.anchors)": config.model.anchors is not None,
    }
    return " and ".join(what for what, wanted in asked.items() if wanted)


def of_least_noise(config: SurveyConfig) -> Choice:
    """The method of test items with less noise; `spectral` where no sheet counts as a whole.

    Points, groups, bands and anchors are for `totals` alone.
    """
    if only := _of_totals(config):
        return replace(TOTALS.resolve(config), reason=only)
    pairs = SPECTRAL.calibrate(config)
    if (config.responses.missing or Missing.UNSEEN) is Missing.UNSEEN:
        return Choice(SPECTRAL, UNSEEN, pairs)
    try:
        totals = TOTALS.calibrate(config)
    except ConfigError as refused:
        return Choice(SPECTRAL, f"method totals is not for this test ({refused})", pairs)
    n_items, shape = pairs.graph.n_items, totals.shape
    sheet = max(map(len, shape.booklets))
    met = (
        sheet
        * (sheet - 1)
        / (2 * pairs.graph.n_edges if pairs.graph.booklets else n_items**2 - n_items)
    )
    own = noise_from_totals(n_items, sheet / n_items, predicted_noise(shape, totals.counts.law))
    degree = 2 * pairs.graph.n_edges / n_items
    noise = noise_from_pairs(n_items, degree, met, pairs.counts.law.variance)
    words = (
        f"noise in a difficulty, of 1,000 people: {own / 1000:.3g} (totals), {noise / 1000:.3g}"
        " (spectral)"
    )
    return Choice(TOTALS, words, totals) if own <= noise else Choice(SPECTRAL, words, pairs)
