"""`hushrank.estimate`: another model for counts that are public."""

from __future__ import annotations

from pathlib import Path

from hushrank.flows.interfaces.python.arguments import plainly
from hushrank.flows.interfaces.python.configuration import PathLike
from hushrank.flows.refit import fitted
from hushrank.flows.refit.fitted import Fitted


@plainly
def estimate(
    matrices: PathLike,
    *,
    link: str | None = None,
    ridge: float | None = None,
    estimator: str | None = None,
    tie_model: str | None = None,
    exposures: PathLike | None = None,
    elo: bool = False,
) -> Fitted:
    """Fit a model to public counts; this reads no row and spends nothing.

    Args:
        matrices: the folder of a finished release, its `release.json`, or a table of public pair
            counts (.csv, .parquet) with the columns left, right, left_wins, right_wins and, if they
            are counted, ties.
        link: logistic (the default), probit or laplace.
        ridge: weight c of c |scores|^2, finite and > 0; by default as much as suits the noise.
        estimator: likelihood (the default) or spectral, Rank Centrality, of a matrix of wins whose
            job states a design of chance.
        tie_model: davidson or rao-kupper, of counts with ties.
        exposures: a CSV file of public numbers of comparisons, of each item (item, exposure) or
            pair (left, right, comparisons); never counted in the answers.
        elo: write log odds as Elo ratings.

    Raises:
        ConfigError: the counts cannot be fitted so; the text says why, and what can.
    """
    return fitted.estimate(
        Path(matrices),
        link=link,
        ridge=ridge,
        estimator=estimator,
        tie_model=tie_model,
        exposures=None if exposures is None else Path(exposures),
        elo=elo,
    )
