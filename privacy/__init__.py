"""Privacy mechanisms, sensitivities and accounting. Pure: no files, logs or Beam.

The names below are the public library: `hushrank.privacy` loads each when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hushrank.privacy.accounting import Spend as Spend
    from hushrank.privacy.accounting import composed_epsilon as composed_epsilon
    from hushrank.privacy.accounting import epsilon_of as epsilon_of
    from hushrank.privacy.accounting import rho_for as rho_for
    from hushrank.privacy.amplification import local_epsilon_for as local_epsilon_for
    from hushrank.privacy.amplification import shuffled_epsilon as shuffled_epsilon
    from hushrank.privacy.audit import AuditResult as AuditResult
    from hushrank.privacy.audit import audit_epsilon as audit_epsilon
    from hushrank.privacy.filters import adaptive_total as adaptive_total
    from hushrank.privacy.filters import releases_left as releases_left
    from hushrank.privacy.filters import remaining_epsilon as remaining_epsilon
    from hushrank.privacy.mallows import concordance_probability as concordance_probability
    from hushrank.privacy.mallows import synthetic_rankings as synthetic_rankings
    from hushrank.privacy.noise import NoiseLaw as NoiseLaw
    from hushrank.privacy.noise import add_noise as add_noise
    from hushrank.privacy.noise import gaussian_law as gaussian_law
    from hushrank.privacy.noise import laplace_law as laplace_law
    from hushrank.privacy.random_pairs import Hide as Hide
    from hushrank.privacy.random_pairs import RandomPairs as RandomPairs
    from hushrank.privacy.random_pairs import answer_pairs as answer_pairs
    from hushrank.privacy.random_pairs import law_of_epsilon as law_of_epsilon
    from hushrank.privacy.randomized_response import debiased_outcomes as debiased_outcomes
    from hushrank.privacy.randomized_response import flip_probability as flip_probability
    from hushrank.privacy.randomized_response import randomize as randomize
    from hushrank.privacy.randomness import RandomBits as RandomBits
    from hushrank.privacy.randomness import seeded_bits as seeded_bits
    from hushrank.privacy.randomness import system_bits as system_bits
    from hushrank.privacy.sensitivity import Sensitivity as Sensitivity
    from hushrank.privacy.sensitivity import pair_counts_sensitivity as pair_counts_sensitivity
    from hushrank.privacy.sensitivity import win_counts_sensitivity as win_counts_sensitivity
    from hushrank.privacy.sensitivity import win_loss_sensitivity as win_loss_sensitivity
    from hushrank.privacy.units import Adjacency as Adjacency
    from hushrank.privacy.units import NoiseKind as NoiseKind
    from hushrank.privacy.units import PrivacyParams as PrivacyParams
    from hushrank.privacy.units import Unit as Unit

_HOMES = {  # the module of each name; a test compares them with the imports above
    "accounting": (
        "Spend",
        "composed_epsilon",
        "epsilon_of",
        "rho_for",
    ),
    "amplification": (
        "local_epsilon_for",
        "shuffled_epsilon",
    ),
    "audit": (
        "AuditResult",
        "audit_epsilon",
    ),
    "filters": (
        "adaptive_total",
        "releases_left",
        "remaining_epsilon",
    ),
    "mallows": (
        "concordance_probability",
        "synthetic_rankings",
    ),
    "noise": (
        "NoiseLaw",
        "add_noise",
        "gaussian_law",
        "laplace_law",
    ),
    "random_pairs": (
        "Hide",
        "RandomPairs",
        "answer_pairs",
        "law_of_epsilon",
    ),
    "randomized_response": (
        "debiased_outcomes",
        "flip_probability",
        "randomize",
    ),
    "randomness": (
        "RandomBits",
        "seeded_bits",
        "system_bits",
    ),
    "sensitivity": (
        "Sensitivity",
        "pair_counts_sensitivity",
        "win_counts_sensitivity",
        "win_loss_sensitivity",
    ),
    "units": (
        "Adjacency",
        "NoiseKind",
        "PrivacyParams",
        "Unit",
    ),
}
_MODULES = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # to a checker, a name that is not above is an error

    def __getattr__(name: str) -> Any:
        """The name, loaded now (PEP 562)."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(_MODULES)
