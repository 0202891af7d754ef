"""Reductions of a configuration's log; which method needs which design of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.matrices import MOST_DENSE_ITEMS
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.flows.config.comparisons import MOST_ASKED, Design
from hushrank.flows.config.method import Problems, Sections
from hushrank.flows.config.section import BadRows
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.methods.base import Arrays, PlannedMethod
from hushrank.flows.release.release import NO_COMPARISONS, NOT_INFORMATIVE
from hushrank.flows.statement.mechanism import Mechanism
from hushrank.pipelines.reduce.reduction_job import ReduceComparisons, Statistic
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.row_weights import FACTOR_BITS, Counted, RowFactors
from hushrank.privacy.units import Bounding, PrivacyParams, Query, Unit
from hushrank.transforms.common.epsilons import EpsilonSource
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.comparisons.bound import SQUARES, Bounds
from hushrank.transforms.storage.files import InputFile

if TYPE_CHECKING:  # loaded by jobs on responses alone
    from hushrank.estimation.responses.point_totals import PointShape
    from hushrank.estimation.responses.sheet_totals import SheetShape
    from hushrank.pipelines.reduce.responses_job import ReduceResponses
    from hushrank.transforms.common.randomisation import LocalAnswers


class BoundedMechanism(Mechanism, Protocol):
    """A mechanism whose sensitivity is true only if the bounds of its `params` are enforced."""

    @property
    def params(self) -> PrivacyParams:
        """The guarantee that was asked for, and the bounds."""
        ...


B = TypeVar("B", bound=BoundedMechanism)


class CountedMethod(PlannedMethod[B]):
    """A method on comparisons that are counted before noise is added.

    Attributes:
        statistic: statistic that is counted: the array `counts` that `draw` takes.
        counted: statistic that noise is added to, for methods that take rows with weights; None:
            others.
    """

    statistic: Statistic
    counted: Counted | None = None

    @property
    def statistic_of_nights(self) -> Statistic:
        """Statistic that is counted in a stream."""
        return self.statistic

    def reduction(
        self,
        config: SurveyConfig,
        mechanism: B,
        files: tuple[InputFile, ...],
        key: SecretKey,
        folder: str,
    ) -> ReduceComparisons:
        """Count, within the bounds of the mechanism."""
        params, columns = mechanism.params, config.comparison_columns()
        n_items = len(config.items.catalogue.names)
        factors = None
        if params.bounding is Bounding.WEIGHTS and self.counted is not None:
            factors = RowFactors(params, self.counted, n_items)
        bounds = Bounds(
            n_items=n_items,
            ties=config.comparisons.ties,
            max_contributions=params.max_contributions if params.unit is Unit.USER else None,
            per_item_cap=params.per_item_cap,
            distinct_pairs=params.distinct_pairs,
            factors=factors,
            most_groups=None if config.groups is None else config.groups.most,
            contradictions=params.counts is not None
            and Query.CONTRADICTIONS in params.counts.queries,
        )
        return ReduceComparisons(
            files=files,
            columns=columns,
            catalogue=config.items.catalogue,
            bounds=bounds,
            statistic=_statistic(config, self),
            people_vote=params.unit is Unit.USER and params.look > 0,
            key=key,
            confidential=folder,
            fail_on_bad_rows=config.input.on_bad_rows is BadRows.FAIL,
            groups=None if config.groups is None else config.groups.groups(),
            asked=config.counted_pairs(),
        )

    def simulated(self, config: SurveyConfig, survey: PlannedSurvey, replicate: int) -> Arrays:
        """Wins of a simulated survey, counted as the statistic has it.

        Weights of a survey's design are taken as 1.
        """
        ties = config.comparisons.ties
        if ties is Ties.MODEL:
            return {"counts": with_whole(_simulated_ties(survey, replicate), config)}
        if config.groups is not None:
            wins = with_whole(survey.grouped_wins(replicate) * ties.row_weight, config)
            return {"counts": wins.sum(axis=-1) if self.statistic is Statistic.WIN_COUNTS else wins}
        params, factors = config.privacy.params(), None
        if params.bounding is Bounding.WEIGHTS and self.counted is not None:
            factors = RowFactors(params, self.counted, survey.n_items)
        wins, squares = np.zeros((survey.n_items, survey.n_items), np.int64), 0
        for rows, people in survey.groups(all_count=factors is not None):
            units = params.units
            if factors is not None:
                units = units * int(factors.of(np.array([rows]))[0]) >> FACTOR_BITS
            won = people.pair_wins(replicate)
            wins += won * units
            squares += units**2 * int(won.sum())
        wins *= ties.row_weight
        counts = wins.sum(axis=1) if self.statistic is Statistic.WIN_COUNTS else wins
        return {"counts": counts} | ({SQUARES: np.array([squares])} if params.weighted else {})


def _statistic(config: SurveyConfig, method: CountedMethod[B]) -> Statistic:
    """Return what a job counts by a method."""
    if config.comparisons.covariates:
        return Statistic.COVARIATE_COUNTS
    if config.comparisons.ties is Ties.MODEL:
        return Statistic.TIE_COUNTS
    return method.statistic if config.schedule.stream is None else method.statistic_of_nights


def with_whole(counts: NDArray[np.int64], config: SurveyConfig) -> NDArray[np.int64]:
    """Counts of simulated groups, and of the whole as one more if groups overlap.

    Each simulated answer is in one group, whatever `groups.most` allows.
    """
    if config.groups is None or config.groups.most is None:
        return counts
    return np.concatenate([counts, counts.sum(axis=0, keepdims=True)])


def _simulated_ties(survey: PlannedSurvey, replicate: int) -> NDArray[np.int64]:
    """Wins and ties of a simulated survey, shape (2, n, n), or of each of its groups."""
    if survey.shares:
        return survey.grouped_ties(survey.grouped_wins(replicate), replicate)
    parts = [
        people.with_ties(people.pair_wins(replicate), replicate)
        for _, people in survey.groups(all_count=False)
    ]
    return np.asarray(np.sum(parts, axis=0))


def reduce_test(
    config: SurveyConfig,
    files: tuple[InputFile, ...],
    key: SecretKey,
    folder: str,
    *,
    max_answers: int,
    local: LocalAnswers | None = None,
    totals: SheetShape | PointShape | None = None,
    epsilons: EpsilonSource | None = None,
) -> ReduceResponses:
    """Reduce the log of `config` to what it says of each pair of test items, or to `totals`."""
    responses, catalogue = config.responses, config.items.catalogue
    groups = None if config.groups is None else config.groups.groups()
    from hushrank.pipelines.reduce.responses_job import ReduceResponses

    return ReduceResponses(
        files=files,
        columns=config.response_columns(),
        catalogue=catalogue,
        max_answers=max_answers,
        duplicates=responses.duplicates,
        key=key,
        confidential=folder,
        fail_on_bad_rows=responses.on_bad_rows is BadRows.FAIL,
        people_vote=local is None and config.privacy.params().look > 0,
        local=local,
        sheets=responses.sheet_rules(catalogue, groups),
        totals=totals,
        epsilons=epsilons,
    )


UNKNOWN_PAIRS = (
    "The noisy counts show neither which items met nor that chance decided it, so only pairs of"
    " very many comparisons could be used, and the rest stays open. If you know which pairs people"
    " were asked about, list them in input.pairs; if chance decided it, write design: random."
)


def problems_of_unbalanced(config: Sections) -> Problems:
    """Yield problems of ranking by wins alone, which count how often an item was shown."""
    if config.comparisons.design is not Design.BALANCED:
        yield (
            "input.design",
            f"method: {config.method} ranks by wins, and so by how often an item was shown too:"
            " write balanced if every pair of items was asked about equally often, else set"
            " method: auto",
        )


def problems_of_unknown_partners(config: Sections) -> Problems:
    """Yield problems of a method that knows how often an item was compared, and not with whom."""
    if config.comparisons.design is Design.ANY:
        yield (
            "input.design",
            f"method: {config.method} takes chance to have decided which items met: write random"
            " (or balanced) if that is so, else set method: noisy-pairs",
        )


def problems_of_unknown_meetings(config: Sections) -> Problems:
    """Yield problems of a method that takes partners to have met by chance, or as the file says."""
    known = config.model.exposures is not None or config.privacy.public_graph
    if config.comparisons.design is Design.ANY and not known:
        n_items = len(config.items.catalogue.names)
        stated = " how often items or pairs are compared in model.exposures, or"
        text = "write random (or balanced) if chance decided which items met"
        if n_items <= MOST_DENSE_ITEMS:
            text = f"say{stated} {text}"
        listed = "set method: noisy-pairs, and list the pairs in input.pairs"
        yield (
            "input.design",
            "any leaves open which items met, and intervals of scores by likelihood need to know"
            f" it: {text}; else"
            f" {listed if n_items <= MOST_ASKED else f'rank at most {MOST_ASKED:,} items'}",
        )


def warnings_of(
    estimate: Estimate, exposures: Exposures, design: Design | None, *, private: bool
) -> Iterator[str]:
    """Yield what a reader of scores must know about how often items were compared.

    Args:
        estimate: estimate of the release.
        exposures: released ones.
        design: design as the operator stated it.
        private: whether noise was added.
    """
    if design is Design.BALANCED and exposures.clearly_unbalanced():
        least, most = np.quantile(exposures.values, (0.1, 0.9))
        yield (
            "The operator states that every pair of items was asked about equally often, and that"
            f" was not so: the released counts say that a tenth of the items took part in fewer"
            f" than {max(least, 0):,.0f} comparisons and a tenth in more than {most:,.0f}. These"
            " scores allow for it; method noisy-counts would not."
        )
    if not estimate.informative:
        yield NOT_INFORMATIVE if private else NO_COMPARISONS
        return
    open_ended = int((np.isinf(estimate.low) | np.isinf(estimate.high)).sum())
    if open_ended:
        items = "1 item was" if open_ended == 1 else f"{open_ended:,} items were"
        yield (
            f"{items} compared too rarely, against this noise, to bound their scores on both sides:"
            " an end of their intervals is open."
        )
