"""The `model` section: how scores are fitted, by methods that fit any; `report`: how written.

Everything here is public: none of these numbers may be computed from the answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from hushrank.estimation.common.links import link_named
from hushrank.flows.config.section import LEAST_SETTING, MOST_SETTING, Section
from hushrank.privacy.objective_perturbation import Constants

NO_SIZE = (
    "missing; this method needs about how many comparisons an item takes part in, from what is"
    " public (people invited, questions asked) and never counted in the answers. Add for example"
    " expected_comparisons: 500"
)
REFUSED_LINK = (
    "cannot be private with this method: one comparison can move its gradient without"
    " limit, so no noise hides it. Write logistic or laplace, or set method: noisy-pairs"
)
PERTURBED_KEYS = frozenset({"link", "constants", "gamma", "expected_comparisons", "c0"})
# Which keys a method reads; one that is not here reads none.
USED_BY = {
    "noisy-pairs": frozenset({"link"}),
    "perturbed-mle": PERTURBED_KEYS,
    "noisy-objective": PERTURBED_KEYS,
    "debiased-rr": frozenset({"link", "ridge"}),
    "classic-rr": frozenset({"link", "ridge"}),
    "laplace-rr": frozenset({"link", "ridge"}),
    "kemeny": frozenset({"debiased"}),
    "borda": frozenset({"debiased"}),
    "bradley-terry": frozenset({"debiased", "ridge"}),
}
LINKED = tuple(name for name, keys in USED_BY.items() if "link" in keys)
LOGISTIC_ALWAYS = ("bradley-terry",)
CHOOSE_LINK = ("debiased-rr", "classic-rr", "laplace-rr")  # by likelihood: link auto

Setting = Annotated[float, Field(ge=LEAST_SETTING, le=MOST_SETTING, allow_inf_nan=False)]


class ModelConfig(Section):
    """Settings of the methods that fit scores.

    Attributes:
        link: how a difference of scores becomes a chance of winning.
        constants: `tight`, what the proof needs, or `paper`, what the paper prints (more noise).
        expected_comparisons: about how many comparisons an item takes part in; intervals rest on
            it, and so does gamma where it is not given.
        gamma: weight of the ridge, which draws scores towards zero and which privacy rests on;
            None: see `estimation.comparisons.perturbed_mle.default_ridge`.
        c0: chooses gamma as the paper does, c0 * sqrt(expected_comparisons * log(items)), c0 = 2.
        ridge: weight c of c |scores|^2 in the fit of privatised answers.
        debiased: undo what the Mallows mechanism does to shares of rankings; `auto`: where that
            promises the smaller errors.
    """

    link: Literal["logistic", "laplace", "probit", "auto"] = Field(
        default="logistic", examples=["logistic"]
    )
    constants: Annotated[Constants, Field(strict=False)] = Constants.TIGHT
    gamma: Setting | None = Field(default=None, examples=["50"])
    expected_comparisons: Setting | None = Field(default=None, examples=["500"])
    c0: Setting | None = Field(default=None, examples=["2"])
    ridge: Setting = Field(default=1.0, examples=["1"])
    debiased: bool | Literal["auto"] = Field(default="auto", examples=["true"])

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.gamma is not None and self.c0 is not None:
            yield "c0", "chooses gamma, which is given; remove one of them"

    def problems_with(self, method: str) -> Iterable[tuple[str, str]]:
        """Key and rule of what does not suit `method`."""
        for key in sorted(self.model_fields_set - USED_BY.get(method, frozenset())):
            yield key, f"is not used by method: {method}; remove it"
        if self.link == "auto" and method not in CHOOSE_LINK:
            yield "link", f"auto is for methods {', '.join(CHOOSE_LINK)}; write logistic"
            return
        if USED_BY.get(method) is not PERTURBED_KEYS:
            return
        if link_named(self.link).kappa1 == float("inf"):
            yield "link", f"{self.link} {REFUSED_LINK}"
        if self.expected_comparisons is None:
            yield "expected_comparisons", NO_SIZE


class GraphKind(StrEnum):
    """Which pairs of items are compared."""

    DENSE = "dense"  # all of them
    SPARSE = "sparse"  # an Erdős–Rényi graph, drawn without looking at an answer


class SpectralConfig(Section):
    """Settings of the methods `spectral` and `spectral-rr`.

    Attributes:
        graph: which pairs of items are compared: all (`dense`), or an Erdős–Rényi graph that is
            drawn without looking at an answer (`sparse`).
        debiased: of `spectral-rr`: undo the flips; false is the paper's baseline.
        edge_probability: of a sparse graph; by default log(m) / m for m items.
    """

    graph: Annotated[GraphKind, Field(strict=False)] = GraphKind.DENSE
    debiased: bool = True
    edge_probability: float | None = Field(default=None, ge=1e-9, le=1, examples=["0.1"])

    def _problems(self) -> Iterable[tuple[str, str]]:
        if self.edge_probability is not None and self.graph is GraphKind.DENSE:
            yield "edge_probability", "is for graph: sparse; remove it, or set graph: sparse"


class ReportConfig(Section):
    """How scores are written, from the next release on.

    None of it changes what is drawn, so none of it makes another job.

    Attributes:
        scale: `elo`: as ratings like those of chess players, the mean item at 1000; `method`: on
            the scale of the method. Elo needs scores of a logistic link.
    """

    scale: Literal["method", "elo"] = Field(default="method", examples=["elo"])

    def problems_with(self, method: str, link: str) -> Iterable[tuple[str, str]]:
        """Key and rule of what does not suit `method` and its link."""
        if self.scale != "elo" or method in LOGISTIC_ALWAYS:
            return
        if method not in LINKED:
            yield (
                "scale",
                f"elo needs scores of a logistic link, and method: {method} has no link; remove it,"
                f" or choose among the methods {', '.join((*LINKED, *LOGISTIC_ALWAYS))}",
            )
        elif link != "logistic":
            yield "scale", f"elo needs model.link: logistic, got {link}; change one of the two"
