"""The law that a method calibrates pays for the worst neighbours of what its draw adds noise to.

For every method and every way in which it counts, all small people are enumerated, and all pairs of
neighbours among them (`tests.flows.methods.neighbours`); no sensitivity of the product is asked.
Noise of scale b costs |change|_1 / b, noise of variance s^2 costs |change|^2 / (2 s^2). No pair may
cost more than the job says, and the worst one costs exactly that: a scale that is too small is
caught, and so is one that is too large. Where the enumeration need not attain the bound, `is_exact`
says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement, pairwise, permutations, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from hushrank.estimation.rankings.ranking_counts import count_rankings
from hushrank.estimation.responses.measurements import measurements_of_answers
from hushrank.flows.methods.base import Arrays, Calibrated
from hushrank.flows.methods.registry import METHODS, calibrate
from hushrank.privacy.randomness import system_bits
from hushrank.privacy.stream import released_night
from tests.flows.methods.neighbours import (
    ELSEWHERE,
    GROUPS,
    Ear,
    Heard,
    Person,
    counted,
    job,
    listening,
    people_of,
    rows_of,
)

EPSILON, RHO, DELTA, LOOK = 1.0, 0.5, 1e-6, 0.25
EXACT = 1e-9  # rounding of a scale
SIZES = [(2, 3), (3, 1), (3, 3), (3, 2), (4, 2)]  # items, and most rows of a person
NOISE: dict[str, dict[str, Any]] = {
    "laplace": {"epsilon": EPSILON},
    "look": {"epsilon": EPSILON, "look": LOOK},
    "rho": {"epsilon": None, "rho": RHO, "noise": "gaussian"},
    "delta": {"epsilon": EPSILON, "delta": DELTA, "noise": "gaussian"},
}
ADJACENCIES = ("replace-one", "add-remove")
TRIED = [
    *product(ADJACENCIES, ("laplace", "rho")),
    ("replace-one", "look"),
    ("add-remove", "delta"),
]
PUBLIC = {"public_graph": True, "public_graph_statement": "all saw all pairs"}
OVERLAPPING = {"column": "group", "separator": "|", "others": "whole"}
WHERE = {
    "none": {},
    "groups": {"groups": {"column": "group", "values": list(GROUPS)}},
    "others": {"groups": {"column": "group", "values": list(GROUPS), "others": "whole"}},
    "one of each": {"groups": {**OVERLAPPING, "values": [*GROUPS, "east"], "most": 1}},
    "two of each": {"groups": {**OVERLAPPING, "values": list(GROUPS), "most": 2}},
}
CELLS = {  # of groups in a row
    "none": ("",),
    "groups": GROUPS,
    "others": (GROUPS[0], ELSEWHERE),
    "one of each": ("north|south", "east"),
    "two of each": ("north|south", ELSEWHERE),
}

Vectors = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """The largest change between two neighbours: l1 norm and squared l2 norm."""

    l1: float
    l2_squared: float

    def cost(self, scale: float, noise: str) -> float:
        """Share of the budget that noise of this scale needs for it; at most 1 is right."""
        if noise in ("laplace", "look"):
            return self.l1 / scale / EPSILON + (LOOK if noise == "look" else 0.0)
        if noise == "rho":
            return self.l2_squared / (2 * scale**2) / RHO
        return math.sqrt(self.l2_squared) / scale / MOST_SHIFT


def delta_of(shift: float) -> float:
    """Of the Gaussian mechanism at `EPSILON`, for a change of so many standard deviations."""
    half, rest = shift / 2, EPSILON / shift
    return float(ndtr(half - rest) - math.exp(EPSILON) * ndtr(-half - rest))


MOST_SHIFT = brentq(lambda shift: delta_of(shift) - DELTA, 0.01, 10)  # at `DELTA`


def largest(vectors: Vectors, adjacency: str) -> Change:
    """Over all neighbours; the vectors are of people, and one is of nobody."""
    values = np.unique(vectors, axis=0)
    if adjacency == "add-remove":
        return Change(np.abs(values).sum(axis=1).max(), np.square(values).sum(axis=1).max())
    l1 = l2_squared = 0.0
    for number, value in enumerate(values):
        change = values[number:] - value
        l1 = max(l1, np.abs(change).sum(axis=1).max())
        l2_squared = max(l2_squared, np.square(change).sum(axis=1).max())
    return Change(l1, l2_squared)


def bounds_of(most: int) -> Iterator[dict[str, Any]]:
    """Every way to bound a person's rows."""
    for distinct, cap in product((False, True), (None, 1, 2)):
        if cap is None or cap <= most:
            bounds = {"max_contributions": most, "distinct_pairs": distinct}
            yield bounds if cap is None else {**bounds, "per_item_cap": cap}


def privacies(most: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Unit and bounds, and how many rows neighbours may differ in."""
    for bounds in bounds_of(most):
        yield bounds, most
    if most == 1:
        yield {"unit": "comparison"}, 1


def small_people(n_items: int, most: int, ties: str, where: str) -> list[Person]:
    """Everybody; a tie adds no more than a win, so where there are many people it is left out."""
    groups = CELLS[where]
    tied = ties in ("split", "model") and (where == "none" or n_items * most < 8)
    outcomes = (1, -1, 0) if tied else (1, -1)
    return people_of(rows_of(n_items, outcomes, groups), most)


def is_exact(bounds: dict[str, Any], *, squared: bool, distinct_l2: bool) -> bool:
    """Whether small people attain the bound.

    With a cap c that does not divide L, the last rows of a person cannot be where the bound has
    them. What wins and losses on distinct pairs cost in l2 norm (`distinct_l2`) may be bounded from
    above; so may exposures under replace-one, and weights by one part in a hundred (see there).
    """
    if bounds.get("max_contributions", 1) % bounds.get("per_item_cap", 1):
        return False
    return not (squared and distinct_l2 and bounds.get("distinct_pairs"))


def may_cancel(method: str, adjacency: str, bounds: dict[str, Any]) -> bool:
    """Whether two bundles on distinct pairs, or under a cap, share wins in the whole.

    Groups that overlap pay for the whole as for a group, in which they need not.
    """
    bounded = bounds.get("distinct_pairs") or bounds.get("per_item_cap")
    return method != "noisy-pairs" and adjacency == "replace-one" and bool(bounded)


@pytest.fixture
def ear() -> Iterator[Ear]:
    """Hears what draws add noise to."""
    with listening() as found:
        yield found


COUNTING = [
    (method, ties, where)
    for method, ties, where in product(
        ("noisy-counts", "win-loss", "noisy-pairs"), ("drop", "split", "random", "model"), WHERE
    )
    if ties != "model" or method == "noisy-pairs"
]


@pytest.mark.parametrize(("method", "ties", "where"), COUNTING)
def test_counts_of_rows(ear: Ear, method: str, ties: str, where: str) -> None:
    for n_items, most in SIZES if where == "none" else SIZES[:3]:
        people = small_people(n_items, most, ties, where)
        for bounds, rows in privacies(most):
            own = [person for person in people if len(person) <= rows or "unit" not in bounds]
            found: dict[str, Change] = {}
            for adjacency, noise in TRIED:
                privacy = {**bounds, "adjacency": adjacency, **NOISE[noise]}
                config = job(method, privacy, n_items, ties=ties, **WHERE[where])
                calibrated = calibrate(config)
                if not found:
                    every = [each["counts"] for each in counted(config, calibrated, own)]
                    exact = [{"counts": each} for each in np.unique(every, axis=0)]
                    vectors = np.array([vector_of(ear.draw(calibrated, x)) for x in exact])
                    found = {each: largest(vectors, each) for each in ADJACENCIES}
                parts = ear.draw(calibrated, exact[-1])
                assert (vector_of(parts) == vectors[-1]).all()
                cost = found[adjacency].cost(scale_of(parts), noise)
                check(
                    cost,
                    noise,
                    f"{n_items} items, {privacy}",
                    exact=is_exact(
                        bounds,
                        squared=noise in ("rho", "delta"),
                        distinct_l2=method == "win-loss",
                    )
                    and not (where.endswith("of each") and may_cancel(method, adjacency, bounds)),
                )
                assert look_of(calibrated, adjacency) == pytest.approx(
                    LOOK if noise == "look" else 0.0
                )


def vector_of(parts: Sequence[Heard]) -> NDArray[np.int64]:
    return np.concatenate([part.exact for part in parts])


def scale_of(parts: Sequence[Heard]) -> float:
    """Of the one law that all parts have."""
    (scale,) = {part.law.scale for part in parts}
    return scale


def look_of(calibrated: Calibrated, adjacency: str) -> float:
    """Epsilon that a vote of one person costs: one number moves by one, or two do."""
    moved = 1 if adjacency == "add-remove" else 2
    return 0.0 if calibrated.look is None else moved / calibrated.look.law.scale


def check(cost: float, noise: str, where: str, *, exact: bool, room: float = EXACT) -> None:
    """Assert that the law pays, and where `exact` that it pays no more than it must."""
    assert cost <= 1 + EXACT, f"{where}: the law pays {1 / cost:.3f} of what neighbours need"
    if not exact:
        return
    # Discrete Gaussian noise needs a little more than the continuous one, whose delta this is.
    least = 0.9 if noise == "delta" else 1 - room
    assert cost >= least, f"{where}: the law pays {1 / cost:.3f} times what neighbours need"


@pytest.mark.parametrize("ties", ["split", "random"])
def test_outcomes_of_a_public_graph(ear: Ear, ties: str) -> None:
    """Neighbours have their rows on the same pairs: only outcomes differ."""
    for n_items, most in SIZES[:4]:
        people = small_people(n_items, most, ties, "none")
        for bounds, rows in privacies(most):
            worst: Change | None = None
            for noise in NOISE:
                privacy = {**bounds, **PUBLIC, **NOISE[noise]}
                config = job("noisy-pairs", privacy, n_items, ties=ties)
                calibrated = calibrate(config)
                if worst is None:
                    exact = counted(config, calibrated, people)
                    weight = calibrated.mechanism.row_weight
                    graphs: dict[bytes, list[NDArray[np.int64]]] = {}
                    for person, each in zip(people, exact, strict=True):
                        wins = each["counts"]
                        # Where rows are left out, which ones is chance, of the same law.
                        if 0 < len(person) <= rows and wins.sum() == weight * len(person):
                            parts = ear.draw(calibrated, each)
                            met = graphs.setdefault((wins + wins.T).tobytes(), [])
                            met.append(vector_of(parts))
                    found = [largest(np.array(met), "replace-one") for met in graphs.values()]
                    l1 = max(each.l1 for each in found)
                    worst = Change(l1, max(each.l2_squared for each in found))
                scale = calibrated.mechanism.law.scale
                squared = noise in ("rho", "delta")
                exactly = is_exact(bounds, squared=squared, distinct_l2=False)
                check(worst.cost(scale, noise), noise, f"{n_items}, {privacy}", exact=exactly)


@pytest.mark.parametrize("method", ["noisy-counts", "win-loss", "noisy-pairs"])
@pytest.mark.parametrize("ties", ["drop", "split"])
@pytest.mark.parametrize("weights", ["column", "factors", "both"])
def test_counts_of_weighted_rows(ear: Ear, method: str, ties: str, weights: str) -> None:
    """With their sum of squares, of which others have as much as makes it move most.

    One part in a hundred is for that sum, which need not move where rows are replaced.
    """
    column = {} if weights == "factors" else {"input": {"columns": {"weight": "weight"}}}
    bounds: dict[str, Any] = {} if weights == "factors" else {"max_weight": 2}
    if weights != "column":
        bounds |= {"bounding": "weights", "distinct_pairs": True}
    for most in (1, 2):
        rows = rows_of(3, (1, -1))
        people = people_of(rows, most)
        people += [one for one in combinations(rows, 3) if len({row[:2] for row in one}) == 3]
        exact: list[Arrays] = []
        for adjacency, noise in TRIED:
            if noise in ("laplace", "look") and weights != "column":
                continue
            privacy = {**bounds, "max_contributions": most, "adjacency": adjacency, **NOISE[noise]}
            config = job(method, privacy, 3, ties=ties, **column)
            calibrated = calibrate(config)
            exact = exact or counted(config, calibrated, people)
            others = calibrated.mechanism.squares_divisor - 1
            parts = [ear.draw(calibrated, x | {"squares": x["squares"] + others}) for x in exact]
            cost = largest(np.array([vector_of(each) for each in parts]), adjacency).cost(
                scale_of(parts[0]), noise
            )
            exactly = method == "noisy-pairs" or weights == "column"
            check(cost, noise, str(privacy), exact=exactly, room=0.02)


ORDERS = [0.0, 1.0, 40.0]  # how far apart scores are


@dataclass(frozen=True)
class Fitted:
    """What a person does to the objective at several scores: gradient, and log determinant."""

    gradients: Vectors  # shape (people, places, n)
    determinants: Vectors  # shape (people, places)

    @classmethod
    def of(cls, wins: Vectors, ridge: float) -> Fitted:
        """Of wins in comparisons, shape (people, n, n), with a logistic link."""
        n_items = wins.shape[1]
        orders = [np.array(order) for order in permutations(range(n_items))]
        scores = np.array([apart * order for apart, order in product(ORDERS, orders)])
        difference = scores[:, :, np.newaxis] - scores[:, np.newaxis, :]
        slope = 1 / (1 + np.exp(difference))
        pulls = np.einsum("pab,tab->ptab", wins, slope)
        curved = np.einsum("pab,tab->ptab", wins, slope * (1 - slope))
        both = curved + np.swapaxes(curved, 2, 3)
        hessians = ridge * np.eye(n_items) + both.sum(axis=3)[..., np.newaxis] * np.eye(n_items)
        return cls(
            pulls.sum(axis=2) - pulls.sum(axis=3),
            np.linalg.slogdet(hessians - both)[1],
        )

    def loss(self, scale: float, adjacency: str) -> float:
        """Largest privacy loss at any of the scores, with Laplace noise; the first is nobody."""
        found = 0.0
        for one in range(1 if adjacency == "add-remove" else len(self.gradients)):
            moved = np.abs(self.gradients - self.gradients[one]).sum(axis=2) / scale
            turned = np.abs(self.determinants - self.determinants[one])
            found = max(found, float((moved + turned).max()))
        return found


SCORED = {
    "exposures": {},
    "no exposures": {"model": {"expected_comparisons": 50.0}},
    "given ridge": {"model": {"gamma": 60.0}},
}


@pytest.mark.parametrize("ties", ["drop", "split", "random"])
@pytest.mark.parametrize("shown", SCORED)
def test_scores_and_exposures(ear: Ear, ties: str, shown: str) -> None:
    """The gradient pays for its part of epsilon, exposures for theirs; both make the whole.

    Exposures under replace-one may be bounded from above, by twice what they can move.
    """
    for n_items, most in ((2, 2), (3, 1), (3, 2), (4, 2)):
        people = people_of(rows_of(n_items, (1, -1)), most)
        for (bounds, rows), adjacency in product(privacies(most), ADJACENCIES):
            own = [person for person in people if len(person) <= rows or "unit" not in bounds]
            privacy = {**bounds, "adjacency": adjacency, **NOISE["laplace"]}
            config = job("perturbed-mle", privacy, n_items, ties=ties, **SCORED[shown])
            calibrated = calibrate(config)
            made = calibrated.mechanism
            exact = np.unique([x["counts"] for x in counted(config, calibrated, own)], axis=0)
            parts = [ear.draw(calibrated, {"counts": each}) for each in exact]
            where = f"{n_items} items, {privacy}"
            left = 0.0
            if made.shows_exposures:
                worst = largest(np.array([vector_of(each[1:]) for each in parts]), adjacency)
                left, paid = made.exposures.spend.epsilon, parts[0][1].law.scale
                exactly = adjacency == "add-remove" and is_exact(
                    bounds, squared=False, distinct_l2=False
                )
                check(worst.l1 / paid / left, "laplace", where, exact=exactly)
            scale = parts[0][0].law.scale * made.noise.step
            fitted = Fitted.of(exact / calibrated.mechanism.ties.row_weight, made.objective.ridge)
            asked = EPSILON - left - made.cover.epsilon
            exactly = n_items > 2 and bounds.get("per_item_cap") is None
            check(
                fitted.loss(scale, adjacency) / asked,
                "laplace",
                where,
                exact=exactly and shown != "given ridge",
                room=0.15 if bounds.get("distinct_pairs") else 0.02,
            )
            assert made.spend.epsilon == EPSILON


def probabilities_of_lists(counts: NDArray[np.int64], scale: float, k: int) -> Vectors:
    """Probability of each list of the k items with the largest noisy counts, ties to the first."""
    n_items, reach = len(counts), math.ceil(25 * scale) + int(np.abs(counts).max())
    values = np.arange(-reach, reach + 1)
    density = np.exp(-np.abs(values - counts[:, np.newaxis]) / scale) * math.tanh(0.5 / scale)
    at_most = np.cumsum(density, axis=1)
    below = np.hstack([np.zeros((n_items, 1)), at_most[:, :-1]])
    found = []
    for best in permutations(range(n_items), k):
        last = best[-1]
        others = [
            (below if other < last else at_most)[other]
            for other in range(n_items)
            if other not in best
        ]
        chance = density[last] * np.prod(others, axis=0)
        for better, worse in reversed([*pairwise(best)]):
            summed = np.cumsum(chance)
            if better > worse:
                summed = np.append(0.0, summed[:-1])
            chance = density[better] * summed
        found.append(chance.sum())
    return np.array(found)


@pytest.mark.parametrize("ties", ["drop", "split", "random"])
def test_lists_of_the_best(ear: Ear, ties: str) -> None:
    """No list is more than e^epsilon times as likely for a neighbour, by its exact probability."""
    epsilon = 3.0
    for (n_items, most), adjacency in product([(2, 2), (3, 1), (3, 2), (4, 2)], ADJACENCIES):
        people = people_of(rows_of(n_items, (1, -1)), most)
        for (bounds, rows), k in product(privacies(most), range(1, min(n_items, 3))):
            own = [person for person in people if len(person) <= rows or "unit" not in bounds]
            privacy = {**bounds, "adjacency": adjacency, "epsilon": epsilon}
            config = job("one-shot", privacy, n_items, ties=ties, top_k=k)
            calibrated = calibrate(config)
            exact = np.unique([x["counts"] for x in counted(config, calibrated, own)], axis=0)
            parts = [ear.draw(calibrated, {"counts": each}) for each in exact]
            scale, loss = scale_of(parts[0]), 0.0
            for apart in (0, 6):  # scales between items, by what others say
                base = np.rint(apart * scale * np.arange(n_items)).astype(np.int64)
                logs = np.log(
                    [probabilities_of_lists(vector_of(each) + base, scale, k) for each in parts]
                )
                nobody = np.flatnonzero(~exact.any(axis=1))
                sides = logs[nobody] if adjacency == "add-remove" else logs
                loss = max(loss, max(np.abs(logs - side).max() for side in sides))
            check(loss / epsilon, "laplace", f"{n_items} items, {privacy}", exact=True, room=0.15)


def test_scores_with_gaussian_noise(ear: Ear) -> None:
    """A necessary condition: the gradient as if it did not depend on the noise."""
    for (n_items, most), adjacency in product([(2, 2), (3, 1), (3, 2)], ADJACENCIES):
        people = people_of(rows_of(n_items, (1, -1)), most)
        for bounds, rows in privacies(most):
            own = [person for person in people if len(person) <= rows or "unit" not in bounds]
            privacy = {**bounds, "adjacency": adjacency, **NOISE["delta"]}
            given = {"model": {"expected_comparisons": 50.0}}
            config = job("noisy-objective", privacy, n_items, ties="split", **given)
            calibrated = calibrate(config)
            made = calibrated.mechanism
            exact = np.unique([x["counts"] for x in counted(config, calibrated, own)], axis=0)
            scale = ear.draw(calibrated, {"counts": exact[0]})[0].law.scale * made.noise.step
            gradients = Fitted.of(exact / 2, made.objective.ridge).gradients
            worst = max(largest(place, adjacency).l2_squared for place in gradients.swapaxes(0, 1))
            cost = math.sqrt(worst) / scale / MOST_SHIFT
            exactly = n_items > 2 and rows == 1
            check(cost, "laplace", f"{n_items} items, {privacy}", exact=exactly, room=0.35)


@pytest.mark.parametrize(
    ("ties", "n_items"),
    [("drop", 2), ("split", 2), ("split", 8), ("drop", 9), ("drop", 12), ("split", 50)],
)
def test_scores_and_effects_of_covariates(ties: str, n_items: int) -> None:
    """By the noise that is really in published scores and effects of nobody, and its information.

    Without rows a score is -w / ridge and an effect -share w / ridge: so their mean sizes tell the
    scales of w. Two thousand draws tell what epsilon they cost to 1.5 %, so that an error of a
    tenth is one of six standard errors (1e-8). A row moves each end of the gradient by one at most,
    and that of each effect; where all oppose the scores, one that leaves and one that comes add up.
    """
    features = [{"column": "feature", "scale": 1.0}]
    rows = {"columns": {"first": "left"}, "features": features}
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7)] if n_items > 2 else [(0, 1)]
    people = [(), *[((*pair, won, ""),) * 4 for pair in pairs for won in (1, -1)]]
    for one, other in pairwise(pairs):
        people += [((*one, won, ""), (*other, won, "")) for won in (1, -1)]
    two: dict[str, Any] = {"max_contributions": 2}
    bounded = (
        {"unit": "comparison"},
        two,
        {**two, "per_item_cap": 1},
        {**two, "distinct_pairs": True},
    )
    for bounds, adjacency in product(bounded, ADJACENCIES):
        privacy = {**bounds, "adjacency": adjacency, "epsilon": EPSILON}
        config = job("perturbed-mle", privacy, n_items, ties=ties, input=rows)
        calibrated = calibrate(config)
        made = calibrated.mechanism.calibrated
        mine = [person[:1] for person in people] if "unit" in bounds else people
        exact = counted(config, calibrated, mine)
        most = max(each["counts"].sum() for each in exact) // made.row_weight
        changed = most * (1 if adjacency == "add-remove" else 2)
        draws = METHODS["perturbed-mle"].draws(exact[0], calibrated.mechanism, 2000, system_bits())
        ridges = made.ridges
        apart = ridges[0] * np.abs(draws["scores"][:, 0] - draws["scores"][:, 1]).mean() / 1.5
        effects = ridges[-1] * np.abs(draws["effects"]).mean()
        needed = changed * (2 / apart + 2 / effects)
        with listening() as ear:
            parts = [ear.draw(calibrated, each)[2:] for each in exact]
        for kind in zip(*parts, strict=True):
            worst = largest(np.array([each.exact for each in kind]), adjacency)
            needed += worst.l1 / kind[0].law.scale
        where = f"{n_items} items, {privacy}"
        assert needed + made.cover.epsilon <= 1.1 * EPSILON, where
        if n_items > 2:
            assert needed + made.cover.epsilon >= 0.9 * EPSILON, where


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("graph", ["dense", "sparse", "even"])
def test_counts_of_test_answers(ear: Ear, graph: str, adjacency: str) -> None:
    n_items = 4
    settings = {"dense": {}, "sparse": {"edge_probability": 0.7}, "even": {"degree": 2}}
    for most, noise in ((2, "laplace"), (3, "rho"), (4, "laplace"), (4, "delta")):
        privacy = {"max_contributions": most, "adjacency": adjacency, **NOISE[noise]}
        spectral = {"graph": graph, **settings[graph]}
        config = job(
            "spectral",
            privacy,
            n_items,
            spectral=spectral,
            input={"kind": "responses", "ties": None, "design": None},
        )
        calibrated = calibrate(config)
        exact = []
        for answers in product((0, 1, 2), repeat=n_items):  # none, wrong, right
            items = np.flatnonzero(answers)
            if len(items) <= most:
                right = (np.array(answers)[items] == 2).astype(np.uint8)
                person = np.zeros(len(items), np.int64)
                exact.append({"y": measurements_of_answers(person, items, right, n_items)})
        parts = [ear.draw(calibrated, each) for each in exact]
        worst = largest(np.array([vector_of(each) for each in parts]), adjacency)
        cost = worst.cost(scale_of(parts[0]), noise)
        check(cost, noise, str(privacy), exact=graph == "dense")


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("method", ["kemeny", "borda", "bradley-terry", "footrule"])
def test_counts_of_rankings(ear: Ear, method: str, adjacency: str) -> None:
    """Vectors with sums of squares are bounded from above: these take a tenth at most."""
    n_items = 3
    for most, noise, longest in product((1, 2), ("laplace", "rho", "delta"), (2, 3)):
        lists = [each for size in range(2, longest + 1) for each in permutations(range(3), size)]
        privacy = {"max_contributions": most, "adjacency": adjacency, **NOISE[noise]}
        rows = {"kind": "rankings", "columns": {}, "max_length": longest}
        config = job(method, privacy, n_items, input=rows | {"ties": None, "design": None})
        calibrated = calibrate(config)
        exact = []
        for size in range(most + 1):
            for chosen in combinations_with_replacement(lists, size):
                items = np.array([item for each in chosen for item in each], np.int64)
                lengths = np.array([len(each) for each in chosen], np.int64)
                found = count_rankings(items, lengths, n_items, longest, by_place=False)
                exact.append(dict(found.arrays()))
        parts = [ear.draw(calibrated, each) for each in exact]
        worst = largest(np.array([vector_of(each) for each in parts]), adjacency)
        spread = method in ("borda", "bradley-terry")
        check(
            worst.cost(scale_of(parts[0]), noise),
            noise,
            f"{privacy}, {longest} items",
            exact=True,
            room=0.15 if spread else EXACT,
        )


@pytest.mark.parametrize("method", ["noisy-counts", "noisy-pairs"])
@pytest.mark.parametrize("where", WHERE)
def test_nights_of_a_stream(ear: Ear, method: str, where: str) -> None:
    """All that the nights add noise to is one vector; a person counts on two nights, two apart."""
    n_nights, nights = 4, [(0, 2), (0, 3), (1, 3)]
    people = small_people(2, 2, "drop", where)
    for adjacency, (noise, bands), ties in product(
        ADJACENCIES, (("laplace", 1), ("rho", 1), ("rho", 2)), ("drop", "split")
    ):
        stream = {"nights": n_nights, "participations": 2, "gap": 2, "show": "cumulative"}
        stream |= {"first": "2026-11-20", "bands": bands}
        privacy = {"max_contributions": 2, "adjacency": adjacency, **NOISE[noise]}
        settings = {"schedule": {"stream": stream}, "input": {"paths": ["rows-{date}.parquet"]}}
        config = job(method, privacy, 2, ties=ties, **settings, **WHERE[where])
        calibrated = calibrate(config)
        exact = np.unique([x["counts"] for x in counted(config, calibrated, people)], axis=0)
        sizes = exact.reshape(len(exact), -1).sum(axis=1)
        exact = exact[(sizes == 0) | (sizes == sizes.max())]  # others are between these
        streams = []
        for (first, second), one, other in product(nights, exact, exact):
            counts = np.zeros((n_nights, *one.shape), np.int64)
            counts[first], counts[second] = one, other
            ear.parts.clear()
            for night in range(n_nights):
                recent = [counts[night - back] for back in range(min(bands, night + 1))]
                released_night(calibrated.mechanism.stream, recent, system_bits())
            streams.append(vector_of(ear.parts))
            scale = scale_of(ear.parts)
        worst = largest(np.array(streams, np.float64), adjacency)
        check(worst.cost(scale, noise), noise, f"{privacy}, {bands} bands", exact=True, room=1e-4)
