"""Rules of `privacy.unit: local`: every answer is privatised by itself, before it is counted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from hushrank.flows.config.rankings import problems_of_rankings
from hushrank.flows.config.section import LEAST_LOSS, MOST_LOSS
from hushrank.privacy.units import Adjacency, Unit
from hushrank.transforms.common.schema import Ties

if TYPE_CHECKING:
    from hushrank.flows.config.privacy import PrivacyConfig
    from hushrank.flows.config.survey import SurveyConfig

MAX_ITEMS = 100_000  # of many, sums are kept for pairs that were compared alone
LOCAL_METHODS = ("debiased-rr", "classic-rr", "laplace-rr", "rr-counts")

_CENTRAL_KEYS = ("delta", "rho", "noise", "per_item_cap", "distinct_pairs", "public_graph")
_LOCAL_KEYS = ("budget", "epsilon_range", "epsilon_table", "already_private")
_ONE_EPSILON = (
    "needs exactly one of privacy.epsilon (a number for all), privacy.epsilon_table (a file with"
    " the columns user and epsilon) and input.columns.epsilon (a column of the answers)"
)
_NO_RANGE = (
    "missing; epsilons that come with the answers need public bounds, and rows outside are set"
    " aside. Add for example epsilon_range: [0.1, 5]"
)
_TIES_SHOW = (
    "{} would show which answers were ties, because only the other ones count in full. Write ties:"
    " random, which decides a tie by a fair coin before it is privatised"
)
_NO_PERSONAL_EPSILON = (
    "a personal epsilon only counts where each person's answers are privatised one by one; under"
    " unit comparison or user everybody is protected at privacy.epsilon. Remove this line"
)


class Budget(StrEnum):
    """What a person's epsilon is for."""

    PER_COMPARISON = "per_comparison"  # each of their answers
    PER_USER = "per_user"  # all of their answers together


def problems_of_privacy(privacy: PrivacyConfig) -> Iterable[tuple[str, str]]:
    """Key and rule of what the `privacy` section breaks on its own."""
    if privacy.unit is not Unit.LOCAL:
        for key in _LOCAL_KEYS:
            if key in privacy.model_fields_set:
                yield key, "is for unit: local; remove it"
        return
    for key in _CENTRAL_KEYS:
        if key in privacy.model_fields_set:
            yield key, "has no meaning under unit: local; remove it"
    if privacy.adjacency is not Adjacency.REPLACE_ONE:
        yield (
            "adjacency",
            "must be replace-one under unit: local, which hides what was answered but not that an"
            " answer was given; remove this line",
        )
    if privacy.epsilon is not None and math.isinf(privacy.epsilon):
        yield "epsilon", "must be finite under unit: local"
    if privacy.already_private and privacy.budget is Budget.PER_USER:
        yield (
            "budget",
            "per_user divides an epsilon before an answer is privatised, and already_private: true"
            " says that this happened; remove one of them",
        )
    yield from _problems_of_range(privacy)


def _problems_of_range(privacy: PrivacyConfig) -> Iterable[tuple[str, str]]:
    if privacy.epsilon_range is None:
        if privacy.epsilon is None:
            yield "epsilon_range", _NO_RANGE
        return
    low, high = privacy.epsilon_range
    if not 0 < low <= high < math.inf:
        yield "epsilon_range", f"must be [low, high] with 0 < low <= high, got [{low:g}, {high:g}]"
    elif low < LEAST_LOSS or high > MOST_LOSS:
        within = f"{LEAST_LOSS:g} to {MOST_LOSS:g}"
        yield "epsilon_range", f"must be within {within}, got [{low:g}, {high:g}]"
    elif privacy.epsilon is not None and not low <= privacy.epsilon <= high:
        yield "epsilon", f"is {privacy.epsilon:g}, outside epsilon_range [{low:g}, {high:g}]"


def problems_of_job(config: SurveyConfig) -> Iterable[tuple[str, str]]:
    """Key and rule of what the sections break together. Keys start at the root of the file."""
    local = config.privacy.unit is Unit.LOCAL
    if config.input.kind == "rankings":
        yield from problems_of_rankings(config)
        return
    if config.privacy.mechanism is not None:
        yield "privacy.mechanism", "is for input.kind: rankings; remove it"
    if config.input.kind == "responses":
        yield from _problems_of_responses(config)
        return
    if not local:
        if config.comparisons.columns.epsilon is not None:
            yield "input.columns.epsilon", _NO_PERSONAL_EPSILON
        if config.method in LOCAL_METHODS:
            yield (
                "method",
                f"{config.method} privatises every answer by itself; set privacy.unit: local, or"
                " write noisy-counts",
            )
        return
    if config.method not in LOCAL_METHODS:
        yield (
            "method",
            f"{config.method} adds noise after counting, which privacy.unit: local rules out; write"
            f" {', '.join(LOCAL_METHODS[:-1])} or {LOCAL_METHODS[-1]}",
        )
    yield from _problems_of_answers(config)


def _problems_of_responses(config: SurveyConfig) -> Iterable[tuple[str, str]]:
    privacy, local = config.privacy, config.privacy.unit is Unit.LOCAL
    if local != (config.method == "spectral-rr"):
        yield (
            "method",
            "spectral-rr privatises every answer by itself, so it goes with privacy.unit: local;"
            " spectral adds noise after counting and goes with user. Change one of them",
        )
    elif local and privacy.budget is not Budget.PER_USER:
        yield "privacy.budget", "must be per_user with method: spectral-rr, which splits epsilon"
    if local and (privacy.already_private or privacy.epsilon_table or privacy.epsilon_range):
        yield "privacy", "method: spectral-rr takes one epsilon for all, and true answers"


def _problems_of_answers(config: SurveyConfig) -> Iterable[tuple[str, str]]:
    privacy, columns = config.privacy, config.comparisons.columns
    sources = (privacy.epsilon, privacy.epsilon_table, columns.epsilon)
    if sum(source is not None for source in sources) != 1:
        yield "privacy", _ONE_EPSILON
    if columns.event is not None:
        yield (
            "input.columns.event",
            "under unit: local copies of one event are privatised one by one, each at a cost;"
            " remove copies from the input, and this line",
        )
    ties = config.comparisons.ties
    if privacy.already_private and ties is not Ties.DROP:
        yield "input.ties", "must be drop: answers that were privatised have no ties"
    elif not privacy.already_private and ties is not Ties.RANDOM:
        yield "input.ties", _TIES_SHOW.format(ties)
    if privacy.already_private and config.method == "laplace-rr":
        yield (
            "method",
            "laplace-rr adds its own noise to answers; with already_private use debiased-rr",
        )
    if privacy.budget is Budget.PER_USER and config.method == "laplace-rr":
        yield "privacy.budget", "must be per_comparison with method: laplace-rr; remove this line"
    if len(config.items.catalogue()) > MAX_ITEMS:
        yield "items", f"must be at most {MAX_ITEMS} with method: {config.method}"
