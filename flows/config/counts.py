"""Counts beside a ranking: the pilot query before it, and numbers that are published."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import Field

from hushrank.flows.config.section import MOST_ROWS, Section
from hushrank.privacy.pilot_query import MOST_SHARE
from hushrank.privacy.units import Bounding, Query, Unit


class LookConfig(Section):
    """The pilot query before a release; `look: 0.02` is short for `look: {share: 0.02}`.

    Attributes:
        share: share of `epsilon` that the pilot query takes.
        people: number of people who were asked, a public number that must not come from the rows;
            for unit `user`. Where it is near certain that the rows of fewer than half as many
            people were seen, the run stops too. Without this key a run never stops because nobody
            is seen.
        unlisted: of comparisons: whether the pilot query also counts who names an item that is not
            in `items`, with noise; a release warns if somebody does. With the same share of epsilon
            its numbers then have 1.5 times the noise, or twice with `add-remove`.
    """

    share: float = Field(gt=0, le=MOST_SHARE, examples=["0.02"])
    people: int | None = Field(default=None, ge=1, le=MOST_ROWS, examples=["900"])
    unlisted: bool = False


def share_alone(value: object) -> object:
    """A number as the section that has it as its `share`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return {"share": float(value)} if is_number else value  # type: ignore[arg-type]


class CountsConfig(Section):
    """Counts beside the ranking; `counts: 0.05` is short for `counts: {share: 0.05}`.

    Attributes:
        share: share of `epsilon` that they take together, each the same part.
        of: what is counted, each with noise and an interval: `people`, how many people have an
            answer that counts; `answers`, how many answers count; `contradictions`, of comparisons
            under unit `user`: of the people who answered a pair twice or more, how many gave
            contrary answers. None: people and answers, or the one of them that the job can count.
    """

    share: float = Field(gt=0, le=MOST_SHARE, examples=["0.05"])
    of: Annotated[tuple[Annotated[Query, Field(strict=False)], ...], Field(strict=False)] | None = (
        Field(default=None, min_length=1, examples=["[people, answers]"])
    )

    def normal(self, unit: Unit, bounding: Bounding) -> dict[str, Any]:
        """This section as every way to write it is hashed: the usual counts are not named."""
        usual = CountsConfig(share=self.share)
        asked = queries_of(self, unit, bounding)
        named = None if asked == queries_of(usual, unit, bounding) else asked
        return {"share": self.share, "of": named}


def queries_of(counts: CountsConfig, unit: Unit, bounding: Bounding) -> tuple[Query, ...]:
    """Return the queries of a job beside its ranking, in the order of `Query`."""
    usual = [Query.PEOPLE] * (unit is Unit.USER)
    usual += [Query.ANSWERS] * (bounding is not Bounding.WEIGHTS)
    asked = usual if counts.of is None else counts.of
    return tuple(query for query in Query if query in asked)


def problems_of_queries(
    counts: CountsConfig, unit: Unit, bounding: Bounding, *, distinct_pairs: bool
) -> Iterable[tuple[str, str]]:
    """Yield key and rule of each count that no noise hides, or that counts nothing."""
    asked = counts.of or ()
    if len({*asked}) < len(asked):
        yield "counts.of", "names a count twice; name each once"
    for query in (Query.PEOPLE, Query.CONTRADICTIONS):
        if query in asked and unit is not Unit.USER:
            yield "counts.of", f"{query} counts people, so it needs unit: user; remove it"
    if Query.ANSWERS in asked and bounding is Bounding.WEIGHTS:
        yield (
            "counts.of",
            "answers: with bounding: weights any number of a person's answers count, so no noise"
            " hides their number; remove answers, or set bounding: leave-out",
        )
    if Query.CONTRADICTIONS in asked and distinct_pairs:
        yield (
            "counts.of",
            "contradictions needs people with several answers to a pair, and distinct_pairs: true"
            " keeps one; remove one of the two",
        )
