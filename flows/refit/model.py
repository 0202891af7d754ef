"""Models that can be fitted to public counts, and which counts each of them takes.

Public counts to fit: those of a finished release, or a table of pairs.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import Estimate
from hushrank.estimation.common.links import Floats, link_named
from hushrank.estimation.common.matrices import OutcomeCounts, PairCounts, WinCounts, WinLossCounts
from hushrank.estimation.comparisons.net_wins import NetWins, rank_by_net_wins, rank_by_win_loss
from hushrank.estimation.comparisons.noisy_counts import rank_by_win_counts
from hushrank.estimation.comparisons.noisy_pairs import rank_noisy_pairs
from hushrank.estimation.comparisons.pairs_by_chance import fit_public_pairs
from hushrank.estimation.comparisons.planning import Exposures
from hushrank.estimation.fit.pair_fit import RIDGE, estimate_from
from hushrank.estimation.fit.solve import ConvergenceError
from hushrank.estimation.ties.noisy_ties import rank_noisy_ties
from hushrank.estimation.ties.tie_models import TieCounts, TieModel
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.items import PublicDesign
from hushrank.flows.config.method import PairEstimator
from hushrank.flows.errors import ConfigError
from hushrank.flows.methods.counts.noisy_pairs import ReleasedOutcomes
from hushrank.flows.methods.counts.tie_outcomes import ReleasedTies
from hushrank.flows.reading import read_apart
from hushrank.flows.release.release import Release, load_release
from hushrank.flows.release.released import Released, TieRecord
from hushrank.flows.release.scale import SCALE_OF_LINK, Scale
from hushrank.flows.trust.certificate.model import load_certificate
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
    return _of_release(release_file(place))


def release_file(place: Path) -> Path:
    """The `release.json` of a release that is named by its folder, or by that file itself."""
    return place / "release.json" if place.is_dir() else place


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


LINKS = tuple(SCALE_OF_LINK)
REFUSED = (
    "{key}: a fit to {kind} takes {takes}, not {key}: these counts do not say what it needs, and"
    " another draw would cost epsilon. Nothing was spent."
)
NOT_SPECTRAL = (
    "estimator: spectral needs the logistic link and counts of a job that states a design of chance"
    " (input.design: random or balanced) and lists no pairs; leave it out. Nothing was spent."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Model to fit; None: the one of the counts' method.

    Attributes:
        link: function that turns a difference of scores into a chance of winning.
        ridge: weight c of c |scores|^2, finite and > 0.
        estimator: way from counts of pairs to scores.
        tie_model: model by which ties follow from scores.
        exposures: public numbers of comparisons, of each item or pair.
    """

    link: str | None = None
    ridge: float | None = None
    estimator: PairEstimator | None = None
    tie_model: TieModel | None = None
    exposures: PublicDesign | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Scores, ranks and intervals, and the scale of the scores.

    Attributes:
        ties: shares of ties; None: the model does not say.
    """

    estimate: Estimate
    scale: Scale
    ties: TieRecord | None = None


def fit(counts: PublicCounts, model: Model) -> Fit:
    """Fit `model` to public counts.

    Raises:
        ConfigError: the model needs what the counts do not say, or no fit was found.
    """
    kind = counts.released.kind
    takes, fitted = FITS[kind]
    asked = [each.name for each in fields(model) if getattr(model, each.name) is not None]
    for key in asked:
        if key not in takes:
            raise ConfigError(
                REFUSED.format(key=key, kind=kind, takes=" and ".join(sorted(takes)) or "no key")
            )
    if model.link is not None and model.link not in LINKS:
        raise ConfigError(f"link: must be {', '.join(LINKS)}, got {model.link[:40]!r}")
    if model.ridge is not None and not (math.isfinite(model.ridge) and model.ridge > 0):
        raise ConfigError(f"ridge: must be finite and > 0, got {model.ridge!r}")
    for key in ("ridge", "estimator"):
        if key in asked and model.exposures is not None:
            raise ConfigError(f"{key}: has no effect with exposures; leave one of them out")
    try:
        if model.exposures is not None:
            return _by_exposures(counts, model, model.exposures)
        return fitted(counts, model)
    except ConvergenceError:
        raise ConfigError("model: no fit was found; try link: logistic or a larger ridge") from None


def _link(model: Model) -> str:
    return model.link or "logistic"


def _pairs(counts: PublicCounts, model: Model) -> Fit:
    released: Any = counts.released
    wins = np.array(released.wins, np.int64)
    pairs = PairCounts(wins, released.row_weight, confidential=False)
    asked = None
    if released.asked is not None:
        asked = np.zeros(wins.shape, np.bool_)
        for row, columns in enumerate(released.asked):
            asked[row, list(columns)] = True
        asked |= asked.T
    spectral = model.estimator is PairEstimator.SPECTRAL
    if spectral and (_link(model) != "logistic" or asked is not None or not counts.chance):
        raise ConfigError(NOT_SPECTRAL)
    if spectral and model.ridge is not None:
        raise ConfigError("ridge: has no effect with estimator spectral; leave one of them out")
    ranked = rank_noisy_pairs(
        pairs,
        counts.law,
        link_named(_link(model)),
        asked,
        chance=counts.chance,
        ridge=model.ridge,
        spectral=spectral,
    )
    return Fit(estimate=ranked.estimate, scale=SCALE_OF_LINK[_link(model)])


def _outcomes(counts: PublicCounts, model: Model) -> Fit:
    released: Any = counts.released
    ends = np.cumsum([0, *map(len, released.pairs)])
    columns, totals, wins = (
        np.array([number for row in rows for number in row], np.int64)
        for rows in (released.pairs, released.compared, released.wins)
    )
    shape = (len(released.items),) * 2
    won, met = (
        scipy.sparse.csr_array((each, columns, ends), shape=shape) for each in (wins, totals)
    )
    outcomes = OutcomeCounts(won, met, released.row_weight, confidential=False)
    ridge = RIDGE if model.ridge is None else model.ridge
    found = fit_public_pairs(outcomes, counts.law, link_named(_link(model)), ridge)
    return Fit(estimate=estimate_from(found), scale=SCALE_OF_LINK[_link(model)])


def _ties(counts: PublicCounts, model: Model) -> Fit:
    released: Any = counts.released
    cells = TieCounts(np.array([released.wins, released.ties], np.int64), confidential=False)
    tie_model = model.tie_model or TieModel.DAVIDSON
    ranked = rank_noisy_ties(cells, counts.law, tie_model)
    ties = TieRecord.of(tie_model, ranked.tie)
    return Fit(estimate=ranked.estimate, scale=Scale.LOG_ODDS, ties=ties)


def _win_loss(counts: PublicCounts, model: Model) -> Fit:
    released: Any = counts.released
    wins, losses = (_listed(counts, numbers) for numbers in (released.wins, released.losses))
    both = WinLossCounts(wins, losses, released.row_weight, confidential=False)
    estimate = rank_by_win_loss(both, counts.law, link_named(_link(model)))
    return Fit(estimate=estimate, scale=SCALE_OF_LINK[_link(model)])


def _wins(counts: PublicCounts, model: Model) -> Fit:
    released: Any = counts.released
    wins = WinCounts(_listed(counts, released.wins), released.row_weight, confidential=False)
    if model.link is not None:
        raise ConfigError(
            "link: counts of wins alone do not say how often an item was compared; add exposures,"
            " public numbers of comparisons. Nothing was spent."
        )
    return Fit(estimate=rank_by_win_counts(wins, counts.law), scale=Scale.WIN_SHARE)


def _listed(counts: PublicCounts, numbers: Mapping[str, int | float]) -> Any:
    return np.array([numbers[item] for item in counts.items], np.int64)


def _by_exposures(counts: PublicCounts, model: Model, design: PublicDesign) -> Fit:
    """Scores from wins less half of a public number of comparisons: nothing is estimated of it."""
    released: Any = counts.released
    n, weight, variance = len(counts.items), released.row_weight, counts.law.variance
    try:
        if design.of_pairs:
            expected: Floats = np.asarray(design.pairs(counts.items), np.float64)
        else:
            expected = Exposures(design.exposures(counts.items), 0.0).design()
    except ValueError as error:
        raise ConfigError(f"exposures: {error}") from None
    compared = expected.sum(axis=1) if design.of_pairs else design.exposures(counts.items)
    if released.kind == "win-counts":
        net, noise, draws = _listed(counts, released.wins) / weight - compared / 2, variance, 1
    elif released.kind == "win-loss-counts":
        both = _listed(counts, released.wins) - _listed(counts, released.losses)
        net, noise, draws = both / (2 * weight), variance / 2, 2
    else:
        wins = np.array(released.wins, np.float64)
        net = (wins.sum(axis=1) - wins.sum(axis=0)) / (2 * weight)
        noise, draws = (n - 1) * variance / 2, 2 * (n - 1)
    found = NetWins(
        values=np.asarray(net, np.float64),
        design=expected,
        sampling_factor=np.ones((n, n)),
        link=link_named(_link(model)),
        noise_variance=np.full(n, noise / weight**2),
        exposure_variance=0.0,
        free_share=np.full(n, 0.5),
        kind=counts.law.kind,
        draws=draws,
    )
    return Fit(estimate=rank_by_net_wins(found), scale=SCALE_OF_LINK[_link(model)])


# By the kind of the counts: which keys of a model they can answer, and the fit without exposures.
FITS: Mapping[str, tuple[frozenset[str], Callable[[PublicCounts, Model], Fit]]] = {
    "win-counts": (frozenset({"link", "exposures"}), _wins),
    "win-loss-counts": (frozenset({"link", "exposures"}), _win_loss),
    "pair-counts": (frozenset({"link", "ridge", "exposures", "estimator"}), _pairs),
    "outcome-counts": (frozenset({"link", "ridge"}), _outcomes),
    "tie-counts": (frozenset({"tie_model"}), _ties),
}
