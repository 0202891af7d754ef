"""Method `noisy-counts`: rank by noisy win counts."""

from __future__ import annotations

from hushrank.estimation.central_noise import (
    Calibration,
    calibrate_win_counts,
    release_win_counts,
)
from hushrank.estimation.matrices import WinCounts
from hushrank.estimation.noisy_counts import rank_by_win_counts
from hushrank.flows.config import SurveyConfig
from hushrank.flows.count_statement import WIN_COUNTS
from hushrank.flows.method import Arrays, Conclusion, Terms
from hushrank.flows.privacy_record import count_record
from hushrank.flows.release import NO_COMPARISONS, NOT_INFORMATIVE
from hushrank.flows.released import ReleasedCounts
from hushrank.flows.scale import Scale
from hushrank.flows.survey_reduction import reduce_survey
from hushrank.pipelines.reduction_job import ReduceComparisons, Statistic
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.files import InputFile


class NoisyCounts:
    """Algorithms 2 and 3 of Cai, Chakraborty and Wang: see `estimation.noisy_counts`."""

    def terms(self, config: SurveyConfig) -> Terms:
        """Cost and noise."""
        return Terms.of(_calibration(config), "on every count")

    def reduction(
        self, config: SurveyConfig, files: tuple[InputFile, ...], key: bytes, folder: str
    ) -> ReduceComparisons:
        """Count the comparisons that each item won."""
        return reduce_survey(config, files, key, folder, Statistic.WIN_COUNTS)

    def draw(self, exact: Arrays, config: SurveyConfig, bits: RandomBits) -> Arrays:
        """Add noise to every count."""
        counts = WinCounts(exact["counts"], config.comparisons.ties.row_weight)
        noisy, _ = release_win_counts(counts, config.privacy.params(), bits)
        return {"counts": noisy.wins}

    def conclude(self, drawn: Arrays, config: SurveyConfig) -> Conclusion:
        """Rank by the noisy counts."""
        counts = WinCounts(drawn["counts"], config.comparisons.ties.row_weight, confidential=False)
        calibration = _calibration(config)
        estimate = rank_by_win_counts(counts, calibration.law)
        nothing = NOT_INFORMATIVE if config.privacy.private else NO_COMPARISONS
        return Conclusion(
            estimate=estimate,
            privacy=count_record(
                WIN_COUNTS,
                config.privacy.params(),
                calibration.law,
                calibration.sensitivity,
                config.comparisons.ties,
            ),
            released=ReleasedCounts.of(counts, config.items.catalogue().names),
            scale=Scale.WIN_SHARE,
            warnings=() if estimate.informative else (nothing,),
        )


def _calibration(config: SurveyConfig) -> Calibration:
    n_items = len(config.items.catalogue())
    return calibrate_win_counts(
        config.privacy.params(), n_items, config.comparisons.ties.row_weight
    )
