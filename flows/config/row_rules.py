"""The rules about what rows say: weights, covariates, ties, and words that name no items."""

from __future__ import annotations

import pyarrow as pa

from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.method import MethodFacts, Methods, Problems, Sections
from hushrank.flows.config.rankings import RankingsConfig
from hushrank.flows.config.section import Section
from hushrank.privacy.units import Bounding, Unit
from hushrank.transforms.common.catalogue import UNKNOWN, Catalogue
from hushrank.transforms.common.encode import TIE_WORD
from hushrank.transforms.common.schema import Ties

TIE_MODEL = "input.tie_model"
NO_FACTORS = (
    "weights does not go with method: {}; write noisy-pairs, noisy-counts or win-loss (auto"
    " compares noise alone, and these weights change the signal too)"
)
NO_WEIGHTS = (
    "method: {} counts every row once; remove it, or write noisy-pairs, noisy-counts or win-loss"
)


def problems_of_extras(config: Sections, own: MethodFacts, methods: Methods) -> Problems:
    """Key and text of the rules that weights and covariates break with other sections."""
    yield from problems_of_weights(config, own)
    yield from _problems_of_covariates(config, own, methods)
    yield from problems_of_ties(config, own, methods)


def takes_extras(config: Sections, facts: MethodFacts) -> bool:
    """Whether a method can do what a job asks beside a ranking of all rows.

    That is: a ranking of each group, weights and covariates of rows, ties that are outcomes, a
    stream of nights.
    """
    rows, uses = config.input, facts.uses
    tied = isinstance(rows, InputConfig) and rows.ties is Ties.MODEL
    covariates = isinstance(rows, InputConfig) and bool(rows.covariates)
    return (
        (config.groups is None or uses("groups"))
        and (not covariates or uses("input.features"))
        and (not tied or uses(TIE_MODEL))
        and (config.schedule.stream is None or facts.streams)
        and not any(problems_of_weights(config, facts))
    )


def problems_of_weights(config: Sections, own: MethodFacts) -> Problems:
    """Weights of rows that the method does not take, or that have no bound or no column."""
    privacy, rows = config.privacy, config.input
    column = rows.columns.weight if isinstance(rows, InputConfig) else None
    if privacy.bounding is Bounding.WEIGHTS and not own.uses("privacy.bounding"):
        yield "privacy.bounding", NO_FACTORS.format(own.name)
    if column is not None and privacy.unit is Unit.LOCAL:
        yield (
            "input.columns.weight",
            "not under unit: local, where each answer is privatised by itself and counts as one;"
            " remove it",
        )
    elif column is not None and not own.uses("input.columns.weight"):
        yield "input.columns.weight", NO_WEIGHTS.format(own.name)
    elif column is not None and privacy.max_weight is None:
        yield (
            "privacy.max_weight",
            "missing; input.columns.weight needs the largest weight of a row, a public number."
            " Add for example max_weight: 3",
        )
    if column is None and privacy.max_weight is not None:
        yield "privacy.max_weight", "bounds input.columns.weight; add that, or remove this"


def _problems_of_covariates(config: Sections, own: MethodFacts, methods: Methods) -> Problems:
    """Covariates that the method does not look at."""
    if not isinstance(config.input, InputConfig) or own.uses("input.features"):
        return
    users = " or ".join(name for name, each in methods.items() if each.uses("input.features"))
    for key, given in (
        ("input.features", bool(config.input.features)),
        ("input.columns.first", config.input.columns.first is not None),
    ):
        if given:
            yield key, f"is for method: {users}; remove it, or write that method"


def problems_of_ties(config: Sections, own: MethodFacts, methods: Methods) -> Problems:
    """Ties as outcomes where the method has no count for them, or the job asks what it cannot."""
    if not isinstance(config.input, InputConfig) or config.input.ties is not Ties.MODEL:
        return
    users = " or ".join(name for name, each in methods.items() if each.uses(TIE_MODEL))
    if not own.uses(TIE_MODEL):
        yield (
            "input.ties",
            f"model is for method: {users}, which counts ties apart; write that method, or ties:"
            " random",
        )
        return
    privacy = config.privacy
    if config.model.link != "logistic":
        yield "model.link", "must be logistic with ties: model, whose models are logistic"
    for key, given in (
        ("privacy.public_graph", privacy.public_graph),
        ("privacy.bounding", privacy.bounding is Bounding.WEIGHTS),
        ("input.columns.weight", config.input.columns.weight is not None),
        ("schedule.stream", config.schedule.stream is not None),
    ):
        if given:
            yield key, "does not go with ties: model; remove one of the two"


def problems_of_words(rows: Section, catalogue: Catalogue) -> Problems:
    """Words and columns of the input that do not go with the names of the items."""
    if isinstance(rows, InputConfig) and rows.columns.winner is not None:
        yield from _problems_of_winners(rows, catalogue)
    if isinstance(rows, RankingsConfig) and rows.layout == "wide":
        yield from _problems_of_wide(rows, catalogue)


def _problems_of_wide(rows: RankingsConfig, catalogue: Catalogue) -> Problems:
    """Columns of ranks whose item is not in the catalogue, and items without one column."""
    told = list((rows.columns.items or {}).values())
    for name in sorted({name for name in told if name not in catalogue.names}):
        yield "input.columns.items", f"{name} is not one of items; correct one of the two"
    for name in catalogue.names if told else ():
        if told.count(name) != 1:
            many = "two columns" if name in told else "no column"
            yield "input.columns.items", f"item {name} has {many}; it needs one of its own"


def _problems_of_winners(rows: InputConfig, catalogue: Catalogue) -> Problems:
    """Words of the column `winner` that name an item, or that its position names."""
    if rows.columns.loser is None and TIE_WORD in map(str.lower, catalogue.names):
        yield (
            "items",
            f"an item is named {TIE_WORD}, which means a tie in column winner; rename it",
        )
    if rows.told is None:
        return
    names = {name.strip().lower() for name in catalogue.names}
    texts = [word for word, _ in rows.told.words().meanings]
    found = catalogue.codes(pa.array(texts, pa.string()))
    for word, code in zip(texts, found.tolist(), strict=True):
        if code != UNKNOWN or word.strip().lower() in names:
            which = "an item" if word.strip().lower() in names else f"item {catalogue.names[code]}"
            yield (
                "input.words" if rows.words is not None else "input.columns.winner_values",
                f"the word {word} also names {which} in column {rows.columns.winner}. If that"
                " column holds no item, write columns.outcome instead of columns.winner; otherwise"
                " rename one of the two",
            )
