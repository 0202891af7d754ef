"""Which methods there are."""

from __future__ import annotations

from typing import Any

from hushrank.flows.config import Method
from hushrank.flows.local_responses import CLASSIC, COUNTS, LAPLACE, LocalResponses
from hushrank.flows.method import RankingMethod
from hushrank.flows.noisy_counts import NoisyCounts
from hushrank.flows.noisy_pairs import NoisyPairs
from hushrank.flows.one_shot import OneShot
from hushrank.flows.perturbed_mle import PerturbedLikelihood
from hushrank.flows.private_rankings import PrivateRankings
from hushrank.flows.spectral import Spectral
from hushrank.flows.spectral_rr import SpectralRandomized
from hushrank.transforms.randomisation import Randomisation

METHODS: dict[Method, RankingMethod[Any]] = {
    Method.NOISY_COUNTS: NoisyCounts(),
    Method.NOISY_PAIRS: NoisyPairs(),
    Method.PERTURBED_MLE: PerturbedLikelihood(),
    Method.NOISY_OBJECTIVE: PerturbedLikelihood(),  # with gaussian noise
    Method.ONE_SHOT: OneShot(),
    Method.DEBIASED_RR: LocalResponses(Randomisation.WEIGHTED),
    Method.CLASSIC_RR: LocalResponses(Randomisation.COUNTED, remark=CLASSIC),
    Method.LAPLACE_RR: LocalResponses(Randomisation.LAPLACE, remark=LAPLACE),
    Method.RR_COUNTS: LocalResponses(Randomisation.COUNTED, by_counts=True, remark=COUNTS),
    Method.SPECTRAL: Spectral(),
    Method.SPECTRAL_RR: SpectralRandomized(),
    Method.KEMENY: PrivateRankings(),
    Method.BORDA: PrivateRankings(),
    Method.BRADLEY_TERRY: PrivateRankings(),
}
