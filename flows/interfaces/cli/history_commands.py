"""`hushrank history`, `export` and `verify`: the past releases of a population."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from hushrank.flows.config.language import Language
from hushrank.flows.errors import ArchiveError, ConfigError
from hushrank.flows.interfaces.cli.arguments import AsJson
from hushrank.flows.report.svg import PICTURES, Shape
from hushrank.flows.terminal import Console, print_records
from hushrank.transforms import system
from hushrank.transforms.common.local_files import open_to_write, require_regular

if TYPE_CHECKING:
    import pyarrow as pa

    from hushrank.flows.release.release import Release
    from hushrank.flows.report.changes import Changes
    from hushrank.transforms.storage.places import Place
    from hushrank.verifier.verify_release import Findings

HEADINGS = ("day", "release", "method", "epsilon", "what it says")
CHANGE_HEADINGS = ("item", "before", "now", "change", "95 % interval", "rank", "more than noise")
FOUND: dict[str, Literal["holds", "WRONG", "unproved", "newer"]] = {
    "holds": "holds",
    "WRONG": "WRONG",
    "open": "unproved",
    "newer": "newer",
}
GOOD = "Nothing is wrong. Claims marked unproved cannot be checked from these files by any program."
BAD = "This release fails verification: do not rely on it."
NEWER = "Not judged: this release is of a newer format. Verify it with a newer version of hushrank."
PAGE, PDF, CSV = ".html", ".pdf", ".csv"
FONTS_ADVICE = "Install the Noto fonts and export again, or write an .svg file."
CHARTS = (*PICTURES, PDF)


class TableKind(StrEnum):
    """A table of a release."""

    RANKING = "ranking"
    COUNTS = "counts"
    CODEBOOK = "codebook"
    ABILITIES = "abilities"
    DIF = "dif"


NOTHING = {
    TableKind.COUNTS: (
        "--table counts: these releases hold no noisy count of an item or a pair. Releases of"
        " methods that count comparisons or rankings do."
    ),
    TableKind.ABILITIES: (
        "--table abilities: none of these releases has abilities by raw score. Releases of method:"
        " totals have them where anything can be learned."
    ),
    TableKind.DIF: (
        "--table dif: none of these releases compares items between groups. Releases of method:"
        " totals with groups do, where anything can be learned."
    ),
}

Sources = Annotated[
    list[str],
    typer.Argument(metavar="SURVEY.YAML...", help="YAML files of jobs, or their output folders."),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        help="Draw ranks over time into this file, .svg or .png; of one release, its ranking."
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="DATE", help="Show what changed between the release of that day and the last one."
    ),
]
Verify = Annotated[
    bool, typer.Option("--verify", help="Only check that nothing was changed since publication.")
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        help="The file: .csv, .parquet or .json; .png, .svg or .pdf: a chart of one release for"
        " slides; .html: its report, drawn again.",
    ),
]
ShapeOf = Annotated[Shape, typer.Option("--shape", help="Sides of a chart: wide is 16:9.")]
Excel = Annotated[
    bool,
    typer.Option(
        "--excel", help="Begin a .csv file with the mark by which Excel knows its letters (UTF-8)."
    ),
]
Dark = Annotated[bool, typer.Option("--dark", help="Draw a chart in light colours on dark paper.")]
InLanguage = Annotated[
    Language,
    typer.Option("--language", help="Language of a report or a chart: .html, .svg, .png, .pdf."),
]
OneRelease = Annotated[
    str | None, typer.Option("--release", help="Export only the release whose id begins with this.")
]
TableOf = Annotated[
    TableKind,
    typer.Option(
        "--table",
        help="ranking; counts: with their noise; codebook: what each column means; of a test:"
        " abilities by raw score, dif: items by group.",
    ),
]
OneSource = Annotated[
    str,
    typer.Argument(
        metavar="PLACE",
        help="A folder with a release, its release.json, or the YAML file of its job.",
    ),
]
LedgerPlace = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="FILE",
        help="The ledger that counts the release; default: the ledger that the YAML file names.",
    ),
]
PublicKey = Annotated[
    Path | None,
    typer.Option(
        "--public-key", metavar="FILE", help="Public key (PEM) that signs certificate or ledger."
    ),
]
TermsPublicKey = Annotated[
    Path | None,
    typer.Option("--terms-key", metavar="FILE", help="Public key (PEM) of who may set the budget."),
]
Anchor = Annotated[
    str | None,
    typer.Option(
        "--anchor", metavar="PLACE", help="An anchor of the ledger, as ledger.anchor names one."
    ),
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
    from hushrank.flows.release.history import apart, changed_jobs, outputs_of, read_history
    from hushrank.flows.report.changes import job_change
    from hushrank.flows.report.svg import check_picture

    outputs = outputs_of(sources, load_config)
    if verify:
        _verify(outputs, as_json)
        return
    if plot is not None:
        check_picture(plot)
    releases, left_out = apart(read_history(outputs))
    breaks = {
        after.release_id: job_change(before, after)
        for before, after in changed_jobs(outputs, releases)
    }
    changes = None if since is None else _changes(releases, since, breaks)
    late = _late_files(sources, releases)
    if not as_json:
        print_records(Console(), HEADINGS, _lines(releases, breaks))
        if any(release.stream is not None for release in releases):
            _say("* total of the stream, charged once for all its nights.")
            _say_alarms(releases)
        _say_what_is_left_out(left_out)
        for note in late.values():
            _say(note)
    if plot is not None:
        from hushrank.flows.report.sections import ranks_over_time

        write_whole(plot, ranks_over_time(releases, plot.suffix, breaks))
    if changes is not None and not as_json:
        _show_changes(changes)
    if as_json:
        _print_json(releases, left_out, plot, changes, breaks, late)
    elif plot is not None:
        one = "The ranking, because there is one release so far"
        _say(f"{one if len(releases) == 1 else 'Ranks over time'}: {plot}")


def _say_alarms(releases: Sequence[Release]) -> None:
    """Print which items passed each other, and what the last night says of the watched pairs."""
    from hushrank.flows.release.alarms import alarm_sentences

    for release in releases:
        shown = release.shown()
        for each in () if release.alarms is None else release.alarms.passed:
            _say(f"{release.day}: {shown[each.item]} passed {shown[each.passed]}.")
    for sentence in [*alarm_sentences(releases[-1])][-1:]:
        _say(sentence)


def _late_files(sources: Sequence[str], releases: Sequence[Release]) -> dict[str, str]:
    """Sentence for each listed release whose input files changed later; empty unless a YAML
    file."""
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.nights.nights import late_releases
    from hushrank.transforms.storage.places import is_cloud

    listed, found = {release.release_id for release in releases}, dict[str, str]()
    for source in sources:
        if source.endswith((".yaml", ".yml")) and not is_cloud(source):
            found |= late_releases(load_config(Path(source)))
    return {id_: note for id_, note in found.items() if id_ in listed}


def _verify(outputs: list[Place], as_json: bool) -> None:
    from hushrank.flows.release.history import problems_of, read_history
    from hushrank.flows.trust.certificate.model import problems_of_certificate

    if problems := problems_of(outputs, problems_of_certificate):
        raise ArchiveError("\n".join(problems))
    count = len(read_history(outputs))
    if as_json:
        from hushrank.flows.interfaces.documents.histories import VerifyDocument
        from hushrank.flows.interfaces.documents.runs import print_document

        print_document(VerifyDocument(releases=count))
        return
    _say("1 release is unchanged." if count == 1 else f"{count} releases are unchanged.")


def _lines(releases: list[Release], breaks: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Yield a line for each release, and one above each release that follows a change of the
    job."""
    for release in releases:
        if (change := breaks.get(release.release_id)) is not None:
            yield "", "", "", "", change
        yield _cells(release)


def _changes(releases: list[Release], since: str, breaks: Mapping[str, str]) -> Changes:
    """Compare the last release of a day with the last release of all."""
    from hushrank.flows.config.schedule import day_of
    from hushrank.flows.report.changes import changes_between

    day = day_of(since, "--since")
    before = [release for release in releases[:-1] if release.day == day]
    if not before:
        raise ConfigError(
            f"--since {day}: there is no earlier release of that day. To see the days, run hushrank"
            " history"
        )
    after = releases[releases.index(before[-1]) + 1 :]
    continued = any(release.release_id in breaks for release in after)
    return changes_between(before[-1], releases[-1], continued=continued)


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
    breaks: Mapping[str, str],
    late: Mapping[str, str],
) -> None:
    from hushrank.flows.interfaces.documents.histories import (
        Alarm,
        HistoryDocument,
        JobChange,
        LateFiles,
        changes_document,
    )
    from hushrank.flows.interfaces.documents.runs import print_document, summary_of

    print_document(
        HistoryDocument(
            releases=tuple(map(summary_of, releases)),
            left_out=tuple(release.release_id for release in left_out),
            plot=None if plot is None else str(plot),
            changes=None if changes is None else changes_document(changes),
            job_changes=tuple(JobChange(before=id_, says=text) for id_, text in breaks.items()),
            late_files=tuple(LateFiles(release_id=id_, says=text) for id_, text in late.items()),
            alarms=tuple(
                Alarm(
                    release_id=release.release_id,
                    day=release.day,
                    item=each.item,
                    passed=each.passed,
                )
                for release in releases
                if release.alarms is not None
                for each in release.alarms.passed
            ),
        )
    )


def export(
    sources: Sources,
    out: Out,
    release: OneRelease = None,
    kind: TableOf = TableKind.RANKING,
    shape: ShapeOf = Shape.WIDE,
    dark: Dark = False,
    excel: Excel = False,
    language: InLanguage = Language.ENGLISH,
) -> None:
    """Write the rankings of all releases, or of one, into one table: a row for each item.

    With --table counts it has a row for each noisy count of an item or a pair, with the standard
    deviation of its noise; with --table codebook one for each column of each table; with --table
    abilities one for each raw score of a test, with --table dif one for each item and pair of
    groups.

    An --out that ends in .png, .svg or .pdf gets a chart for slides of the last release, or of the
    one that is named. A chart shows as many items as can be read from afar; a PDF has pages for the
    others. One that ends in .html gets the release's report, in the language of --language.
    """
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.release.history import (
        apart,
        export_bytes,
        one_release,
        outputs_of,
        read_history,
        with_own_words,
    )

    outputs = outputs_of(sources, load_config)
    if out.suffix in CHARTS:
        _check_chart(out)
    if excel and out.suffix != CSV:
        raise ConfigError(f"--excel: is for a .csv file, and --out names {out}; leave --excel out")
    if language is not Language.ENGLISH:
        _check_language(out, language)
    releases = read_history(outputs)
    chosen, left_out = apart(releases)
    if release is not None:
        chosen, left_out = [one_release(releases, release)], []
    if out.suffix in CHARTS:
        shown = with_own_words(chosen[-1], sources, load_config)
        _export_chart(out, shown, shape, dark, language)
        return
    if out.suffix == PAGE:
        _export_page(out, with_own_words(chosen[-1], sources, load_config), outputs, language)
        return
    table = _table_of(kind, chosen)
    if kind in NOTHING and not table.num_rows:
        raise ConfigError(NOTHING[kind])
    write_whole(out, codecs.BOM_UTF8 * excel + export_bytes(table, out))
    if kind is TableKind.CODEBOOK:
        _say(f"Wrote {out}: what the {table.num_rows} columns of all tables mean.")
        return
    of = "1 release" if len(chosen) == 1 else f"{len(chosen):,} releases"
    _say(f"Wrote {out}: {table.num_rows:,} row{'' if table.num_rows == 1 else 's'} of {of}.")
    _say_what_is_left_out(left_out)


def _table_of(kind: TableKind, releases: Sequence[Release]) -> pa.Table:
    from hushrank.flows.release.codebook import codebook_table, counts_table
    from hushrank.flows.release.history import abilities_table, dif_table, ranking_table

    makers: dict[TableKind, Callable[[Sequence[Release]], pa.Table]] = {
        TableKind.RANKING: ranking_table,
        TableKind.COUNTS: counts_table,
        TableKind.CODEBOOK: lambda _: codebook_table(),
        TableKind.ABILITIES: abilities_table,
        TableKind.DIF: dif_table,
    }
    return makers[kind](releases)


def _check_chart(out: Path) -> None:
    from hushrank.flows.errors import require
    from hushrank.flows.report.svg import check_picture

    if out.suffix == PDF:
        require("pdf", f"--out {out}")
    else:
        check_picture(out, "--out")


def _export_chart(
    out: Path, release: Release, shape: Shape, dark: bool, language: Language
) -> None:
    """Draw the ranking of a release for slides."""
    from hushrank.flows.report.page import translator_for
    from hushrank.flows.report.slide import chart_of, chart_svg, in_english, pages_of
    from hushrank.flows.report.svg import SVG, png_bytes

    say = in_english if language is Language.ENGLISH else translator_for(release, language).say
    pages, complete = [chart_of(release, shape, dark=dark, say=say)], True
    if out.suffix == PDF:
        from hushrank.flows.report.slide_pdf import charts_pdf

        pages = pages_of(release, shape, dark=dark, say=say)
        content, complete = charts_pdf(pages)
    else:
        picture = chart_svg(pages[0])
        content = picture.encode() if out.suffix == SVG else png_bytes(picture)
    write_whole(out, content)
    what = "a chart" if len(pages) == 1 else f"{len(pages)} charts"
    _say(f"Wrote {out}: {what} of release {release.release_id}.")
    if not complete:
        _say(f"Some characters are boxes, because no font of this machine has them. {FONTS_ADVICE}")
    _say(f"Alternative text: {pages[0].description}")


def _check_language(out: Path, language: Language) -> None:
    from hushrank.flows.errors import require

    if out.suffix not in (PAGE, *CHARTS):
        rule = "is for a report or a chart, an --out that ends in .html, .svg, .png or .pdf"
        raise ConfigError(f"--language: {rule}, and --out names {out}; leave --language out")
    require("languages", f"--language {language}")


def _export_page(out: Path, release: Release, outputs: list[Place], language: Language) -> None:
    """Draw the report again as a page, without the budget."""
    from hushrank.flows.release.archive import find_archived, nights_before, release_before
    from hushrank.flows.report.page import render_report

    kept = (output for output in outputs if find_archived(output, release.release_id) is not None)
    output = next(kept)
    before, earlier = release_before(release, *outputs), nights_before(release, output)
    continued = before is not None and find_archived(output, before.release_id) is None
    page = render_report(release, None, before, earlier, continued=continued, language=language)
    write_whole(out, page.encode())
    _say(f"Wrote {out}: the report of release {release.release_id}, without the budget.")


def verify_release(
    source: OneSource,
    ledger: LedgerPlace = None,
    key: PublicKey = None,
    anchor: Anchor = None,
    terms_key: TermsPublicKey = None,
    as_json: AsJson = False,
) -> None:
    """Check one release against its certificate: noise, epsilon, files and ledger; reads no row.

    The exit code is 1 if something is wrong, and 5 if the release is of a newer format than this
    version knows: then nothing is judged. The same check runs without hushrank:
    verifier/verify_release.py is one file of Python.
    """
    from hushrank.flows.methods.registry import load_config
    from hushrank.flows.release.history import bytes_of, release_files
    from hushrank.verifier.verify_release import verify

    files, own_ledger = release_files(source, load_config)
    lines = own_ledger if ledger is None else bytes_of(ledger, "--ledger")
    public = None if key is None else bytes_of(str(key), "--public-key")
    heads = None if anchor is None else _heads_of(anchor)
    officer = None if terms_key is None else bytes_of(str(terms_key), "--terms-key")
    found = verify(files, lines, public, heads, officer)
    if as_json:
        _print_findings(found)
    else:
        for kind, text in found.lines:
            _say(f"{FOUND[kind]:9}{text}")
        _say((GOOD if found.good else BAD) if found.judged else NEWER)
    if found.code:
        sys.exit(found.code)


def _heads_of(anchor: str) -> bytes:
    from hushrank.flows.ledger.guards import Guards

    named = Guards().with_anchor(anchor).anchor
    return b"" if named is None else named.records()


def _print_findings(found: Findings) -> None:
    from hushrank.flows.interfaces.documents.histories import Finding, FindingsDocument
    from hushrank.flows.interfaces.documents.runs import print_document

    lines = (Finding(found=FOUND[kind], text=text) for kind, text in found.lines)
    print_document(FindingsDocument(good=found.good, judged=found.judged, findings=tuple(lines)))


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


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely, or not at all."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        require_regular(path)
        with open_to_write(partial) as file:
            file.write(content)
        system.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None


def _say(text: str) -> None:
    Console().print(Text(text), soft_wrap=True)
