"""`hushrank history` and `hushrank export`: the past releases of a population."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from hushrank.flows.cli.arguments import AsJson
from hushrank.flows.errors import ArchiveError, ConfigError
from hushrank.flows.terminal import Console, print_records

if TYPE_CHECKING:
    from hushrank.flows.release.release import Release
    from hushrank.flows.report.changes import Changes
    from hushrank.transforms.storage.cloud_storage import Place

HEADINGS = ("day", "release", "method", "epsilon", "what it says")
CHANGE_HEADINGS = ("item", "before", "now", "change", "95 % interval", "rank", "more than noise")
PICTURES = {".svg": "svg", ".png": "png"}

Sources = Annotated[
    list[str],
    typer.Argument(metavar="SURVEY.YAML...", help="YAML files of jobs, or their output folders."),
]
Plot = Annotated[
    Path | None, typer.Option(help="Draw ranks over time into this file, .svg or .png.")
]
Since = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="What changed from the release of that day to the last."),
]
Verify = Annotated[
    bool, typer.Option("--verify", help="Only check that nothing was changed since publication.")
]
Out = Annotated[Path, typer.Option("--out", help="The file: .csv, .parquet or .json.")]
OneRelease = Annotated[
    str | None, typer.Option("--release", help="Only the release whose id begins with this.")
]


def history(
    sources: Sources,
    plot: Plot = None,
    since: Since = None,
    verify: Verify = False,
    as_json: AsJson = False,
) -> None:
    """List the releases of a population, and draw its ranking over time."""
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.release.history import apart, outputs_of, read_history

    outputs = outputs_of(sources, load_config)
    if verify:
        _verify(outputs, as_json)
        return
    if plot is not None and plot.suffix not in PICTURES:
        raise ConfigError(f"--plot {plot}: must end in {' or '.join(PICTURES)}")
    releases, left_out = apart(read_history(outputs))
    changes = None if since is None else _changes(releases, since)
    if not as_json:
        print_records(Console(), HEADINGS, map(_cells, releases))
        if any(release.stream is not None for release in releases):
            _say("* stream total, once: all nights of the stream cost that together.")
        _say_what_is_left_out(left_out)
    if plot is not None:
        from hushrank.flows.report.history_plot import ranks_over_time  # matplotlib takes a second

        _write(plot, ranks_over_time(releases, PICTURES[plot.suffix]))
    if changes is not None and not as_json:
        _show_changes(changes)
    if as_json:
        _print_json(releases, left_out, plot, changes)
    elif plot is not None:
        _say(f"Ranks over time: {plot}")


def _verify(outputs: list[Place], as_json: bool) -> None:
    from hushrank.flows.release.history import problems_of, read_history

    if problems := problems_of(outputs):
        raise ArchiveError("\n".join(problems))
    count = len(read_history(outputs))
    if as_json:
        from hushrank.flows.cli.documents import print_document
        from hushrank.flows.cli.history_documents import VerifyDocument

        print_document(VerifyDocument(releases=count))
        return
    what = "1 release is as it was" if count == 1 else f"{count} releases are as they were"
    _say(f"{what} published.")


def _changes(releases: list[Release], since: str) -> Changes:
    """From the last release of a day to the last of all."""
    from hushrank.flows.config.schedule import day_of
    from hushrank.flows.report.changes import changes_between

    day = day_of(since, "--since")
    before = [release for release in releases[:-1] if release.day == day]
    if not before:
        raise ConfigError(
            f"--since {day}: no release of that day comes before the last. hushrank history lists"
            " them"
        )
    return changes_between(before[-1], releases[-1])


def _show_changes(changes: Changes) -> None:
    _say(f"\nSince the release of {changes.since}: {changes.sentence}")
    if changes.how:
        _say(changes.how)
    if changes.rows:
        rows = (
            (row.item, row.before, row.now, row.change, row.interval, row.ranks, row.beyond)
            for row in changes.rows
        )
        print_records(Console(), CHANGE_HEADINGS, rows)


def _print_json(
    releases: list[Release],
    left_out: list[Release],
    plot: Path | None,
    changes: Changes | None,
) -> None:
    from hushrank.flows.cli.documents import print_document, summary_of
    from hushrank.flows.cli.history_documents import HistoryDocument, changes_document

    print_document(
        HistoryDocument(
            releases=tuple(map(summary_of, releases)),
            left_out=tuple(release.release_id for release in left_out),
            plot=None if plot is None else str(plot),
            changes=None if changes is None else changes_document(changes),
        )
    )


def export(sources: Sources, out: Out, release: OneRelease = None) -> None:
    """Write the rankings of all releases, or of one, into one table: a row for each item."""
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.release.history import (
        apart,
        export_bytes,
        one_release,
        outputs_of,
        ranking_table,
        read_history,
    )

    releases = read_history(outputs_of(sources, load_config))
    chosen, left_out = apart(releases)
    if release is not None:
        chosen, left_out = [one_release(releases, release)], []
    table = ranking_table(chosen)
    _write(out, export_bytes(table, out))
    _say(f"Wrote {out}: {table.num_rows:,} rows of {len(chosen):,} releases.")
    _say_what_is_left_out(left_out)


def _cells(release: Release) -> tuple[str, ...]:
    from hushrank.flows.release.wording import verdict

    says = verdict(release) if release.safe else f"UNSAFE. {verdict(release)}"
    epsilon = f"{release.privacy.epsilon:g}"
    if release.stream is not None:
        epsilon = f"{epsilon}*"
    return f"{release.day}", release.release_id, release.method, epsilon, says


def _say_what_is_left_out(unsafe: list[Release]) -> None:
    if unsafe:
        names = ", ".join(release.release_id for release in unsafe)
        _say(
            f"Left out, because they are unsafe and protect nobody: {names}. hushrank export"
            " --release writes one of them."
        )


def _write(path: Path, content: bytes) -> None:
    """Write the whole file or nothing."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


def _say(text: str) -> None:
    Console().print(Text(text), soft_wrap=True)
