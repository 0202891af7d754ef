"""The mechanism of noise on counts of rankings, and its privacy statement and record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Self

from hushrank.estimation.common.central_noise import Calibration
from hushrank.flows.config.rankings import RankingTies, Unlisted
from hushrank.flows.config.survey import SurveyConfig
from hushrank.flows.statement.counts import CountWords
from hushrank.flows.statement.mechanism import CountMechanism
from hushrank.flows.statement.record import Parameter, PrivacyRecord, count_record
from hushrank.privacy.ranking_sensitivity import Part
from hushrank.privacy.units import PrivacyParams, Unit

_ALGORITHM = (
    "Dwork, McSherry, Nissim and Smith, Calibrating noise to sensitivity in private data analysis"
    " (2006), on counts of rankings, with the sensitivity that hushrank's"
    " privacy/ranking_sensitivity.py proves"
)
_BESIDE = (
    " (sums of squares and the number of rankings included, from which intervals know how much"
    " rankings differ)"
)
ABOVE_COUNTS = CountWords(
    entry="count of pairs (in how many rankings one item is above another)",
    computed="the order and all intervals are computed from the noisy counts alone",
    algorithm={Unit.USER: _ALGORITHM},
)
SPREAD_ABOVE_COUNTS = replace(
    ABOVE_COUNTS,
    entry=f"{ABOVE_COUNTS.entry}{_BESIDE}",
    computed="the scores and all intervals are computed from the noisy counts alone",
)
NET_SUMS = CountWords(
    entry=f"item's sum of items below it less items above it{_BESIDE}",
    computed="the scores and all intervals are computed from the noisy sums alone",
    algorithm={Unit.USER: _ALGORITHM},
)
PLACE_COUNTS = CountWords(
    entry="count of places (in how many rankings an item is at a place)",
    computed="the order and all intervals are computed from the noisy counts alone",
    algorithm={Unit.USER: _ALGORITHM},
)


UNLISTED = {
    True: "Items that a ranking does not list count as below those it lists.",
    False: "Items that a ranking does not list are taken as unknown: it says nothing of them.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingCountMechanism(CountMechanism):
    """Discrete noise on counts of true rankings.

    Attributes:
        weights: what one in each part adds to what is released.
        longest: the most items of a ranking that counts.
        unnamed: nothing says whose a ranking is, so each is taken for another person's.
        contests: only the rankings of one contest count.
        ties_refused: rankings with ties are left out.
        below: items that a ranking does not list count as below those it lists; False, as in
            versions that had no choice: they are taken as unknown.
        tie_rule: `RankingsConfig.tie_rule`; empty also of versions that did not state it.
    """

    weights: dict[Part, int]
    longest: int
    unnamed: bool
    contests: bool
    ties_refused: bool
    below: bool = False
    tie_rule: str = ""

    @classmethod
    def of_job(
        cls,
        config: SurveyConfig,
        params: PrivacyParams,
        calibration: Calibration,
        weights: dict[Part, int],
        longest: int,
    ) -> Self:
        """The mechanism that adds the calibrated noise.

        Raises:
            ValueError: that is not the noise that `params` needs, or less of it.
        """
        n_items, rankings = len(config.items.catalogue()), config.rankings
        noise = CountMechanism.of(params, calibration, n_items, None)
        return cls(
            **{field.name: getattr(noise, field.name) for field in fields(noise)},
            weights=weights,
            longest=longest,
            unnamed=not rankings.names_people,
            contests=rankings.contest is not None,
            ties_refused=rankings.layout == "long" and rankings.ties is RankingTies.REFUSE,
            below=rankings.unlisted is Unlisted.BELOW,
            tie_rule=rankings.tie_rule,
        )


def ranking_count_record(
    words: CountWords, mechanism: RankingCountMechanism, parameters: dict[str, Parameter]
) -> PrivacyRecord:
    """The record of a release of noisy counts of rankings.

    Args:
        words: which counts.
        mechanism: what drew them.
        parameters: of the estimate, public.
    """
    facts: dict[str, Parameter] = {"longest_ranking": mechanism.longest}
    if mechanism.tie_rule:
        facts["items_at_one_rank"] = mechanism.tie_rule
    facts |= {f"weight_of_{part}": weight for part, weight in mechanism.weights.items()}
    record = count_record(words, mechanism, facts | parameters)
    if not mechanism.params.private:
        return record
    *statement, _ = map(_of_rankings, record.statement)  # the last one says which rows count
    return record.model_copy(
        update={
            "statement": (
                *statement,
                *_weighted(mechanism),
                _bound(mechanism),
                UNLISTED[mechanism.below],
            ),
            "not_protected": (
                *_not_protected(mechanism),
                *map(_of_rankings, record.not_protected),
            ),
        }
    )


def _of_rankings(text: str) -> str:
    """People's answers are rankings here."""
    return text.replace("answers", "rankings")


def _weighted(mechanism: RankingCountMechanism) -> Iterator[str]:
    if set(mechanism.weights.values()) == {1}:
        return
    said = ", ".join(f"{part} times {weight:,}" for part, weight in mechanism.weights.items())
    yield (
        f"What is released is multiplied by whole numbers first ({said}), so that one noise serves"
        " all; scale and sensitivity are of these products."
    )


def _bound(mechanism: RankingCountMechanism) -> str:
    most, longest = mechanism.params.max_contributions, mechanism.longest
    lists = f"longer than {longest} items none counts" if longest < mechanism.n_items else ""
    end = f"; {lists}." if lists else "."
    if mechanism.unnamed:
        return f"Each ranking in the input counts as the one ranking of another person{end}"
    if most == 1:
        return f"One ranking of each person counts; of several, a secret key chose one{end}"
    return f"At most {most} rankings of each person count, chosen by a secret key{end}"


def _not_protected(mechanism: RankingCountMechanism) -> Iterator[str]:
    if mechanism.unnamed:
        yield (
            "A person with several rankings in the input: each is protected as if it were another"
            " person's, and their losses add up, unbounded."
        )
