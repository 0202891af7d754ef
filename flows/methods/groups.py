"""Groups: what the three methods that release counts have in common where rows are in groups.

Each group's counts get noise of their own, and the whole is the sum of all groups, so with G groups
the variance of its noise is G times what it is without groups. Another way would draw the whole
apart, from a share q of the budget, and lean the sum and that on each other. The whole then has the
variance 1 / (q^2 + (1 - q)^2 / G), in that of a release without groups, with Laplace noise, and
1 / (q + (1 - q) / G) with Gaussian noise; the groups have (1 - q)^-2 and (1 - q)^-1. Half the
budget for the whole makes it better from 4 groups on (Laplace: 4 / (1 + 1 / G) against G) or from
2 (Gaussian: 2 / (1 + 1 / G)), and the noise of every group 4 or 2 times as large in variance.
Groups are what such a release is for, and they are smaller: all of the budget is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.pooling import EvidenceAt, pool
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.guarantee.mechanism import CountMechanism
from hushrank.flows.release.boards import Board
from hushrank.flows.release.statistics import Released
from hushrank.transforms.common.groups import Groups


def groups_of(config: SurveyConfig, cells: int, most: int) -> Groups | None:
    """The groups that a job counts apart; None: it has none.

    Args:
        config: the job.
        cells: counts of one group.
        most: counts that can be released.

    Raises:
        ConfigError: there would be more.
    """
    if config.groups is None:
        return None
    groups = config.groups.groups()
    if len(groups) * cells > most:
        raise ConfigError(
            f"groups.values: {len(groups)} groups of {cells:,} counts each are"
            f" {len(groups) * cells:,}, and method: {config.method} releases at most {most:,};"
            " rank fewer items or groups, or set method: noisy-counts"
        )
    return groups


def boards(
    mechanism: CountMechanism,
    evidence: Sequence[EvidenceAt],
    released: Iterable[Released],
    whole: Estimate,
    *,
    unit: float = 1.0,
    reach: float = np.inf,
) -> tuple[Board, ...]:
    """A ranking of each group that has a name; none where there are no groups.

    Args:
        mechanism: what drew the counts.
        evidence: of each group; of all others at last, where they count.
        released: noisy counts, in the same order.
        whole: what follows for all groups together.
        unit, reach: of scores, as in `estimation.common.pooling`.
    """
    if mechanism.groups is None:
        return ()
    pooled = pool(evidence, whole.scores, unit=unit, reach=reach)
    return tuple(
        Board(name=name, estimate=estimate, own=own, released=counts)
        for name, estimate, own, counts in zip(
            mechanism.groups.names, pooled.estimates, pooled.own, released, strict=False
        )
    )
