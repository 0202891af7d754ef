"""What the statement says of groups: why several rankings cost no more than one."""

from __future__ import annotations

from collections.abc import Iterator

from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.privacy.units import Unit


def group_sentences(mechanism: CountMechanism) -> Iterator[str]:
    """Nothing where there are no groups."""
    groups = mechanism.groups
    if groups is None:
        return
    cost = "epsilon" if mechanism.guarantee.rho is None else "the budget"
    of, bounds = "of this release", "The bound on a person's answers holds"
    if mechanism.stream is not None:
        of = "of all nights of the stream"
        bounds = "The bounds on a person's nights, and on their answers of a night, hold"
    across = f" {bounds} across all groups." if mechanism.params.unit is Unit.USER else ""
    yield (
        f"Counts are kept apart for {len(groups.names)} groups"
        f"{' and for all other answers' * groups.others}. An answer counts in one of them only, and"
        f" the noise hides a change of any answers in any groups: {cost} is paid once for all"
        f" rankings {of} together.{across}"
    )
