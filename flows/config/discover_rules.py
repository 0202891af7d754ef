"""Rules between `items.discover` and the other sections of a job."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hushrank.flows.config.comparisons import InputConfig
from hushrank.flows.config.method import Methods, Problems, Sections
from hushrank.flows.config.rankings import RankingsConfig, Skipped, Unlisted
from hushrank.flows.config.responses import ResponsesConfig
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

    A word that means a result in a column of winners is no name, nor is one that says that nobody
    or several stand at a place of a ranking.
    """
    denied = () if config.items.discover is None else config.items.discover.deny
    words: Iterable[str] = ()
    if isinstance(config.input, RankingsConfig):
        words = (*config.input.not_ranked, *config.input.overvoted)
    elif config.comparisons.columns.winner is not None:
        meanings = config.comparisons.meanings(config.items.catalogue.names)
        words = [TIE_WORD] if meanings is None else [word for word, _ in meanings.meanings]
    return NameRules((*denied, *(f"^{re.escape(word.strip().lower())}$" for word in words)))


def problems_of_discovery(config: Sections, methods: Methods) -> Problems:
    """Yield key and text of the rules that names from the rows and other sections break."""
    rows = config.input
    if isinstance(rows, ResponsesConfig):
        yield (
            DISCOVER,
            "is for input.kind: comparisons or rankings, got responses; list the items in"
            " items.names",
        )
        return
    if not methods[config.method].finds_names:
        ours = [each for each in methods.values() if each.finds_names and each.kind == rows.kind]
        suitable = " or ".join(each.name for each in ours)
        yield "method", f"must be {suitable} with {DISCOVER}, got {config.method}"
    if selects_nights(config.input.paths, config.schedule) or config.schedule.stream is not None:
        yield DISCOVER, ONCE
    yield from _problems_of_budget(config)
    yield from _problems_of_keys(config)
    if isinstance(rows, RankingsConfig):
        yield from _problems_of_rankings(rows)


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


def _problems_of_keys(config: Sections) -> Problems:
    """Refuse keys that name items beforehand, and those that change how rows count."""
    privacy, model, rows = config.privacy, config.model, config.input
    refused = {
        "groups": config.groups is not None,
        "top_k": config.top_k is not None,
        "input.on_bad_rows: fail": rows.on_bad_rows is BadRows.FAIL,
        "model.exposures": model.exposures is not None,
        "model.item_features": model.item_features is not None,
        "privacy.look": privacy.look is not None,
        "privacy.counts": privacy.counts is not None,
        "privacy.public_graph": privacy.public_graph,
        "privacy.bounding: weights": privacy.bounding is Bounding.WEIGHTS,
        "privacy.max_weight": privacy.max_weight is not None,
        "privacy.names_per_person": privacy.names_per_person > 1,
    }
    if isinstance(rows, InputConfig):
        refused |= {
            "input.pairs": rows.pairs is not None,
            "input.features": bool(rows.features),
            "input.columns.weight": rows.columns.weight is not None,
            "input.ties: model": rows.ties is Ties.MODEL,
        }
        if rows.columns.pairs is not None:
            yield (
                "input.columns.pairs",
                f"names all items, so there is nothing to find with {DISCOVER}; list them in"
                " items.names",
            )
    elif isinstance(rows, RankingsConfig):
        refused |= {
            "input.person_features": rows.person_features is not None,
            "input.write_ins": rows.write_ins is not None,
            "input.no_valid_vote": rows.no_valid_vote is not None,
            "input.skipped: exhaust": rows.skipped is Skipped.EXHAUST,
            "rules": config.rules is not None,
        }
    for key, given in refused.items():
        if given:
            yield key.partition(":")[0], f"not with {DISCOVER}; remove one of the two"


def _problems_of_rankings(rows: RankingsConfig) -> Problems:
    """Refuse rankings whose items are columns, that are nobody's, or of any length."""
    if rows.layout not in ("long", "list", "places"):
        yield (
            "input.layout",
            f"must be list, places or long with {DISCOVER}, where people write names, got"
            f" {rows.layout}; list the items in items.names",
        )
    elif not rows.names_people:
        yield (
            "input.columns.user",
            f"missing; {DISCOVER} counts how many people write a name. Add for example user: user",
        )
    elif rows.max_length is None:
        yield (
            "input.max_length",
            f"missing; with {DISCOVER} nothing else bounds a ranking. Add for example max_length:"
            " 5",
        )
    elif rows.unlisted is Unlisted.BELOW:
        yield (
            "input.unlisted",
            f"must be unknown with {DISCOVER}: how much noise unlisted items need depends on how"
            " many names are found",
        )
