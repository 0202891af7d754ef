"""A Prefect task that fits another model to the public counts of a finished release."""

from __future__ import annotations

from pathlib import Path

from hushrank.flows.nights.server import set_defaults
from hushrank.flows.refit.fitted import estimate, write_fitted

set_defaults()  # before Prefect is loaded, which reads them then

# isort: split

from prefect import task  # noqa: E402
from prefect.cache_policies import NO_CACHE  # noqa: E402


@task(name="estimate", cache_policy=NO_CACHE, persist_result=False)
def estimate_task(
    matrices: str,
    to: str,
    link: str | None = None,
    ridge: float | None = None,
    estimator: str | None = None,
    tie_model: str | None = None,
    exposures: str | None = None,
) -> str:
    """Write what `hushrank estimate` would into the folder `to`, as a step of your own flow.

    It reads public counts alone, so its parameters, its result and its logs hold nothing private.

    Args:
        matrices, link, ridge, estimator, tie_model, exposures: see `hushrank.estimate`.
        to: folder for `estimate.json` and `ranking.csv`.

    Returns:
        The folder.

    Raises:
        HushrankError: as `hushrank.estimate`.
    """
    fitted = estimate(
        matrices,
        link=link,
        ridge=ridge,
        estimator=estimator,
        tie_model=tie_model,
        exposures=exposures,
    )
    write_fitted(fitted, Path(to))
    return to
