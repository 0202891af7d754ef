"""Compare a budget for a whole stream of nights with a budget a night.

Composition releases every night at a share of the budget and leaves nobody out. With caps a person
counts on k nights, at least b nights apart, and each night costs only those k. The encoder adds
noise that nights share (`privacy.stream`). All three give the same guarantee: (epsilon, delta)-DP
for one person, whose rows on all nights are replaced.

Less noise is not a smaller error where caps leave answers out. So people with habits are simulated:
each answers on some nights, one answer a night; those who answer often prefer other items a little.
The error is that of the shares of wins as shown, against those of all answers, counted or not.

Figures of the experiments of streams, as PNG and SVG.

References:
    `privacy.stream` names the works.
"""

from __future__ import annotations

import csv
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray
from scipy.signal import lfilter

from hushrank.pipelines.simulate.simulate_nights import Answers, Habit, simulate_answers
from hushrank.privacy.noise import add_noise
from hushrank.privacy.randomness import seeded_bits
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.stream import Stream, encoded_night, relative_error, stream_of
from hushrank.privacy.stream_encoder import Terms, Workload
from hushrank.privacy.units import Adjacency, NoiseKind, PrivacyParams, Unit

Rows = Sequence[Mapping[str, Any]]
COLORS = {"composition": "tab:grey", "caps": "tab:orange", "encoder": "tab:blue"}
WIDTH, HEIGHT = 3.4, 2.9  # of a panel, inches


def draw_figures(rows: Rows, out: Path) -> None:
    """`noise`, `error` and `nights`, each as PNG and SVG, into `out`."""
    for name, figure in (
        ("noise", _lines(rows, "noise", "noise in a shown cell (one release = 1)", ("shown",))),
        ("error", _lines(rows, "error", "error of win shares, points", ("pattern", "shown"))),
        ("nights", _nights()),
    ):
        for ending in ("png", "svg"):
            figure.savefig(out / f"{name}.{ending}", dpi=150)


def _lines(rows: Rows, value: str, label: str, panels: tuple[str, ...]) -> Figure:
    """The best terms of each way, against the number of nights; one panel for each group."""
    groups = list(dict.fromkeys(tuple(row[name] for name in panels) for row in rows))
    columns = len({group[-1] for group in groups})
    lines = -(-len(groups) // columns)
    figure = Figure(figsize=(WIDTH * columns, HEIGHT * lines), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for group, axis in zip(groups, axes, strict=False):
        own = [row for row in rows if tuple(row[name] for name in panels) == group]
        for way, color in COLORS.items():
            mine = [row for row in own if row["way"] == way]
            lengths = sorted({row["nights"] for row in mine})
            best = [min(row[value] for row in mine if row["nights"] == t) for t in lengths]
            axis.plot(lengths, best, marker="o", color=color, label=way)
        axis.set(xscale="log", yscale="log", title=", ".join(group), xlabel="nights", ylabel=label)
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
        axis.set_xticks(lengths, map(str, lengths))
    axes[0].legend()
    return figure


def _nights() -> Figure:
    """Standard deviation of a shown cell, night by night of a year."""
    figure = Figure(figsize=(2 * WIDTH, HEIGHT), layout="constrained")
    for axis, (title, window) in zip(
        figure.subplots(1, 2), (("last 28 nights", 28), ("all so far", None)), strict=True
    ):
        for way, color in COLORS.items():
            times, gap = (365, 1) if way == "composition" else (12, 28)
            terms, workload = Terms(nights=365, participations=times, gap=gap), Workload(window)
            bands = workload.most_bands(terms) if way == "encoder" else 1
            params = PrivacyParams(
                unit=Unit.USER,
                adjacency=Adjacency.ADD_REMOVE,
                epsilon=1.0,
                rho=0.5,
                noise=NoiseKind.GAUSSIAN,
            )
            stream = stream_of(params, Sensitivity(1, 1), terms, workload, bands)
            label = way if way == "composition" else f"{way}: 12 nights, 28 apart"
            axis.plot(np.sqrt(stream.variances), color=color, label=label)
        axis.set(title=title, xlabel="night", ylabel="noise (one release = 1)", yscale="log")
    axis.legend()
    return figure


EPSILON, DELTA = 1.0, 1e-6
ITEMS, PEOPLE = 20, 20_000
REPLICATES, QUICK_REPLICATES = 10, 2
LENGTHS = (30, 90, 365)
GAPS = (7, 14, 28)
SHOWN = {"last 7 nights": 7, "last 28 nights": 28, "all so far": None}
PATTERNS = {
    "every-night": (Habit(1.0, 0.9),),
    "weekly": (Habit(1.0, 1 / 7),),
    "monthly": (Habit(1.0, 1 / 30),),
    "mixed": (Habit(0.1, 0.9), Habit(0.3, 1 / 7), Habit(0.6, 1 / 60)),
}
COMPOSITION, CAPS, ENCODER = "composition", "caps", "encoder"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table.

    Attributes:
        nights: T.
        shown: what is shown each night.
        pattern: how often people answer.
        way: composition, caps or encoder.
        participations, gap, bands: k, b and those of the encoder.
        noise: root mean square over nights of the noise in a shown cell, by the formula, in units
            of the noise of one release.
        measured: the same number from the noise that was drawn.
        counted: share of people's nights that counted.
        error: root mean square of the shares of wins, in percentage points, over the second half of
            the nights.
        se: standard error of `error`, over replicates.
    """

    nights: int
    shown: str
    pattern: str
    way: str
    participations: int
    gap: int
    bands: int
    noise: float
    measured: float
    counted: float
    error: float
    se: float


def run(
    only: Sequence[str] | None,
    replicates: int | None,
    quick: bool,
    out: Path,
    data: Sequence[Path] = (),
) -> None:
    """Write `results.csv`, `best.csv` and the figures into `out`.

    Args:
        only: patterns among every-night, weekly, monthly and mixed; None: all.
        replicates: simulated streams of each setting; None: 10, or 2 with `quick`.
        quick: few replicates and a tenth of the people.
        out: folder, made if missing.
        data: none is used.

    Raises:
        ValueError: a name is unknown, `replicates` is not positive, or a file was given.
    """
    unknown = set(only or ()) - set(PATTERNS)
    if unknown:
        raise ValueError(f"unknown pattern {sorted(unknown)[0]!r}; known: {', '.join(PATTERNS)}")
    if data:
        raise ValueError("--data: no real answers are used")
    count = (QUICK_REPLICATES if quick else REPLICATES) if replicates is None else replicates
    if count < 1:
        raise ValueError(f"replicates must be >= 1, got {count}")
    n_people = PEOPLE // 10 if quick else PEOPLE
    rows = [
        row
        for pattern in only or PATTERNS
        for nights in LENGTHS
        for terms in all_terms(nights)
        for row in rows_of(pattern, terms, n_people, count)
    ]
    out.mkdir(parents=True, exist_ok=True)
    write(rows, out / "results.csv")
    write(best_of(rows), out / "best.csv")
    draw_figures([asdict(row) for row in rows], out)


def all_terms(nights: int) -> list[Terms]:
    """Composition first, then caps that let a person count throughout the stream."""
    gaps = [gap for gap in GAPS if gap <= nights]
    capped = [Terms(nights=nights, participations=-(-nights // b), gap=b) for b in gaps]
    return [Terms(nights=nights, participations=nights, gap=1), *capped]


def rows_of(pattern: str, terms: Terms, n_people: int, replicates: int) -> list[Row]:
    """All that is shown, under one rule of participation."""
    seeds = [
        zlib.crc32(f"{pattern} {terms.nights} {terms.gap} {number}".encode())
        for number in range(replicates)
    ]
    worlds = [World.simulated(pattern, terms, n_people, seed) for seed in seeds]
    counted = float(np.mean([world.answers.share_counted for world in worlds]))
    rows = []
    for shown, window in SHOWN.items():
        workload = Workload(window)
        for way, bands in ways(workload, terms).items():
            stream = the_stream(terms, workload, bands)
            found = np.array([world.errors(stream) for world in worlds])
            spread = found[:, 1].std(ddof=1) / math.sqrt(replicates) if replicates > 1 else math.nan
            rows.append(
                Row(
                    nights=terms.nights,
                    shown=shown,
                    pattern=pattern,
                    way=way,
                    participations=terms.participations,
                    gap=terms.gap,
                    bands=bands,
                    noise=relative_error(workload, terms, bands),
                    measured=math.sqrt(float((found[:, 0] ** 2).mean())),
                    counted=counted,
                    error=100 * float(found[:, 1].mean()),
                    se=100 * float(spread),
                )
            )
    return rows


def ways(workload: Workload, terms: Terms) -> dict[str, int]:
    """The bands of each way of releasing nights under these terms."""
    if terms.gap == 1:
        return {COMPOSITION: 1}
    return {CAPS: 1, ENCODER: workload.most_bands(terms)}


def the_stream(terms: Terms, workload: Workload, bands: int) -> Stream:
    """The mechanism: win counts, one answer of a person a night, replace-one."""
    params = PrivacyParams(
        unit=Unit.USER,
        adjacency=Adjacency.REPLACE_ONE,
        epsilon=EPSILON,
        delta=DELTA,
        noise=NoiseKind.GAUSSIAN,
    )
    return stream_of(params, Sensitivity(1, 1), terms, workload, bands)


@dataclass(frozen=True, slots=True)
class World:
    """One simulated stream of answers.

    Attributes:
        answers: who answered and who counted.
        probabilities: shape (habits, items), of each item to win an answer.
        wins: shape (nights, items), of the answers that counted.
        seed: of the noise.
    """

    answers: Answers
    probabilities: NDArray[np.float64]
    wins: NDArray[np.int64]
    seed: int

    @classmethod
    def simulated(cls, pattern: str, terms: Terms, n_people: int, seed: int) -> World:
        """A world of its own for each seed."""
        habits, random = PATTERNS[pattern], np.random.default_rng([seed, 1])
        answers = simulate_answers(habits, terms, n_people, seed)
        scores = np.linspace(-1, 1, ITEMS) + 0.2 * random.standard_normal((len(habits), ITEMS))
        probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        wins = random.multinomial(answers.counted, probabilities).sum(axis=1)
        return cls(answers, probabilities, wins, seed)

    def errors(self, stream: Stream) -> tuple[float, float]:
        """Root mean square of the noise, in units of one release; and of the shares of wins."""
        nights, bands = len(self.wins), stream.encoder.bands
        recent = [self.wins[max(0, end - bands) : end][::-1] for end in range(1, nights + 1)]
        encoded = np.stack([encoded_night(stream.encoder, list(each)) for each in recent])
        noisy = add_noise(encoded, stream.law, seeded_bits(self.seed))
        column = stream.workload.column(nights)
        # Row t of A C^-1 for all t at once, as `privacy.stream.shown_night` has it for one.
        shown = lfilter(column, stream.encoder.coefficients, noisy.astype(float), axis=0)
        exact = lfilter(column, [1.0], self.wins.astype(float), axis=0)
        expected = lfilter(column, [1.0], self.answers.there @ self.probabilities, axis=0)
        # Squared scale 2 / (2 rho), as one night moves by 2 at most; rho as the stream has it.
        one_release = stream.law.scale * math.sqrt(2 / stream.sensitivity.l2_squared)
        noise = math.sqrt(float(((shown - exact) ** 2).mean())) / one_release
        late = slice(nights // 2, None)
        total = shown[late].sum(axis=1, keepdims=True)
        truth = expected[late] / expected[late].sum(axis=1, keepdims=True)
        shares = np.clip(shown[late] / np.maximum(total, 1.0), 0, 1)  # as a page would show them
        return noise, math.sqrt(float(((shares - truth) ** 2).mean()))


def best_of(rows: Sequence[Row]) -> list[Row]:
    """Terms of the smallest error of each way, by pattern, what is shown and length."""
    best: dict[tuple[str, str, int, str], Row] = {}
    for row in rows:
        key = row.pattern, row.shown, row.nights, row.way
        if key not in best or row.error < best[key].error:
            best[key] = row
    return list(best.values())


def write(rows: Sequence[Row], path: Path) -> None:
    """Write a table, one row a line."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        names = [field.name for field in fields(Row)]
        writer.writerow(names)
        for row in rows:
            values = (getattr(row, name) for name in names)
            writer.writerow([f"{v:.6g}" if isinstance(v, float) else v for v in values])
