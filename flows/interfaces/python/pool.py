"""`hushrank.pool`: one ranking from releases about different people."""

from __future__ import annotations

from collections.abc import Sequence

from hushrank.flows.interfaces.python.arguments import plainly
from hushrank.flows.interfaces.python.configuration import PathLike
from hushrank.flows.refit import pooled
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
    return pooled.pool([*releases])
