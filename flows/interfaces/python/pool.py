"""`hushrank.pool` and `hushrank.next_pairs`: conclusions from finished releases, at no cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hushrank.flows.interfaces.python.arguments import plainly
from hushrank.flows.interfaces.python.configuration import PathLike
from hushrank.flows.methods.registry import load_config
from hushrank.flows.refit import next_pairs as choice
from hushrank.flows.refit import pooled
from hushrank.flows.refit.next_pairs import NextPairs
from hushrank.flows.refit.pooled import Pooled


@plainly
def pool(releases: Sequence[PathLike]) -> Pooled:
    """Combine finished releases into one ranking by precision; reads no row and spends nothing.

    Scores are combined by generalised least squares (`estimation.common.pooled_scores`), which
    takes the errors of different releases as independent: they must be about different people.

    Args:
        releases: folders of finished releases, or their `release.json`; at least two.

    Raises:
        ConfigError: the scores are on different scales, a release does not say how far its scores
            may be off, two share noise, or no items link them.
    """
    return pooled.pool([Path(each) for each in releases])


@plainly
def next_pairs(release: PathLike, *, top: int | None = None, more: float = 1.0) -> NextPairs:
    """Choose which pairs to ask about next, from a release alone; spends nothing.

    A greedy design lowers the expected loss of taking the best items of the ranking
    (`estimation.comparisons.next_pairs`). Releases of `noisy-pairs` and `debiased-rr` only: their
    fits condition on who met whom.

    Args:
        release: folder of a release, its `release.json`, or the YAML file of its job.
        top: number of the best items that are sought; None: 5, or half of fewer than 10 items.
        more: answers to come, as a multiple of those that the release counted.

    Raises:
        ConfigError: the method does not condition on who met whom, the release does not say how far
            its scores may be off, or a number is out of range.
    """
    return choice.next_pairs(Path(release), load_config, top=top, more=more)
