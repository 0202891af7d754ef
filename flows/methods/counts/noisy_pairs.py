"""Method `noisy-pairs`: release the noisy matrix of wins, and fit scores to it.

Fits load when a release is concluded: `auto` calibrates this method for jobs that take another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hushrank.estimation.common.central_noise import (
    calibrate_outcomes,
    calibrate_pair_counts,
    release_outcomes,
    release_pair_counts,
)
from hushrank.estimation.common.links import LINKS, Link, link_named
from hushrank.estimation.common.matrices import (
    OutcomeCounts,
    PairCounts,
    integers_of,
    outcome_counts_of,
    pair_counts_of,
)
from hushrank.estimation.common.pooling import EvidenceAt
from hushrank.estimation.common.score_change import LeadBy
from hushrank.estimation.comparisons.planning import predicted_error, weight_under_noise
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.method import MethodFacts, PairEstimator, Problems, Sections
from hushrank.flows.config.row_rules import ASKED, TIE_MODEL
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.base import GROUPS, Arrays, Conclusion, Terms
from hushrank.flows.methods.counts import tie_outcomes
from hushrank.flows.methods.counts.common import (
    WEIGHT_KEYS,
    GroupedMethod,
    calibrate_stream,
    cells_of,
    drawn_squares,
    groups_of,
    ranking_weight,
    shown_cells,
    simulated_night,
    terms_of,
    weight_parameters,
    weighted_mechanism,
    without_diagonal,
)
from hushrank.flows.methods.formulas import CELLS_OF_PAIRS, ONE_CELL, ROWS, Restated
from hushrank.flows.methods.reductions import UNKNOWN_PAIRS
from hushrank.flows.release.release import NO_COMPARISONS, NOT_INFORMATIVE
from hushrank.flows.release.released import (
    Count,
    Figure,
    Leads,
    Released,
    ReleasedRecord,
    Rows,
    among_items,
    counts_of_pairs,
    in_comparisons,
    require_noisy,
    rows_of,
)
from hushrank.flows.release.scale import SCALE_OF_LINK
from hushrank.flows.statement.mechanism import (
    OUTCOME_COUNTS,
    PAIR_COUNTS,
    TIE_COUNTS,
    CountMechanism,
    CountWords,
)
from hushrank.flows.statement.record import Parameter, count_record
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.row_weights import Counted
from hushrank.privacy.sensitivity import pair_counts_sensitivity
from hushrank.privacy.units import Unit
from hushrank.transforms.common.schema import Ties

if TYPE_CHECKING:
    from hushrank.estimation.comparisons.noisy_pairs import RankedPairs

MOST_ITEMS = 2_000  # four million noisy counts: 20 to 30 MB of JSON
MOST_ITEMS_PUBLIC = 100_000  # limit on a public graph, where memory and noise go by pairs that met
NOT_CONVEX = (
    "The fit ended where the likelihood is no maximum: with this much noise and this link several"
    " sets of scores fit almost equally well. Link logistic has one only."
)

LARGEST_MEAN = 1e-6  # mean of scores whose zero is the mean of all, but for rounding
ZERO_OF_OTHERS = (
    "Nothing limits how far some items lie apart from most others: their intervals have one end."
    " The zero of the scores is the mean of the other items."
)
RANK_CENTRALITY = (
    "Scores are those of Rank Centrality (model.estimator: spectral). Where noise is large it draws"
    " scores together, because no rate of its chain may be negative. Intervals do not rest on that."
)

OF_PAIRS = Restated(
    proof="privacy.sensitivity.pair_counts_sensitivity",
    what="the matrix of wins, item against item",
    entries=lambda n_items: n_items * (n_items - 1),
    lines=CELLS_OF_PAIRS,
)
OF_OUTCOMES = Restated(
    proof="privacy.sensitivity.outcomes_sensitivity",
    what="wins of one item of each pair that was compared",
    lines=(
        ROWS,
        *ONE_CELL,
        "l1 = row_weight * rows",
        "l2_squared = row_weight ** 2 * rows * cell",
    ),
)


class ReleasedPairs(ReleasedRecord):
    """The noisy matrix of wins, from which all the rest is computed.

    In `release.json` every row of the matrix is one line of integers: 2 000 items take 20 to 30 MB.

    Attributes:
        row_weight: amount that one win adds: 1, or 2 where ties were split into two halves; where
            rows have weights, a thousand times that for a win of weight 1.
        items: in catalogue order; rows and columns are in this order.
        wins: entry b of row a is how often a beat b, noise included; zero on the diagonal, where
            there is nothing to count. Whole numbers, but for what a night of a stream shows.
        asked: row i holds the items j > i that people were asked to compare with i, which is
            public; `wins` of other pairs are zero. Null: all pairs were, or nobody says.
    """

    shows = (Figure.SCORES, Figure.WINS)
    tells_rates = True
    predicts_intervals = True
    kind: Literal["pair-counts"] = "pair-counts"
    row_weight: int = Field(ge=1)
    items: tuple[str, ...]
    wins: tuple[tuple[int | float, ...], ...]
    asked: tuple[tuple[int, ...], ...] | None = None

    @classmethod
    def of(
        cls, counts: PairCounts, items: Sequence[str], asked: NDArray[np.bool_] | None = None
    ) -> Self:
        """The record of noisy `counts`, of all pairs or of those `asked` about, shape (n, n).

        Raises:
            ValueError: the counts are confidential, or of another number of items.
        """
        require_noisy(counts, items)
        return cls.model_construct(  # checked above: millions of entries are not checked again
            row_weight=counts.row_weight,
            items=tuple(items),
            wins=tuple(map(tuple, counts.dense().tolist())),
            asked=None
            if asked is None
            else tuple(tuple(np.flatnonzero(row).tolist()) for row in np.triu(asked)),
        )

    def counts(self) -> Iterator[Count]:
        """Yield how often an item won against another, and whether people were asked."""
        pairs = counts_of_pairs("wins", self.items, self.wins, self.row_weight)
        if self.asked is None:
            yield from pairs
            return
        later = enumerate(self.asked)
        asked = {frozenset((self.items[i], self.items[j])) for i, row in later for j in row}
        for each in pairs:
            yield each._replace(asked=frozenset((each.item, str(each.other))) in asked)

    def among(self, items: Sequence[str]) -> NDArray[np.float64]:
        """Noisy wins of some items over each other, in comparisons."""
        return among_items(self.wins, self.items, items) / self.row_weight

    def leads(self) -> Leads:
        """Leads by majorities, of two noisy entries each."""
        wins = np.array(self.wins, np.float64)
        return Leads(
            by=LeadBy.MAJORITIES,
            items=self.items,
            numbers=wins - wins.T,
            draws=2,
            step=1 / self.row_weight,
        )

    def wins_by_item(self) -> dict[str, int | float] | None:
        """Comparisons won by each item: the sums of the rows, noise included."""
        totals = dict(zip(self.items, map(sum, self.wins), strict=True))
        return in_comparisons(totals, self.row_weight)


MOST_PAIRS = 2_000_000  # most pairs that are published: 30 MB of JSON


class ReleasedOutcomes(ReleasedRecord):
    """For each compared pair: how often it was compared, and how often one item won, with noise.

    Attributes:
        row_weight: amount that one win adds: 1, or 2 if ties were split into two halves.
        items: items in catalogue order; rows are in this order.
        pairs: row i holds the items j > i that were compared with i.
        compared: comparisons of each pair times `row_weight`; exact, because they are public.
        wins: number of times that i beat j in each of these pairs, noise included.

    The last three are null if there are more than `MOST_PAIRS` pairs.
    """

    shows = (Figure.SCORES, Figure.WINS)
    tells_rates = True
    public_totals = True
    kind: Literal["outcome-counts"] = "outcome-counts"
    row_weight: int = Field(ge=1, le=2)
    items: tuple[str, ...]
    pairs: Rows | None
    compared: Rows | None
    wins: Rows | None

    @classmethod
    def of(cls, counts: OutcomeCounts, items: Sequence[str]) -> Self:
        """The record of noisy `counts`.

        Raises:
            ValueError: the counts are confidential, or have another number of items.
        """
        require_noisy(counts, items)
        places = counts.totals
        columns: tuple[NDArray[np.integer], ...] = (places.indices, places.data, counts.wins.data)
        published = counts.n_pairs <= MOST_PAIRS
        pairs, compared, wins = (
            rows_of(each, places.indptr) if published else None for each in columns
        )
        return cls.model_construct(  # checked above; checking millions of entries again is slow
            row_weight=counts.row_weight,
            items=tuple(items),
            pairs=pairs,
            compared=compared,
            wins=wins,
        )

    def among(self, items: Sequence[str]) -> NDArray[np.float64] | None:
        """Noisy wins of some items over each other, in comparisons; nan for uncompared pairs."""
        if self.pairs is None or self.compared is None or self.wins is None:
            return None
        position = {name: i for i, name in enumerate(self.items)}
        place = {position[name]: k for k, name in enumerate(items)}
        found = np.full((len(items), len(items)), np.nan)
        np.fill_diagonal(found, 0)
        for low, row in place.items():
            met = zip(self.pairs[low], self.compared[low], self.wins[low], strict=True)
            for high, total, won in met:
                if high in place:
                    found[row, place[high]] = won / self.row_weight
                    found[place[high], row] = (total - won) / self.row_weight
        return found

    def wins_by_item(self) -> dict[str, int | float] | None:
        """Comparisons won by each item, noise included; None if pairs are not published."""
        if self.pairs is None or self.compared is None or self.wins is None:
            return None
        lengths = [len(row) for row in self.pairs]
        low = np.repeat(np.arange(len(lengths)), lengths)
        high, total, won = (
            np.fromiter(chain.from_iterable(rows), np.int64, sum(lengths))
            for rows in (self.pairs, self.compared, self.wins)
        )
        of_items = np.zeros(len(lengths), np.int64)
        np.add.at(of_items, low, won)
        np.add.at(of_items, high, total - won)
        counted = of_items if self.row_weight == 1 else of_items / self.row_weight
        return dict(zip(self.items, counted.tolist(), strict=True))


def _chosen(config: SurveyConfig) -> dict[str, Parameter]:
    """Parameters of ways to scores that a job chooses; none of the usual way."""
    if config.model.link == "auto":
        return {"link_chosen_by_likelihood": True}
    return {"estimator": PairEstimator.SPECTRAL.value} if _is_spectral(config) else {}


def _link_of(
    config: SurveyConfig, counts: PairCounts, law: NoiseLaw, asked: NDArray[np.bool_] | None
) -> Link:
    """The link that the job names, or the one that the noisy counts fit best."""
    if config.model.link != "auto":
        return link_named(config.model.link)
    from hushrank.estimation.comparisons.model_selection import link_of_counts

    return link_of_counts(counts, law, [*LINKS.values()], asked)


def _problems(config: Sections) -> Problems:
    rows, spectral = config.comparisons, _is_spectral(config)
    apart = [
        key
        for key, given in (
            ("groups", config.groups is not None),
            ("privacy.public_graph", config.privacy.public_graph),
            ("schedule.stream", config.schedule.stream is not None),
        )
        if given
    ]
    if config.model.link == "auto":
        for key in apart:
            yield "model.link", f"auto does not go with {key}; name a link, such as logistic"
    if not spectral:
        return
    apart += ["input.pairs"] if rows.pairs is not None else []
    apart += ["input.ties: model"] if rows.ties is Ties.MODEL else []
    for key in apart:
        yield "model.estimator", f"spectral does not go with {key}; remove one of the two"
    if config.model.link != "logistic":
        yield "model.estimator", "spectral needs model.link: logistic; change one of the two"
    if rows.design is Design.ANY:
        yield (
            "model.estimator",
            "spectral needs a design in which chance decided which items met; write input.design:"
            " random or balanced if that is true, or remove this line",
        )


def _is_spectral(config: Sections) -> bool:
    return config.model.estimator is PairEstimator.SPECTRAL


class NoisyPairs(GroupedMethod):
    """See `noisy_pairs`, and `public_pairs` for a public graph, in `estimation.comparisons`."""

    facts = MethodFacts(
        name="noisy-pairs",
        summary="fit scores to the noisy matrix of wins",
        kind="comparisons",
        units=(Unit.USER, Unit.COMPARISON),
        reads=(
            "model.link",
            "model.estimator",
            "privacy.public_graph",
            GROUPS,
            *WEIGHT_KEYS,
            TIE_MODEL,
            ASKED,
        ),
        streams=True,
        metered="pair_gap",
        any_pairs=True,
        chooses_link=True,
        finds_names=True,
        rules=_problems,
    )
    mechanism = CountMechanism
    statistic = Statistic.PAIR_COUNTS
    words = PAIR_COUNTS
    counted = Counted.PAIRS
    restated = (OF_PAIRS, OF_OUTCOMES, tie_outcomes.RESTATED)
    plan_order = 3
    noise_on_pairs = True

    def calibrate(self, config: SurveyConfig) -> CountMechanism:
        """Noise for every entry of the matrix of wins, or on who won of each pair."""
        params, ties = config.privacy.params(), config.comparisons.ties
        n_items, public = len(config.items.catalogue.names), config.privacy.public_graph
        if ties is Ties.MODEL:
            return tie_outcomes.calibrate(config)
        _check_size(n_items, public=public)
        groups = groups_of(config, n_items**2, MOST_ITEMS**2)
        if (nights := calibrate_stream(config, pair_counts_sensitivity, groups)) is not None:
            calibration, stream = nights
            return CountMechanism.of(
                params, calibration, n_items, ties, stream=stream, groups=groups
            )
        if params.weighted:
            return weighted_mechanism(params, self.counted, n_items, ties)
        if public:
            calibration = calibrate_outcomes(params, n_items, ties.row_weight)
            stated = config.privacy.public_graph_statement
            return CountMechanism.of(params, calibration, n_items, ties, stated)
        cells = cells_of(groups)
        calibration = calibrate_pair_counts(params, n_items, ties.row_weight, *cells)
        found = CountMechanism.of(params, calibration, n_items, ties, groups=groups)
        return replace(found, asked=config.asked_pairs())

    def words_of(self, mechanism: CountMechanism) -> CountWords:
        """Return words for pairs, or for their outcomes with ties."""
        return TIE_COUNTS if mechanism.ties is Ties.MODEL else self.words

    def terms(self, mechanism: CountMechanism) -> Terms:
        """Cost and noise."""
        if mechanism.ties is Ties.MODEL:
            return terms_of(mechanism, "on the three outcomes of every pair")
        where = (
            "on who won, in each pair that was compared"
            if _is_public(mechanism)
            else "on every entry of the matrix of wins"
            if mechanism.asked is None
            else "on both counts of every pair that was asked about"
        )
        return terms_of(mechanism, where)

    def draw_counts(self, exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
        """Add noise to every entry; on a public graph, to one entry of each pair that met."""
        if mechanism.ties is Ties.MODEL:
            return tie_outcomes.draw(exact, mechanism, bits)
        counts = pair_counts_of(exact, mechanism.row_weight)
        if _is_public(mechanism):
            return release_outcomes(counts, mechanism.calibration, bits).arrays()
        if (night := simulated_night(integers_of(counts.dense()), mechanism, bits)) is not None:
            return night
        asked = mechanism.asked_matrix
        noisy = release_pair_counts(counts, mechanism.calibration, bits, asked).dense()
        return {"wins": noisy, **drawn_squares(exact, mechanism, bits)}

    def conclude_counts(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Fit scores to the noisy counts."""
        from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs

        if mechanism.ties is Ties.MODEL:
            return tie_outcomes.conclude(drawn, mechanism, config)
        if _is_public(mechanism):
            return _conclude_public(drawn, mechanism, config)
        cells = shown_cells(drawn, mechanism, "wins")
        counts = PairCounts(without_diagonal(cells.counts), mechanism.row_weight, False)
        asked = mechanism.asked_matrix
        entries = counts.n_items * (counts.n_items - 1)
        ranked_by = ranking_weight(drawn, mechanism, counts.dense(), entries)
        in_rows = replace(counts, row_weight=ranked_by)
        link = _link_of(config, in_rows, cells.law, asked)
        ranked = rank_noisy_pairs(
            in_rows,
            cells.law,
            link,
            asked,
            chance=config.comparisons.design is not Design.ANY,
            spectral=_is_spectral(config),
        )
        estimate = ranked.estimate
        parameters: dict[str, Parameter] = {
            "link": link.name,
            "pairs": ranked.n_pairs,
            "design_of_chance_fits": ranked.by_chance,
            "pairs_left_out_of_the_fit": ranked.n_left_out,
            **weight_parameters(drawn, mechanism, ranked_by),
            **_chosen(config),
        }
        if ranked.as_one > 1:
            of_weights = float(parameters.get("design_effect", 1.0))
            parameters["design_effect"] = of_weights * ranked.as_one
        return Conclusion(
            estimate=estimate,
            privacy=count_record(PAIR_COUNTS, mechanism, parameters),
            released=ReleasedPairs.of(counts, config.items.catalogue.names, asked),
            scale=SCALE_OF_LINK[link.name],
            warnings=tuple(_warnings(ranked, estimate.informative, mechanism.params.private)),
        )

    def board(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig, whole: Conclusion
    ) -> tuple[EvidenceAt, Released]:
        """Scores in one group, by the design that the whole has."""
        from hushrank.estimation.comparisons.noisy_pairs import evidence_of_pairs

        if mechanism.ties is Ties.MODEL:
            return tie_outcomes.board(drawn, mechanism, config, whole)
        cells = shown_cells(drawn, mechanism, "wins")
        counts = PairCounts(without_diagonal(cells.counts), mechanism.row_weight, False)
        by_chance = bool(whole.privacy.parameters["design_of_chance_fits"])
        evidence = evidence_of_pairs(
            counts,
            cells.law,
            link_named(config.model.link),
            by_chance=by_chance,
            clear=config.comparisons.design is Design.ANY,
        )
        return evidence, ReleasedPairs.of(counts, config.items.catalogue.names)

    def noise_in_net_wins(self, mechanism: CountMechanism) -> float:
        """Variance of (wins - losses) / 2 against n - 1 opponents, or the mean number asked."""
        # The two cells of a pair have noises of their own; where the graph is public, +v and -v.
        cells = 4 if _is_public(mechanism) else 2
        variance = mechanism.shown_variance / mechanism.row_weight**2
        opponents = mechanism.n_items - 1.0
        if mechanism.asked is not None:
            opponents = 2 * len(mechanism.asked) / mechanism.n_items
        return variance * opponents * cells / 4

    def predicted_error(
        self, config: SurveyConfig, survey: PlannedSurvey, mechanism: CountMechanism
    ) -> float | None:
        """Predicted error of scores; not known of ties that are outcomes."""
        if mechanism.ties is Ties.MODEL:
            return None
        variance = mechanism.shown_variance / mechanism.row_weight**2
        # In a pair with a public total, noise moves one count up and the other one down.
        noise = 2 * variance if _is_public(mechanism) else variance
        weight = weight_under_noise(survey.pair_comparisons, noise)
        return predicted_error(survey.n_items, weight, survey.link).typical


def _is_public(mechanism: CountMechanism) -> bool:
    """Whether only the winners are protected, and not who met whom."""
    return mechanism.public_graph_statement is not None


def _conclude_public(drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig) -> Conclusion:
    from hushrank.estimation.comparisons.pairs_by_chance import fit_public_pairs
    from hushrank.estimation.fit.pair_fit import estimate_from

    counts = outcome_counts_of(drawn, mechanism.row_weight)
    law, name = mechanism.law, config.model.link
    warnings = []
    try:
        fit = fit_public_pairs(counts, law, link_named(name))
    except ConvergenceError:
        fit = fit_public_pairs(counts, law, link_named("logistic"))
        warnings.append(f"No fit with link {name} was found: noise left none. This is logistic.")
    estimate = estimate_from(fit)
    parameters: dict[str, Parameter] = {
        "link": fit.link,
        "public_graph": True,
        "public_graph_statement": mechanism.public_graph_statement or "",
        "pairs_compared": counts.n_pairs,
    }
    if not estimate.informative:
        warnings.append(_nothing_learned(mechanism.params.private))
    if not fit.is_minimum:
        warnings.append(NOT_CONVEX)
    return Conclusion(
        estimate=estimate,
        privacy=count_record(OUTCOME_COUNTS, mechanism, parameters),
        released=ReleasedOutcomes.of(counts, config.items.catalogue.names),
        scale=SCALE_OF_LINK[fit.link],
        warnings=tuple(warnings),
    )


def _nothing_learned(private: bool) -> str:
    return NOT_INFORMATIVE if private else NO_COMPARISONS


def _warnings(ranked: RankedPairs, informative: bool, private: bool) -> Iterator[str]:
    if ranked.as_one > 1:
        yield (
            f"Answers on a pair agree more than scores explain, as where one opinion was asked"
            f" several times: about {ranked.as_one} answers count as one in scores and intervals."
        )
    if ranked.hidden:
        yield UNKNOWN_PAIRS
    elif not informative:
        yield _nothing_learned(private)
    if abs(float(ranked.estimate.scores.mean())) > LARGEST_MEAN:
        yield ZERO_OF_OTHERS
    if ranked.n_left_out > 0 and informative:
        why = (
            "their noisy totals do not stand clear of the noise, so they say next to nothing"
            if private
            else "nobody compared them"
        )
        yield (
            f"{ranked.n_left_out:,} of {ranked.n_pairs:,} pairs of items were left out of the fit:"
            f" {why}. They are in the released matrix all the same."
        )
    if not ranked.is_minimum:
        yield NOT_CONVEX
    if ranked.spectral and informative:
        yield RANK_CENTRALITY


def _check_size(n_items: int, *, public: bool) -> None:
    if public and n_items > MOST_ITEMS_PUBLIC:
        raise ConfigError(
            f"items: method: noisy-pairs takes at most {MOST_ITEMS_PUBLIC} items, got {n_items};"
            " set method: noisy-counts"
        )
    if not public and n_items > MOST_ITEMS:
        raise ConfigError(
            f"items: method: noisy-pairs hides which pairs were compared, so it puts noise on a"
            f" count for every pair and takes at most {MOST_ITEMS} items, got {n_items}. Where"
            f" anybody may know who compared what, privacy.public_graph: true allows"
            f" {MOST_ITEMS_PUBLIC}; else set method: perturbed-mle or noisy-counts"
        )


METHODS = (NoisyPairs(),)
