"""Names of items that a release found in its rows: as they are stored, stated and certified."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from hushrank.flows.statement.record import FoundRecord, PrivacyRecord
from hushrank.privacy.discovered_names import ONE, NamesMechanism, names_sensitivity
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.randomness import BitsUsed
from hushrank.privacy.sensitivity import Sensitivity
from hushrank.privacy.units import Discovery, NoiseKind, PrivacyParams
from hushrank.transforms.common.written_names import shown_name

LEAST = 2  # names that a ranking needs


@dataclass(frozen=True, slots=True)
class FoundNames:
    """Names that were drawn, with the law that drew them; all of it may be published.

    Attributes:
        names: names, the largest noisy weight first.
        weights: noisy weight of each, in units of 2^-20.
        mechanism: noise and threshold.
        bits: sources of the random bits.
    """

    names: tuple[str, ...]
    weights: tuple[int, ...]
    mechanism: NamesMechanism
    bits: BitsUsed

    @classmethod
    def of(
        cls,
        text: NDArray[np.uint8],
        ends: NDArray[np.int64],
        places: NDArray[np.int64],
        noisy: NDArray[np.int64],
        mechanism: NamesMechanism,
        bits: BitsUsed,
    ) -> FoundNames:
        """The names at `places` of the counted ones, whose UTF-8 is `text`, one after the other."""
        starts = np.append(0, ends)
        spans = zip(starts[places].tolist(), ends[places].tolist(), strict=True)
        names = tuple(shown_name(text[a:b].tobytes().decode()) for a, b in spans)
        return cls(names, tuple(noisy.tolist()), mechanism, bits)

    @property
    def too_few(self) -> bool:
        """Whether there are fewer names than a ranking needs."""
        return len(self.names) < LEAST

    def to_json(self) -> bytes:
        """JSON, as it is stored."""
        told = {**asdict(self), "bits": self.bits.to_dict()}
        return json.dumps(told, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, content: bytes | str) -> FoundNames:
        """Read what `to_json` wrote."""
        told = json.loads(content)
        law, moved = told["mechanism"]["law"], told["mechanism"]["sensitivity"]
        return cls(
            tuple(told["names"]),
            tuple(told["weights"]),
            NamesMechanism(
                Sensitivity(**moved),
                NoiseLaw(NoiseKind(law["kind"]), law["scale"]),
                told["mechanism"]["threshold"],
            ),
            BitsUsed.from_dict(told["bits"]),
        )


def record_of(found: FoundNames) -> FoundRecord:
    """The record of what was drawn."""
    weights = (each / ONE for each in found.weights)
    return FoundRecord(
        weights=dict(zip(found.names, weights, strict=True)),
        threshold=found.mechanism.threshold / ONE,
        noise_scale=found.mechanism.law.scale / ONE,
    )


def mechanism_of(record: FoundRecord, terms: Discovery, params: PrivacyParams) -> NamesMechanism:
    """The mechanism that drew, of these terms; scales are exact, because 2^20 divides them."""
    sensitivity = names_sensitivity(terms.most_names, params.adjacency)
    law = NoiseLaw(NoiseKind.GAUSSIAN, record.noise_scale * ONE)
    return NamesMechanism(sensitivity, law, round(record.threshold * ONE))


def record_with_names(record: PrivacyRecord, params: PrivacyParams) -> PrivacyRecord:
    """`record`, which a method made of its own part of the budget, for names and ranking."""
    terms = params.discovery
    if terms is None:
        return record
    told = {
        "names_rho": terms.rho,
        "names_delta": terms.delta_names,
        "names_of_a_person": terms.most_names,
        "ranking_rho": terms.rest,
    }
    return record.model_copy(
        update={
            "epsilon": terms.epsilon,
            "delta": terms.delta,
            "rho": None,
            "parameters": {**record.parameters, **told},
        }
    )


def too_few_text(found: FoundNames) -> str:
    """Why a run ended without a ranking: what was found, and what it cost."""
    needed = found.mechanism.people_needed(1)
    what = "No name was" if not found.names else f"Only one name, {found.names[0]}, was"
    return (
        f"names: stopped. {what} written by enough people, and a ranking needs {LEAST} names. One"
        f" needs about {needed:,} people who write nothing else, more where people write many"
        " names. There is no ranking, and the budget of the release is spent. Re-running says the"
        " same at no cost."
    )
