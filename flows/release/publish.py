"""Publishing: a release is kept for good in the output folder, and shown on top of it.

First its own folder appears in the archive, whole, by a rename (`flows.release.archive`); then its
files take the place of those that were shown, one rename each, `release.json` last. A run that is
killed in between leaves a release that is kept and not yet shown: the next run of the job shows it.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from hushrank.flows.errors import ArchiveError, ConfigError, PublishError
from hushrank.flows.release.archive import (
    ALL_FILES,
    DIF,
    EFFECTS,
    FIT,
    PARTIAL,
    PRECINCTS,
    RANKING,
    RELEASE,
    RELEASES,
    ROUNDS,
    SCORES,
    STEP_FILE,
    Attach,
    archived,
    check_intact,
    files_of,
    find_archived,
    folder_name,
    keep,
    load_archived,
    write_file,
)
from hushrank.flows.release.boards import STANDARD_ERRORS, effects_by_board
from hushrank.flows.release.election import PrecinctRecord
from hushrank.flows.release.release import Head, Release, load_head
from hushrank.flows.release.released import effects_csv
from hushrank.flows.release.sheet_report import (
    dif_csv,
    fit_csv,
    scores_csv,
    step_rows,
    steps_csv,
)
from hushrank.transforms import system
from hushrank.transforms.common.local_files import MostBytes, read_local
from hushrank.transforms.common.plain_text import number_cell, write_cell
from hushrank.transforms.storage.places import CloudPath, Place, flush_folder, read_whole

INTERVALS_AT_ONCE = ("low_all", "high_all", "rank_low_all", "rank_high_all", "surely_above")
PIECE = 1_000  # lines of a piece of the table
LATER_COLUMNS = (*INTERVALS_AT_ONCE, "p_best", "p_top", *STANDARD_ERRORS)


def check_output(output: Place, *jobs: str, safe: bool = True) -> None:
    """Refuse an output folder in which this job must not or cannot publish. Writes nothing.

    For a run to call before it reads or spends anything. A folder holds releases that protect
    people, or releases that protect nobody: the two are never mixed, so that no test takes the
    place of what is public.

    Args:
        output: the configured folder; it need not exist.
        jobs: identity of the job's configuration, in earlier versions too.
        safe: whether the release is to protect people.

    Raises:
        ConfigError: the folder is a file, holds something other than releases of this job and of
            this kind, or cannot be written.
    """
    if isinstance(output, CloudPath):
        _check_objects(output, jobs, safe=safe)
        return
    output = output.resolve()
    if output.exists():
        _check_content(output, jobs, safe=safe)
    writable = next(folder for folder in (output, *output.parents) if folder.exists())
    if not writable.is_dir() or not os.access(writable, os.W_OK | os.X_OK):
        raise ConfigError(
            f"output {output}: {writable} is not a folder that can be written;"
            " change its permissions, or name another output"
        )


def publish(
    release: Release,
    output: Place,
    *attachments: Attach,
    allow_unsafe: bool = False,
    jobs: Sequence[str] = (),
) -> Place:
    """Keep a release in `output`, `release.json` and `ranking.csv`, and show it there.

    Beside them, a release with effects of covariates has `effects.csv`, and one with abilities by
    raw score `scores.csv`, and so on; all other files, the report among them, are attached.

    A release that is kept already is never written again. One run at a time may publish a release;
    the ledger's lock sees to that.

    Args:
        release: the release to publish.
        output: the folder; what it shows of the same job gives way, unless it is of a later day.
        attachments: make its other files, in order.
        allow_unsafe: publish even a release that protects nobody (simulation, `--no-privacy`).
        jobs: other identities of its job, under which `output` may hold releases.

    Returns:
        Where the files are shown: `output`, or the release's own folder in the archive.

    Raises:
        ConfigError: as `check_output`.
        PublishError: the release is unsafe, or claims to be safe without saying from which random
            bits, or could not be written; nothing was published.
        ArchiveError: the release was published before and changed since.
    """
    if not release.safe and not allow_unsafe:
        raise PublishError(
            f"release {release.release_id} protects nobody and was not published:"
            f" {' '.join(release.warnings)}"
        )
    if release.safe and not release.proven_safe:
        raise PublishError(
            f"release {release.release_id} claims to be safe and does not say from which random"
            " bits it was drawn; it was not published"
        )
    output = _resolved(output)
    check_output(output, release.job, *jobs, safe=release.safe)
    kept = find_archived(output, release.release_id)
    folder = kept or output / RELEASES / folder_name(release)
    try:
        if kept is None:
            keep(folder, contents_of(release), *attachments)
        return show(folder, output)
    except BaseException as error:
        if kept is None and not isinstance(folder, CloudPath):
            _take_back(folder)
        if isinstance(error, OSError):
            raise _not_published(output, error) from error
        raise


def published(output: Place, release_id: str) -> tuple[Release, Place] | None:
    """A release that was published to `output`, and where it is shown; None where it was not.

    Raises:
        ArchiveError: the release was changed since.
        PublishError: the release is kept but not shown, since an earlier run was killed, and cannot
            be.
    """
    output = _resolved(output)
    try:
        folder = find_archived(output, release_id)
        if folder is None:
            return None
        return load_archived(folder), show(folder, output)
    except OSError as error:
        raise _not_published(output, error) from error


def show(folder: Place, output: Place) -> Place:
    """Put copies of an archived release on top of `output`, unless a later day is shown there.

    In Cloud Storage there are no such copies, so that a bucket can forbid replacing public files.

    Returns:
        Where the release is to be seen.

    Raises:
        ArchiveError: the release was changed since it was published.
        OSError: the release could not be copied; the files that were shown are shown still.
    """
    check_intact(folder)
    if isinstance(output, CloudPath):
        return folder
    shown = _shown(output)
    if shown is not None and str(shown.day) > folder.name[:10]:
        unsafe_on_top = not shown.safe and load_head(folder / RELEASE).safe
        if not unsafe_on_top:  # as versions have left it that mixed the two
            return folder
    contents = _contents_in(folder)
    if not all(_holds(output / name, content) for name, content in contents.items()):
        try:
            _replace(output, contents)
        except BaseException:
            before = None if shown is None else find_archived(output, shown.release_id)
            if before is not None:
                with suppress(ArchiveError, OSError):
                    _replace(output, _contents_in(before))
            if not (output / RELEASE).exists():  # half of a release is none
                for name in ALL_FILES:
                    (output / name).unlink(missing_ok=True)
            raise
    return output


def contents_of(release: Release) -> dict[str, bytes]:
    """The files of a release that are nothing but itself, by name."""
    steps = () if release.test is None else step_rows(release.test)
    effects = effects_by_board(release.effects, release.groups)
    return {
        **({EFFECTS: effects_csv(effects).encode()} if effects else {}),
        **({} if release.test is None else {SCORES: scores_csv(release.test).encode()}),
        **({STEP_FILE: steps_csv(steps).encode()} if steps else {}),
        **({} if release.dif is None else {DIF: dif_csv(release.dif).encode()}),
        **({} if release.fit is None else {FIT: fit_csv(release.fit).encode()}),
        **({} if release.precincts is None else {PRECINCTS: _votes_of(release, release.precincts)}),
        **{name: text.encode() for name, text in round_table(release).items()},
        RANKING: _joined(ranking_pieces(release)),
        RELEASE: _joined(release.json_pieces()),
    }


def _votes_of(release: Release, record: PrecinctRecord) -> bytes:
    """The table of votes by precinct; only then its module is loaded."""
    from hushrank.flows.release.precincts import precincts_csv

    return precincts_csv(record, release.released).encode()


def round_table(release: Release) -> dict[str, str]:
    """The table of the rounds of an instant runoff, by its name; none of another release."""
    if release.election is None or release.election.rounds is None:
        return {}
    from hushrank.flows.release.rounds import rounds_csv, rounds_of

    return {ROUNDS: rounds_csv(rounds_of(release))}


def _joined(pieces: Iterable[str]) -> bytes:
    """The text as bytes, without a second copy of it."""
    content = io.BytesIO()
    content.writelines(piece.encode() for piece in pieces)
    return content.getvalue()


def ranking_csv(release: Release) -> str:
    """The text of `ranking_pieces`."""
    return "".join(ranking_pieces(release))


def ranking_pieces(release: Release) -> Iterator[str]:
    """The ranking as a table, best first, in pieces of its text.

    Scores have six decimals, an end that is not known is empty, and texts are written by
    `write_cell`.

    A column `label` stands where items have labels; `unit` says what the scores are. Of what later
    versions say of the items, the columns stand at the end: see `RankedItem`. Where there are
    groups, their rankings follow that of the whole, and the last column names the group.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    wins = release.released.wins_by_item()
    label, unit = ["label"] * release.labelled, [] if release.unit is None else [release.unit.value]
    columns = ["rank", "item", *label, "score", "low", "high", "rank_low", "rank_high", "group"]
    counted = [] if wins is None else ["noisy_wins"]
    boards = [("", release), *((group.name, board) for group, board in release.boards())]
    said = [name for name in LATER_COLUMNS if release.says_anywhere(name)]
    later = [f"p_top_{release.top}" if name == "p_top" else name for name in said]
    board_column = ["board"] * (len(boards) > 1)
    table.writerow([*columns, *counted, *["unit"] * len(unit), *later, *board_column])
    for name, board in boards:
        of_board = [write_cell(name)] * len(board_column)
        rows = ([*row, *of_board] for row in _csv_rows(board, said, unit))
        while some := list(islice(rows, PIECE)):
            table.writerows(some)
            yield text.getvalue()
            text.seek(0)
            text.truncate()


def _csv_rows(release: Release, said: Sequence[str], unit: Sequence[str]) -> Iterator[list[object]]:
    """The lines of one ranking, without the name of its group."""
    wins, labelled = release.released.wins_by_item(), release.labelled
    for line in release.ranking:
        texts = [write_cell(line.item), *([write_cell(line.shown)] if labelled else ())]
        scores = map(number_cell, (line.score, line.low, line.high))
        ranks = (line.rank_low, line.rank_high, line.group)
        won = () if wins is None else (wins[line.item],)
        more = (_cell(getattr(line, name)) for name in said)
        yield [line.rank, *texts, *scores, *ranks, *won, *unit, *more]


def _cell(value: float | str | None) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value}" if isinstance(value, int) else number_cell(value)


def _check_content(output: Path, jobs: Sequence[str], *, safe: bool) -> None:
    if not output.is_dir():
        raise ConfigError(f"output {output}: is a file; name a folder for releases")
    names = {path.name for path in output.iterdir() if not path.name.endswith(PARTIAL)}
    foreign = sorted(names - {*ALL_FILES, RELEASES})
    if names and not names & {RELEASE, RELEASES}:
        foreign = sorted(names)
    if foreign:
        raise ConfigError(
            f"output {output}: holds {foreign[0]}, which is not part of a release. Releases are"
            " kept in a folder of their own: name an empty or a new one"
        )
    shown = _shown(output)
    if shown is not None:
        _check_shown(output, shown, jobs, safe=safe)


def _check_objects(output: CloudPath, jobs: Sequence[str], *, safe: bool) -> None:
    try:
        names = {found.path.key.removeprefix(f"{output.key}/") for found in output.objects()}
        shown = _shown(output)
    except OSError as error:
        raise ConfigError(f"output {output}: cannot be listed: {error.strerror}") from None
    foreign = sorted(name for name in names if not name.startswith(f"{RELEASES}/"))
    if foreign:
        raise ConfigError(
            f"output {output}: holds {foreign[0]}, which is not part of a release. Releases are"
            " kept in a folder of their own: name an empty or a new one"
        )
    if shown is not None:
        _check_shown(output, shown, jobs, safe=safe)


def _check_shown(output: Place, shown: Head | Release, jobs: Sequence[str], *, safe: bool) -> None:
    """Refuse to publish beside releases of another job, or of the other kind."""
    if shown.job not in jobs:
        raise ConfigError(
            f"output {output}: holds the release of another job, or of this one as it was"
            " configured before; name another output, or move that release away"
        )
    if safe and not shown.safe and not _keeps_safe(output):
        raise ConfigError(
            f"output {output}: holds unsafe releases, which protect nobody, and those that are for"
            " publication are kept apart from them; name another output, or move those away"
        )
    if not safe and (shown.safe or _keeps_safe(output)):
        raise ConfigError(
            f"output {output}: holds releases that protect people, and an unsafe one"
            " (--unsafe-seed, or epsilon: inf) must not take their place; name another output"
        )


def _keeps_safe(output: Place) -> bool:
    """Whether a release in the archive protects people."""
    for folder in archived(output):
        with suppress(ConfigError):  # one that cannot be read is for `hushrank history --verify`
            if load_head(folder / RELEASE).safe:
                return True
    return False


def _resolved(output: Place) -> Place:
    return output if isinstance(output, CloudPath) else output.resolve()


def _shown(output: Place) -> Head | Release | None:
    """Return the head of the release on top of `output`, or else of the last one in its archive.

    Raises:
        ConfigError: the file cannot be read; the text says what to do.
    """
    place: Place = output
    if not isinstance(output, CloudPath) and (output / RELEASE).exists():
        remedy = f"Copy the files of its folder in {output / RELEASES} over it"
    elif kept := archived(output):
        place, remedy = kept[-1], f"Put {kept[-1]} back as it was, or move it away"
    else:
        return None
    try:
        return load_head(place / RELEASE)
    except ConfigError as error:
        raise ConfigError(
            f"{error}. {remedy}, and run again. What was paid for it stays paid; nothing was"
            " published now."
        ) from None


def _contents_in(folder: Place) -> dict[str, bytes]:
    """The files of a release in the archive, by name."""
    return {name: read_whole(folder / name, MostBytes.RELEASE) for name in files_of(folder)}


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and read_local(path, MostBytes.RELEASE) == content


def _replace(output: Path, contents: dict[str, bytes]) -> None:
    """Put files into `output`: all are on disk under other names before the first is renamed."""
    partial = {name: output / f".{name}{PARTIAL}" for name in contents}
    try:
        for name, content in contents.items():
            partial[name].unlink(missing_ok=True)  # left by a run that was killed
            write_file(partial[name], content)
        for name in ALL_FILES:
            if name not in contents:  # a file of a release that says more than this one
                (output / name).unlink(missing_ok=True)
        for name, path in partial.items():
            system.replace(path, output / name)
        flush_folder(output)
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)


def _take_back(folder: Path) -> None:
    """Undo what a failed publication has left: then nothing was published."""
    shutil.rmtree(folder, ignore_errors=True)
    for left in (folder.parent, folder.parent.parent):
        with suppress(OSError):  # the folder holds other releases, or never existed
            left.rmdir()


def _not_published(output: Place, error: OSError) -> PublishError:
    return PublishError(
        f"output {output}: nothing was published: {error.strerror or error}. Put this"
        " right and run again: that publishes the same release and spends nothing"
    )
