"""Progress of a survey to the error that it aims at ([XSC] S.1.4).

An answer of epsilon e carries the information tanh(e / 2)^2, and the largest error of a score
depends on the sum over all answers. That sum follows from the number of answers and their public
epsilons; what anybody answered does not enter. So watching it, and stopping by it, tells nothing
beyond that so many people took part, which local privacy does not hide.

The sum is of the parts that were written and of the journals that wait, so no state of its own can
be lost. Parts that somebody moved away no longer count. One night ranks all of these parts, or the
configuration is refused.

Where people choose their epsilon, a sum that moves with each batch tells when each epsilon came,
which a part hides. So what is measured from outside, `shown`, is then the sum of the parts alone.

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
OTHER_COLUMNS = (
    "{}: holds answers with other columns than the survey file names now, for instance with an"
    " epsilon of their own or without, so collect.target_error cannot add them up. Put the file"
    " back as it was, or name other folders with --spool and collect.folder."
)
LETS_ANYBODY_STOP = (
    "collect.stop_at_target without collect.tokens: whoever sends very many answers ends the survey"
    " for everybody. Set tokens: true to prevent that."
)


@dataclass
class Progress:
    """Information of the answers that are on disk, and how much the target needs.

    Attributes:
        needed: information at which the mean largest error of a score is the target.
        target: that largest error.
        stop: whether answers are refused once the target is reached.
        epsilon: epsilon of every answer; None: each has its own.
        cap: largest epsilon that an answer pulls by.
        column: column of an answer's own epsilon.
        reached: information so far.
        written: that of the parts, when they were counted last.
    """

    needed: float
    target: float
    stop: bool
    epsilon: float | None
    cap: float
    column: str | None
    reached: float = 0.0
    written: float = 0.0

    @classmethod
    def of(cls, config: SurveyConfig) -> Progress | None:
        """Return the progress of a survey without answers; None: it has no target."""
        collect = collect_of(config)
        if collect.target_error is None:
            return None
        n = len(config.items.catalogue.names)
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

    @property
    def shown(self) -> float:
        """Information that whoever reads the counts sees."""
        return self.reached if self.column is None else self.written

    def add(self, form: RowForm, rows: bytes) -> None:
        """Count answers in the form in which journals hold them."""
        records = form.records(rows)
        own = None if self.column is None else records[self.column]
        self.reached += self._information(len(records), own)

    def begin(self, spool: Spool, folder: Path, form: RowForm) -> None:
        """Count what earlier processes left: parts in `folder`, and journals that have none yet.

        Args:
            spool: the only one with journals.
            folder: `collect.folder`.
            form: form of the answers that come now.

        Raises:
            ConfigError: a part cannot be read, a journal has answers of another survey, one of
                them has other columns, or another spool has journals.
        """
        for other in (*spool.folder.parent.glob("*/*.journal"),
                      *spool.folder.parent.glob("*/*.sealed")):  # fmt: skip
            if other.parent != spool.folder:
                raise ConfigError(
                    f"{other.parent}: holds answers of a collector that ran beside others, which"
                    " collect.target_error would not count. Write them with hushrank collect"
                    " --seal first."
                )
        waiting = set()
        for id_, content in spool.contents():
            if content.form.columns != form.columns:
                raise ConfigError(OTHER_COLUMNS.format(spool.folder))
            waiting.add(f"part-{id_}.parquet")
            self.add(content.form, content.rows)
        counted = self.count_parts(folder, form)
        self.reached += sum(value for name, value in counted if name not in waiting)

    def count_parts(self, folder: Path, form: RowForm) -> list[tuple[str, float]]:
        """Count the parts in `folder` again: the name and information of each.

        Raises:
            ConfigError: a part cannot be read, or has other columns.
        """
        parts = sorted(folder.rglob(PARTS))
        counted = [(part.name, self._of_part(part, form)) for part in parts]
        self.written = sum(value for _, value in counted)
        return counted

    def _of_part(self, part: Path, form: RowForm) -> float:
        try:
            if pq.read_schema(part).names != [name for name, _ in form.columns]:
                raise ConfigError(OTHER_COLUMNS.format(part))
            names = [] if self.column is None else [self.column]
            table = pq.read_table(part, columns=names, partitioning=None)
            own = None if self.column is None else table[self.column].to_numpy()
            return self._information(table.num_rows, own)
        except (pa.ArrowException, OSError, KeyError):
            raise ConfigError(
                f"{part}: cannot be read as a part of this collector, so collect.target_error does"
                " not know its answers. Put it back from a copy, or move it out of collect.folder."
            ) from None

    def _information(self, answers: int, own: NDArray[np.float64] | None) -> float:
        epsilons = np.full(answers, self.epsilon or 0.0) if own is None else own
        return float((np.tanh(np.minimum(epsilons, self.cap) / 2) ** 2).sum())

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
