"""Privacy statement of noisy measurements of test answers."""

from __future__ import annotations

from hushrank.estimation.responses.item_graph import ItemGraph
from hushrank.flows.statement.counts import CountWords
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Unit
from hushrank.transforms.responses.whole_sheets import Missing

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
