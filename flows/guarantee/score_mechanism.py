"""The mechanism of scores by perturbed maximum likelihood, as it is stored and stated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

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

    @classmethod
    def of(cls, calibrated: PerturbedMle, ties: Ties, public_graph_statement: str | None) -> Self:
        """The mechanism that draws by `calibrated`."""
        settings = calibrated.settings
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
            spend=calibrated.spend,
            ties=ties,
            public_graph_statement=public_graph_statement,
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
            spend=self.spend,
        )
