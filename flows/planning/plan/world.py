"""Assumptions of a plan: how far items are apart, and who is compared how often.

Everything here is simulated or public. Exposures may be public numbers, such as how often an item
was shown; they must not be counted in the answers.

Accuracy of a planned release: its measures over replicates, and targets for them.

References:
    [T77] Tukey. Exploratory data analysis. 1977. §2D, values "far out".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.estimate import (
    Estimate,
    linf_error,
    nothing_learned,
    rms_error,
    top_k_distance,
)
from hushrank.estimation.common.links import Floats
from hushrank.flows.config.comparisons import Design
from hushrank.flows.config.items import read_public_design
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.errors import ConfigError
from hushrank.flows.release.scale import Scale
from hushrank.pipelines.simulate.planned_survey import Activity, Meetings, PlannedSurvey

DEFAULT_ZIPF = 1.0
GROUP_SPREAD = 0.3  # standard deviation of a group's scores around the scores of the whole
MOST_ZIPF = 5.0
MOST_SPREAD = 1_000
TIES = 0.25  # share of comparisons between equal items that tie
ALIKE = 1.1  # appearances that differ by a smaller factor are called equal
BEST = 3  # items that are called the best, where the job does not say how many
MOST_SIMULATED = 150  # items up to which every survey is simulated and ranked


@dataclass(frozen=True, slots=True)
class ErrorParts:
    """Parts of the standard error of a typical score; squares add up.

    Attributes:
        sampling: by who was asked.
        privacy: by noise, or by randomised answers.
    """

    sampling: float
    privacy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """Unequal appearances of items, in a design that is not balanced.

    Attributes:
        zipf: items are shown in proportion to 1 / k^zipf; None: as `shown` says.
        shown: public numbers, one an item in the order of the catalogue.
        pairs: public numbers, how often each pair is compared, shape (n, n); None: as `shown` says.
        source: name of the file with these numbers.
    """

    zipf: float | None = DEFAULT_ZIPF
    shown: tuple[float, ...] = ()
    pairs: NDArray[np.float64] | None = field(default=None, compare=False)
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Assumptions about people and items, and the effort of the simulation.

    Attributes:
        spread: standard deviation of the true scores.
        ability_spread: standard deviation of the abilities, in a test.
        seed: the same seed simulates the same surveys.
        replicates: number of replicates; None: as many as their size allows.
        design: design of the simulated surveys; None: answers are no comparisons.
        exposed: appearances of items in a design that is not balanced.
        shares: relative numbers of answers of each group; empty: all groups have equally many.
        group_spread: standard deviation of a group's true scores around those of the whole.
        ties: chance that two items of equal scores tie.
        activity: how many answers people give, and how many of them do; empty: all as many as
            count.
    """

    spread: float = 1.0
    ability_spread: float = 1.0
    seed: int = 0
    replicates: int | None = None
    design: Design | None = Design.BALANCED
    exposed: Exposed = Exposed()
    shares: tuple[float, ...] = ()
    group_spread: float = GROUP_SPREAD
    ties: float = TIES
    activity: Activity = ()

    def __post_init__(self) -> None:
        """Raises: ConfigError: a spread or the seed is out of range."""
        for name, spread in (("spread", self.spread), ("ability-spread", self.ability_spread)):
            if not 0 <= spread <= MOST_SPREAD:
                raise ConfigError(f"--{name} must be from 0 to {MOST_SPREAD}, got {spread}")
        if self.seed < 0:
            raise ConfigError(f"--seed must be at least 0, got {self.seed}")

    def shares_of(self, n_groups: int) -> tuple[float, ...]:
        """Share of the answers of each group, with others last; the shares sum to 1.

        Raises:
            ConfigError: the supposed shares are those of another number of groups.
        """
        given = self.shares or (1.0,) * n_groups
        if len(given) != n_groups:
            raise ConfigError(
                f"--group-share: {len(given)} shares are given, and the job has {n_groups} groups"
                " (others, if they count, come last); give one share for each group, or none"
            )
        if not all(math.isfinite(share) and share > 0 for share in given):
            raise ConfigError("--group-share must be > 0; shares are relative numbers")
        return tuple(share / sum(given) for share in given)

    def meetings(self, n_items: int) -> Meetings | None:
        """Probabilities of meetings among the items; None: all pairs meet equally often.

        In design `any`, the partners of an item have scores about one spread from its own.
        """
        if self.exposed.pairs is not None:
            return Meetings((), pairs=self.exposed.pairs)
        if self.design in (None, Design.BALANCED):
            return None
        matched = self.spread if self.design is Design.ANY and self.spread > 0 else None
        if self.exposed.zipf is None:
            return Meetings.shown(self.exposed.shown, matched)
        return Meetings.zipf(n_items, self.exposed.zipf, matched)


def world_of(
    config: SurveyConfig, world: World, zipf: float | None, exposures: Path | None
) -> World:
    """Return `world` with the stated design and the requested or stated exposures.

    Raises:
        ConfigError: the numbers cannot be exposures, or the job has no design to simulate.
    """
    given = "--zipf" if zipf is not None else "--exposures" if exposures is not None else ""
    if config.input.kind != "comparisons":
        if given:
            raise ConfigError(f"{given}: applies only to comparisons; remove it")
        return replace(world, design=None)
    design = config.comparisons.design
    if zipf is not None and exposures is not None:
        raise ConfigError("--zipf and --exposures: give only one of them")
    if given and design is Design.BALANCED:
        raise ConfigError(
            f"{given}: needs a design that is not balanced; add --design random (or any)"
        )
    stated = config.model.exposures if not given and design is not Design.BALANCED else None
    if (asked := config.asked_design()) is not None:
        if given:
            raise ConfigError(f"{given}: input.pairs already lists the pairs; remove it")
        pairs = asked.pairs(config.items.catalogue.names)
        shown = tuple(pairs.sum(axis=1).tolist())
        exposed = Exposed(zipf=None, shown=shown, pairs=pairs, source="input.pairs")
    elif (public := exposures or stated) is not None:
        exposed = _exposed(config, public)
    else:
        exposed = Exposed(zipf=DEFAULT_ZIPF if zipf is None else zipf)
        if not 0 <= (exposed.zipf or 0) <= MOST_ZIPF:
            raise ConfigError(f"--zipf must be from 0 to {MOST_ZIPF:g}, got {zipf!r}")
    return replace(world, design=design, exposed=exposed)


def _exposed(config: SurveyConfig, path: Path) -> Exposed:
    """Read a file of public exposures."""
    names = config.items.catalogue.names
    try:
        public = read_public_design(path)
        exposures = public.exposures(names)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    pairs = public.pairs(names) if public.of_pairs else None
    return Exposed(zipf=None, shown=tuple(exposures.tolist()), pairs=pairs, source=path.name)


def most_to_median(survey: PlannedSurvey) -> float:
    """Ratio of the appearances of the most shown item to those of the median item."""
    exposures = sorted(survey.exposures(0).tolist())
    return float(exposures[-1] / exposures[len(exposures) // 2])


def design_text(world: World, survey: PlannedSurvey) -> str:
    """Line on the simulated design; empty: answers are not comparisons."""
    if world.design is None:
        return ""
    if world.design is Design.BALANCED:
        return "Simulated design: balanced, every pair of items is asked about equally often."
    source = world.exposed
    by = f"Zipf exponent {source.zipf:g}" if source.zipf is not None else source.source
    if source.pairs is not None:
        partners = f"each pair meets as often as {source.source} says"
    elif world.design is Design.RANDOM:
        partners = "pairs are random"
    else:
        partners = "items of similar strength are compared more often"
    times = most_to_median(survey)
    if times < ALIKE:
        often = "all items are shown about equally often"
        if source.zipf != 0:
            often += ", because each person is asked nearly all pairs"
    else:
        often = f"the item shown most is shown {times:.1f} times as often as the median item ({by})"
    return f"Simulated design: {world.design.value}; {often}, and {partners}."


SHARES, ERRORS = ("top", "best", "order"), ("error", "largest", "width")
MEASURES = (*SHARES, *ERRORS, "equal", "largest_equal", "informative")
BOUNDED = ("error", "largest", "equal", "largest_equal")
FAR_OUT = 3.0  # distances of the quartiles beyond the upper one: larger errors are far out [T77]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Accuracy of one setting: means over replicates. NaN where a method does not give the measure.

    Attributes:
        top: share of replicates in which the best item is ranked first.
        best: share of the best k items that are among the first k.
        order: share of the pairs of items that are in the right order.
        error: n^(-1/2) times the l2 norm of the scores' error: of a typical score.
        largest: l-infinity norm of the scores' error.
        width: mean ranks that an item may be better or worse, `rank_high - rank_low`.
        equal: value of `error` if all items are called equal; scores that are further off than that
            say nothing.
        largest_equal: value of `largest` in that case.
        informative: share of replicates whose release says anything.
        spread: standard error of each of these, by name.
        scale: scale of the scores.
        by_formula: whether it follows from the method's formula, without a simulated survey.
    """

    top: float
    best: float
    order: float
    error: float
    largest: float
    width: float
    equal: float
    largest_equal: float
    informative: float
    spread: Mapping[str, float]
    scale: Scale
    by_formula: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """Wanted accuracy: at least `value` of a share, or at most `value` of an error."""

    name: str
    value: float

    def met(self, accuracy: Accuracy) -> bool:
        """Whether a setting reaches the target."""
        reached = float(getattr(accuracy, self.name))
        return reached >= self.value if self.name in SHARES else reached <= self.value


def mean_accuracy(found: Sequence[Mapping[str, float]], scale: Scale) -> Accuracy:
    """Compute means and their standard errors over replicates, each of which has all `MEASURES`.

    Now and then noise leaves an item without a loss, and its score is so far off that this one
    survey would decide the mean error. So errors far out [T77] count as no larger than the limit.
    """
    table = np.array([[measured[name] for name in MEASURES] for measured in found])
    low, high = np.quantile(table, (0.25, 0.75), axis=0)
    limits = np.where(high > low, high + FAR_OUT * (high - low), np.inf)
    limits[[name not in BOUNDED for name in MEASURES]] = np.inf
    table = np.minimum(table, limits)
    errors = table.std(axis=0, ddof=1) / math.sqrt(len(table))
    return Accuracy(
        **dict(zip(MEASURES, table.mean(axis=0).tolist(), strict=True)),
        spread=dict(zip(MEASURES, errors.tolist(), strict=True)),
        scale=scale,
    )


def measured(estimate: Estimate, truth: Floats, n_top: int | None) -> dict[str, float]:
    """Measure the order and the ranks of an estimate; see `scores_measured` for `n_top`."""
    k = min(n_top or BEST, len(truth) - 1)
    return {
        "top": float(estimate.order[0] == truth.argmax()),
        "best": 1 - top_k_distance(-estimate.rank, truth, k),
        "order": in_order(-estimate.rank, truth),
        "width": float((estimate.rank_high - estimate.rank_low).mean()),
        "informative": float(estimate.informative),
    }


def scores_measured(scores: Floats, truth: Floats, n_top: int | None) -> dict[str, float]:
    """Measure scores without intervals by `MEASURES`; no rank has a width.

    Args:
        scores: shape (n,), larger is better.
        truth: true scores.
        n_top: number of the best items; None: 3.
    """
    found = measured(nothing_learned(scores), truth, n_top) | score_errors(scores, truth)
    return found | {"width": math.nan, "informative": 1.0}


def score_errors(scores: Floats, wanted: Floats) -> dict[str, float]:
    """Errors of scores, and of equal scores for all items."""
    equal = np.zeros(len(wanted))
    return {
        "error": rms_error(scores, wanted),
        "largest": linf_error(scores, wanted),
        "equal": rms_error(equal, wanted),
        "largest_equal": linf_error(equal, wanted),
    }


def in_order(scores: Floats, truth: Floats) -> float:
    """Share of the pairs of items in the right order; equal ones count as half right."""
    n = len(truth)
    found, wanted = (np.sign(np.subtract.outer(values, values)) for values in (scores, truth))
    return float(1 + (found * wanted).sum() / (n * (n - 1))) / 2
