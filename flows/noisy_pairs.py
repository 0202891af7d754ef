"""Method `noisy-pairs`: release the noisy matrix of wins, and fit scores to it."""

from __future__ import annotations

from collections.abc import Iterator

from hushrank.estimation.central_noise import (
    Calibration,
    calibrate_pair_counts,
    release_pair_counts,
)
from hushrank.estimation.debiased import estimate_from
from hushrank.estimation.links import link_named
from hushrank.estimation.matrices import PairCounts
from hushrank.estimation.noisy_pairs import NoisyPairsFit, fit_noisy_pairs
from hushrank.flows.config import SurveyConfig
from hushrank.flows.count_statement import PAIR_COUNTS
from hushrank.flows.errors import ConfigError
from hushrank.flows.method import Arrays, Conclusion, Terms
from hushrank.flows.privacy_record import count_record
from hushrank.flows.release import NO_COMPARISONS, NOT_INFORMATIVE
from hushrank.flows.released import ReleasedPairs
from hushrank.flows.scale import SCALE_OF_LINK
from hushrank.flows.survey_reduction import reduce_survey
from hushrank.pipelines.reduction_job import ReduceComparisons, Statistic
from hushrank.privacy.randomness import RandomBits
from hushrank.transforms.files import InputFile

MOST_ITEMS = 2_000  # four million noisy counts: 20 to 30 MB of JSON
NOT_CONVEX = (
    "The fit ended where the likelihood is no maximum: with this much noise and this link several"
    " sets of scores fit almost equally well. Link logistic has one only."
)


class NoisyPairs:
    """See `estimation.noisy_pairs`."""

    def terms(self, config: SurveyConfig) -> Terms:
        """Cost and noise."""
        calibration = _calibration(config)
        law = calibration.law
        noise = (
            f"discrete {law.kind.capitalize()} noise of scale {law.scale:.6g} on every entry of the"
            " matrix of wins"
        )
        return Terms(spend=calibration.spend, noise=noise)

    def reduction(
        self, config: SurveyConfig, files: tuple[InputFile, ...], key: bytes, folder: str
    ) -> ReduceComparisons:
        """Count how often each item beat each other."""
        return reduce_survey(config, files, key, folder, Statistic.PAIR_COUNTS)

    def draw(self, exact: Arrays, config: SurveyConfig, bits: RandomBits) -> Arrays:
        """Add noise to every entry."""
        counts = PairCounts(exact["counts"], config.comparisons.ties.row_weight)
        noisy, _ = release_pair_counts(counts, config.privacy.params(), bits)
        return {"wins": noisy.dense()}

    def conclude(self, drawn: Arrays, config: SurveyConfig) -> Conclusion:
        """Fit scores to the noisy matrix."""
        ties = config.comparisons.ties
        counts = PairCounts(drawn["wins"], ties.row_weight, confidential=False)
        calibration, link = _calibration(config), link_named(config.model.link)
        fitted = fit_noisy_pairs(counts, calibration.law, link)
        estimate = estimate_from(fitted.fit)
        return Conclusion(
            estimate=estimate,
            privacy=count_record(
                PAIR_COUNTS,
                config.privacy.params(),
                calibration.law,
                calibration.sensitivity,
                ties,
                {
                    "link": link.name,
                    "pairs": fitted.n_pairs,
                    "pairs_left_out_of_the_fit": fitted.n_left_out,
                },
            ),
            released=ReleasedPairs.of(counts, config.items.catalogue().names),
            scale=SCALE_OF_LINK[link.name],
            warnings=tuple(_warnings(fitted, estimate.informative, config.privacy.private)),
        )


def _warnings(fitted: NoisyPairsFit, informative: bool, private: bool) -> Iterator[str]:
    if not informative:
        yield NOT_INFORMATIVE if private else NO_COMPARISONS
    if fitted.n_left_out > 0 and informative:
        why = (
            "their noisy totals do not stand clear of the noise, so they say next to nothing"
            if private
            else "nobody compared them"
        )
        yield (
            f"{fitted.n_left_out:,} of {fitted.n_pairs:,} pairs of items were left out of the fit:"
            f" {why}. They are in the released matrix all the same."
        )
    if not fitted.fit.is_minimum:
        yield NOT_CONVEX


def _calibration(config: SurveyConfig) -> Calibration:
    n_items = len(config.items.catalogue())
    if n_items > MOST_ITEMS:
        raise ConfigError(
            f"items: method: noisy-pairs releases a count for every pair and takes at most"
            f" {MOST_ITEMS} items, got {n_items}; set method: noisy-counts"
        )
    params = config.privacy.params()
    return calibrate_pair_counts(params, n_items, config.comparisons.ties.row_weight)
