"""What an experiment of [XSC] consists of: settings, and how one replicate of each is run.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

LINKS = ("logistic", "probit")
OURS = "debiased-rr"


@dataclass(frozen=True, slots=True)
class Setting:
    """One cell of one experiment; what does not apply is empty.

    Attributes:
        scenario: name of the experiment.
        link: name of F.
        m: items.
        L: people.
        scheme: tells series of one experiment apart.
        delta: gap of neighbouring scores.
        share: of the pairs that a person answers, where it differs between settings.
    """

    scenario: str
    link: str
    m: int | None = None
    L: int | None = None
    scheme: str = ""
    delta: float | None = None
    share: float | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Items and people.

        Raises:
            ValueError: the setting has no size.
        """
        if self.m is None or self.L is None:
            raise ValueError(f"{self} has no size")
        return self.m, self.L


Values = dict[tuple[str, str], float]  # by method and metric
Replicate = Callable[[Setting, np.random.Generator], Values]


@dataclass(frozen=True, slots=True)
class Scenario:
    """An experiment: its settings, how one replicate of each is run, and how many.

    Attributes:
        settings: in the order of the table.
        replicate: one replicate of a setting.
        most_replicates: more are not run.
        times: so many times the replicates that were asked for; a difference that is small needs
            more of them.
        timed: replicates run one after the other, alone.
    """

    settings: tuple[Setting, ...]
    replicate: Replicate
    most_replicates: int | None = None
    times: int = 1
    timed: bool = False
