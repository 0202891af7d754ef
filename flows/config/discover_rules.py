"""Rules between `items.discover` and the other sections of a job."""

from __future__ import annotations

import re

from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.method import Methods, Problems, Sections
from hushrank.flows.config.schedule import selects_nights
from hushrank.flows.config.section import BadRows
from hushrank.flows.errors import ConfigError
from hushrank.privacy.units import Bounding, NoiseKind, Unit
from hushrank.transforms.common.encode import TIE_WORD
from hushrank.transforms.common.schema import Ties
from hushrank.transforms.common.written_names import NameRules

DISCOVER = "items.discover"
MOST_DELTA = 1e-6
ONCE = (
    "not with rows of nights, each of which would pay for the names again. Find the names once in a"
    " quarter, in a job of its own, and write them into items.names of the nightly job"
)


def require_listed(config: Sections, where: str, command: str) -> None:
    """Refuse a command that needs to know the items before rows are read.

    Raises:
        ConfigError: the items are names that a run finds.
    """
    if config.items.discover is None:
        return
    raise ConfigError(
        f"{where}: {DISCOVER}: {command} needs items that are known before rows are read. Write"
        " items: {names: [...]} or items: {count: 20} into a copy of the file. Nothing was spent."
    )


def name_rules(config: Sections) -> NameRules:
    """Rules by which texts are names of items, where these are found in the rows.

    A word that means a result in a column of winners is no name.
    """
    denied = () if config.items.discover is None else config.items.discover.deny
    if config.comparisons.columns.winner is None:
        return NameRules(denied)
    meanings = config.comparisons.meanings(config.items.catalogue.names)
    words = [TIE_WORD] if meanings is None else [word for word, _ in meanings.meanings]
    return NameRules((*denied, *(f"^{re.escape(word.lower())}$" for word in words)))


def problems_of_discovery(config: Sections, methods: Methods) -> Problems:
    """Yield key and text of the rules that names from the rows and other sections break."""
    if not isinstance(config.input, InputConfig):
        yield (
            DISCOVER,
            f"is for input.kind: comparisons, got {config.input.kind}; list the items in"
            " items.names",
        )
        return
    if config.input.columns.pairs is not None:
        yield DISCOVER, "not with input.columns.pairs, which names the items; write them as names"
    if not methods[config.method].finds_names:
        suitable = " or ".join(name for name, each in methods.items() if each.finds_names)
        yield "method", f"must be {suitable} with {DISCOVER}, got {config.method}"
    if selects_nights(config.input.paths, config.schedule) or config.schedule.stream is not None:
        yield DISCOVER, ONCE
    yield from _problems_of_budget(config)
    yield from _problems_of_keys(config, config.input)


def _problems_of_budget(config: Sections) -> Problems:
    privacy = config.privacy
    if privacy.unit is not Unit.USER:
        yield (
            "privacy.unit",
            f"must be user with {DISCOVER}, which counts how many people write a name, got"
            f" {privacy.unit}",
        )
        return
    if privacy.rho is not None or not privacy.private:
        yield "privacy", f"needs a finite epsilon and a delta with {DISCOVER}; write both"
        return
    if privacy.noise is not NoiseKind.GAUSSIAN or privacy.delta == 0:
        yield (
            DISCOVER,
            "needs noise: gaussian and a delta: at delta 0 no name can be published that is not"
            " known before, because one person alone may have written it. Add both, or list the"
            " items in items.names",
        )
    elif privacy.delta > MOST_DELTA:
        yield (
            "privacy.delta",
            f"must be at most {MOST_DELTA:g} with {DISCOVER}, got {privacy.delta:g}: it is a real"
            " chance that what one person alone wrote is published. Write delta: 1.0e-6",
        )


def _problems_of_keys(config: Sections, rows: InputConfig) -> Problems:
    """Refuse keys that name items beforehand, and those that change how rows count."""
    privacy, model = config.privacy, config.model
    refused = {
        "groups": config.groups is not None,
        "top_k": config.top_k is not None,
        "input.pairs": rows.pairs is not None,
        "input.on_bad_rows: fail": rows.on_bad_rows is BadRows.FAIL,
        "input.features": bool(rows.features),
        "input.columns.weight": rows.columns.weight is not None,
        "input.ties: model": rows.ties is Ties.MODEL,
        "model.exposures": model.exposures is not None,
        "model.item_features": model.item_features is not None,
        "privacy.look": privacy.look is not None,
        "privacy.counts": privacy.counts is not None,
        "privacy.public_graph": privacy.public_graph,
        "privacy.bounding: weights": privacy.bounding is Bounding.WEIGHTS,
        "privacy.max_weight": privacy.max_weight is not None,
        "privacy.names_per_person": privacy.names_per_person > 1,
    }
    for key, given in refused.items():
        if given:
            yield key.partition(":")[0], f"not with {DISCOVER}; remove one of the two"
