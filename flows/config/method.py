"""Which methods there are, and which kind of input each is for."""

from __future__ import annotations

from enum import StrEnum


class Method(StrEnum):
    """How a ranking is computed. A new method is a member here; its rules go in `config.rules`."""

    NOISY_COUNTS = "noisy-counts"
    NOISY_PAIRS = "noisy-pairs"
    PERTURBED_MLE = "perturbed-mle"
    NOISY_OBJECTIVE = "noisy-objective"
    ONE_SHOT = "one-shot"
    DEBIASED_RR = "debiased-rr"
    CLASSIC_RR = "classic-rr"
    LAPLACE_RR = "laplace-rr"
    RR_COUNTS = "rr-counts"
    SPECTRAL = "spectral"
    SPECTRAL_RR = "spectral-rr"
    KEMENY = "kemeny"
    BORDA = "borda"
    BRADLEY_TERRY = "bradley-terry"


PERTURBED_OBJECTIVE = (Method.PERTURBED_MLE, Method.NOISY_OBJECTIVE)
ON_PUBLIC_GRAPHS = (*PERTURBED_OBJECTIVE, Method.NOISY_PAIRS)
METHODS_OF_RESPONSES = (Method.SPECTRAL, Method.SPECTRAL_RR)
METHODS_OF_RANKINGS = (Method.KEMENY, Method.BORDA, Method.BRADLEY_TERRY)
METHODS_OF_KIND = {
    "comparisons": tuple(
        method for method in Method if method not in METHODS_OF_RESPONSES + METHODS_OF_RANKINGS
    ),
    "responses": METHODS_OF_RESPONSES,
    "rankings": METHODS_OF_RANKINGS,
}
LOCAL_METHODS = ("debiased-rr", "classic-rr", "laplace-rr", "rr-counts")
