"""Privacy statement of noisy totals of answer sheets."""

from __future__ import annotations

from hushrank.flows.statement.counts import CountWords
from hushrank.flows.statement.spectral import BLANKS, OF_BOOKLETS
from hushrank.privacy.units import Unit
from hushrank.transforms.responses.whole_sheets import Missing

DMNS_ON_TOTALS = (
    "Dwork, McSherry, Nissim and Smith, Calibrating noise to sensitivity in private data analysis"
    " (2006), on right less wrong answers of each item and on sheets by raw score, with the"
    " sensitivity that hushrank's privacy/sensitivity.py proves"
)

BANDS = (
    "Right less wrong answers are counted apart, each number with its noise, for sheets of low to"
    " high raw scores; what is said of all sheets is made of the sums."
)


def totals_words(missing: Missing, *, of_booklets: bool, bands: int = 1) -> CountWords:
    """The words for totals of whole sheets.

    Args:
        missing: meaning of a blank.
        of_booklets: whether the test has public booklets.
        bands: bands of raw scores in which answers are counted apart.
    """
    return CountWords(
        entry="item's right less wrong answers, and every number of sheets by raw score",
        computed=(
            "the difficulties, the ranking and all intervals are computed from these noisy numbers"
            " alone"
        ),
        algorithm=dict.fromkeys(Unit, DMNS_ON_TOTALS),
        rows=(
            *((OF_BOOKLETS,) if of_booklets else ()),
            BLANKS[missing],
            *((BANDS,) if bands > 1 else ()),
        ),
    )
