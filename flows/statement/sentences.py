"""The privacy statement of a release, in plain words, made of parts that mechanisms share.

`compose_statement` puts a central mechanism's own sentences (which noise, on what) between those
that are the same for all: who is protected, against what, which bounds were enforced, and what is
not protected. Every sentence is true of the release as configured; nothing depends on an answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hushrank.flows.config.privacy import share_of_people
from hushrank.privacy.pilot_query import epsilon_of_counts, epsilon_with
from hushrank.privacy.units import Adjacency, Bounding, NoiseKind, PrivacyParams, Query, Unit

CCW = (
    "Cai, Chakraborty and Wang, Optimal differentially private ranking from pairwise comparisons"
    " (2025)"
)
# Where the law of the noise comes from.
LAW_SOURCE = {
    NoiseKind.LAPLACE: (
        "discrete Laplace noise after Ghosh, Roughgarden and Sundararajan,"
        " Universally utility-maximizing privacy mechanisms (2012)"
    ),
    NoiseKind.GAUSSIAN: (
        "discrete Gaussian noise after Canonne, Kamath and Steinke, The discrete Gaussian for"
        " differential privacy (2020), Theorem 14 for zCDP, in place of Laplace noise; epsilon and"
        " delta by the theorem in hushrank's privacy/gaussian_profile.py"
    ),
}
# Change between two inputs that "differ in one unit", as the start of a sentence.
CHANGE = {
    (Unit.USER, Adjacency.REPLACE_ONE): "If all answers of one person were replaced by others",
    (Unit.USER, Adjacency.ADD_REMOVE): "If one person were left out, or one more took part",
    (Unit.COMPARISON, Adjacency.REPLACE_ONE): "If one answer were replaced by another",
    (Unit.COMPARISON, Adjacency.ADD_REMOVE): "If one answer were left out, or one more given",
}
LOOK_TOOK = "Of that, a look at the rows took"  # begins the sentence on the pilot query
REACH = "That holds against anybody, whatever else they know, even the answers of everybody else."


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyStatement:
    """Statement of what a release protects and what it does not.

    Attributes:
        sentences: who is protected, against what, by which noise and under which bounds.
        not_protected: limits of the guarantee, a sentence each.
        theorem: the algorithm and the mechanism that the guarantee rests on.
        erratum: fault of the published algorithm and what was done instead; None elsewhere.
    """

    sentences: tuple[str, ...]
    not_protected: tuple[str, ...]
    theorem: str
    erratum: str | None


UNPROTECTED = PrivacyStatement(
    sentences=("Nothing is protected: epsilon is infinite, so no noise was added.",),
    not_protected=("Everything: what is released is exact, and may expose single answers.",),
    theorem="none: a release without noise has no guarantee",
    erratum=None,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """Numbers of the guarantee; where `rho` is set, Gaussian noise of that rho gives the others."""

    epsilon: float
    delta: float
    rho: float | None

    def with_look(self, params: PrivacyParams) -> Guarantee:
        """Joint guarantee of a ranking and of the noisy counts that `params` set aside.

        Epsilons add up (`privacy.look`, `privacy.counts`); all together have no rho. With names of
        items that are drawn first, it is that of names and ranking.
        """
        if (names := params.discovery) is not None:
            return Guarantee(epsilon=names.epsilon, delta=names.delta, rho=None)
        if not params.has_parts:
            return self
        epsilon = epsilon_with(self.epsilon, params)
        return Guarantee(epsilon=epsilon, delta=self.delta, rho=None)


def compose_statement(
    params: PrivacyParams,
    guarantee: Guarantee,
    *,
    noise: Iterable[str],
    theorem: str,
    change: str | None = None,
    erratum: str | None = None,
    also_not_protected: Iterable[str] = (),
) -> PrivacyStatement:
    """The statement of a central mechanism.

    Args:
        params: unit, adjacency and the bounds that were enforced, and what a look took before.
        guarantee: epsilon, delta and, for zCDP, rho, of all but that look.
        noise: the mechanism's own sentences.
        theorem: source of the guarantee.
        change: difference between two adjacent inputs, as the start of a sentence; None: see
            `CHANGE`.
        erratum: see `PrivacyStatement`.
        also_not_protected: limits of this mechanism beyond those of every mechanism.
    """
    if not params.private:
        return UNPROTECTED
    whole = guarantee.with_look(params)
    return PrivacyStatement(
        sentences=(
            who(params),
            *name_sentences(params),
            *against_what(change or CHANGE[params.unit, params.adjacency], whole),
            *_count_sentences(params, guarantee),
            *_look_sentences(params, guarantee),
            *_found_sentences(params),
            *noise,
            *bounds(params),
        ),
        not_protected=(*also_not_protected, *not_protected(params, whole)),
        theorem=theorem,
        erratum=erratum,
    )


def _left(rest: Guarantee) -> str:
    left = f"Epsilon = {number(rest.epsilon)}"
    if rest.delta > 0:
        left += f" and all of delta, {number(rest.delta)},"
    return f"{left} was left, and what follows speaks of that."


_COUNTED = {  # what each query beside the ranking counts
    Query.PEOPLE: "how many {} have an answer that counts",
    Query.ANSWERS: "how many answers count",
    Query.CONTRADICTIONS: (
        "how many {} contradict themselves, and how many with a repeated pair do not"
    ),
}


def who_counts(names_per_person: int | None) -> str:
    """Name what counts of people count: names, where a person may have several."""
    return "people" if (names_per_person or 1) == 1 else "user names"


def counted_text(query: Query, names_per_person: int) -> str:
    """Say what a query beside the ranking counts."""
    return _COUNTED[query].format(who_counts(names_per_person))


def _count_sentences(params: PrivacyParams, rest: Guarantee) -> Iterator[str]:
    """Yield what counts beside the ranking told and took; nothing if there are none.

    They come before the pilot query, so that what it left is what the ranking has.
    """
    if params.counts is None:
        return
    names = params.names_per_person
    told = "; ".join(counted_text(query, names) for query in params.counts.queries)
    yield (
        f"Of that, counts beside the ranking took epsilon ="
        f" {number(epsilon_of_counts(params))}, the same part each: {told}. Each number has"
        " discrete Laplace noise of its own."
    )
    if not params.look:
        yield _left(rest)


def _look_sentences(params: PrivacyParams, rest: Guarantee) -> Iterator[str]:
    """Yield what the pilot query told and what it took; nothing if there was none."""
    if not params.look:
        return
    whose = "how many people's answers fit the columns, items and words of the configuration"
    if params.unit is Unit.COMPARISON:
        whose = "how many rows fit the columns, items and words of the configuration"
    yield (
        f"{LOOK_TOOK} epsilon = {number(params.look)}: it was drawn first and"
        f" told {whose}, and how many do not, each number with discrete Laplace noise of its own."
        " Had it been near certain that fewer than half fit, the run would have stopped there."
        f" {_left(rest)}"
    )
    if params.look_unlisted:
        voters = "rows name" if params.unit is Unit.COMPARISON else "people gave an answer with"
        yield (
            f"The look also told how many {voters} an item that is not listed, with noise of the"
            " same law."
        )


def _found_sentences(params: PrivacyParams) -> Iterator[str]:
    """Yield how the items were found; nothing where they are public."""
    if (names := params.discovery) is None:
        return
    yield (
        f"The items are names that people wrote. At most {names.most_names} distinct names of each"
        " person count, chosen at random; where a person wrote d of them, each gets the weight"
        " 1 / sqrt(d). The sum of the weights of each name got discrete Gaussian noise, which gives"
        f" zCDP with rho = {number(names.rho)}, and a name is published only if its noisy sum"
        " reaches a public threshold."
    )
    yield (
        "A name that one person alone wrote is published with a probability of at most"
        f" {number(names.delta_names)}, a part of delta. The rest of the budget, rho ="
        f" {number(names.rest)}, pays for the ranking of these names."
    )


def number(value: float) -> str:
    """Format with at most six significant digits: 12, 0.25, 1e-06."""
    return f"{value:.6g}"


def odds_factor(epsilon: float) -> str:
    """e^epsilon for a reader; as a power of ten where it would be a long number."""
    return f"{math.exp(epsilon):.3g}" if epsilon < 10 else f"10^{epsilon / math.log(10):.1f}"


def who(params: PrivacyParams) -> str:
    """Say in one sentence who is protected."""
    if params.unit is Unit.COMPARISON:
        return "Each single answer (one comparison) is protected."
    if params.adjacency is Adjacency.ADD_REMOVE:
        return (
            "Each person is protected, with all their answers in this run's input, and so is"
            " whether they took part."
        )
    return "Each person is protected, with all their answers in this run's input."


def name_sentences(params: PrivacyParams) -> Iterator[str]:
    """Yield whose names are protected together; nothing where each name is a person's only one."""
    if params.names_per_person > 1:
        names = params.names_per_person
        yield (
            f"A person may have up to {names} user names here: what is given under any {names}"
            " names is protected together, and the bounds on a person's answers hold for each name."
        )


def against_what(change: str, guarantee: Guarantee, what: str = "this release") -> Iterator[str]:
    """Yield what differs little, whoever looks; `change` starts a sentence (`CHANGE`)."""
    epsilon, delta = guarantee.epsilon, guarantee.delta
    but_for = f", but for a probability of {number(delta)} (delta)" if delta > 0 else ""
    yield (
        f"{change}, no result of {what}, nor anything"
        f" computed from it, would become more than {odds_factor(epsilon)} times as likely"
        f" (e^epsilon, epsilon = {number(epsilon)}){but_for}."
    )
    yield REACH
    if delta == 0:
        sure = 100 / (1 + math.exp(-epsilon))
        yield (
            "A guess between two such cases that was right with a chance of 50 % before is right"
            f" with a chance of at most {number(round(sure, 2))} % after seeing it."
        )


def chance_to_guess(epsilon: float, delta: float) -> float:
    """Bound, in percent, on a right guess between two possibilities that were equally likely.

    Bound: (e^epsilon + delta) / (1 + e^epsilon), because what is released of the two differs in
    total variation by (e^epsilon - 1 + 2 delta) / (e^epsilon + 1) at most (Kairouz, Oh, Viswanath
    2015, theorem 2.1). Rounded to two decimals.
    """
    growth = math.exp(-epsilon)
    return round(100 * (1 + delta * growth) / (1 + growth), 2)


def delta_sentence(delta: float, unit: Unit) -> str:
    """Say what a delta allows at worst, for somebody who does not know the word.

    A mechanism that keeps to epsilon, and with probability delta publishes the rows of a unit as
    they are, has this delta; so no more is promised.
    """
    one, many = ("answer", "answers") if unit is Unit.COMPARISON else ("person", "people")
    whose = "that answer" if unit is Unit.COMPARISON else "what that person answered"
    return (
        f"For each {one}, the promise of epsilon may fail with a probability of at most"
        f" {number(delta)} (delta). At worst {whose} is then exposed:"
        f" {share_of_people(delta, one, many)}."
    )


def bounds(params: PrivacyParams) -> Iterator[str]:
    """Yield how many of a person's answers were used."""
    if params.unit is Unit.COMPARISON:
        return
    if params.bounding is Bounding.WEIGHTS:
        yield from _factors(params)
        return
    chosen = f"At most {params.max_contributions} answers of each person count, chosen at random"
    if params.distinct_pairs:
        chosen += ", at most one on each pair of items"
    if params.per_item_cap is not None:
        chosen += f", with any one item in at most {params.per_item_cap} of them"
    yield f"{chosen}; the rest of a person's answers are not used."


def _factors(params: PrivacyParams) -> Iterator[str]:
    """Yield how answers of people with many of them count."""
    counted = "All answers of each person count, at most one on each pair of items"
    if params.per_item_cap is not None:
        counted += f" and with any one item in at most {params.per_item_cap} of them"
    yield (
        f"{counted}. Of a person with more than {params.max_contributions} of them each counts"
        " less, the less the more there are: together they move the counts by no more, as a vector,"
        f" than {params.max_contributions} answers could."
    )


def not_protected(params: PrivacyParams, guarantee: Guarantee) -> Iterator[str]:
    """Yield the limits of a central mechanism of this unit and adjacency."""
    grows = "k * k times rho" if guarantee.rho is not None else "k times epsilon"
    if guarantee.rho is None and guarantee.delta > 0:
        grows += ", and delta grows faster than that"
    if params.unit is Unit.COMPARISON:
        yield (
            "A person with many answers: each answer is protected, all of them together are"
            f" protected less. For k answers the loss is {grows}."
        )
        if params.adjacency is Adjacency.REPLACE_ONE:
            yield "Whether a particular answer was given, and the number of answers."
    else:
        if params.adjacency is Adjacency.REPLACE_ONE:
            yield "Whether a particular person took part, and the number of participants."
        yield f"Groups, such as a family or a class: for k people together the loss is {grows}."
        yield _further_names(params.names_per_person)
    if params.discovery is not None:
        yield FORCED_NAMES
    yield from never_protected(found=params.discovery is not None)
    yield from large_loss(guarantee.epsilon)


def _further_names(names: int) -> str:
    if names == 1:
        return (
            "A person who appears under several user names: each name is protected as if it were"
            " a person."
        )
    return (
        f"A person who appears under more than {names} user names: only {names} of them are"
        " protected together. The operator states that people have no more."
    )


OTHER_RELEASES = (
    "Other releases from answers of the same people, other nights of this job among them: their"
    " losses add up. The budget ledger of the population keeps the account."
)


FORCED_NAMES = (
    "Names that many people agree on, or one person with many accounts writes: any text can be made"
    " to appear, a name of a person or an address too. Texts that must not appear are denied"
    " beforehand (items.discover.deny)."
)


def never_protected(*, found: bool = False) -> Iterator[str]:
    """Yield the limits of every mechanism; `found`: the items were found in the rows."""
    listed = "the rules by which items were found" if found else "the list of items"
    yield (
        "What holds for people in general: what most people answer says something about those who"
        " did not take part as well."
    )
    yield OTHER_RELEASES
    yield (
        f"What is public anyway: {listed}, the configuration, when the run took place,"
        " how long it took and how large its files are."
    )
    yield "The answers themselves, from anybody who can read the input or the confidential folder."


ROWS_SPAN_LINES = (
    "Rows from other rows, because input.multiline is set: one row of a CSV file with an open quote"
    " swallows those after it, up to 1 MiB. Whoever writes such a row moves the result by more than"
    " the noise hides, and so by more than the stated factor."
)


def large_loss(epsilon: float) -> Iterator[str]:
    """A warning where the guarantee is weak."""
    if epsilon > 10:
        yield (
            f"Much in practice: epsilon = {number(epsilon)} allows a factor of"
            f" {odds_factor(epsilon)}."
        )


# Difference between two adjacent inputs then, as the start of a sentence.
OUTCOMES_CHANGE = {
    Unit.COMPARISON: "If one comparison had ended otherwise",
    Unit.USER: "If one person had answered otherwise, about the same pairs of items",
}
# Rows without a valid outcome are set aside, so they are missing in what is said to be public.
GRAPH_NOT_PROTECTED = (
    "Which items each person compared, and so which questions they left unanswered: the operator"
    " states that this is public.",
)


def graph_sentences(stated: str | None) -> Iterator[str]:
    """Yield what is public, quoting why in the operator's words; nothing if `stated` is None."""
    if stated is not None:
        yield (
            "Only who won is protected, not who compared what. That this is public is stated by"
            f" the operator: “{stated}”."
        )
