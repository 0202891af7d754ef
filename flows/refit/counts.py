"""Public counts to fit: those of a finished release, or a table of pairs."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.matrices import OutcomeCounts
from hushrank.estimation.ties.tie_counts import TieCounts
from hushrank.flows.config.comparisons import Design
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.counts.noisy_pairs import ReleasedOutcomes
from hushrank.flows.methods.counts.tie_outcomes import ReleasedTies
from hushrank.flows.reading import read_apart
from hushrank.flows.release.release import Release, load_release
from hushrank.flows.release.released import Released
from hushrank.flows.trust.certificate.check import load_certificate
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.units import NoiseKind
from hushrank.transforms.common.local_files import MostBytes, read_local

COLUMNS = ("left", "right", "left_wins", "right_wins")
TIES = "ties"  # a further column, which may be missing
MOST_ITEMS = 3_000
MOST_COUNT = 2**50
CSV, PARQUET = ".csv", (".parquet", ".pq")
NO_NOISE = NoiseLaw(NoiseKind.GAUSSIAN, 0.0)
FITTED = ("win-counts", "win-loss-counts", "pair-counts", "outcome-counts", "tie-counts")
OTHER_LAW = (
    "{}: its counts have {}, so the noise of a count is not the one law that a fit takes here; use"
    " its own ranking. Nothing was spent."
)
NEEDS_A_DRAW = (
    "{}: releases {}, not counts of comparisons, and what a fit needs was not drawn: another draw"
    " would cost epsilon, as a job of method noisy-pairs does. Nothing was spent."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicCounts:
    """Counts that anybody may see, and where they are from.

    Attributes:
        released: the counts.
        law: law of the noise in each of them.
        release: the finished release; None: they are of a table.
        table: name of the table's file; empty: they are of a release.
        sha256: digest of that file.
        items: names, in the order of the counts.
        labels: texts that people read instead of some items.
        chance: whether the operator states that chance decided which items met.
    """

    released: Released
    law: NoiseLaw
    release: Release | None = None
    table: str = ""
    sha256: str = ""
    items: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    chance: bool = False


def public_counts(place: Path) -> PublicCounts:
    """Read the counts at `place`.

    Args:
        place: the folder of a release, its `release.json`, or a table of pairs (.csv, .parquet).

    Raises:
        ConfigError: there are no public counts, or their noise does not suit a fit; the text says
            why.
    """
    if place.suffix.lower() in (CSV, *PARQUET):
        return _of_table(place)
    return _of_release(place / "release.json" if place.is_dir() else place)


def _of_release(file: Path) -> PublicCounts:
    release = load_release(file)
    released, privacy = release.released, release.privacy
    if released.kind not in FITTED:
        raise ConfigError(NEEDS_A_DRAW.format(file, released.kind))
    for holds, why in (
        (release.stream is not None, "noise of several nights of a stream"),
        (release.groups is not None, "noise of several groups"),
        ("units_of_a_comparison" in privacy.parameters, "weights of rows"),
    ):
        if holds:
            raise ConfigError(OTHER_LAW.format(file, why))
    if released.kind == "outcome-counts" and getattr(released, "wins", None) is None:
        raise ConfigError(f"{file}: has too many pairs to hold their counts. Nothing was spent.")
    kind = NoiseKind.LAPLACE if privacy.mechanism.endswith("laplace") else NoiseKind.GAUSSIAN
    items = getattr(released, "items", None) or tuple(getattr(released, "wins", ()))
    return PublicCounts(
        released=released,
        law=NoiseLaw(kind, privacy.noise_scale or 0.0),
        release=release,
        items=tuple(items),
        chance=_stated_design(file.parent) in (Design.BALANCED, Design.RANDOM),
        labels={line.item: line.label for line in release.ranking if line.label is not None},
    )


def _stated_design(folder: Path) -> str | None:
    """Return the design that the certificate states; None: no certificate states one."""
    certificate = load_certificate(folder)
    design = None if certificate is None else certificate.rows.settings.get("design")
    return design if isinstance(design, str) else None


def _of_table(file: Path) -> PublicCounts:
    try:
        content = read_local(file, MostBytes.RELEASE)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror}).") from None
    if file.suffix.lower() == CSV:
        columns = _columns_of_csv(file, content)
    else:
        columns = read_apart(columns_of_parquet, str(file))
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise ConfigError(
            f"{file}: column {missing[0]} not found; a table of pairs has the columns"
            f" {', '.join(COLUMNS)}, and {TIES} if it counts them."
        )
    pairs = [(str(a), str(b)) for a, b in zip(columns["left"], columns["right"], strict=True)]
    counts = np.array([_numbers(file, columns, name) for name in COLUMNS[2:]], np.int64)
    ties = np.array(_numbers(file, columns, TIES), np.int64) if TIES in columns else None
    items = tuple(dict.fromkeys(name for pair in pairs for name in pair))
    if not 2 <= len(items) <= MOST_ITEMS:
        raise ConfigError(f"{file}: must name 2 to {MOST_ITEMS:,} items, got {len(items):,}")
    return PublicCounts(
        released=_released(file, items, pairs, counts, ties),
        law=NO_NOISE,
        table=file.name,
        sha256=hashlib.sha256(content).hexdigest(),
        items=items,
    )


def _columns_of_csv(file: Path, content: bytes) -> dict[str, list[object]]:
    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise ConfigError(f"{file}: is no CSV file in UTF-8. Write it again.") from None
    head, body = (rows[0] if rows else []), [row for row in rows[1:] if row]
    if any(len(row) != len(head) for row in body) or len(set(head)) < len(head):
        raise ConfigError(f"{file}: its rows have other columns than its first line. Correct it.")
    return {name: [row[place] for row in body] for place, name in enumerate(head)}


def columns_of_parquet(file: str) -> dict[str, list[object]]:
    """Read the columns of a Parquet file of pairs.

    Raises:
        ConfigError: the file is no Parquet file.
    """
    try:
        found: dict[str, list[object]] = pq.read_table(file).to_pydict()
    except (pa.ArrowException, OSError):
        raise ConfigError(f"{file}: is no Parquet file. Write it again.") from None
    return found


def _numbers(file: Path, columns: Mapping[str, Sequence[object]], name: str) -> list[int]:
    found = []
    for line, value in enumerate(columns[name], start=1):
        try:
            number = float(str(value))
        except ValueError:
            number = -1.0
        if not (0 <= number <= MOST_COUNT and number == int(number)):
            raise ConfigError(
                f"{file}: row {line}, column {name}: must be a whole number of comparisons, got"
                f" {str(value)[:40]!r}. Public counts are written as they are."
            )
        found.append(int(number))
    return found


def _released(
    file: Path,
    items: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    counts: NDArray[np.int64],
    ties: NDArray[np.int64] | None,
) -> Released:
    """The counts in the form in which a release holds them; several rows of a pair add up."""
    place, n = {name: at for at, name in enumerate(items)}, len(items)
    cells = np.zeros((2, n, n), np.int64)
    for row, (a, b) in enumerate(pairs):
        if a == b:
            raise ConfigError(f"{file}: row {row + 1}: {a[:40]!r} does not meet itself; remove it")
        left, right = place[a], place[b]
        cells[0, left, right] += counts[0, row]
        cells[0, right, left] += counts[1, row]
        if ties is not None:
            cells[1, min(left, right), max(left, right)] += ties[row]
    if ties is not None:
        return ReleasedTies.of(TieCounts(cells, confidential=False), items)
    totals = scipy.sparse.csr_array(np.triu(cells[0] + cells[0].T))
    rows, columns = totals.nonzero()
    wins = scipy.sparse.csr_array(
        (cells[0][rows, columns], totals.indices, totals.indptr), shape=totals.shape
    )
    return ReleasedOutcomes.of(OutcomeCounts(wins, totals, confidential=False), items)
