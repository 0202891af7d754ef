"""Which methods there are."""

from __future__ import annotations

from typing import Any

from hushrank.flows.config.method import Method
from hushrank.flows.methods.base import RankingMethod
from hushrank.flows.methods.local_responses import CLASSIC, COUNTS, LAPLACE, LocalResponses
from hushrank.flows.methods.noisy_counts import NoisyCounts
from hushrank.flows.methods.noisy_pairs import NoisyPairs
from hushrank.flows.methods.one_shot import OneShot
from hushrank.flows.methods.perturbed_mle import PerturbedLikelihood
from hushrank.flows.methods.private_rankings import PrivateRankings
from hushrank.flows.methods.spectral import Spectral
from hushrank.flows.methods.spectral_rr import SpectralRandomized
from hushrank.transforms.common.randomisation import Randomisation

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
