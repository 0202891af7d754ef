"""Publishing: a release and its report appear in the output folder whole, or not at all.

The files are written to a folder beside the output, flushed to disk, and moved into place by a
rename. An earlier release of the same job is moved aside first and deleted last, so that a crash
leaves the old one or the new one, if need be under the name `.<output>.previous`.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from contextlib import suppress
from pathlib import Path

from hushrank.flows.errors import ConfigError, PublishError
from hushrank.flows.release import Release, load_release

RELEASE, RANKING, REPORT = "release.json", "ranking.csv", "report.html"
FILES = frozenset({RELEASE, RANKING, REPORT})


def check_output(output: Path, job: str) -> None:
    """Refuse an output folder in which this job must not or cannot publish. Writes nothing.

    For a run to call before it reads or spends anything.

    Args:
        output: the configured folder; it need not exist.
        job: identity of the job's configuration.

    Raises:
        ConfigError: the folder is a file or a mount point, holds something other than a release of
            this job, or cannot be written.
    """
    output = output.resolve()
    if output.exists():
        _check_content(output, job)
    if output.is_mount():
        raise ConfigError(
            f"output {output}: is a mount point, which cannot be replaced as a whole;"
            f" name a folder inside it, for example {output / 'release'}"
        )
    parent = next(folder for folder in output.parents if folder.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"output {output}: {parent} is not a folder that can be written;"
            " change its permissions, or name another output"
        )


def publish(
    release: Release, report_html: str, output: Path, *, allow_unsafe: bool = False
) -> Path:
    """Put `release.json`, `ranking.csv` and `report.html` into `output`, and nothing else.

    Where exactly this release is already there, nothing is done. One run at a time may publish to
    an output; the ledger's lock sees to that.

    Args:
        release: what to publish.
        report_html: its report.
        output: the folder; an earlier release of the same job in it is replaced.
        allow_unsafe: publish even a release that protects nobody (simulation, `--no-privacy`).

    Returns:
        The folder.

    Raises:
        ConfigError: as `check_output`.
        PublishError: the release is unsafe, or could not be written; nothing was published.
    """
    if not release.safe and not allow_unsafe:
        raise PublishError(
            f"release {release.release_id} protects nobody and was not published:"
            f" {' '.join(release.warnings)}"
        )
    output = output.resolve()
    contents = {
        RELEASE: release.to_json().encode(),
        RANKING: _ranking_csv(release).encode(),
        REPORT: report_html.encode(),
    }
    partial = output.parent / f".{output.name}.partial"
    previous = output.parent / f".{output.name}.previous"
    try:
        _recover(output, previous)
        check_output(output, release.job)
        if not _holds(output, contents[RELEASE]):
            _write_folder(partial, contents)
            _swap(partial, output, previous)
    except OSError as error:
        raise PublishError(
            f"output {output}: nothing was published: {error.strerror or error}. Put this"
            " right and run again: that publishes the same release and spends nothing"
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return output


def _check_content(output: Path, job: str) -> None:
    if not output.is_dir():
        raise ConfigError(f"output {output}: is a file; name a folder that hushrank may replace")
    names = {path.name for path in output.iterdir()}
    if not names:
        return
    if RELEASE not in names or names - FILES:
        foreign = sorted(names - FILES) or sorted(names)
        raise ConfigError(
            f"output {output}: holds {foreign[0]}, which is not part of a release. The whole folder"
            " is replaced by each release: name an empty or a new one"
        )
    if load_release(output / RELEASE).job != job:
        raise ConfigError(
            f"output {output}: holds the release of another job, or of this one as it was"
            " configured before; name another output, or move that release away"
        )


def _holds(output: Path, release_json: bytes) -> bool:
    """Whether `output` holds all files of exactly this release."""
    complete = all((output / name).is_file() for name in FILES)
    return complete and (output / RELEASE).read_bytes() == release_json


def _ranking_csv(release: Release) -> str:
    """The ranking as a table, best first; scores to six decimals."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    wins = release.released.wins_by_item()
    columns = ["rank", "item", "score", "low", "high", "rank_low", "rank_high", "group"]
    table.writerow(columns if wins is None else [*columns, "noisy_wins"])
    for line in release.ranking:
        scores = (f"{value:.6f}" for value in (line.score, line.low, line.high))
        ranks = (line.rank_low, line.rank_high, line.group)
        won = () if wins is None else (wins[line.item],)
        table.writerow([line.rank, line.item, *scores, *ranks, *won])
    return text.getvalue()


def _write_folder(folder: Path, contents: dict[str, bytes]) -> None:
    """Make `folder` with these files, on disk when this returns."""
    shutil.rmtree(folder, ignore_errors=True)  # left by a run that was killed
    folder.mkdir(parents=True)
    for name, content in contents.items():
        with (folder / name).open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    _flush(folder)


def _swap(partial: Path, output: Path, previous: Path) -> None:
    """Move `partial` to `output`; what was there comes back if that fails."""
    if output.exists():
        output.rename(previous)
    try:
        partial.rename(output)
    except BaseException:
        _recover(output, previous)
        raise
    _flush(output.parent)
    shutil.rmtree(previous, ignore_errors=True)


def _recover(output: Path, previous: Path) -> None:
    """Undo or finish a swap that was interrupted."""
    if previous.exists():
        if output.exists():
            shutil.rmtree(previous)
        else:
            previous.rename(output)


def _flush(folder: Path) -> None:
    """Flush the names in `folder` to disk, where its file system can do that."""
    descriptor = os.open(folder, os.O_RDONLY)
    with suppress(OSError):  # some network file systems refuse it for folders
        os.fsync(descriptor)
    os.close(descriptor)
