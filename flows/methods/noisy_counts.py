"""Method `noisy-counts`: rank by noisy win counts."""

from __future__ import annotations

import numpy as np

from hushrank.estimation.common.central_noise import calibrate_win_counts, release_win_counts
from hushrank.estimation.common.links import Floats
from hushrank.estimation.common.matrices import WinCounts
from hushrank.estimation.comparisons.noisy_counts import (
    evidence_of_win_counts,
    rank_by_win_counts,
)
from hushrank.estimation.comparisons.planning import predicted_share_error
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.method import MethodFacts
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.guarantee.counts import WIN_COUNTS
from hushrank.flows.guarantee.mechanism import CountMechanism
from hushrank.flows.guarantee.record import count_record
from hushrank.flows.methods.base import GROUPS, Arrays, Conclusion, Terms
from hushrank.flows.methods.designs import problems_of_unbalanced
from hushrank.flows.methods.groups import boards, groups_of
from hushrank.flows.methods.reductions import CountedMethod
from hushrank.flows.release.release import NO_COMPARISONS, NOT_INFORMATIVE
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.statistics import ReleasedCounts
from hushrank.pipelines.reduce.reduction_job import Statistic
from hushrank.pipelines.simulate.planned_survey import PlannedSurvey
from hushrank.privacy.randomness import RandomBits
from hushrank.privacy.units import Unit

MOST_COUNTS = 2_000_000  # of items and groups: 20 to 30 MB of JSON
SHARE_UNIT = 0.25  # of shares won, which differ by 1 at most


class NoisyCounts(CountedMethod[CountMechanism]):
    """[CCW] Algorithms 2 and 3: see `estimation.comparisons.noisy_counts`."""

    facts = MethodFacts(
        name="noisy-counts",
        summary="rank by noisy win counts",
        kind="comparisons",
        units=(Unit.USER, Unit.COMPARISON),
        reads=(GROUPS,),
        design=Design.BALANCED,
        rules=problems_of_unbalanced,
    )
    mechanism = CountMechanism
    statistic = Statistic.WIN_COUNTS
    plan_order = 0

    def calibrate(self, config: SurveyConfig) -> CountMechanism:
        """Noise for every win count."""
        params, ties = config.privacy.params(), config.comparisons.ties
        n_items = len(config.items.catalogue())
        groups = groups_of(config, n_items, MOST_COUNTS)
        n_groups = 1 if groups is None else len(groups)
        calibration = calibrate_win_counts(params, n_items, ties.row_weight, n_groups)
        return CountMechanism.of(
            params, calibration, n_items, ties, design=config.comparisons.design, groups=groups
        )

    def terms(self, mechanism: CountMechanism) -> Terms:
        """Cost and noise."""
        return Terms.of(mechanism.calibration, "on every count")

    def draw(self, exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
        """Add noise to every count."""
        exact_counts = exact["counts"]
        noisy = [
            release_win_counts(
                WinCounts(counts, mechanism.row_weight), mechanism.calibration, bits
            ).wins
            for counts in exact_counts.reshape(-1, mechanism.n_items)
        ]
        return {"counts": np.stack(noisy).reshape(exact_counts.shape)}

    def conclude(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Rank by the noisy counts."""
        noisy = [
            WinCounts(each, mechanism.row_weight, confidential=False)
            for each in drawn["counts"].reshape(-1, mechanism.n_items)
        ]
        whole = sum(each.wins for each in noisy)
        counts = WinCounts(np.asarray(whole), mechanism.row_weight, confidential=False)
        estimate = rank_by_win_counts(counts, mechanism.whole_law)
        items = config.items.catalogue().names
        nothing = NOT_INFORMATIVE if mechanism.params.private else NO_COMPARISONS
        return Conclusion(
            estimate=estimate,
            privacy=count_record(WIN_COUNTS, mechanism),
            released=ReleasedCounts.of(counts, items),
            scale=Scale.WIN_SHARE,
            warnings=() if estimate.informative else (nothing,),
            boards=boards(
                mechanism,
                [evidence_of_win_counts(each, mechanism.law) for each in noisy],
                [ReleasedCounts.of(each, items) for each in noisy],
                estimate,
                unit=SHARE_UNIT,
                reach=0.5,
            ),
        )

    def noise_in_a_pull(self, mechanism: CountMechanism) -> float:
        """Of a count: a balanced design tells how many comparisons there were."""
        return mechanism.whole_law.variance / mechanism.row_weight**2

    def estimand(self, config: SurveyConfig, survey: PlannedSurvey, truth: Floats) -> Floats:
        """Shares won where every pair is asked about equally often."""
        return survey.true_shares(truth)

    def predicted_error(self, config: SurveyConfig, survey: PlannedSurvey) -> float | None:
        """Of shares won."""
        law, rows = self.calibrate(config).whole_law, config.comparisons.ties.row_weight
        share = min(survey.answers / survey.n_pairs, 1.0) if survey.distinct else 0.0
        return predicted_share_error(
            survey.n_items, survey.pair_comparisons, share, law.variance / rows**2
        ).typical


METHODS = (NoisyCounts(),)
