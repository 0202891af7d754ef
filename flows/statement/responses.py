"""What a release from responses to test items says of its guarantee.

Privacy statement of noisy measurements of test answers. Privacy statement of noisy totals of
answer sheets. Privacy statement of noisy totals of answer sheets with points.
"""

from __future__ import annotations

from hushrank.estimation.responses.item_graph import ItemGraph
from hushrank.flows.statement.mechanism import CountWords
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Unit
from hushrank.transforms.responses.answer_sheets import Missing

BLANKS = {  # meaning of a blank
    Missing.UNSEEN: "An item that a person left out is taken as not asked, by chance.",
    Missing.WRONG: "An item that a person left out counts as a wrong answer.",
    Missing.SET_ASIDE: "The sheet of a person who left an item out does not count.",
}
OF_BOOKLETS = (
    "A sheet belongs to one of the test's public booklets; one that fits none, or several, does not"
    " count."
)
NZ = "Nguyen and Zhang, Optimal and private learning from human response data (2023)"


def measurement_words(
    graph: ItemGraph, sensitivity: Sensitivity, missing: Missing, *, of_booklets: bool
) -> CountWords:
    """The words for counts on `graph`, whose sensitivity is the one that was used.

    Args:
        graph: the public graph.
        sensitivity: sensitivity of the counts.
        missing: meaning of a blank.
        of_booklets: whether its pairs are those that share a booklet; of all pairs it says nothing.
    """
    every_pair = graph.complete
    pairs = "every pair of items" if every_pair else f"each of the graph's {graph.n_edges:,} pairs"
    drawn = "" if every_pair else ", a public graph that was drawn without looking at an answer"
    if of_booklets and not every_pair:
        pairs = f"each of {graph.n_edges:,} pairs"
        drawn = " of items that share one of the test's public booklets"
    n_pairs = graph.n_items * (graph.n_items - 1)
    theirs = f"m (m - 1) = {n_pairs:,}" if every_pair else f"2 |E| = {2 * graph.n_edges:,}"
    return CountWords(
        entry=(
            "count of people who were right on one item and wrong on another, both ways on"
            f" {pairs}{drawn}"
        ),
        computed=(
            "the difficulties, the ranking and all intervals are computed from the noisy counts"
            " alone"
        ),
        algorithm=dict.fromkeys(
            Unit, f"{NZ}, Algorithm 2 and Lemma 4.1 (noisy pairwise differential measurements)"
        ),
        errata=(
            "E5: the script published with the paper adds noise only where a count is not zero, so"
            " a zero that stays zero gives people away; here zeros get noise as well. E6: Lemma 4.1"
            " prints the variance of the noise with the square root of the squared sensitivity,"
            " where its own proof needs the number itself; it is used here. The paper lets a person"
            f" move {theirs} counts; the bound used here is {sensitivity.l2_squared:,} counts,"
            " each by one."
        ),
        rows=(*((OF_BOOKLETS,) if of_booklets else ()), BLANKS[missing]),
    )


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


DMNS_ON_POINTS = (
    "Dwork, McSherry, Nissim and Smith, Calibrating noise to sensitivity in private data analysis"
    " (2006), on sheets by the points of each item and on sheets by raw score, with the"
    " sensitivity that hushrank's privacy/response_sensitivity.py proves"
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
