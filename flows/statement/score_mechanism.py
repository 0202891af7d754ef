"""The mechanism of scores by perturbed maximum likelihood, as it is stored and stated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Self

from hushrank.estimation.common.central_noise import Calibration
from hushrank.estimation.common.links import link_named
from hushrank.estimation.comparisons.perturbed_mle import MleSettings, PerturbedMle
from hushrank.privacy.accounting import Spend
from hushrank.privacy.exact_minimiser import GriddedNoise, OutputCover
from hushrank.privacy.objective_perturbation import Constants, ObjectiveNoise
from hushrank.privacy.units import PrivacyParams
from hushrank.transforms.common.schema import Ties


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreMechanism:
    """What `estimation.comparisons.perturbed_mle` calibrates; the link is stored by its name.

    Attributes:
        link: F, by name.
        expected_comparisons, gamma, constants, public_graph, chosen_tolerance: the settings.
        params, n_items, objective, noise, cover, tolerance, spend: as in `PerturbedMle`.
        ties: what became of comparisons without a winner.
        public_graph_statement: why who compared what is public, in the operator's words; None where
            it is protected.
        exposures: noise on how often each item was compared, of a share of epsilon that `params`
            does not hold; None where the configuration says what to expect, or all of it is public.
        shows_exposures: these numbers are released, with that noise or, where they are public,
            without.
        stated_exposures: what the operator's public file says how often it is compared, items or
            pairs; None: there is no file.
    """

    link: str
    expected_comparisons: float
    gamma: float | None
    constants: Constants
    public_graph: bool
    chosen_tolerance: float | None
    params: PrivacyParams
    n_items: int
    objective: ObjectiveNoise
    noise: GriddedNoise
    cover: OutputCover | None
    tolerance: float
    spend: Spend
    ties: Ties
    public_graph_statement: str | None
    exposures: Calibration | None = None
    shows_exposures: bool = False
    stated_exposures: Literal["items", "pairs"] | None = None

    @classmethod
    def of(
        cls,
        calibrated: PerturbedMle,
        ties: Ties,
        public_graph_statement: str | None,
        exposures: Calibration | None = None,
        *,
        shows_exposures: bool = False,
        spend: Spend | None = None,
    ) -> Self:
        """The mechanism that draws scores by `calibrated`, and exposures.

        Args:
            calibrated: what draws the scores.
            ties, public_graph_statement, exposures, shows_exposures: as stored.
            spend: of both; None: of the scores alone.

        Raises:
            ValueError: both cost more than `spend`.
        """
        settings, spend = calibrated.settings, spend or calibrated.spend
        parts = (calibrated.spend.epsilon, exposures.spend.epsilon if exposures else 0.0)
        if sum(map(Fraction, filter(math.isfinite, parts))) > spend.epsilon:
            raise ValueError(f"scores and exposures cost {parts}, but {spend} is paid for")
        return cls(
            link=settings.link.name,
            expected_comparisons=settings.expected_comparisons,
            gamma=settings.ridge,
            constants=settings.constants,
            public_graph=settings.public_graph,
            chosen_tolerance=settings.tolerance,
            params=calibrated.params,
            n_items=calibrated.n_items,
            objective=calibrated.objective,
            noise=calibrated.noise,
            cover=calibrated.cover,
            tolerance=calibrated.tolerance,
            spend=spend,
            ties=ties,
            public_graph_statement=public_graph_statement,
            exposures=exposures,
            shows_exposures=shows_exposures,
        )

    @property
    def calibrated(self) -> PerturbedMle:
        """What draws, with the very numbers that are stored here."""
        settings = MleSettings(
            expected_comparisons=self.expected_comparisons,
            link=link_named(self.link),
            ridge=self.gamma,
            constants=self.constants,
            public_graph=self.public_graph,
            tolerance=self.chosen_tolerance,
        )
        return PerturbedMle(
            settings=settings,
            params=self.params,
            n_items=self.n_items,
            objective=self.objective,
            noise=self.noise,
            cover=self.cover,
            tolerance=self.tolerance,
            spend=Spend(epsilon=self.params.epsilon, delta=self.params.delta),
        )
