"""Method `noisy-counts`: rank by noisy win counts."""

from __future__ import annotations

from hushrank.estimation.common.central_noise import calibrate_win_counts, release_win_counts
from hushrank.estimation.common.matrices import WinCounts
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.guarantee.counts import WIN_COUNTS
from hushrank.flows.guarantee.mechanism import CountMechanism
from hushrank.flows.guarantee.record import count_record
from hushrank.flows.methods.base import Arrays, Conclusion, Terms
from hushrank.flows.methods.reductions import reduce_survey
from hushrank.flows.release.release import NO_COMPARISONS, NOT_INFORMATIVE
from hushrank.flows.release.scale import Scale
from hushrank.flows.release.statistics import ReleasedCounts
from hushrank.pipelines.reduce.reduction_job import ReduceComparisons, Statistic
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.storage.files import InputFile


class NoisyCounts:
    """[CCW] Algorithms 2 and 3: see `estimation.comparisons.noisy_counts`."""

    mechanism = CountMechanism

    def calibrate(self, config: SurveyConfig) -> CountMechanism:
        """Noise for every win count."""
        params, ties = config.privacy.params(), config.comparisons.ties
        n_items = len(config.items.catalogue())
        calibration = calibrate_win_counts(params, n_items, ties.row_weight)
        return CountMechanism.of(params, calibration, n_items, ties)

    def terms(self, mechanism: CountMechanism) -> Terms:
        """Cost and noise."""
        return Terms.of(mechanism.calibration, "on every count")

    def reduction(
        self,
        config: SurveyConfig,
        mechanism: CountMechanism,
        files: tuple[InputFile, ...],
        key: SecretKey,
        folder: str,
    ) -> ReduceComparisons:
        """Count the comparisons that each item won."""
        return reduce_survey(config, mechanism.params, files, key, folder, Statistic.WIN_COUNTS)

    def draw(self, exact: Arrays, mechanism: CountMechanism, bits: RandomBits) -> Arrays:
        """Add noise to every count."""
        counts = WinCounts(exact["counts"], mechanism.row_weight)
        return {"counts": release_win_counts(counts, mechanism.calibration, bits).wins}

    def conclude(
        self, drawn: Arrays, mechanism: CountMechanism, config: SurveyConfig
    ) -> Conclusion:
        """Rank by the noisy counts."""
        counts = WinCounts(drawn["counts"], mechanism.row_weight, confidential=False)
        estimate = rank_by_win_counts(counts, mechanism.law)
        nothing = NOT_INFORMATIVE if mechanism.params.private else NO_COMPARISONS
        return Conclusion(
            estimate=estimate,
            privacy=count_record(WIN_COUNTS, mechanism),
            released=ReleasedCounts.of(counts, config.items.catalogue().names),
            scale=Scale.WIN_SHARE,
            warnings=() if estimate.informative else (nothing,),
        )
