"""Progress of a survey to the error that it aims at ([XSC] S.1.4).

An answer of epsilon e carries the information tanh(e / 2)^2, and the largest error of a score
depends on the sum over all answers. That sum follows from the number of answers and their public
epsilons; what anybody answered does not enter. So watching it, and stopping by it, tells nothing
beyond that so many people took part, which local privacy does not hide.

The sum is of the parts that were written and of the journals that wait, so no state of its own can
be lost. Parts that somebody moved away no longer count.

References:
    [XSC] Xu, Sun, Cheng. Rate-optimal rank aggregation with private pairwise rankings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hushrank.estimation.common.links import link_named
from hushrank.estimation.comparisons.planning import information_needed
from hushrank.flows.collecting.protocol import RowForm
from hushrank.flows.collecting.spool import Spool
from hushrank.flows.collecting.survey.settings import collect_of
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError

PARTS = "part-*.parquet"


@dataclass
class Progress:
    """Information of the answers that are on disk, and how much the target needs.

    Attributes:
        needed: at which the mean largest error of a score is the target.
        target: that error.
        stop: whether answers are refused once the target is reached.
        epsilon: of every answer; None: each has its own.
        cap: largest epsilon that an answer pulls by.
        column: where an answer's own epsilon is.
        reached: information so far.
    """

    needed: float
    target: float
    stop: bool
    epsilon: float | None
    cap: float
    column: str | None
    reached: float = 0.0

    @classmethod
    def of(cls, config: SurveyConfig) -> Progress | None:
        """Return the progress of a survey without answers; None: it has no target."""
        collect = collect_of(config)
        if collect.target_error is None:
            return None
        n = len(config.items.catalogue())
        answers = collect.answers_of_a_person(config.input, n)
        link = link_named("logistic" if config.model.link == "auto" else config.model.link)
        of_people = information_needed(collect.target_error, n, 2 * answers / (n * (n - 1)), link)
        return cls(
            needed=of_people * answers,
            target=collect.target_error,
            stop=collect.stop_at_target,
            epsilon=config.privacy.epsilon,
            cap=config.model.epsilon_cap or np.inf,
            column=config.comparisons.columns.epsilon,
        )

    @property
    def full(self) -> bool:
        """Whether new answers are refused."""
        return self.stop and self.reached >= self.needed

    def add(self, form: RowForm, rows: bytes) -> None:
        """Count answers in the form in which journals hold them."""
        records = form.records(rows)
        own = None if self.column is None else records[self.column]
        self._count(len(records), own)

    def begin(self, spool: Spool, folder: Path) -> None:
        """Count what earlier processes left: parts in `folder`, and journals that have none yet.

        Raises:
            ConfigError: a part cannot be read, or a journal has answers of another survey.
        """
        waiting = set()
        for id_, content in spool.contents():
            waiting.add(f"part-{id_}.parquet")
            self.add(content.form, content.rows)
        for part in sorted(folder.rglob(PARTS)):
            if part.name not in waiting:  # else its journal was about to be deleted
                self._add_part(part)

    def _add_part(self, part: Path) -> None:
        try:
            names = [] if self.column is None else [self.column]
            table = pq.read_table(part, columns=names, partitioning=None)
            own = None if self.column is None else table[self.column].to_numpy()
            self._count(table.num_rows, own)
        except (pa.ArrowException, OSError, KeyError):
            raise ConfigError(
                f"{part}: cannot be read as a part of this collector, so collect.target_error does"
                " not know its answers. Put it back from a copy, or move it out of collect.folder."
            ) from None

    def _count(self, answers: int, own: NDArray[np.float64] | None) -> None:
        epsilons = np.full(answers, self.epsilon or 0.0) if own is None else own
        weights = np.tanh(np.minimum(epsilons, self.cap) / 2) ** 2
        self.reached += float(weights.sum())

    @property
    def sentence(self) -> str:
        """State of the survey, for its operator."""
        share = 100 * self.reached / self.needed
        told = (
            f"The answers so far carry {share:.0f} % of the information that an error of"
            f" {self.target:g} needs ({self.reached:,.0f} of {self.needed:,.0f})."
        )
        if self.reached < self.needed:
            return told
        ending = "New answers are refused" if self.stop else "You may stop collecting"
        return f"{told} {ending}; hushrank collect --seal writes those that wait."
