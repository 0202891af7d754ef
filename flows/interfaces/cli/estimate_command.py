"""`hushrank estimate`, `pool`, `drift`, `next-pairs`, `rank-for`: more of releases, at no cost.

`hushrank score`: what the holder of answer sheets reads of them from a release. Confidential.
The abilities by raw score of a release are public. This command looks them up for people whose
sheets the caller holds. It reads the sheets, writes one file beside them, and nothing else: no
ledger, no log, no release.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from hushrank.flows.errors import ConfigError
from hushrank.flows.interfaces.cli.arguments import AsJson
from hushrank.flows.terminal import Console, print_records
from hushrank.transforms import system

if TYPE_CHECKING:
    import pyarrow as pa

    from hushrank.flows.config.responses import ResponsesConfig
    from hushrank.flows.refit.fitted import PublicRanking
    from hushrank.flows.release.release import Release as Record
    from hushrank.transforms.common.catalogue import Catalogue
    from hushrank.transforms.responses.scored_sheets import ScoredSheets
    from hushrank.transforms.storage.files import FileFormat, InputFile


HEADINGS = ("rank", "item", "score", "95 % alone", "95 % all at once", "group")
MOST_PAIRS = 20  # pairs that are printed
OF_DRIFT = ("item", "before", "now", "difference", "95 % alone", "moved", "anchor")
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
    sure = [part.name for part in pooled.parts if part.certified]
    if sure:
        decided += f" Checked against its certificate: {', '.join(sure)}."
    _print(pooled, [*pooled.warnings, pooled.says, decided, pooled.cost], to)


def next_pairs(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RELEASE", help="Folder of a release, its release.json, or its job's YAML file."
        ),
    ],
    top: Annotated[
        int | None, typer.Option(help="Number of the best items sought; default: 5, or half.")
    ] = None,
    more: Annotated[
        float, typer.Option(help="Answers to come, as a multiple of those counted so far.")
    ] = 1.0,
    out: Annotated[
        Path | None, typer.Option(help="CSV file for all pairs and their shares.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Choose the pairs that teach most about the best items, from a release alone.

    Reads no row and spends nothing. For noisy-pairs and debiased-rr, whose fits condition on who
    met whom.
    """
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.refit.next_pairs import next_pairs as choose
    from hushrank.flows.refit.next_pairs import write_pairs

    found = choose(source, load_config, top=top, more=more)
    if out is not None:
        write_pairs(found, out)
    if as_json:
        typer.echo(found.model_dump_json(indent=1))
        return
    console = Console()
    shown = found.pairs[:MOST_PAIRS]
    rows = ((each.left, each.right, f"{100 * each.share:.1f} %") for each in shown)
    print_records(console, ("left", "right", "share"), rows)
    if len(found.pairs) > len(shown):
        rest = f"{len(found.pairs) - len(shown):,} more pairs have smaller shares."
        console.print(Text(rest), soft_wrap=True)
    console.print(Text(found.says), soft_wrap=True)
    if out is not None:
        console.print(Text(f"Written: {out}"), soft_wrap=True)


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


Earlier = Annotated[
    str, typer.Argument(metavar="EARLIER", help="A release of the earlier test: a folder, or file.")
]
Later = Annotated[
    str, typer.Argument(metavar="LATER", help="A release of the later test, as EARLIER is named.")
]


def drift(
    earlier: Earlier,
    later: Later,
    to: Annotated[
        Path | None, typer.Option("--out", help="Also write the table: .csv, .parquet or .json.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which items of a test became harder or easier since an earlier release.

    Both tests need items in common, which put them on one scale. Reads no row and spends nothing.
    """
    import pyarrow as pa

    from hushrank.flows.interfaces.cli.history_commands import write_whole
    from hushrank.flows.release.history import export_bytes
    from hushrank.flows.release.linking import drift_rows, drift_sentence

    records = _record_of(earlier), _record_of(later)
    lines = drift_rows(*records)
    if to is not None:
        write_whole(to, export_bytes(pa.Table.from_pylist(lines), to))
    if as_json:
        typer.echo(json.dumps({"items": lines}))
        return
    rows = [
        (
            line["item"],
            *(f"{line[name]:+.2f}" for name in ("before", "now", "difference")),
            f"{line['low']:+.2f} to {line['high']:+.2f}",
            *("yes" if line[name] else "no" for name in ("moved", "anchor")),
        )
        for line in lines
    ]
    print_records(Console(), OF_DRIFT, rows)
    Console().print(Text(drift_sentence(lines, *records)), soft_wrap=True)
    if to is not None:
        Console().print(Text(f"Written: {to}"), soft_wrap=True)


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
    from hushrank.flows.release.person_ranking import lines_for, towers_of

    release = _record_of(source)
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


def _record_of(source: str) -> Record:
    """The release in a folder, in a `release.json`, or of the job of a YAML file."""
    from pydantic import ValidationError

    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.release.archive import RELEASE
    from hushrank.flows.release.history import release_files
    from hushrank.flows.release.release import Release

    files, _ = release_files(source, load_config)
    try:
        return Release.model_validate_json(files[RELEASE])
    except ValidationError:
        raise ConfigError(f"{source}: was changed, or is of a newer version") from None


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


SCORE, ABILITY, ERROR = "score", "ability", "standard_error"
NO_ABILITIES = (
    "--release {}: it has no abilities by raw score. Releases of method: totals have them where"
    " anything can be learned. Nothing was read or spent."
)
NO_CERTIFICATE = (
    "--release {}: it has no certificate.json beside it, which says how sheets are read. Name the"
    " folder that hushrank run wrote. Nothing was read or spent."
)

Sheets = Annotated[
    Path, typer.Argument(metavar="SHEETS", help="The answer sheets, in the form of the release's.")
]
FromRelease = Annotated[
    str,
    typer.Option(
        "--release", help="A folder with a release, its release.json, or the YAML file of its job."
    ),
]
Out = Annotated[Path, typer.Option("--out", help="The new file: .csv, .parquet or .jsonl.")]
User = Annotated[
    str | None,
    typer.Option(help="The column that names the person, if it is another one in these sheets."),
]


def score(sheets: Sheets, release: FromRelease, out: Out, user: User = None) -> None:
    """Look up abilities of people by their raw scores, for the holder of their sheets.

    The new file is confidential: it has a row for each person of SHEETS. Reading a release spends
    nothing. A sheet that the release would not count has no score.
    """
    from hushrank.transforms.common.schema import InputError
    from hushrank.transforms.storage.files import list_files

    if not out.parent.is_dir():
        raise ConfigError(f"--out: {out.parent}: no such folder. Make it, or name another.")
    if os.path.lexists(out):
        raise ConfigError(f"{out} exists already; name a new file.")
    format_ = _format_of(out)
    record, config, catalogue = _read_release(release, sheets, user)
    try:
        (source,) = list_files([str(sheets.absolute())])
    except InputError as error:
        raise ConfigError.from_input(error) from None
    except ValueError:
        raise ConfigError(f"{sheets}: names several files; name one.") from None
    found = _scored(source, config, catalogue)
    _write(out, format_, _table(found, record, config, catalogue))
    Console().print(
        f"Wrote {out}: raw score, ability and standard error of each person. The file is"
        " confidential. Nothing was spent.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _format_of(out: Path) -> FileFormat:
    from hushrank.pipelines.simulate.simulate import WRITTEN_ENDINGS
    from hushrank.transforms.storage.files import ending_of

    format_ = WRITTEN_ENDINGS.get(ending_of(out))
    if format_ is None:
        raise ConfigError(f"--out {out}: must end in {', '.join(WRITTEN_ENDINGS)}")
    return format_


def _read_release(
    source: str, sheets: Path, user: str | None
) -> tuple[Record, ResponsesConfig, Catalogue]:
    """The release, how its certificate reads sheets, and its items."""
    from pydantic import ValidationError

    from hushrank.flows.config.responses import ResponsesConfig
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.release.archive import CERTIFICATE, RELEASE
    from hushrank.flows.release.history import release_files
    from hushrank.flows.release.release import Release as Record
    from hushrank.flows.trust.certificate.model import Certificate
    from hushrank.transforms.common.catalogue import Catalogue

    files, _ = release_files(source, load_config)
    if CERTIFICATE not in files:
        raise ConfigError(NO_CERTIFICATE.format(source))
    try:
        record = Record.model_validate_json(files[RELEASE])
        rows = Certificate.model_validate_json(files[CERTIFICATE]).rows
        if record.test is None or rows.kind != "responses":
            raise ConfigError(NO_ABILITIES.format(source))
        settings = {**rows.settings, "paths": [str(sheets)]}
        first = settings.pop("first_code", 0)
        config = ResponsesConfig.model_validate(settings)
    except ValidationError:
        raise ConfigError(f"--release {source}: was changed, or is of a newer version") from None
    if user is not None:
        columns = config.columns.model_copy(update={"user": user})
        config = config.model_copy(update={"columns": columns})
    counted = record.released.model_dump()
    items = counted["points" if config.points is not None else "right_minus_wrong"]
    return record, config, Catalogue(tuple(items), first=int(str(first)))


def _scored(source: InputFile, config: ResponsesConfig, catalogue: Catalogue) -> ScoredSheets:
    from hushrank.flows.reading import Reader

    with Reader() as reader:
        return reader.call(_score_here, source, config, catalogue, memory=None)


def _score_here(source: InputFile, config: ResponsesConfig, catalogue: Catalogue) -> ScoredSheets:
    """Read and score the sheets, in the process that parses files."""
    from hushrank.privacy.keyed_hash import KeyedHash, SecretKey
    from hushrank.privacy.randomness import system_bits
    from hushrank.transforms.common.schema import InputError
    from hushrank.transforms.responses.scored_sheets import score_sheets
    from hushrank.transforms.storage.files import check_files
    from hushrank.transforms.storage.read import plan_splits, read_batches

    columns, rules = config.response_columns(catalogue), config.sheet_rules(catalogue)
    if rules is None:
        raise ConfigError("--release: its sheets are not counted as a whole")
    try:
        schema = check_files([source], columns)[source.path]
        splits = plan_splits(source, schema, columns)
        batches = (batch.rows for split in splits for batch in read_batches(split))
        hashed = KeyedHash(SecretKey.draw(system_bits()).value)
        return score_sheets(batches, columns, catalogue, rules, config.duplicates, hashed)
    except InputError as error:
        raise ConfigError.from_input(error) from None


def _table(
    found: ScoredSheets, record: Record, config: ResponsesConfig, catalogue: Catalogue
) -> pa.Table:
    """A row for each person; empty where the sheet does not count."""
    import numpy as np
    import pyarrow as pa

    from hushrank.transforms.common.plain_text import write_cell

    tests = record.test or ()
    own = _tests_of_booklets(record, config, catalogue)
    sizes = [len(test.ability) for test in tests]
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    counts = found.booklet >= 0
    place = starts[np.array(own)[np.maximum(found.booklet, 0)]] + found.score
    columns = {
        config.columns.user: pa.array([write_cell(name) for name in found.people.to_pylist()])
    }
    if len(tests) > 1:
        names = pa.array([test.name for test in tests], pa.string())
        which = pa.array(np.array(own)[np.maximum(found.booklet, 0)], mask=~counts)
        columns["booklet"] = names.take(which)
    columns[SCORE] = pa.array(found.score, mask=~counts)
    for name, values in ((ABILITY, "ability"), (ERROR, "error")):
        listed = np.concatenate([getattr(test, values) for test in tests])
        columns[name] = pa.array(listed[place], mask=~counts)
    return pa.table(columns)


def _tests_of_booklets(
    record: Record, config: ResponsesConfig, catalogue: Catalogue
) -> Sequence[int]:
    """Find the entry of `Release.test` of each booklet of the configuration."""
    told = record.released.model_dump().get("booklets")
    if told is None:
        return [0] * max(len(config.booklets or ()), 1)
    sets = [{*items} for items in told]
    return [sets.index({*items}) for items in (config.booklets or {}).values()]


def _write(out: Path, format_: FileFormat, table: pa.Table) -> None:
    from hushrank.pipelines.simulate.simulate import new_row_file

    try:
        with system.private_files(out), new_row_file(out, table.schema, format_) as write:
            write(table)
    except FileExistsError:
        raise ConfigError(f"{out} exists already; name a new file.") from None
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written: {error.strerror}") from None
