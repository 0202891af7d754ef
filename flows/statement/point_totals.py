"""Privacy statement of noisy totals of answer sheets with points."""

from __future__ import annotations

from hushrank.flows.statement.counts import CountWords
from hushrank.flows.statement.spectral import BLANKS
from hushrank.privacy.units import Unit
from hushrank.transforms.responses.whole_sheets import Missing

DMNS_ON_POINTS = (
    "Dwork, McSherry, Nissim and Smith, Calibrating noise to sensitivity in private data analysis"
    " (2006), on sheets by the points of each item and on sheets by raw score, with the"
    " sensitivity that hushrank's privacy/point_sensitivity.py proves"
)
WHOLE_POINTS = "A sheet with more points than an item gives, or with part of one, does not count."


def point_words(missing: Missing) -> CountWords:
    """The words for totals of whole sheets with points.

    Args:
        missing: meaning of a blank.
    """
    return CountWords(
        entry="number of sheets by the points of an item, and every number of sheets by raw score",
        computed=(
            "the difficulties, the ranking and all intervals are computed from these noisy numbers"
            " alone"
        ),
        algorithm=dict.fromkeys(Unit, DMNS_ON_POINTS),
        rows=(WHOLE_POINTS, BLANKS[missing]),
    )
