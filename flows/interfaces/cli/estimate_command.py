"""`hushrank estimate`, `pool` and `rank-for`: more conclusions from releases, at no cost."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.arguments import AsJson
from hushrank.flows.terminal import Console, print_records

if TYPE_CHECKING:
    from hushrank.flows.refit.fitted import PublicRanking

HEADINGS = ("rank", "item", "score", "95 % alone", "95 % all at once", "group")
FOR_A_PERSON = ("rank", "item", "score", "95 % alone", "rank, 95 %")


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
    estimator: Annotated[
        str | None, typer.Option(help="likelihood or spectral, of a matrix of wins.")
    ] = None,
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

    Counts of wins take --exposures, with or without --link; matrices of wins take --link, --ridge,
    --estimator and --exposures; counts with ties take --tie-model.
    """
    from hushrank.flows.refit.fitted import estimate as fit_model
    from hushrank.flows.refit.fitted import write_fitted

    fitted = fit_model(
        matrices,
        link=link,
        ridge=ridge,
        estimator=estimator,
        tie_model=tie_model,
        exposures=exposures,
        elo=elo,
    )
    if to is not None:
        write_fitted(fitted, to)
    if as_json:
        typer.echo(fitted.to_json(), nl=False)
        return
    _print(fitted, [*fitted.warnings, fitted.says], to)


def pool(
    releases: Annotated[
        list[str],
        typer.Argument(metavar="RELEASE...", help="Folders of releases, or their release.json."),
    ],
    to: Annotated[Path | None, typer.Option(help="Folder for pooled.json and ranking.csv.")] = None,
    as_json: AsJson = False,
) -> None:
    """Combine finished releases about different people into one ranking, by precision.

    Reads no row and spends nothing. Says what a person in several of them has spent.
    """
    from hushrank.flows.refit.fitted import write_fitted
    from hushrank.flows.refit.pooled import POOLED
    from hushrank.flows.refit.pooled import pool as pool_releases

    pooled = pool_releases(releases)
    if to is not None:
        write_fitted(pooled, to, POOLED)
    if as_json:
        typer.echo(pooled.to_json(), nl=False)
        return
    shares = [f"{part.name} ({part.release}) {100 * part.share:.0f} %" for part in pooled.parts]
    decided = f"How much each release decides: {', '.join(shares)}."
    _print(pooled, [*pooled.warnings, pooled.says, decided, pooled.cost], to)


def _print(fitted: PublicRanking, sentences: list[str], to: Path | None) -> None:
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
    for sentence in sentences:
        console.print(Text(sentence), soft_wrap=True)
    if to is not None:
        console.print(Text(f"Written: {to}"), soft_wrap=True)


def rank_for(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PLACE",
            help="A folder with a release, its release.json, or the YAML file of its job.",
        ),
    ],
    features: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE...", help="Public features of the person.")
    ],
    two_towers: Annotated[
        bool,
        typer.Option(
            "--two-towers", help="Rank by two neural networks fitted now; without intervals."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rank for a person with these features, from a release of method personalized.

    Spends nothing, and stores nothing about the person.
    """
    from pydantic import ValidationError

    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.release.archive import RELEASE
    from hushrank.flows.release.history import release_files
    from hushrank.flows.release.person_ranking import lines_for, towers_of
    from hushrank.flows.release.release import Release

    files, _ = release_files(source, load_config)
    try:
        release = Release.model_validate_json(files[RELEASE])
    except ValidationError:
        raise ConfigError(f"{source}: was changed, or is of a newer version") from None
    towers = towers_of(release) if two_towers else None
    lines = lines_for(release, _person(features), towers)
    if as_json:
        finite = [{**line, **_finite(line)} for line in lines]
        gain = {} if towers is None else {"gain": towers.gain}
        typer.echo(json.dumps({"ranking": finite, **gain}))
        return
    rows = [
        (
            f"{line['rank']:g}",
            line["item"],
            f"{line['score']:+.2f}",
            f"{line['low']:+.2f} to {line['high']:+.2f}",
            f"{line['rank_low']} to {line['rank_high']}",
        )
        for line in lines
    ]
    print_records(Console(), FOR_A_PERSON, rows)
    if towers is not None:
        Console().print(Text(_judged(towers.gain)), soft_wrap=True)


def _judged(gain: float) -> str:
    """Sentence on how well two towers predict, beside the scores of the release."""
    better = "smaller" if gain > 0 else "larger"
    return (
        f"Two towers state no interval. Of people whose features were left out of the fit, their"
        f" loss of an answer was {abs(gain):.3g} {better} than that of the scores of the release."
        " This difference has no standard error, and the towers are the best of three fits on these"
        " same people, so a small one may be chance."
    )


def _finite(line: dict[str, Any]) -> dict[str, float | None]:
    """Ends of an interval as JSON has them: None where no bound is known."""
    return {end: line[end] if math.isfinite(line[end]) else None for end in ("low", "high")}


def _person(features: list[str]) -> dict[str, object]:
    person: dict[str, object] = {}
    for feature in features:
        name, equals, value = feature.partition("=")
        if not equals:
            raise ConfigError(f"{feature}: write each feature as NAME=VALUE, for example age=34")
        if name in person:
            raise ConfigError(f"{name}: stands twice; write it once")
        person[name] = value
    return person
