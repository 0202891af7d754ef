"""From a configuration to the reduction of its log: of comparisons, or of test answers."""

from __future__ import annotations

from hushrank.flows.config.comparisons import BadRows
from hushrank.flows.config.survey import SurveyConfig
from hushrank.pipelines.reduce.reduction_job import ReduceComparisons, Statistic
from hushrank.pipelines.reduce.responses_job import ReduceResponses
from hushrank.privacy.keyed_hash import SecretKey
from hushrank.privacy.units import PrivacyParams, Unit
from hushrank.transforms.common.randomisation import LocalAnswers
from hushrank.transforms.comparisons.bound import Bounds
from hushrank.transforms.storage.files import InputFile


def reduce_survey(
    config: SurveyConfig,
    params: PrivacyParams,
    files: tuple[InputFile, ...],
    key: SecretKey,
    folder: str,
    statistic: Statistic,
) -> ReduceComparisons:
    """Reduce the log of `config` to `statistic`, within the bounds of `params`.

    These are the mechanism's: its sensitivity is true only if they are enforced.
    """
    bounds = Bounds(
        n_items=len(config.items.catalogue()),
        ties=config.comparisons.ties,
        max_contributions=params.max_contributions if params.unit is Unit.USER else None,
        per_item_cap=params.per_item_cap,
        distinct_pairs=params.distinct_pairs,
    )
    return ReduceComparisons(
        files=files,
        columns=config.comparison_columns(),
        catalogue=config.items.catalogue(),
        bounds=bounds,
        statistic=statistic,
        key=key,
        confidential=folder,
        fail_on_bad_rows=config.input.on_bad_rows is BadRows.FAIL,
    )


def reduce_test(
    config: SurveyConfig,
    files: tuple[InputFile, ...],
    key: SecretKey,
    folder: str,
    *,
    max_answers: int,
    local: LocalAnswers | None = None,
) -> ReduceResponses:
    """Reduce the log of `config` to what it says of each pair of test items."""
    responses, catalogue = config.responses, config.items.catalogue()
    return ReduceResponses(
        files=files,
        columns=responses.response_columns(catalogue),
        catalogue=catalogue,
        max_answers=max_answers,
        duplicates=responses.duplicates,
        key=key,
        confidential=folder,
        fail_on_bad_rows=responses.on_bad_rows is BadRows.FAIL,
        local=local,
    )
