"""`hushrank estimate`: another model for the public counts of a finished release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from hushrank.flows.interfaces.cli.arguments import AsJson
from hushrank.flows.terminal import Console, print_records

HEADINGS = ("rank", "item", "score", "95 % alone", "95 % all at once", "group")


def estimate(
    matrices: Annotated[
        str,
        typer.Argument(
            metavar="MATRICES",
            help="Folder of a release, its release.json, or a public .csv or .parquet of pairs.",
        ),
    ],
    link: Annotated[str | None, typer.Option(help="logistic, probit or laplace.")] = None,
    ridge: Annotated[float | None, typer.Option(help="Weight of c |scores|^2, above 0.")] = None,
    tie_model: Annotated[
        str | None, typer.Option(help="davidson or rao-kupper, of counts with ties.")
    ] = None,
    exposures: Annotated[
        Path | None, typer.Option(help="CSV file of public numbers of comparisons.")
    ] = None,
    elo: Annotated[bool, typer.Option("--elo", help="Write log odds as Elo ratings.")] = False,
    to: Annotated[
        Path | None, typer.Option(help="Folder for estimate.json and ranking.csv.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fit another model to the public counts of a finished release, or of a table. Spends nothing.

    Counts of wins take --exposures, with or without --link; matrices of wins take --link, --ridge
    and --exposures; counts with ties take --tie-model.
    """
    from hushrank.flows.refit.fitted import estimate as fit_model
    from hushrank.flows.refit.fitted import write_fitted

    fitted = fit_model(
        matrices, link=link, ridge=ridge, tie_model=tie_model, exposures=exposures, elo=elo
    )
    if to is not None:
        write_fitted(fitted, to)
    if as_json:
        typer.echo(fitted.to_json(), nl=False)
        return
    console = Console()
    rows = [
        (
            str(line.rank),
            line.shown,
            f"{line.score:.2f}",
            f"{line.low:.2f} to {line.high:.2f}",
            f"{line.at_once.low:.2f} to {line.at_once.high:.2f}",
            str(line.group),
        )
        for line in fitted.ranking
    ]
    print_records(console, HEADINGS, rows)
    for sentence in (*fitted.warnings, fitted.says):
        console.print(Text(sentence), soft_wrap=True)
    if to is not None:
        console.print(Text(f"Written: {to}"), soft_wrap=True)
