"""Counts beside a ranking: `counts` of `release.json`, and its sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from hushrank.estimation.common.central_noise import LEVEL, Calibration
from hushrank.estimation.common.private_counts import Interval, Numbers, share_of_contradicting
from hushrank.flows.statement.record import SHARE_DECIMALS, PrivacyRecord, Record
from hushrank.flows.statement.sentences import Guarantee
from hushrank.privacy.noise import NoiseLaw
from hushrank.privacy.private_counts import epsilon_of_counts
from hushrank.privacy.units import NoiseKind, PrivacyParams, Query


class CountRecord(Record):
    """A noisy number and where the true one is.

    Attributes:
        count: the number, with noise; may be negative.
        low, high: 95 % interval of the true number, for this number alone.
        noise_scale: scale of its discrete Laplace noise.
    """

    count: int
    low: int
    high: int
    noise_scale: float

    @classmethod
    def of(cls, count: int, law: NoiseLaw) -> CountRecord:
        """The record of a count with noise of this law."""
        found = Interval.of(count, law)
        return cls(count=count, low=found.low, high=found.high, noise_scale=law.scale)

    @property
    def deviation(self) -> float:
        """Standard deviation of its noise."""
        return math.sqrt(NoiseLaw(NoiseKind.LAPLACE, self.noise_scale).variance)

    @property
    def about(self) -> str:
        """The number for people, with its interval: about 900 (880 to 920)."""
        return f"about {max(self.count, 0):,} ({self.low:,} to {self.high:,})"


class ContradictionsRecord(Record):
    """How many people contradict themselves, of those with decided answers to a pair twice or more.

    Attributes:
        contradicting: people who gave contrary answers about some pair.
        consistent: people with such a pair who never did.
        share: share of the former among both, in [0, 1]; left out where noise left nobody.
        share_low, share_high: 95 % interval of the share.
    """

    contradicting: CountRecord
    consistent: CountRecord
    share_low: float
    share_high: float
    share: float | None = None

    @classmethod
    def of(cls, pair: NDArray[np.int64], law: NoiseLaw) -> ContradictionsRecord:
        """The record of two noisy numbers with noise of this law."""
        seen = share_of_contradicting(pair, law)
        low, high = seen.interval()
        return cls(
            contradicting=CountRecord.of(seen.fit, law),
            consistent=CountRecord.of(seen.unfit, law),
            share=None if seen.share is None else round(seen.share, SHARE_DECIMALS),
            share_low=round(low, SHARE_DECIMALS),
            share_high=round(high, SHARE_DECIMALS),
        )

    @property
    def sentence(self) -> str:
        """Say how many contradict themselves, for people."""
        pair = self.contradicting.count, self.consistent.count
        share = "an unknown share" if self.share is None else f"about {100 * self.share:.0f} %"
        return (
            f"Of about {max(sum(pair), 0):,} people with decided answers to one pair twice or more,"
            f" {share} gave contrary answers about some pair ({100 * self.share_low:.0f} to"
            f" {100 * self.share_high:.0f} %, with {100 * LEVEL:.0f} %)."
        )


class CountsRecord(Record):
    """Counts beside the ranking; what was not asked is left out.

    Attributes:
        epsilon: epsilon that they took together of the release's, each the same part.
        people: people with an answer that counts.
        answers: answers that count, within the bounds of each person.
        contradictions: people who contradict themselves, and who do not.
    """

    epsilon: float
    people: CountRecord | None = None
    answers: CountRecord | None = None
    contradictions: ContradictionsRecord | None = None

    @classmethod
    def of(
        cls, drawn: Numbers, laws: Mapping[Query, Calibration], params: PrivacyParams
    ) -> CountsRecord:
        """The record of the noisy numbers of each query, drawn by these calibrations."""
        found: dict[str, CountRecord | ContradictionsRecord] = {}
        for query, numbers in drawn.items():
            law = laws[query].law
            if query is Query.CONTRADICTIONS:
                found[query] = ContradictionsRecord.of(numbers, law)
            else:
                found[query] = CountRecord.of(int(numbers[0]), law)
        return cls.model_validate({"epsilon": epsilon_of_counts(params), **found})

    @property
    def numbers(self) -> dict[str, CountRecord]:
        """Every number by its name."""
        pair = self.contradictions
        found = {"people": self.people, "answers": self.answers}
        if pair is not None:
            found |= {"contradicting": pair.contradicting, "consistent": pair.consistent}
        return {name: each for name, each in found.items() if each is not None}

    @property
    def sentences(self) -> Iterator[str]:
        """Yield what was counted, for people."""
        parts = []
        if self.people is not None:
            parts.append(f"{self.people.about} people gave an answer that counts")
        if self.answers is not None:
            parts.append(f"{self.answers.about} answers count")
        if parts:
            text = ", and ".join(parts)
            each = ", each with" if len(parts) > 1 else ", with"
            yield f"{text[0].upper()}{text[1:]}{each} {100 * LEVEL:.0f} %."
        if self.contradictions is not None:
            yield self.contradictions.sentence


def record_with_counts(record: PrivacyRecord, params: PrivacyParams) -> PrivacyRecord:
    """`record` for the whole release, if counts beside its ranking were drawn.

    Args:
        record: the record of the ranking; or of ranking and pilot query together, whose numbers are
            those of the whole release already.
        params: parameters of the release.
    """
    told = {**record.parameters, "counts_epsilon": epsilon_of_counts(params)}
    if params.look:
        return record.model_copy(update={"parameters": told})
    own = Guarantee(epsilon=record.epsilon, delta=record.delta, rho=record.rho)
    whole = own.with_look(params)
    return record.model_copy(
        update={"epsilon": whole.epsilon, "rho": whole.rho, "parameters": told}
    )
